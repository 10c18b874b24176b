//! Turns: what belongs together for the protocols that pair results with the turn that called.
//!
//! 1. Assistant messages that follow one another are one turn.
//! 2. A turn's results come first after it, before anything else that was said there; a result that came later moves
//!    to its turn. The order of results, and of everything else, stays.
//! 3. What has no partner stays where it is: the provider says what it thinks of it.

use std::collections::HashMap;

use super::neutral::{Message, Part, Role};

/// Puts a conversation into turns.
pub(super) fn turns(messages: Vec<Message<'_>>) -> Vec<Message<'_>> {
    let messages = merged(messages);
    let mut out: Vec<Message<'_>> = Vec::with_capacity(messages.len());
    // Where each call was made: the index of its turn in `groups`.
    let mut made: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Group<'_>> = vec![Group::default()];
    for message in messages {
        let last = groups.len() - 1;
        match message.role {
            Role::Assistant => {
                for call in message.calls() {
                    made.insert(call.id.decode().into_owned(), last + 1);
                }
                groups.push(Group { turn: Some(message), ..Group::default() });
            }
            Role::Tool => {
                let at = match message.parts.first() {
                    Some(Part::Result(result)) => made.get(&*result.id.decode()).copied(),
                    _ => None,
                };
                match at {
                    Some(at) => groups[at].results.push(message),
                    None => groups[last].rest.push(message),
                }
            }
            _ => groups[last].rest.push(message),
        }
    }
    for group in groups {
        out.extend(group.turn);
        out.extend(group.results);
        out.extend(group.rest);
    }
    out
}

/// A turn, its results, and what was said before the next turn.
#[derive(Default)]
struct Group<'a> {
    turn: Option<Message<'a>>,
    results: Vec<Message<'a>>,
    rest: Vec<Message<'a>>,
}

/// Joins assistant messages that follow one another.
pub(super) fn merged(messages: Vec<Message<'_>>) -> Vec<Message<'_>> {
    let mut out: Vec<Message<'_>> = Vec::with_capacity(messages.len());
    for message in messages {
        match out.last_mut() {
            Some(last)
                if last.role == Role::Assistant
                    && message.role == Role::Assistant
                    && last.extra.is_none()
                    && message.extra.is_none() =>
            {
                last.parts.extend(message.parts);
            }
            _ => out.push(message),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::neutral::{Call, Input, Str, ToolResult};
    use super::*;

    fn own(s: &str) -> Str<'static> {
        Str::Own(s.to_owned())
    }

    fn said(role: Role, text: &str) -> Message<'static> {
        Message::new(role, vec![Part::Text(own(text), None)])
    }

    fn call(id: &str) -> Message<'static> {
        let call = Call { id: own(id), name: own("f"), input: Input::Object(b"{}"), custom: false, extra: None };
        Message::new(Role::Assistant, vec![Part::Call(call)])
    }

    fn result(id: &str) -> Message<'static> {
        let result = ToolResult { id: own(id), is_error: false, parts: Vec::new(), extra: None };
        Message::new(Role::Tool, vec![Part::Result(result)])
    }

    fn shape(messages: Vec<Message<'_>>) -> String {
        let one = |p: &Part<'_>| match p {
            Part::Text(t, _) => t.decode().into_owned(),
            Part::Call(c) => format!("call {}", c.id.decode()),
            Part::Result(r) => format!("result {}", r.id.decode()),
            _ => String::new(),
        };
        let each: Vec<String> = turns(messages)
            .iter()
            .map(|m| format!("{:?}[{}]", m.role, m.parts.iter().map(one).collect::<Vec<_>>().join(",")))
            .collect();
        each.join(" ")
    }

    #[test]
    fn results_follow_their_turn() {
        let got = shape(vec![
            said(Role::User, "q"),
            said(Role::Assistant, "t"),
            call("a"),
            call("b"),
            said(Role::User, "also"),
            result("b"),
            result("a"),
        ]);
        assert_eq!(got, "User[q] Assistant[t,call a,call b] Tool[result b] Tool[result a] User[also]");
    }

    #[test]
    fn late_results_move_and_orphans_stay() {
        let got = shape(vec![call("a"), said(Role::User, "u"), call("b"), result("x"), result("a"), result("b")]);
        assert_eq!(got, "Assistant[call a] Tool[result a] User[u] Assistant[call b] Tool[result b] Tool[result x]");
    }
}
