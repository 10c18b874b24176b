//! The tables of what becomes of every field, held against what the translation does: a field that is neither
//! carried nor reported nor refused fails here.

mod request_samples;

use headrace_codec::event::Protocol;
use headrace_codec::loss::LossAction;
use headrace_codec::request::table::{self, Fate, Object, Row};
use headrace_codec::request::{Flag, RequestError, Source, TargetFlags, TranslateSpec, Translation, translate};
use request_samples::Comes::{self, Here, Lost, Refused, Silent};
use request_samples::{SOURCES, TARGETS, name, skeleton, typed, values};
use serde_json::{Value, json};

fn run(body: &Value, source: Source, target: Protocol, flags: TargetFlags) -> Result<Translation, RequestError> {
    let spec = TranslateSpec { source, target, model: "up", provider: Some("acme"), edits: &[], target_flags: flags };
    translate(body.to_string().as_bytes(), &spec)
}

/// All flags on, but for those that would change how another field is carried.
fn all_flags() -> TargetFlags {
    let otherwise = [
        Flag::EchoReasoningContent,
        Flag::EchoReasoning,
        Flag::ThinkingParts,
        Flag::ThinkingBudget,
        Flag::ReasoningObject,
        Flag::RandomSeed,
        Flag::ShortIds,
        Flag::Anew,
    ];
    Flag::ALL.iter().filter(|f| !otherwise.contains(f)).fold(TargetFlags::default(), |flags, f| flags.with(*f, true))
}

struct Trial<'a> {
    source: Source,
    target: Protocol,
    object: &'a Object,
    row: &'a Row,
    path: String,
    faults: Vec<String>,
}

impl Trial<'_> {
    fn check(&mut self, body: &Value, comes: Comes, flags: TargetFlags) {
        let said = format!("{} -> {}: {} ({comes:?}) in {body}", name(self.source), self.target.name(), self.path);
        let param = self.path.replace("[]", "[0]");
        let got = run(body, self.source, self.target, flags);
        let fault = match (comes, &got) {
            (Refused, Err(e)) if e.code == "unsupported_feature" => {
                let at = e.param.clone().unwrap_or_default();
                let type_of_it = param.split(".type:").next().unwrap_or_default().to_owned() + ".type";
                // Where the whole object is refused, so is each of its fields.
                let object = param.rsplit_once('.').map_or("", |(object, _)| object);
                let within = !object.is_empty() && (at.starts_with(object) || object.starts_with(&at));
                (!at.starts_with(&param) && at != type_of_it && !within).then(|| format!("{said}: refused at {at}"))
            }
            (_, Err(e)) => Some(format!("{said}: {e:?}")),
            (Refused, Ok(_)) => Some(format!("{said}: carried")),
            (Lost, Ok(t)) => {
                (!t.losses.iter().any(|l| self.is_about(&l.path))).then(|| format!("{said}: losses {:?}", t.losses))
            }
            (Here(mark), Ok(t)) => {
                let out = String::from_utf8_lossy(&t.body).into_owned();
                if out.contains(mark) {
                    self.reported(t).then(|| format!("{said}: reported {:?}", t.losses))
                } else {
                    Some(format!("{said}: {mark} is not in {out}"))
                }
            }
            (Silent, Ok(t)) => {
                let approximated = t.losses.iter().any(|l| l.path == self.path && l.action == LossAction::Dropped);
                approximated.then(|| format!("{said}: reported {:?}", t.losses))
            }
        };
        self.faults.extend(fault);
    }

    /// Whether a loss of this path tells of the field: it is the field, a part of it, or what it is a part of.
    fn is_about(&self, path: &str) -> bool {
        let within = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with(['.', '[']));
        path == self.path || within(path, &self.path) || within(&self.path, path)
    }

    fn reported(&self, t: &Translation) -> bool {
        t.losses.iter().any(|l| l.path == self.path)
    }

    fn row(&mut self, key_is_type: bool) {
        let column = table::column(self.source, self.target);
        let fate = column.fate(self.object, self.row);
        let (flags, off) = match fate {
            Fate::If(flag, _) | Fate::Needs(flag, _) => (all_flags(), Some(all_flags().with(flag, false))),
            _ => (all_flags(), None),
        };
        let tries: Vec<(Value, Option<Comes>)> = if key_is_type {
            let (body, _) = typed(self.source, self.object.path, self.row.key).unwrap();
            let comes = match (fate, self.row.key) {
                (Fate::By(_), "reasoning") if self.source == Source::Headrace => Some(Lost),
                (Fate::By(_), "reasoning" | "continuation" | "thinking" | "redacted_thinking" | "hosted_tool") => {
                    Some(Silent)
                }
                (Fate::By(_), _) => Some(Here("mark_er")),
                _ => None,
            };
            vec![(body, comes)]
        } else {
            let (skeleton, at) = skeleton(self.source, self.object.path, self.row.key);
            values(self.source, self.object.path, self.row, fate, self.target)
                .into_iter()
                .map(|(value, comes)| {
                    let mut body = skeleton.clone();
                    body.pointer_mut(at).expect("the skeleton has the object")[self.row.key] = value;
                    (body, comes)
                })
                .collect()
        };
        for (mut body, comes) in tries {
            if self.target == Protocol::BedrockConverse {
                body = request_samples::bedrock::around(&body, &self.path);
            }
            if matches!(self.target, Protocol::CohereChat | Protocol::OllamaChat) {
                body = request_samples::flat::around(&body, &self.path, self.target);
            }
            let text = body.to_string();
            let mark = if text.contains("mark_er") {
                Here("mark_er")
            } else if text.contains("4242") {
                Here("4242")
            } else {
                Silent
            };
            let on = match (fate, comes) {
                (Fate::Drop(_) | Fate::Near(_), _) => Lost,
                (Fate::Refuse(_), _) => Refused,
                (Fate::By(what), None) => {
                    self.faults.push(format!("{}: no value for what goes by its value: {what}", self.path));
                    continue;
                }
                (_, Some(comes)) => comes,
                (Fate::Ours(_), None) => Silent,
                (_, None) => mark,
            };
            self.check(&body, on, flags);
            if let Some(off) = off {
                self.check(&body, if matches!(fate, Fate::If(..)) { Lost } else { Refused }, off);
            }
        }
    }
}

#[test]
fn every_field_is_carried_reported_or_refused_as_its_row_says() {
    let mut faults = Vec::new();
    let mut rows = 0;
    for &source in SOURCES {
        for &target in TARGETS {
            let passes = target == Protocol::BedrockInvoke && source == Source::Protocol(Protocol::AnthropicMessages);
            if source == Source::Protocol(target) || passes {
                continue;
            }
            for object in table::objects(source) {
                for row in object.rows {
                    let is_type = typed(source, object.path, row.key).is_some();
                    let path = match (object.path, is_type) {
                        (path, true) => format!("{path}:{}", row.key),
                        ("", false) => row.key.to_owned(),
                        (path, false) => format!("{path}.{}", row.key),
                    };
                    let mut trial = Trial { source, target, object, row, path, faults: Vec::new() };
                    trial.row(is_type);
                    faults.append(&mut trial.faults);
                    rows += 1;
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} of {rows} rows:\n{}", faults.len(), faults.join("\n"));
    assert!(rows > 500, "{rows}");
}

#[test]
fn a_field_that_no_table_knows_is_reported_by_a_short_safe_path() {
    let body = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "vendor": {"a": 1}}]}],
        "a secret value\r\nx-injected: 1": true, "empty": [], "none": null});
    for target in [Protocol::OpenaiResponses, Protocol::AnthropicMessages] {
        let out = run(&body, SOURCES[0], target, TargetFlags::default()).unwrap();
        let mut paths: Vec<&str> = out.losses.iter().map(|l| l.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["a?secret?value??x-injected:?1", "messages[].content[].vendor"]);
        assert!(!String::from_utf8_lossy(&out.body).contains("vendor"));
    }
}

#[test]
fn the_report_is_bounded() {
    let many: Vec<String> = (0..10_000).map(|n| format!("\"k{n}\":1")).collect();
    let body = format!("{{{},\"messages\":[]}}", many.join(","));
    let spec = TranslateSpec {
        source: SOURCES[0],
        target: Protocol::AnthropicMessages,
        model: "m",
        provider: None,
        edits: &[],
        target_flags: TargetFlags::default(),
    };
    let out = translate(body.as_bytes(), &spec).unwrap();
    assert_eq!(out.losses.len(), 129);
    assert_eq!(out.losses.last().unwrap().path, "...");
}

#[test]
fn the_table_of_a_pair_can_be_printed() {
    for &source in SOURCES {
        for &target in TARGETS {
            let rows: Vec<(String, Fate)> = table::rows(source, target).collect();
            let mut paths: Vec<&String> = rows.iter().map(|(p, _)| p).collect();
            paths.sort();
            paths.dedup();
            assert_eq!(paths.len(), rows.len(), "a path stands twice");
        }
    }
}
