//! `docs/TRANSLATION.md` says what the tables say. Run with `HEADRACE_WRITE_DOCS=1` to write it anew.
#![expect(clippy::disallowed_methods, reason = "tests may read files and the environment; the codec may not")]

use std::fmt::Write;
use std::path::Path;

use headrace_codec::encode::table as response;
use headrace_codec::event::Protocol;
use headrace_codec::request::Source;
use headrace_codec::request::table::{self, Fate};

const HEAD: &str = "\
# Request translation

What becomes of every field of a request whose client and provider speak different protocols. Written from the tables
that the code goes by (`rust/codec/src/request/`), by the test `request_doc`; do not edit.

A field is *kept* (under another name after an arrow), carried as something *near* to it, *dropped* because it is a hint,
or *refused* with a 400 that names it because dropping it would change the meaning. What is near or dropped stands in
the translation-loss report. Where a flag decides, it is one of the target's (`dialect` of a provider's settings).
`null`, and an empty object, list or string that asks for nothing, are as if absent. A key that stands in no table is
some vendor's own: dropped and reported. Within one protocol nothing is translated: bodies pass with their bytes.
";

const RESPONSES: &str = "
# Response translation

What becomes of every item of a response whose client and provider speak different protocols: of every field of every
[event](DESIGN.md). Written from the table that the encoders go by (`rust/codec/src/encode/table.rs`).

An item is carried (its place after an arrow), carried as something *near* to it, or *dropped* because the client's
protocol has no place for it. What is near or dropped stands in the encoder's losses, under the name in the second column;
a stream's losses are known at its end and so stand in settlement and log. *Not told*: the gateway's own, or said
elsewhere. Within one protocol answers pass with their bytes.

";

const CLIENTS: &[(Protocol, &str)] = &[
    (Protocol::OpenaiChat, "Chat"),
    (Protocol::OpenaiResponses, "Responses"),
    (Protocol::AnthropicMessages, "Messages"),
    (Protocol::GoogleGemini, "Gemini"),
    (Protocol::OllamaChat, "Ollama"),
];

fn told(fate: response::Fate) -> String {
    match fate {
        response::Fate::To(place) => format!("→ {place}"),
        response::Fate::Near(how) => format!("near: {how}"),
        response::Fate::Drop(why) => format!("dropped: {why}"),
        response::Fate::By(how) => how.to_owned(),
        response::Fate::Ours(why) => format!("not told: {why}"),
    }
}

fn responses(out: &mut String) {
    let names: Vec<&str> = CLIENTS.iter().map(|(_, name)| *name).collect();
    out.push_str(RESPONSES);
    write!(out, "| item | loss | for {} |\n|---|---{}|\n", names.join(" | for "), "|---".repeat(names.len())).unwrap();
    for row in response::ROWS {
        let case = if row.case.is_empty() { String::new() } else { format!(", {}", row.case) };
        let path = if row.path.is_empty() { String::new() } else { format!("`{}`", row.path) };
        let cells: Vec<String> = CLIENTS.iter().map(|(client, _)| told(row.fate(*client))).collect();
        writeln!(out, "| `{}.{}`{case} | {path} | {} |", row.event, row.field, cells.join(" | ")).unwrap();
    }
}

const SOURCES: &[(Source, &str)] = &[
    (Source::Protocol(Protocol::OpenaiChat), "OpenAI Chat Completions"),
    (Source::Protocol(Protocol::OpenaiResponses), "OpenAI Responses"),
    (Source::Protocol(Protocol::AnthropicMessages), "Anthropic Messages"),
    (Source::Protocol(Protocol::GoogleGemini), "Gemini"),
    (Source::Protocol(Protocol::OllamaChat), "Ollama"),
    (Source::Headrace, "The library's own request"),
];
const TARGETS: &[(Protocol, &str)] = &[
    (Protocol::OpenaiChat, "Chat"),
    (Protocol::OpenaiResponses, "Responses"),
    (Protocol::AnthropicMessages, "Messages"),
    (Protocol::GoogleGemini, "Gemini"),
    (Protocol::BedrockConverse, "Converse"),
    (Protocol::BedrockInvoke, "Invoke"),
    (Protocol::CohereChat, "Cohere"),
    (Protocol::OllamaChat, "Ollama"),
];

fn words(fate: Fate) -> String {
    match fate {
        Fate::Kept => "kept".to_owned(),
        Fate::To(name) => format!("→ `{name}`"),
        Fate::Near(how) => format!("near: {how}"),
        Fate::Drop(why) => format!("dropped: {why}"),
        Fate::Refuse(why) => format!("**refused**: {why}"),
        Fate::If(flag, "") => format!("kept with `{}`, else dropped", flag.name()),
        Fate::If(flag, name) => format!("→ `{name}` with `{}`, else dropped", flag.name()),
        Fate::Needs(flag, why) => format!("kept with `{}`, else **refused**: {why}", flag.name()),
        Fate::Ours(how) => format!("not sent: {how}"),
        Fate::By(how) => how.to_owned(),
    }
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    for &(source, title) in SOURCES {
        let targets: Vec<_> = TARGETS.iter().filter(|(t, _)| source != Source::Protocol(*t)).collect();
        let names: Vec<&str> = targets.iter().map(|(_, name)| *name).collect();
        let columns: Vec<Vec<(String, Fate)>> =
            targets.iter().map(|(t, _)| table::rows(source, *t).collect()).collect();
        write!(out, "\n## {title}\n\n| field | in {} |\n|---{}|\n", names.join(" | in "), "|---".repeat(names.len()))
            .unwrap();
        for (at, (path, _)) in columns[0].iter().enumerate() {
            let cells: Vec<String> = columns.iter().map(|c| words(c[at].1)).collect();
            // What is the same everywhere needs no line.
            if cells.iter().all(|c| c.starts_with("not sent: its ")) {
                continue;
            }
            writeln!(out, "| `{path}` | {} |", cells.join(" | ")).unwrap();
        }
    }
    responses(&mut out);
    out
}

#[test]
fn the_document_says_what_the_tables_say() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/TRANSLATION.md");
    let page = page();
    if std::env::var_os("HEADRACE_WRITE_DOCS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let said = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(said == page, "docs/TRANSLATION.md is old: run this test with HEADRACE_WRITE_DOCS=1");
    assert!(page.lines().count() > 200);
}
