//! What the readers share of options and tools: values that mean the same in several protocols.

use std::borrow::Cow;
use std::collections::HashSet;

use super::error::{Res, shown};
use super::flags::{Flag, TargetFlags};
use super::neutral::{
    Choice, Format, Grammar, Input, Mark, Message, Options, Part, Place, Request, Role, Str, Thinking, Tool,
};
use super::reader::Reader;
use super::{bedrock_converse, ids, pairing};
use crate::event::Protocol;
use crate::json::{Scanner, Value};
use crate::loss::LossAction;

/// A whole number, as its bytes.
pub(super) fn whole<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, key: &str) -> Res<&'a [u8]> {
    let raw = s.number()?;
    if crate::json::count(raw).is_none() {
        return r.expected(key, "a whole number");
    }
    Ok(raw)
}

/// The limit on the answer, as its bytes. Responses refuses less than 16, which clients send to try a key.
pub(super) fn limit<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, key: &str) -> Res<&'a [u8]> {
    let raw = whole(r, s, key)?;
    if r.is_to(Protocol::OpenaiResponses) && crate::json::count(raw).is_some_and(|n| n < 16) {
        r.loss(LossAction::Approximated, key);
        return Ok(b"16");
    }
    Ok(raw)
}

/// `auto`, `none` or `required`.
pub(super) fn mode<'a>(r: &mut Reader<'_>, mode: &str) -> Res<Option<Choice<'a>>> {
    match mode {
        "auto" => Ok(Some(Choice::Auto)),
        "none" => Ok(Some(Choice::None)),
        "required" if !r.has(Flag::RequiredChoice) => r.refuse("", NO_FORCE),
        "required" => Ok(Some(Choice::Required)),
        _ => r.expected("", "auto, none or required"),
    }
}

/// Refuses a picture that the target would have to fetch where it fetches none. `key` is where the link stands.
pub(super) fn pictured(r: &Reader<'_>, from: &Place<'_>, key: &str) -> Res<()> {
    if r.is_to(Protocol::OllamaChat) && matches!(from, Place::Url(_)) {
        return r.refuse(key, "the target fetches no picture; send its bytes");
    }
    filed(r, from, key)
}

/// Refuses bytes that Converse would have to fetch, or whose type it does not take.
pub(super) fn filed(r: &Reader<'_>, from: &Place<'_>, key: &str) -> Res<()> {
    if r.family == Protocol::BedrockConverse { bedrock_converse::placed(r, from, key) } else { Ok(()) }
}

/// Refuses a choice that forces a call where the target knows none.
pub(super) fn forced(r: &Reader<'_>, o: &Options<'_>) -> Res<()> {
    if matches!(o.choice, Some(Choice::Named { .. } | Choice::Required)) && !r.has(Flag::RequiredChoice) {
        return r.refuse("", NO_FORCE);
    }
    Ok(())
}

const NO_FORCE: &str = "the target cannot be made to call a tool";

/// What is to become of `store` of `OpenAI`'s protocols.
pub(super) fn store(r: &mut Reader<'_>, store: bool) -> Option<bool> {
    if matches!(r.target, Protocol::AnthropicMessages | Protocol::GoogleGemini) || !r.has(Flag::Extras) {
        if store {
            r.loss(LossAction::Dropped, "store");
        }
        return None;
    }
    Some(store)
}

/// `service_tier` of `OpenAI`'s protocols for Messages.
pub(super) fn tier<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    match &*s.string()?.decode() {
        "auto" => o.passed.push(("service_tier", b"\"auto\"")),
        "default" => o.passed.push(("service_tier", b"\"standard_only\"")),
        _ => r.loss(LossAction::Dropped, "service_tier"),
    }
    Ok(())
}

/// Who asks, for Messages: `safety_identifier` is the newer name and wins over `user`.
pub(super) fn user<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>, key: &str) -> Res<()> {
    let user = r.string(s)?;
    if o.user.is_some() {
        r.loss(LossAction::Dropped, "user");
    }
    if key == "safety_identifier" || o.user.is_none() {
        o.user = Some(user);
    }
    Ok(())
}

/// The effort of `OpenAI`'s protocols. For Messages it becomes thinking, where the target thinks in one of the two ways.
pub(super) fn effort<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>, key: &'static str) -> Res<()> {
    let effort = r.string(s)?;
    effort_word(r, o, effort, key);
    Ok(())
}

/// As [`effort`], for a word that was read already.
pub(super) fn effort_word<'a>(r: &mut Reader<'_>, o: &mut Options<'a>, effort: Str<'a>, key: &'static str) {
    if r.is_to(Protocol::GoogleGemini) {
        return gemini_effort(r, o, effort, key);
    }
    let level = effort.decode().into_owned();
    match r.target {
        Protocol::AnthropicMessages => {}
        Protocol::CohereChat | Protocol::OllamaChat if !r.has(Flag::Effort) => {
            r.loss(LossAction::Dropped, key);
            return;
        }
        target => {
            let has = match target {
                // A budget stands for it.
                Protocol::CohereChat => level == "none",
                Protocol::OllamaChat => matches!(level.as_str(), "none" | "low" | "medium" | "high"),
                _ => true,
            };
            if !has {
                r.loss(LossAction::Approximated, key);
            }
            o.effort = Some(effort);
            return;
        }
    }
    if level == "none" {
        o.thinking = Some(Thinking::Off);
    } else if r.has(Flag::AdaptiveThinking) && r.has(Flag::Effort) {
        o.thinking = Some(Thinking::Adaptive);
        // `minimal` is the one level that Messages lacks.
        let minimal = level == "minimal";
        if minimal {
            r.loss(LossAction::Approximated, key);
        }
        o.effort = Some(if minimal { Str::Own("low".to_owned()) } else { effort });
    } else if r.has(Flag::ThinkingBudget) {
        r.loss(LossAction::Approximated, key);
        o.thinking = Some(Thinking::Budget(budget(&level)));
    } else {
        r.loss(LossAction::Dropped, key);
    }
}

/// An effort for Gemini: one of its levels, or a budget for the models that have no levels.
fn gemini_effort<'a>(r: &mut Reader<'_>, o: &mut Options<'a>, effort: Str<'a>, key: &'static str) {
    let level = effort.decode().into_owned();
    let budgets = r.has(Flag::ThinkingBudget);
    match level.as_str() {
        _ if !budgets && !r.has(Flag::Effort) => r.loss(LossAction::Dropped, key),
        "none" => {
            o.thinking = Some(Thinking::Off);
            if !budgets {
                // It cannot be turned off there.
                r.loss(LossAction::Approximated, key);
            }
        }
        level if budgets => {
            r.loss(LossAction::Approximated, key);
            o.thinking = Some(Thinking::Budget(budget(level)));
        }
        "minimal" | "low" | "medium" | "high" | "xhigh" => o.effort = Some(effort),
        _ => {
            r.loss(LossAction::Approximated, key);
            o.effort = Some(Str::Own("high".to_owned()));
        }
    }
}

/// A budget of thinking as the client gave it.
pub(super) fn budgeted(r: &mut Reader<'_>, o: &mut Options<'_>, budget: u64, key: &'static str) {
    if r.is_to(Protocol::GoogleGemini) && !r.has(Flag::ThinkingBudget) {
        r.loss(LossAction::Approximated, key);
        return gemini_effort(r, o, Str::Own(effort_of(budget).to_owned()), key);
    }
    match r.target {
        Protocol::CohereChat | Protocol::OllamaChat if !r.has(Flag::Effort) => {
            return r.loss(LossAction::Dropped, key);
        }
        Protocol::OllamaChat => r.loss(LossAction::Approximated, key),
        _ => {}
    }
    if !r.is_to(Protocol::AnthropicMessages) || r.has(Flag::ThinkingBudget) {
        o.thinking = Some(Thinking::Budget(budget));
    } else if r.has(Flag::AdaptiveThinking) {
        r.loss(LossAction::Approximated, key);
        o.thinking = Some(Thinking::Adaptive);
        if o.effort.is_none() && r.has(Flag::Effort) {
            o.effort = Some(Str::Own(effort_of(budget).to_owned()));
        }
    } else {
        r.loss(LossAction::Dropped, key);
    }
}

/// How the answer is to be formed. `schema` is what was read of one; `key` is where it should have been.
pub(super) fn format<'a>(
    r: &mut Reader<'_>,
    o: &mut Options<'a>,
    kind: &str,
    schema: Option<Format<'a>>,
    key: &str,
) -> Res<()> {
    let to_messages = r.is_to(Protocol::AnthropicMessages);
    let always_strict = to_messages || r.is_to(Protocol::GoogleGemini);
    match (kind, schema) {
        ("text", _) => {}
        ("json_object", _) if to_messages => r.loss(LossAction::Dropped, "type"),
        ("json_object", _) => o.format = Some(Format::JsonObject),
        ("json_schema", Some(schema)) => {
            if always_strict && matches!(schema, Format::Schema { strict: Some(false), .. }) {
                let nested = key == "json_schema";
                r.loss(LossAction::Dropped, if nested { "json_schema.strict" } else { "strict" });
            }
            o.format = Some(schema);
        }
        // The table has dropped it, where the target has no schemas.
        ("json_schema", None) if !r.has(Flag::JsonSchema) => {}
        ("json_schema", None) => return r.missing(key),
        _ => return r.expected("type", "text, json_object or json_schema"),
    }
    Ok(())
}

/// Tokens of thinking for an effort. The least that the API takes is 1,024; the most stays below the default limit
/// on the answer, which has to be larger.
pub(super) fn budget(effort: &str) -> u64 {
    match effort {
        "minimal" => 1024,
        "low" => 2048,
        "medium" => 8192,
        "high" => 16_384,
        _ => 24_576,
    }
}

/// The effort for a number of tokens: the inverse of [`budget`].
pub(super) fn effort_of(budget: u64) -> &'static str {
    match budget {
        0..4096 => "low",
        4096..16_384 => "medium",
        _ => "high",
    }
}

/// `temperature` of `OpenAI`'s protocols for Messages, where it ends at 1.
pub(super) fn temperature<'a>(r: &mut Reader<'_>, s: &mut Scanner<'a>, o: &mut Options<'a>) -> Res<()> {
    let mut raw = s.number()?;
    let value = std::str::from_utf8(raw).ok().and_then(|t| t.parse::<f64>().ok());
    if value.is_some_and(|v| v > 1.0) {
        r.loss(LossAction::Approximated, "temperature");
        raw = b"1";
    }
    o.passed.push(("temperature", raw));
    Ok(())
}

/// A tool while it is read.
#[derive(Default)]
pub(super) struct Declared<'a> {
    pub name: Option<Str<'a>>,
    pub description: Option<Str<'a>>,
    pub schema: Option<&'a [u8]>,
    pub strict: Option<bool>,
    pub custom: bool,
    pub grammar: Option<Grammar<'a>>,
    pub extra: Option<&'a [u8]>,
    pub mark: Option<Mark<'a>>,
}

impl<'a> Declared<'a> {
    /// Must be called at the tool's own place: it names what is missing, and a name that had to be changed.
    pub(super) fn tool(self, r: &mut Reader<'_>) -> Res<Tool<'a>> {
        let Some(name) = self.name else { return r.missing("name") };
        let renamed = ids::tool_name(&name.decode(), r.family) != name.decode();
        if renamed {
            r.loss(LossAction::Renamed, "name");
        }
        let by_table = matches!(r.target, Protocol::AnthropicMessages | Protocol::GoogleGemini);
        if self.custom && !r.has(Flag::CustomTools) && !by_table {
            // Where Messages or Gemini is the target the table says it.
            r.loss(LossAction::Approximated, "type:custom");
        }
        let Declared { description, schema, strict, custom, grammar, extra, mark, .. } = self;
        Ok(Tool { name, description, schema, strict, custom, grammar, extra, mark })
    }
}

/// A namespace's tool under one name.
pub(super) fn in_namespace<'a>(namespace: &Str<'_>, name: &Str<'a>) -> Str<'a> {
    Str::Own(format!("{}__{}", namespace.decode(), name.decode()))
}

/// A role that nobody knows.
pub(super) fn unknown_role<T>(r: &Reader<'_>, role: &str) -> Res<T> {
    r.expected("role", &format!("a role of this protocol, not {}", shown(role)))
}

/// The limit on an answer where the client set none and the target demands one: what Anthropic's own coding client
/// sends, and within what every model of its SDK's list can give.
pub(super) const DEFAULT_MAX_TOKENS: u64 = 32_000;

/// The least budget that Messages takes.
const LEAST_BUDGET: u64 = 1024;

/// A function call's arguments for a target that takes an object: the text where it is one, nothing where it is
/// blank. What a model has garbled is wrapped, for the turn happened and has to be told. `key` names it.
pub(super) fn input<'a>(r: &mut Reader<'_>, text: Str<'a>, key: &str) -> Input<'a> {
    if !r.takes_objects() {
        return Input::Text(text);
    }
    let decoded = text.decode();
    let trimmed = decoded.trim();
    if matches!(trimmed, "" | "null") {
        return Input::Object(b"{}");
    }
    if matches!(Scanner::only(trimmed.as_bytes()), Ok(Value::Object(_))) {
        return Input::Made(trimmed.to_owned());
    }
    r.loss(LossAction::Approximated, key);
    drop(decoded);
    Input::Text(text)
}

/// The names of custom tools that the target can have as such.
pub(super) fn custom_names<'t>(tools: &'t [Tool<'_>], flags: TargetFlags) -> HashSet<Cow<'t, str>> {
    let knows = flags.has(Flag::CustomTools);
    tools.iter().filter(|t| knows && t.custom).map(|t| t.name.decode()).collect()
}

/// Refuses parts that a message of this role cannot hold, so that no writer has to leave them out. Called at the
/// message's own place; `key` is where its parts stand.
pub(super) fn fits(r: &mut Reader<'_>, role: Role, parts: &[Part<'_>], key: &str) -> Res<()> {
    let bad = parts.iter().position(|part| match (role, part) {
        (Role::Assistant, Part::Result(_)) => true,
        (Role::Assistant, Part::Image { .. } | Part::Audio { .. } | Part::File { .. } | Part::With(..)) => {
            !matches!(r.target, Protocol::AnthropicMessages | Protocol::GoogleGemini)
        }
        (Role::Assistant, _) => false,
        (_, part) => matches!(part, Part::Call(_) | Part::Reasoning(_) | Part::Result(_)),
    });
    if role == Role::Assistant
        && !matches!(r.target, Protocol::AnthropicMessages | Protocol::GoogleGemini)
        && parts.iter().any(|p| matches!(p, Part::Text(_, Some(_))))
    {
        // The assistant's texts are one string there.
        r.loss(LossAction::Dropped, &format!("{key}[].prompt_cache_breakpoint"));
    }
    let Some(at) = bad else { return Ok(()) };
    let who = if role == Role::Assistant { "the assistant's message" } else { "a message of this role" };
    r.refuse(&format!("{key}[{at}]"), &format!("{who} cannot hold this in the target's protocol"))
}

/// Takes reasoning out that nothing follows in its turn: Messages refuses a turn that ends in it, and Responses wants the
/// item that it led to.
fn trailing_thought(r: &mut Reader<'_>, messages: &mut [Message<'_>]) {
    for message in messages.iter_mut().filter(|m| m.role == Role::Assistant) {
        let before = message.parts.len();
        while message.parts.pop_if(|p| matches!(p, Part::Reasoning(_))).is_some() {}
        if message.parts.len() < before {
            let path = format!("{}[].reasoning", r.list);
            r.loss(LossAction::Dropped, &path);
        }
    }
}

/// Cache marks that Messages takes in one body; with more it refuses the request.
const MOST_MARKS: usize = 4;

/// Takes away the first of too many cache marks: the last ones reach furthest.
fn cap_marks(r: &mut Reader<'_>, messages: &mut [Message<'_>]) {
    // The mark on the whole body is one of them.
    let most = MOST_MARKS - usize::from(r.has(Flag::AutoCache));
    let marked = |m: &mut Message<'_>| m.parts.iter_mut().map(|p| usize::from(mark_of(p).is_some())).sum::<usize>();
    let over = messages.iter_mut().map(marked).sum::<usize>().saturating_sub(most);
    if over == 0 {
        return;
    }
    for mark in messages.iter_mut().flat_map(|m| &mut m.parts).filter_map(mark_of).take(over) {
        *mark = None;
    }
    let path = format!("{}[].content[].prompt_cache_breakpoint", r.list);
    r.loss(LossAction::Dropped, &path);
}

/// The place of a part's mark, where it has one.
fn mark_of<'p, 'a>(part: &'p mut Part<'a>) -> Option<&'p mut Option<Mark<'a>>> {
    match part {
        Part::Text(_, mark) | Part::Image { mark, .. } | Part::File { mark, .. } => Some(mark),
        Part::With(part, _) => mark_of(part),
        _ => None,
    }
    .filter(|mark| mark.is_some())
}

/// What can be judged only once a request has been read whole.
pub(super) fn settle(r: &mut Reader<'_>, request: &mut Request<'_>) -> Res<()> {
    request.messages = pairing::merged(std::mem::take(&mut request.messages));
    if !r.is_to(Protocol::GoogleGemini) {
        trailing_thought(r, &mut request.messages);
    }
    let o = &mut request.options;
    let by_table = matches!(r.target, Protocol::AnthropicMessages | Protocol::GoogleGemini);
    let lists = !by_table && r.has(Flag::AllowedTools);
    if let Some(allowed) = o.allowed.take_if(|_| !lists) {
        let names: HashSet<_> = allowed.iter().map(Str::decode).collect();
        request.tools.retain(|t| names.contains(&t.name.decode()));
        if !by_table {
            r.loss(LossAction::Approximated, "tool_choice");
        }
    }
    if r.is_to(Protocol::CohereChat)
        && let Some(Choice::Named { name, .. }) = &o.choice
        && request.tools.iter().any(|t| t.name.decode() == name.decode())
    {
        // A tool cannot be named there: it is the only one that is told of.
        request.tools.retain(|t| t.name.decode() == name.decode());
        o.choice = Some(Choice::Required);
        r.loss(LossAction::Approximated, "tool_choice");
    }
    match &o.choice {
        Some(Choice::Required) if request.tools.is_empty() => {
            return r.refuse("tool_choice", "no tool is left that the target could be made to call");
        }
        Some(Choice::Named { name, .. }) if !request.tools.iter().any(|t| t.name.decode() == name.decode()) => {
            return r.refuse("tool_choice", "the tool is not among those that the target is told of");
        }
        _ => {}
    }
    if r.family == Protocol::BedrockConverse {
        bedrock_converse::settle(r, &mut request.messages, &mut request.tools, o);
    }
    if r.is_to(Protocol::AnthropicMessages) {
        if said_by_user(&request.messages, r.has(Flag::SystemMessages)) {
            r.loss(LossAction::Approximated, &format!("{}[].role", r.list));
        }
        cap_marks(r, &mut request.messages);
        let unsigned = request.messages.iter().rfind(|m| m.role == Role::Assistant).is_some_and(calls_unsigned);
        thinking(r, o, unsigned);
    } else if r.is_to(Protocol::GoogleGemini) {
        if said_by_user(&request.messages, false) {
            r.loss(LossAction::Approximated, &format!("{}[].role", r.list));
        }
    } else if let (None, Some(Thinking::Budget(n))) = (&o.effort, &o.thinking)
        && !r.is_to(Protocol::CohereChat)
        && !r.has(Flag::ReasoningObject)
    {
        o.effort = Some(Str::Own(effort_of(*n).to_owned()));
    }
    Ok(())
}

/// Whether something that the system says in mid-conversation has to be said as if by the user: always where the
/// target takes no such messages, else where the user himself says nothing before the next turn.
fn said_by_user(messages: &[Message<'_>], takes: bool) -> bool {
    let is_system = |m: &Message<'_>| matches!(m.role, Role::System | Role::Developer);
    let (mut waits, mut user) = (false, false);
    for message in messages.iter().skip_while(|m| is_system(m)) {
        if is_system(message) {
            waits = true;
        } else if message.role == Role::Assistant {
            if waits && !(takes && user) {
                return true;
            }
            (waits, user) = (false, false);
        } else {
            user = true;
        }
    }
    waits && !(takes && user)
}

/// Whether a turn calls tools without the thinking that it began with.
fn calls_unsigned(turn: &Message<'_>) -> bool {
    turn.calls().next().is_some() && !turn.parts.iter().any(|p| matches!(p, Part::Reasoning(r) if r.kept.is_some()))
}

/// Brings thinking, the tool choice and the limit together, as Messages demands it. `unsigned`: the last turn calls
/// tools and its thinking is not there, which a budget of thinking does not allow.
fn thinking(r: &mut Reader<'_>, o: &mut Options<'_>, unsigned: bool) {
    let forced = matches!(o.choice, Some(Choice::Required | Choice::Named { .. }));
    let on = matches!(o.thinking, Some(Thinking::Adaptive | Thinking::Budget(_)));
    if on && forced {
        // A forced call and thinking exclude each other; the choice is meant, the effort is a hint.
        o.thinking = None;
        r.loss(LossAction::Approximated, "tool_choice");
    }
    if let Some(Thinking::Budget(n)) = &mut o.thinking {
        let most = o.max_tokens.and_then(crate::json::count).unwrap_or(DEFAULT_MAX_TOKENS);
        *n = (*n).min(most.saturating_sub(1));
        if *n < LEAST_BUDGET || unsigned {
            o.thinking = None;
            r.loss(LossAction::Dropped, "thinking");
        }
    }
    let on = matches!(o.thinking, Some(Thinking::Adaptive | Thinking::Budget(_)));
    if let Some((_, field)) = o.summary.take_if(|_| !on) {
        r.loss(LossAction::Dropped, field);
    }
}
