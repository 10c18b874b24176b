//! The plain-text formats that models behind `InvokeModel` have of their own: text, a word for the end, counts.
//!
//! 1. The text stands at the top (`completion`, `text`, `generation`, `outputText`), or in the first item of a list
//!    (`outputs`, `generations`, `results`).
//! 2. The word for the end stands beside it (`stop_reason`, `finish_reason`, `completionReason`); it counts at the end of the body.
//! 3. Counts are the host's own where it sends them with the last chunk, else the model's, else those in the host's headers.
//!
//! None of these formats has tools, reasoning or blocks; a format that has them must not be added here.

use crate::json::{Kind, Scan, Scanner};
use crate::normalize::out::{Counts, Out};
use crate::normalize::{Normalize, finish};
use crate::text::{Literal, Text};
use crate::toolcall::bounded;

/// The state of one response.
#[derive(Debug, Default)]
pub(super) struct Plain {
    stop: Option<String>,
}

/// What one object holds.
#[derive(Default)]
struct Chunk<'a> {
    id: Option<Literal<'a>>,
    text: Option<Literal<'a>>,
    stop: Option<Literal<'a>>,
    input: Option<u64>,
    output: Option<u64>,
    /// Of the host, with its JSON.
    metrics: Option<Metrics<'a>>,
    has_error: bool,
}

#[derive(Default)]
struct Metrics<'a> {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    raw: &'a [u8],
}

impl Normalize for Plain {
    fn value(&mut self, json: &[u8], _name: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let chunk = read(json)?;
        if chunk.has_error {
            out.provider_error(json);
            return Ok(());
        }
        out.started(None, chunk.id.map(Text::from));
        if let Some(text) = chunk.text {
            out.text(0, text.into());
        }
        if let Some(stop) = chunk.stop.filter(|stop| !stop.raw.is_empty()) {
            self.stop = Some(bounded(stop.into()));
        }
        if let Some(m) = chunk.metrics {
            let input = [m.input, m.cache_read, m.cache_write];
            let counts = Counts {
                input: Some(input.into_iter().flatten().fold(0, u64::saturating_add)),
                output: Some(m.output.unwrap_or(0)),
                cached_input: m.cache_read,
                cache_write: m.cache_write,
                reasoning: None,
            };
            out.usage(counts, m.raw);
        } else if chunk.input.is_some() || chunk.output.is_some() {
            out.usage(Counts { input: chunk.input, output: chunk.output, ..Counts::default() }, b"{}");
        }
        Ok(())
    }

    fn whole(&mut self, json: &[u8], out: &mut Out<'_>) -> Scan<()> {
        let told = |name: &str| out.header(name).and_then(|count| count.trim().parse().ok());
        let input = told("x-amzn-bedrock-input-token-count");
        let output = told("x-amzn-bedrock-output-token-count");
        if input.is_some() || output.is_some() {
            out.usage(Counts { input, output, ..Counts::default() }, b"{}");
        }
        self.value(json, b"", out)?;
        if !out.is_done() && self.stop.is_none() {
            out.provider_error(json);
        }
        Ok(())
    }

    fn done(&mut self, _out: &mut Out<'_>) {}

    fn end(&mut self, out: &mut Out<'_>) {
        if let Some(stop) = self.stop.take() {
            out.finish(finish::plain(&stop), Some(Text::Plain(&stop)));
        }
    }
}

fn read(json: &[u8]) -> Scan<Chunk<'_>> {
    let mut chunk = Chunk::default();
    let mut s = Scanner::new(json);
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        member(key, &mut s, json, &mut chunk)?;
    }
    s.end()?;
    Ok(chunk)
}

fn member<'a>(key: Literal<'a>, s: &mut Scanner<'a>, json: &'a [u8], chunk: &mut Chunk<'a>) -> Scan<()> {
    match key.raw {
        b"completion" | b"text" | b"generation" | b"outputText" => chunk.text = s.string_or_skip()?.or(chunk.text),
        b"stop_reason" | b"finish_reason" | b"completionReason" => chunk.stop = s.string_or_skip()?.or(chunk.stop),
        b"response_id" => chunk.id = s.string_or_skip()?,
        b"prompt_token_count" | b"inputTextTokenCount" => chunk.input = s.count_or_skip()?.or(chunk.input),
        b"generation_token_count" | b"totalOutputTextTokenCount" | b"tokenCount" => {
            chunk.output = s.count_or_skip()?.or(chunk.output);
        }
        b"amazon-bedrock-invocationMetrics" => chunk.metrics = metrics(s, json)?,
        b"outputs" | b"generations" | b"results" => first(s, json, chunk)?,
        b"error" => {
            chunk.has_error = s.kind()? != Kind::Null;
            s.skip()?;
        }
        _ => {
            s.skip()?;
        }
    }
    Ok(())
}

/// The first item of a list of answers; there is one unless several were asked for.
fn first<'a>(s: &mut Scanner<'a>, json: &'a [u8], chunk: &mut Chunk<'a>) -> Scan<()> {
    let Some(mut items) = s.array_or_skip()? else { return Ok(()) };
    let mut is_first = true;
    while s.item(&mut items)? {
        if !std::mem::replace(&mut is_first, false) {
            s.skip()?;
            continue;
        }
        let Some(mut members) = s.object_or_skip()? else { continue };
        while let Some(key) = s.key(&mut members)? {
            // A list in a list is none of answers: the depth of the reading stays two.
            match key.raw {
                b"outputs" | b"generations" | b"results" => {
                    s.skip()?;
                }
                _ => member(key, s, json, chunk)?,
            }
        }
    }
    Ok(())
}

fn metrics<'a>(s: &mut Scanner<'a>, json: &'a [u8]) -> Scan<Option<Metrics<'a>>> {
    let mut found = Metrics::default();
    s.kind()?;
    let start = s.pos();
    let Some(mut members) = s.object_or_skip()? else { return Ok(None) };
    while let Some(key) = s.key(&mut members)? {
        match key.raw {
            b"inputTokenCount" => found.input = s.count_or_skip()?,
            b"outputTokenCount" => found.output = s.count_or_skip()?,
            b"cacheReadInputTokenCount" => found.cache_read = s.count_or_skip()?,
            b"cacheWriteInputTokenCount" => found.cache_write = s.count_or_skip()?,
            _ => {
                s.skip()?;
            }
        }
    }
    found.raw = &json[start..s.pos()];
    Ok(Some(found))
}
