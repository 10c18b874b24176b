//! A proxy that leads on, or does what a test says instead.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

#[derive(Clone)]
pub enum Act {
    Lead,
    /// Answers with these bytes and closes.
    Answer(&'static str),
    /// Sends these bytes and no more.
    Stall(&'static str),
    /// Leads once the gate is opened.
    Gate(Arc<Notify>),
}

/// What it saw.
#[derive(Default)]
pub struct Seen {
    /// Request heads as they came.
    pub heads: Vec<String>,
    pub closed: usize,
}

pub struct Proxying {
    pub address: SocketAddr,
    pub seen: watch::Receiver<Seen>,
}

impl Proxying {
    /// Runs on the test's runtime, and ends with it.
    pub async fn start(act: Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, seen) = watch::channel(Seen::default());
        let tell = Arc::new(tell);
        tokio::spawn(async move {
            while let Ok((peer, _)) = listener.accept().await {
                let (act, tell) = (act.clone(), tell.clone());
                tokio::spawn(async move {
                    serve(peer, act, &tell).await;
                    tell.send_modify(|seen| seen.closed += 1);
                });
            }
        });
        Self { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn heads(&self) -> Vec<String> {
        self.seen.borrow().heads.clone()
    }

    pub async fn until(&self, fact: impl FnMut(&Seen) -> bool) {
        self.seen.clone().wait_for(fact).await.unwrap();
    }
}

async fn serve(mut peer: TcpStream, act: Act, tell: &watch::Sender<Seen>) {
    let mut said = Vec::new();
    let len = loop {
        if let Some(at) = said.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if peer.read_buf(&mut said).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let head = String::from_utf8(said.drain(..len).collect()).unwrap();
    tell.send_modify(|seen| seen.heads.push(head.clone()));
    match act {
        Act::Lead => {}
        Act::Answer(text) => {
            let _ = peer.write_all(text.as_bytes()).await;
            return;
        }
        Act::Stall(text) => {
            let _ = peer.write_all(text.as_bytes()).await;
            let _ = peer.read_to_end(&mut said).await;
            return;
        }
        Act::Gate(gate) => {
            let mut one = [0];
            tokio::select! {
                () = gate.notified() => {}
                _ = peer.read(&mut one) => return,
            }
        }
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let mut upstream = if method == "CONNECT" {
        let upstream = TcpStream::connect(target).await.unwrap();
        // An interim answer and a body's length, which mean nothing here.
        let answer = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 Connection established\r\ncontent-length: 7\r\n\r\n";
        peer.write_all(answer.as_bytes()).await.unwrap();
        upstream
    } else {
        let (host, path) = target.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut upstream = TcpStream::connect(host).await.unwrap();
        let mut passed = head.replacen(target, &format!("/{path}"), 1);
        if let Some(at) = passed.find("proxy-authorization") {
            let end = at + passed[at..].find("\r\n").unwrap() + 2;
            passed.replace_range(at..end, "");
        }
        upstream.write_all(passed.as_bytes()).await.unwrap();
        upstream.write_all(&said).await.unwrap();
        upstream
    };
    let _ = tokio::io::copy_bidirectional(&mut peer, &mut upstream).await;
}
