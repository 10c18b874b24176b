//! How a response ends: its reason, its sources, its counts, and the whole object where one body was asked for.

use super::{Gemini, Shared, list_comma, put, put_names, put_raw, put_str};
use crate::encode::shared::{Counts, put_count};
use crate::event::FinishReason;
use crate::json::{Scanner, Value};
use crate::text::Text;

/// What is told at the end of what the text rests on. JSON, the insides of lists.
#[derive(Default)]
pub(super) struct Sources {
    pub queries: Vec<u8>,
    pub urls: Vec<u8>,
    chunks: Vec<u8>,
    /// Each source once, in their order.
    known: Vec<Vec<u8>>,
    supports: Vec<u8>,
    citations: Vec<u8>,
}

/// A response names some dozens of sources; beyond this they are listed without being compared.
const COMPARED: usize = 256;

impl Gemini {
    pub(super) fn source(
        &mut self,
        shared: &mut Shared,
        kind: Text<'_>,
        url: Option<Text<'_>>,
        title: Option<Text<'_>>,
        span: Option<(u64, u64)>,
        raw: &[u8],
    ) {
        // What is copied raw has to be what it says it is.
        let native = shared.native() && matches!(Scanner::only(raw), Ok(Value::Object(_)));
        if native && kind.is("citation") {
            list_comma(&mut self.sources.citations);
            return put_raw(&mut self.sources.citations, raw);
        }
        let chunk = match url {
            _ if native => raw.to_vec(),
            Some(url) => {
                let mut chunk = b"{\"web\":{\"uri\":".to_vec();
                url.push_json_string(&mut chunk);
                if let Some(title) = title {
                    put(&mut chunk, ",\"title\":");
                    title.push_json_string(&mut chunk);
                }
                put(&mut chunk, "}}");
                chunk
            }
            None => return shared.losses.dropped("response.annotations"),
        };
        let Sources { chunks, known, supports, .. } = &mut self.sources;
        let from = known.len().saturating_sub(COMPARED);
        let at = if let Some(at) = known[from..].iter().position(|k| *k == chunk) {
            from + at
        } else {
            list_comma(chunks);
            put_raw(chunks, &chunk);
            known.push(chunk);
            known.len() - 1
        };
        let bytes = |point: u64| self.offsets.byte(self.block_from + point);
        if let Some((start, end)) = span.and_then(|(start, end)| bytes(start).zip(bytes(end))) {
            list_comma(supports);
            put_count(supports, "{\"segment\":{\"startIndex\":", start);
            put_count(supports, ",\"endIndex\":", end);
            put_count(supports, "},\"groundingChunkIndices\":[", at as u64);
            put(supports, "]}");
        }
    }

    pub(super) fn finished(
        &mut self,
        shared: &mut Shared,
        reason: FinishReason,
        raw: Option<Text<'_>>,
        out: &mut Vec<u8>,
    ) {
        if self.calls.untold() {
            shared.losses.dropped("response.tool_calls");
        }
        if shared.usage.is_some_and(|counts| counts.cache_write.is_some_and(|n| n > 0)) {
            shared.losses.dropped("response.usage.cache_write_tokens");
        }
        self.close();
        let raw = raw.map(Text::decode).filter(|_| shared.native());
        let blocked = reason == FinishReason::ContentFilter && !self.said && self.opened == 0;
        let mut object = Vec::with_capacity(256 + self.parts.len());
        if let (true, Some(why)) = (blocked, &raw) {
            // The prompt was refused: there is no candidate.
            put_str(&mut object, "{\"promptFeedback\":{\"blockReason\":", why);
            object.push(b'}');
        } else {
            let reason = self.finish_reason(shared, reason, raw.as_deref());
            put(&mut object, "{\"candidates\":[{\"content\":{\"parts\":[");
            if shared.stream {
                put(&mut object, "{\"text\":\"\"}");
            } else {
                object.append(&mut self.parts);
            }
            put_str(&mut object, "],\"role\":\"model\"},\"finishReason\":", reason);
            put(&mut object, ",\"index\":0");
            self.sources.put(&mut object);
            put(&mut object, "}]");
        }
        if let Some(mut counts) = shared.usage {
            if counts.reasoning > counts.output {
                // Thoughts are a part of the output, as the others count it.
                shared.losses.dropped("response.usage.reasoning_tokens");
                counts.reasoning = None;
            }
            put_usage(&mut object, counts);
        }
        put_names(&mut object, shared);
        object.push(b'}');
        if !shared.stream {
            return out.extend_from_slice(&object);
        }
        self.frame(out, |out| out.extend_from_slice(&object));
        if self.array {
            put(out, "]\n");
        }
    }

    fn finish_reason<'r>(&self, shared: &mut Shared, reason: FinishReason, raw: Option<&'r str>) -> &'r str {
        if self.calls.unfinished() && !matches!(reason, FinishReason::ContentFilter | FinishReason::Refusal) {
            return "MAX_TOKENS";
        }
        // The vendor's own word says more than ours.
        if let Some(raw) = raw {
            return raw;
        }
        match reason {
            FinishReason::Stop | FinishReason::ToolIntents => "STOP",
            FinishReason::Length => "MAX_TOKENS",
            FinishReason::ContentFilter => "SAFETY",
            FinishReason::Refusal | FinishReason::Pause | FinishReason::Other => {
                shared.losses.approximated("response.finish_reason");
                match reason {
                    FinishReason::Refusal => "SAFETY",
                    FinishReason::Pause => "MAX_TOKENS",
                    _ => "STOP",
                }
            }
        }
    }
}

impl Sources {
    fn put(&self, out: &mut Vec<u8>) {
        if !self.citations.is_empty() {
            put(out, ",\"citationMetadata\":{\"citations\":[");
            out.extend_from_slice(&self.citations);
            put(out, "]}");
        }
        if !self.urls.is_empty() {
            put(out, ",\"urlContextMetadata\":");
            put_raw(out, &self.urls);
        }
        if self.queries.is_empty() && self.chunks.is_empty() {
            return;
        }
        put(out, ",\"groundingMetadata\":{");
        let mut inside = Vec::new();
        for (key, list) in [("groundingChunks", &self.chunks), ("groundingSupports", &self.supports)] {
            if !list.is_empty() {
                list_comma(&mut inside);
                put(&mut inside, &format!("\"{key}\":["));
                inside.extend_from_slice(list);
                inside.push(b']');
            }
        }
        if !self.queries.is_empty() {
            list_comma(&mut inside);
            put(&mut inside, "\"webSearchQueries\":");
            put_raw(&mut inside, &self.queries);
        }
        out.append(&mut inside);
        out.push(b'}');
    }
}

/// Unknown counts are left out: nothing is demanded here.
fn put_usage(out: &mut Vec<u8>, counts: Counts) {
    put(out, ",\"usageMetadata\":");
    let mut inside = Vec::with_capacity(128);
    let said = counts.output.map(|output| output.saturating_sub(counts.reasoning.unwrap_or(0)));
    let total = counts.input.zip(counts.output).map(|(input, output)| input.saturating_add(output));
    for (key, count) in [
        ("\"promptTokenCount\":", counts.input),
        ("\"cachedContentTokenCount\":", counts.cached),
        ("\"candidatesTokenCount\":", said),
        ("\"thoughtsTokenCount\":", counts.reasoning),
        ("\"totalTokenCount\":", total),
    ] {
        if let Some(count) = count {
            list_comma(&mut inside);
            put_count(&mut inside, key, count);
        }
    }
    out.push(b'{');
    out.append(&mut inside);
    out.push(b'}');
}
