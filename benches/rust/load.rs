//! A bounded HTTP/1.1 load generator for loopback that understands event streams.
//!
//!     bench-load --port N --path P --body FILE --connections N (--seconds S | --requests N) [--header 'k: v']...
//!
//! Each connection sends one request after another until the time is up or the requests are done.
//! Prints one JSON line: counts, latencies and delays in microseconds. An answer counts as good where its
//! status is 200, its body ended as its framing says, and its count of events equals the first good answer's.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Default)]
struct Tally {
    good: u64,
    bad: u64,
    events: u64,
    bytes: u64,
    per_answer: Option<u64>,
    started: u64,
    total_us: Vec<f64>,
    first_byte_us: Vec<f64>,
    event_us: Vec<f64>,
}

struct Plan {
    port: u16,
    request: Vec<u8>,
    until: Option<Instant>,
    requests: Option<u64>,
}

fn main() -> Result<()> {
    let (mut port, mut path, mut body) = (0u16, String::from("/v1/chat/completions"), Vec::new());
    let (mut connections, mut seconds, mut requests, mut headers) = (1usize, None, None, String::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--port" => port = value()?.parse()?,
            "--path" => path = value()?,
            "--body" => body = std::fs::read(value()?)?,
            "--connections" => connections = value()?.parse()?,
            "--seconds" => seconds = Some(value()?.parse::<f64>()?),
            "--requests" => requests = Some(value()?.parse()?),
            "--header" => headers.extend([value()?.as_str(), "\r\n"]),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    if seconds.is_none() && requests.is_none() {
        return Err("--seconds or --requests must bound the run".into());
    }
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend(&body);
    let began = Instant::now();
    let plan = Rc::new(Plan { port, request, until: seconds.map(|s| began + Duration::from_secs_f64(s)), requests });
    let tally = Rc::new(RefCell::new(Tally::default()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let tasks: Vec<_> = (0..connections)
            .map(|_| {
                let (plan, tally) = (Rc::clone(&plan), Rc::clone(&tally));
                tokio::task::spawn_local(async move { connection(&plan, &tally).await })
            })
            .collect();
        for task in tasks {
            if !matches!(task.await, Ok(Ok(()))) {
                tally.borrow_mut().bad += 1;
            }
        }
    });
    report(&mut tally.borrow_mut(), began.elapsed().as_secs_f64());
    Ok(())
}

async fn connection(plan: &Plan, tally: &RefCell<Tally>) -> std::io::Result<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", plan.port)).await?;
    socket.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(64 << 10);
    loop {
        if plan.until.is_some_and(|until| Instant::now() >= until) {
            return Ok(());
        }
        {
            let mut tally = tally.borrow_mut();
            if plan.requests.is_some_and(|n| tally.started >= n) {
                return Ok(());
            }
            tally.started += 1;
        }
        let sent = Instant::now();
        socket.write_all(&plan.request).await?;
        buffer.clear();
        let mut answer = Answer::default();
        while !answer.done {
            buffer.reserve(16 << 10);
            if socket.read_buf(&mut buffer).await? == 0 {
                answer.failed = !answer.until_close;
                answer.done = true;
            }
            let now = sent.elapsed();
            if answer.first.is_none() {
                answer.first = Some(now);
            }
            answer.take(&mut buffer, &mut tally.borrow_mut().event_us);
        }
        let closed = answer.failed || answer.until_close;
        count(&mut tally.borrow_mut(), &answer, sent.elapsed());
        if closed {
            socket = TcpStream::connect(("127.0.0.1", plan.port)).await?;
            socket.set_nodelay(true)?;
        }
    }
}

fn count(tally: &mut Tally, answer: &Answer, took: Duration) {
    tally.bytes += answer.bytes;
    let expected = *tally.per_answer.get_or_insert(answer.events);
    if answer.failed || answer.status != 200 || answer.events != expected {
        tally.bad += 1;
        return;
    }
    tally.good += 1;
    tally.events += answer.events;
    tally.total_us.push(took.as_secs_f64() * 1e6);
    tally.first_byte_us.push(answer.first.unwrap_or(took).as_secs_f64() * 1e6);
}

/// One answer as it comes in. Only the framing is read, and the blank lines between events.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one answer, not states of a machine")]
struct Answer {
    status: u16,
    head: bool,
    chunked: bool,
    until_close: bool,
    /// Bytes left of the body, or of the chunk.
    left: usize,
    events: u64,
    bytes: u64,
    /// The last byte of the body so far: an event may end across two chunks.
    last: u8,
    first: Option<Duration>,
    done: bool,
    failed: bool,
}

impl Answer {
    fn take(&mut self, buffer: &mut Vec<u8>, delays: &mut Vec<f64>) {
        let mut at = 0;
        if !self.head {
            let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") else { return };
            let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            self.status = head.get(9..12).and_then(|s| s.parse().ok()).unwrap_or(0);
            self.chunked = head.contains("transfer-encoding: chunked");
            let length = head.lines().find_map(|l| l.strip_prefix("content-length:")?.trim().parse().ok());
            self.until_close = !self.chunked && length.is_none();
            self.left = length.unwrap_or(0);
            self.head = true;
            at = end + 4;
        }
        if self.chunked {
            at = self.chunks(buffer, at, delays);
        } else {
            let n = if self.until_close { buffer.len() - at } else { self.left.min(buffer.len() - at) };
            self.body(&buffer[at..at + n], delays);
            at += n;
            self.left -= if self.until_close { 0 } else { n };
            self.done |= !self.until_close && self.left == 0;
        }
        buffer.drain(..at);
    }

    fn chunks(&mut self, buffer: &[u8], mut at: usize, delays: &mut Vec<f64>) -> usize {
        loop {
            // `left` counts the chunk's data and its line end.
            if self.left > 0 {
                let n = self.left.min(buffer.len() - at);
                let data = n.min(self.left.saturating_sub(2));
                self.body(&buffer[at..at + data], delays);
                at += n;
                self.left -= n;
                if self.left > 0 {
                    return at;
                }
            }
            let Some(end) = memchr::memmem::find(&buffer[at..], b"\r\n") else { return at };
            let Some(size) =
                std::str::from_utf8(&buffer[at..at + end]).ok().and_then(|s| usize::from_str_radix(s, 16).ok())
            else {
                self.failed = true;
                self.done = true;
                return buffer.len();
            };
            if size == 0 {
                if buffer.len() < at + end + 4 {
                    return at;
                }
                self.done = true;
                return at + end + 4;
            }
            at += end + 2;
            self.left = size + 2;
        }
    }

    fn body(&mut self, data: &[u8], delays: &mut Vec<f64>) {
        if data.is_empty() {
            return;
        }
        self.bytes += data.len() as u64;
        self.events += u64::from(self.last == b'\n' && data[0] == b'\n');
        self.events += memchr::memmem::find_iter(data, b"\n\n").count() as u64;
        self.last = data[data.len() - 1];
        for at in memchr::memmem::find_iter(data, b"\"T00") {
            if let Some(sent) = data.get(at + 2..at + 18).and_then(|d| std::str::from_utf8(d).ok()?.parse::<u64>().ok())
            {
                delays.push(Duration::from_nanos(monotonic_ns().saturating_sub(sent)).as_secs_f64() * 1e6);
            }
        }
    }
}

fn report(tally: &mut Tally, seconds: f64) {
    println!(
        "{{\"good\":{},\"bad\":{},\"events\":{},\"per_answer\":{},\"bytes\":{},\"seconds\":{seconds:.3},\
         \"total_us\":{},\"first_byte_us\":{},\"event_us\":{}}}",
        tally.good,
        tally.bad,
        tally.events,
        tally.per_answer.unwrap_or(0),
        tally.bytes,
        spread(&mut tally.total_us),
        spread(&mut tally.first_byte_us),
        spread(&mut tally.event_us)
    );
}

fn spread(values: &mut [f64]) -> String {
    if values.is_empty() {
        return "null".into();
    }
    values.sort_unstable_by(f64::total_cmp);
    let at = |p: usize| values[(values.len() - 1) * p / 100];
    format!("{{\"p50\":{:.1},\"p99\":{:.1}}}", at(50), at(99))
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the result, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
