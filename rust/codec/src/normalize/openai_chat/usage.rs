//! The usage object: one reading for every place and spelling of it (rule R12).

use crate::json::{Scan, Scanner};
use crate::normalize::Counts;

#[derive(Default)]
struct Found {
    input: Option<u64>,
    output: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    cached_besides: Option<u64>,
    written: Option<u64>,
    written_besides: Option<u64>,
    reasoning: Option<u64>,
}

/// Totals of a usage object. Input and output that are absent from it are 0; the finer ones stay absent.
pub(super) fn counts(raw: &[u8]) -> Scan<Counts> {
    let mut s = Scanner::new(raw);
    let mut found = Found::default();
    let mut members = s.object()?;
    while let Some(key) = s.key(&mut members)? {
        match key.decode().as_ref() {
            "prompt_tokens" => found.input = s.count_or_skip()?,
            "completion_tokens" => found.output = s.count_or_skip()?,
            "input_tokens" => found.input = found.input.or(s.count_or_skip()?),
            "output_tokens" => found.output = found.output.or(s.count_or_skip()?),
            "total_tokens" => found.total = s.count_or_skip()?,
            "cached_tokens" | "num_cached_tokens" | "prompt_cache_hit_tokens" | "cache_read_input_tokens" => {
                let count = s.count_or_skip()?;
                found.cached_besides = found.cached_besides.or(count);
            }
            "cache_creation_input_tokens" => found.written_besides = s.count_or_skip()?,
            "reasoning_tokens" => found.reasoning = found.reasoning.or(s.count_or_skip()?),
            "prompt_tokens_details" | "input_tokens_details" => input_details(&mut s, &mut found)?,
            "completion_tokens_details" | "output_tokens_details" => output_details(&mut s, &mut found)?,
            _ => {
                s.skip()?;
            }
        }
    }
    let (input, mut output) = (found.input.unwrap_or(0), found.output.unwrap_or(0));
    // R12x: the total tells whether reasoning was counted besides the output.
    if let (Some(reasoning @ 1..), Some(total)) = (found.reasoning, found.total)
        && input.checked_add(output).and_then(|n| n.checked_add(reasoning)) == Some(total)
    {
        output += reasoning;
    }
    Ok(Counts {
        input: Some(input),
        output: Some(output),
        cached_input: found.cached.or(found.cached_besides),
        cache_write: found.written.or(found.written_besides),
        reasoning: found.reasoning,
    })
}

fn input_details(s: &mut Scanner<'_>, found: &mut Found) -> Scan<()> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(()) };
    while let Some(key) = s.key(&mut members)? {
        match key.decode().as_ref() {
            "cached_tokens" => found.cached = s.count_or_skip()?,
            "cache_write_tokens" => found.written = s.count_or_skip()?,
            _ => {
                s.skip()?;
            }
        }
    }
    Ok(())
}

fn output_details(s: &mut Scanner<'_>, found: &mut Found) -> Scan<()> {
    let Some(mut members) = s.object_or_skip()? else { return Ok(()) };
    while let Some(key) = s.key(&mut members)? {
        if key.is("reasoning_tokens") {
            let count = s.count_or_skip()?;
            found.reasoning = count.or(found.reasoning);
        } else {
            s.skip()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(json: &str) -> (u64, u64, Option<u64>, Option<u64>, Option<u64>) {
        let c = counts(json.as_bytes()).unwrap();
        (c.input.unwrap(), c.output.unwrap(), c.cached_input, c.cache_write, c.reasoning)
    }

    #[test]
    fn every_spelling_is_read() {
        let details =
            r#""prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}"#;
        let plain = format!(r#"{{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,{details}}}"#);
        assert_eq!(run(&plain), (11, 7, Some(4), None, Some(3)));
        let besides = format!(r#"{{"prompt_tokens":11,"completion_tokens":7,"total_tokens":21,{details}}}"#);
        assert_eq!(run(&besides), (11, 10, Some(4), None, Some(3)));
        assert_eq!(run(r#"{"prompt_cache_hit_tokens":5,"total_tokens":9}"#), (0, 0, Some(5), None, None));
        assert_eq!(run(r#"{"cached_tokens":2,"prompt_tokens_details":null}"#), (0, 0, Some(2), None, None));
        assert_eq!(run(r#"{"num_cached_tokens":3}"#), (0, 0, Some(3), None, None));
    }
}
