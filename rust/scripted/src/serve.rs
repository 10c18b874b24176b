//! One task a connection: read a request, play its reply, notice when the client leaves.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use headrace_http1::{BodyDecoder, RequestHead, limits, write};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::facts::{ConnectionFacts, Seen, Shared};
use crate::script::{Play, Script};

/// Largest body that is taken: a prompt with images, twice over.
const MAX_BODY: usize = 128 << 20;

pub(crate) async fn accept(listener: TcpListener, script: Arc<Script>, shared: Arc<Shared>, tls: Option<TlsAcceptor>) {
    loop {
        // Out of descriptors, mostly: let others close theirs.
        let Ok((tcp, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let _ = tcp.set_nodelay(true);
        let number = shared.tell(|facts| {
            facts.connections.push(ConnectionFacts { open: true, ..ConnectionFacts::default() });
            facts.connections.len() - 1
        });
        let (script, shared, tls) = (script.clone(), shared.clone(), tls.clone());
        tokio::spawn(async move {
            let end = match tls {
                None => Connection::new(tcp, number, &script, &shared).serve().await,
                Some(tls) => match tls.accept(tcp).await {
                    Ok(stream) => Connection::new(stream, number, &script, &shared).serve().await,
                    Err(_) => Err(Over::Malformed),
                },
            };
            shared.tell(|facts| {
                facts.malformed += usize::from(matches!(end, Err(Over::Malformed)));
                let connection = &mut facts.connections[number];
                connection.open = false;
                connection.blocked = false;
                connection.waiting = false;
                connection.closed_by_client = matches!(end, Err(Over::ClientClosed | Over::ClientBroke));
                connection.reset = matches!(end, Err(Over::ClientBroke | Over::Reset));
            });
        });
    }
}

/// Why a connection is over.
enum Over {
    ClientClosed,
    ClientBroke,
    Reset,
    Malformed,
}

/// A stream whose TCP connection can be reset.
trait Peer: AsyncRead + AsyncWrite + Unpin {
    fn tcp(&self) -> &TcpStream;
}

impl Peer for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Peer for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

struct Connection<'a, S> {
    stream: S,
    number: usize,
    script: &'a Script,
    shared: &'a Shared,
    /// Bytes that were read and not used.
    inbox: Vec<u8>,
}

impl<'a, S: Peer> Connection<'a, S> {
    fn new(stream: S, number: usize, script: &'a Script, shared: &'a Shared) -> Self {
        Self { stream, number, script, shared, inbox: Vec::new() }
    }

    async fn serve(mut self) -> Result<(), Over> {
        loop {
            let (seen, keep_alive) = self.request().await?;
            let reply = self.script.answer(&seen);
            self.shared.tell_request(&seen);
            // A reply may last for hours.
            drop(seen);
            for play in reply.plays() {
                if !self.play(play).await? {
                    return Ok(());
                }
            }
            self.shared.tell(|facts| facts.replies += 1);
            if !keep_alive || !reply.keeps_alive() {
                let _ = self.stream.shutdown().await;
                return Ok(());
            }
        }
    }

    /// A request, and whether its client wants to send another.
    async fn request(&mut self) -> Result<(Seen, bool), Over> {
        let (mut seen, mut body, expects_continue, keep_alive) = loop {
            let read = RequestHead::read(&self.inbox, limits::MAX_HEAD).map_err(|_| Over::Malformed)?;
            if let Some((head, len)) = read {
                let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                let seen = Seen {
                    connection: self.number,
                    method: head.method.to_owned(),
                    target: head.query.map_or(head.path.to_owned(), |query| format!("{}?{query}", head.path)),
                    headers: head.headers.iter().map(|(n, v)| (n.to_ascii_lowercase(), text(v))).collect(),
                    body: Vec::new(),
                };
                let parts = (seen, BodyDecoder::new(head.body), head.expects_continue, head.keep_alive);
                self.inbox.drain(..len);
                break parts;
            }
            self.read().await?;
        };
        if expects_continue {
            self.write(&Bytes::from_static(write::CONTINUE)).await?;
        }
        while !body.is_done() {
            if self.inbox.is_empty() {
                self.read().await?;
            }
            let mut pieces = Vec::new();
            let decoded = body.decode_all(&self.inbox, &mut pieces).map_err(|_| Over::Malformed)?;
            for piece in pieces {
                seen.body.extend_from_slice(&self.inbox[piece]);
            }
            self.inbox.drain(..decoded.consumed);
            if seen.body.len() > MAX_BODY {
                return Err(Over::Malformed);
            }
        }
        Ok((seen, keep_alive))
    }

    /// Read on. A client that is gone ends the connection.
    async fn read(&mut self) -> Result<(), Over> {
        if self.inbox.capacity() - self.inbox.len() < 4 << 10 {
            self.inbox.reserve(16 << 10);
        }
        match self.stream.read_buf(&mut self.inbox).await {
            Ok(0) => Err(Over::ClientClosed),
            Ok(_) => Ok(()),
            Err(e) => Err(broken(&e)),
        }
    }

    /// `false`: the script ends the connection here.
    async fn play(&mut self, play: &Play) -> Result<bool, Over> {
        match play {
            Play::Send(bytes) => self.write(bytes).await?,
            Play::Drip { bytes, size, pause } => {
                let mut bytes = bytes.clone();
                while !bytes.is_empty() {
                    let piece = bytes.split_to(bytes.len().min(*size));
                    self.write(&piece).await?;
                    self.while_present(tokio::time::sleep(*pause)).await?;
                }
            }
            Play::Pause(pause) => self.while_present(tokio::time::sleep(*pause)).await?,
            Play::Gate(name) => {
                let shared = self.shared;
                self.wait_for(shared.pass(name)).await?;
            }
            Play::Stall => self.wait_for(std::future::pending()).await?,
            Play::Cut => {
                // Not the stream's own shutdown: under TLS that would say farewell.
                let _ = self.stream.flush().await;
                return Ok(false);
            }
            Play::Reset => {
                let _ = self.stream.flush().await;
                let _ = self.stream.tcp().set_zero_linger();
                return Err(Over::Reset);
            }
        }
        Ok(true)
    }

    async fn wait_for(&mut self, what: impl Future<Output = ()>) -> Result<(), Over> {
        self.shared.tell_connection(self.number, |c| c.waiting = true);
        self.while_present(what).await?;
        self.shared.tell_connection(self.number, |c| c.waiting = false);
        Ok(())
    }

    /// Wait for something, unless the client leaves first. What it sends meanwhile is kept.
    async fn while_present(&mut self, what: impl Future<Output = ()>) -> Result<(), Over> {
        let mut what = std::pin::pin!(what);
        loop {
            tokio::select! {
                biased;
                () = &mut what => return Ok(()),
                read = self.read() => read?,
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Over> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut blocked = false;
            let n = std::future::poll_fn(|cx| {
                let polled = std::pin::Pin::new(&mut self.stream).poll_write(cx, rest);
                if polled.is_pending() && !blocked {
                    blocked = true;
                    self.shared.tell_connection(self.number, |c| c.blocked = true);
                }
                polled
            })
            .await
            .map_err(|e| broken(&e))?;
            self.shared.tell_connection(self.number, |c| {
                c.written += n as u64;
                c.blocked = false;
            });
            rest = &rest[n..];
        }
        self.stream.flush().await.map_err(|e| broken(&e))
    }
}

/// An end without TLS's farewell is an orderly close of TCP.
fn broken(error: &io::Error) -> Over {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Over::ClientClosed,
        _ => Over::ClientBroke,
    }
}
