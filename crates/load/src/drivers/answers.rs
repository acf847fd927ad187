//! Platforms that answer a message by a message of their own: which message an answer belongs to, and what it says.

use plimsoll_codec::hiding::cut;
use plimsoll_model::RunId;
use plimsoll_scenario::plan::Variables;
use plimsoll_scenario::plan::{AnswerPlan, Plan, Template};
use serde_json::Value;
use std::borrow::Cow;
use std::iter;

/// Characters of a status that are shown.
const LONGEST_STATUS: usize = 100;

/// Reads the answers of a run.
pub struct Answers {
    plan: AnswerPlan,
    run: String,
    name: Vec<u8>,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of which message of the device.
    pub to: AnswerTo,
    /// Why the platform refuses the message, for people; `None` where it takes it.
    pub refused: Option<String>,
}

/// Which message of a device an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerTo {
    /// The one of that sequence.
    Sequence(u32),
    /// The oldest that is not answered.
    Oldest,
    /// None: its name is that of no message of this device.
    Nothing,
}

impl Answers {
    /// Of a run; `None` where the protocol's acknowledgements are all that is awaited.
    pub fn of(plan: &Plan, run: RunId) -> Option<Answers> {
        Some(Answers::described(plan.platform.roles.device.answer.clone()?, run))
    }

    /// As they are described.
    pub fn described(plan: AnswerPlan, run: RunId) -> Answers {
        Answers { plan, run: run.to_string(), name: Vec::new() }
    }

    /// Where a device awaits its answers; `None` where they come by themselves.
    pub fn topic(plan: &Plan, run: RunId, device: u32) -> Option<String> {
        Self::topic_of(plan.platform.roles.device.answer.as_ref()?, run, device, 0)
    }

    /// Where answers are awaited, to a device or to a querier.
    pub fn topic_of(answer: &AnswerPlan, run: RunId, device: u32, querier: u32) -> Option<String> {
        let (run, mut topic) = (run.to_string(), Vec::new());
        let variables = Variables { run: &run, device, querier, ..Variables::default() };
        answer.topic.as_ref()?.render(&variables, &mut || 0, &mut topic);
        Some(String::from_utf8_lossy(&topic).into_owned())
    }

    /// Whether answers repeat the name of their message, so that their order says nothing.
    pub fn are_named(&self) -> bool {
        self.plan.name.is_some()
    }

    /// What a message to a device says; `None` where it is no answer.
    pub fn read(&mut self, device: u32, payload: &[u8]) -> Option<Answer> {
        let json: Value = serde_json::from_slice(payload).ok()?;
        let to = match &self.plan.name {
            Some(name) => {
                let repeated = word(json.pointer(&name.pointer).filter(|name| !name.is_null())?);
                self.name.clear();
                render(&name.prefix, &self.run, device, &mut self.name);
                let sequence = repeated.as_bytes().strip_prefix(self.name.as_slice());
                let sequence = sequence.and_then(|own| str::from_utf8(own).ok()?.parse().ok());
                sequence.map_or(AnswerTo::Nothing, AnswerTo::Sequence)
            }
            None => AnswerTo::Oldest,
        };
        // Requests of a platform may have names as well, and no status.
        let has_status = || self.plan.status.as_ref().is_some_and(|pointer| json.pointer(pointer).is_some());
        if to == AnswerTo::Nothing && !has_status() {
            return None;
        }
        let refused = verdict(&self.plan, &json)?;
        Some(Answer { to, refused })
    }
}

/// What a message says by type and status: why the platform refuses, for people, or `None` in there where it takes it; `None` for
/// a message of a type that answers nothing.
pub fn verdict(plan: &AnswerPlan, json: &Value) -> Option<Option<String>> {
    let status = plan.status.as_ref().and_then(|pointer| json.pointer(pointer));
    if let Some(types) = &plan.types {
        let of_it = json.pointer(&types.pointer).map(word)?;
        if types.refusals.iter().any(|refusal| *refusal == of_it) {
            let status =
                status.map(|status| format!("status {}: ", cut(&status.to_string(), LONGEST_STATUS)));
            let words = cut(&json.to_string(), LONGEST_STATUS);
            return Some(Some(format!("the platform answered {}{words}", status.unwrap_or_default())));
        }
        if !types.answers.iter().any(|answer| *answer == of_it) {
            return None;
        }
    }
    let is_wanted = |status: &Value| plan.expect.iter().any(|wanted| *wanted == word(status));
    let is_refused = !plan.expect.is_empty() && !status.is_some_and(is_wanted);
    Some(is_refused.then(|| {
        let status = status.map(Value::to_string).unwrap_or_else(|| "without a status".into());
        format!("the platform answered {}", cut(&status, LONGEST_STATUS))
    }))
}

/// Why the platform refuses something, where a message is of a type that says so by one of these plans; for people.
pub fn refusal<'a>(plans: impl IntoIterator<Item = &'a AnswerPlan>, payload: &[u8]) -> Option<String> {
    let mut refusing =
        plans.into_iter().filter(|plan| plan.types.as_ref().is_some_and(|types| !types.refusals.is_empty()));
    let first = refusing.next()?;
    let json: Value = serde_json::from_slice(payload).ok()?;
    iter::once(first).chain(refusing).find_map(|plan| {
        let types = plan.types.as_ref()?;
        let of_it = json.pointer(&types.pointer).map(word)?;
        let refuses = types.refusals.iter().any(|refusal| *refusal == of_it);
        refuses.then(|| verdict(plan, &json)).flatten().flatten()
    })
}

/// A value as a word: a text as it is, anything else as JSON has it.
pub fn word(value: &Value) -> Cow<'_, str> {
    value.as_str().map_or_else(|| value.to_string().into(), Cow::from)
}

fn render(template: &Template, run: &str, device: u32, out: &mut Vec<u8>) {
    template.render(&Variables { run, device, ..Variables::default() }, &mut || 0, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::plan::{AnswerName, AnswerTypes, Piece};

    fn answers(plan: AnswerPlan) -> Answers {
        Answers { plan, run: "r".into(), name: Vec::new() }
    }

    #[test]
    fn an_answer_names_its_request() {
        let text = |text: &str| Piece::Text(text.into());
        let prefix = Template { pieces: vec![Piece::Run, text("-"), Piece::Device, text("-")] };
        let mut answers = answers(AnswerPlan {
            topic: None,
            name: Some(AnswerName { pointer: "/rqi".into(), prefix }),
            types: None,
            status: Some("/rsc".into()),
            expect: vec!["2001".into(), "success".into()],
        });
        let mut read = |payload: &str| answers.read(7, payload.as_bytes());
        let taken = Some(Answer { to: AnswerTo::Sequence(42), refused: None });
        assert_eq!(read(r#"{"rqi":"r-7-42","rsc":2001}"#), taken);
        assert_eq!(read(r#"{"rqi":"r-7-42","rsc":"2001"}"#), taken);
        assert_eq!(read(r#"{"rqi":"r-7-42","rsc":"success"}"#), taken);
        let refused =
            |reason: &str| Some(Answer { to: AnswerTo::Sequence(42), refused: Some(reason.into()) });
        assert_eq!(read(r#"{"rqi":"r-7-42","rsc":5000}"#), refused("the platform answered 5000"));
        assert_eq!(read(r#"{"rqi":"r-7-42"}"#), refused("the platform answered without a status"));
        for foreign in ["r-70-42", "r-7-x", "7", ""] {
            let read = read(&format!(r#"{{"rqi":"{foreign}","rsc":2001}}"#));
            assert_eq!(read.map(|answer| answer.to), Some(AnswerTo::Nothing), "{foreign}");
        }
        for no_answer in [r#"{"rqi":"r-70-42","op":5}"#, r#"{"rsc":2001}"#, "{}", "x", ""] {
            assert_eq!(read(no_answer), None, "{no_answer}");
        }
    }

    #[test]
    fn a_name_may_be_a_number() {
        let plan = AnswerPlan {
            topic: None,
            name: Some(AnswerName { pointer: "/id".into(), prefix: Template { pieces: Vec::new() } }),
            types: None,
            status: None,
            expect: Vec::new(),
        };
        let read = answers(plan).read(7, br#"{"id":42,"result":"ok"}"#);
        assert_eq!(read, Some(Answer { to: AnswerTo::Sequence(42), refused: None }));
    }

    #[test]
    fn an_answer_without_a_name_is_known_by_its_type() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let mut answers = answers(AnswerPlan {
            topic: None,
            name: None,
            types: Some(AnswerTypes {
                pointer: "/0".into(),
                answers: words(&["done"]),
                refusals: words(&["error"]),
            }),
            status: Some("/1/status".into()),
            expect: Vec::new(),
        });
        let mut read = |payload: &str| answers.read(7, payload.as_bytes());
        assert_eq!(read(r#"["done",{}]"#), Some(Answer { to: AnswerTo::Oldest, refused: None }));
        let refused = read(r#"["error",{"status":429}]"#).unwrap();
        assert_eq!(refused.refused.unwrap(), r#"the platform answered status 429: ["error",{"status":429}]"#);
        for push in [r#"["message",{}]"#, "[]", "{}", "done"] {
            assert_eq!(read(push), None, "{push}");
        }
    }
}
