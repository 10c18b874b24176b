//! A model provider that costs little: the load source of the gateway and library benches.
//!
//!     bench-upstream [--port N] [--events N] [--pace-ms N] [--streams DIR]
//!
//! Prints `listening PORT` when it answers. Loopback only; ends with its standard input.
//! 1. A Chat request without `"stream":true` gets one completion; with it the model's name picks the pace:
//!    `...paced` one event every `--pace-ms`, `...hold` one a second, anything else all at once.
//! 2. A path that holds `/replay/NAME/` gets `DIR/NAME.sse`, one HTTP chunk per event, all at once.
//! 3. A paced event's text is `T` and sixteen digits: the monotonic clock in nanoseconds at its sending,
//!    so that the load generator can tell how long it was under way.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Script {
    completion: Vec<u8>,
    burst: Vec<u8>,
    head: Vec<u8>,
    tail: Vec<u8>,
    replays: HashMap<String, Vec<u8>>,
    events: usize,
    pace: Duration,
}

fn main() -> Result<()> {
    let mut port = 0u16;
    let (mut events, mut pace, mut streams) = (200, 20, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--port" => port = value()?.parse()?,
            "--events" => events = value()?.parse()?,
            "--pace-ms" => pace = value()?.parse()?,
            "--streams" => streams = Some(value()?),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let script = Rc::new(Script::new(events, Duration::from_millis(pace), streams.as_deref())?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        println!("listening {}", listener.local_addr()?.port());
        tokio::task::spawn_local(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let script = Rc::clone(&script);
                tokio::task::spawn_local(async move {
                    // A client that goes away ends its connection, nothing else.
                    let _ = serve(socket, &script).await;
                });
            }
        });
        // Whoever started this holds our standard input; when it closes, nobody needs us.
        let mut byte = [0u8; 1];
        let end = std::thread::spawn(move || std::io::Read::read(&mut std::io::stdin(), &mut byte).ok());
        while !end.is_finished() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    })
}

async fn serve(mut socket: TcpStream, script: &Script) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(8192);
    loop {
        let Some((head, length)) = read_head(&mut socket, &mut buffer).await? else { return Ok(()) };
        while buffer.len() < head + length {
            if socket.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let path = String::from_utf8_lossy(&buffer[..memchr::memchr(b'\r', &buffer).unwrap_or(0)]).into_owned();
        let body = &buffer[head..head + length];
        let has = |needle: &[u8]| memchr::memmem::find(body, needle).is_some();
        let streaming = has(b"\"stream\":true") || has(b"\"stream\": true");
        if let Some(bytes) = path.split("/replay/").nth(1).and_then(|r| script.replays.get(r.split('/').next()?)) {
            socket.write_all(bytes).await?;
        } else if !streaming {
            socket.write_all(&script.completion).await?;
        } else if has(b"-paced") || has(b"-hold") {
            let pace = if has(b"-hold") { Duration::from_secs(1) } else { script.pace };
            paced(&mut socket, script, pace).await?;
        } else {
            socket.write_all(&script.burst).await?;
        }
        buffer.drain(..head + length);
    }
}

async fn paced(socket: &mut TcpStream, script: &Script, pace: Duration) -> std::io::Result<()> {
    socket.write_all(&script.head).await?;
    let mut due = tokio::time::Instant::now();
    for _ in 0..script.events {
        due += pace;
        tokio::time::sleep_until(due).await;
        let event = chunk(event(&format!("T{:016}", monotonic_ns())).as_bytes());
        socket.write_all(&event).await?;
    }
    socket.write_all(&script.tail).await
}

/// Where the head ends and how long the body is; `None` where the client is gone.
async fn read_head(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<(usize, usize)>> {
    loop {
        if let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|l| l.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
            return Ok(Some((end + 4, length)));
        }
        if socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

impl Script {
    fn new(events: usize, pace: Duration, streams: Option<&str>) -> Result<Script> {
        let answer = completion();
        let completion = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_bench\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        );
        let mut head = STREAM_HEAD.as_bytes().to_vec();
        head.extend(chunk(frame(r#"{"role":"assistant","content":""}"#, "null").as_bytes()));
        let mut tail = chunk(frame("{}", "\"stop\"").as_bytes());
        tail.extend(chunk(b"data: [DONE]\n\n"));
        tail.extend(b"0\r\n\r\n");
        let mut burst = head.clone();
        for i in 0..events {
            burst.extend(chunk(event(&format!(" tok{i:06}")).as_bytes()));
        }
        burst.extend(&tail);
        let mut replays = HashMap::new();
        for entry in streams.map(std::fs::read_dir).transpose()?.into_iter().flatten() {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "sse") {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                replays.insert(name, replay(&std::fs::read(&path)?));
            }
        }
        Ok(Script { completion: completion.into_bytes(), burst, head, tail, replays, events, pace })
    }
}

/// One HTTP chunk per event of `body`.
fn replay(body: &[u8]) -> Vec<u8> {
    let mut out = STREAM_HEAD.as_bytes().to_vec();
    let mut from = 0;
    for at in memchr::memmem::find_iter(body, b"\n\n") {
        out.extend(chunk(&body[from..at + 2]));
        from = at + 2;
    }
    out.extend(b"0\r\n\r\n");
    out
}

fn chunk(data: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", data.len()).into_bytes();
    out.extend(data);
    out.extend(b"\r\n");
    out
}

fn event(text: &str) -> String {
    frame(&format!(r#"{{"content":"{text}"}}"#), "null")
}

/// A Chat chunk of the size that the vendor sends today.
fn frame(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-bench0000000000000000000000001\",\"object\":\"chat.completion.chunk\",\
         \"created\":1764400000,\"model\":\"bench-model-2026-01-01\",\"service_tier\":\"default\",\
         \"system_fingerprint\":\"fp_bench00001\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
         \"finish_reason\":{finish}}}],\"usage\":null,\"obfuscation\":\"k3Jw9zQ2\"}}\n\n"
    )
}

fn completion() -> &'static str {
    r#"{"id":"chatcmpl-bench0000000000000000000000001","object":"chat.completion","created":1764400000,"model":"bench-model-2026-01-01","choices":[{"index":0,"message":{"role":"assistant","content":"Water runs along the race and turns the wheel.","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":21,"completion_tokens":10,"total_tokens":31,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"service_tier":"default","system_fingerprint":"fp_bench00001"}"#
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the result, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
    cache-control: no-cache\r\nx-request-id: req_bench\r\ntransfer-encoding: chunked\r\n\r\n";
