//! Platforms that answer a message by a message of their own: which message an answer belongs to, and what it says.

use crate::driver::Event;
use plimsoll_codec::hiding::cut;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::Variables;
use plimsoll_scenario::plan::{AnswerPlan, Plan, Template};
use serde_json::Value;

/// Characters of a status that are shown.
const LONGEST_STATUS: usize = 100;

/// Reads the answers of a run.
pub struct Answers {
    plan: AnswerPlan,
    run: String,
    name: Vec<u8>,
}

impl Answers {
    /// Of a run; `None` where the protocol's acknowledgements are all that is awaited.
    pub fn of(plan: &Plan, run: RunId) -> Option<Answers> {
        let answer = plan.platform.roles.device.answer.clone()?;
        Some(Answers { plan: answer, run: run.to_string(), name: Vec::new() })
    }

    /// Where a device awaits its answers.
    pub fn topic(plan: &Plan, run: RunId, device: u32) -> Option<String> {
        let answer = plan.platform.roles.device.answer.as_ref()?;
        let mut topic = Vec::new();
        render(&answer.topic, &run.to_string(), device, &mut topic);
        Some(String::from_utf8_lossy(&topic).into_owned())
    }

    /// What an answer to a device means; `None` for one to nothing that this device asked in this run.
    pub fn read(&mut self, device: u32, payload: &[u8], at: Nanos) -> Option<Event> {
        let json: Value = serde_json::from_slice(payload).ok()?;
        let name = json.pointer(&self.plan.id)?.as_str()?;
        self.name.clear();
        render(&self.plan.prefix, &self.run, device, &mut self.name);
        let sequence = name.as_bytes().strip_prefix(self.name.as_slice())?;
        let sequence: u32 = str::from_utf8(sequence).ok()?.parse().ok()?;
        let status = self.plan.status.as_ref().and_then(|pointer| json.pointer(pointer));
        let number = status.and_then(|status| status.as_u64().or_else(|| status.as_str()?.parse().ok()));
        let success = self.plan.expect.is_empty() || number.is_some_and(|it| self.plan.expect.contains(&it));
        Some(if success {
            Event::Acknowledged { device, sequence, at }
        } else {
            let status = status.map(Value::to_string).unwrap_or_else(|| "without a status".into());
            let status = cut(&status, LONGEST_STATUS);
            Event::Refused { device, sequence, at, reason: format!("the platform answered {status}") }
        })
    }
}

fn render(template: &Template, run: &str, device: u32, out: &mut Vec<u8>) {
    template.render(&Variables { run, device, ..Variables::default() }, &mut || 0, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::plan::Piece;

    #[test]
    fn an_answer_names_its_request() {
        let text = |text: &str| Piece::Text(text.into());
        let plan = AnswerPlan {
            topic: Template { pieces: vec![text("a/"), Piece::Device] },
            id: "/rqi".into(),
            prefix: Template { pieces: vec![Piece::Run, text("-"), Piece::Device, text("-")] },
            status: Some("/rsc".into()),
            expect: vec![2001],
        };
        let mut answers = Answers { plan, run: "r".into(), name: Vec::new() };
        let mut read = |payload: &str| answers.read(7, payload.as_bytes(), Nanos(5));
        let acknowledged = Some(Event::Acknowledged { device: 7, sequence: 42, at: Nanos(5) });
        assert_eq!(read(r#"{"rqi":"r-7-42","rsc":2001}"#), acknowledged);
        assert_eq!(read(r#"{"rqi":"r-7-42","rsc":"2001"}"#), acknowledged);
        let reason = "the platform answered 5000".to_owned();
        let refused = Some(Event::Refused { device: 7, sequence: 42, at: Nanos(5), reason });
        assert_eq!(read(r#"{"rqi":"r-7-42","rsc":5000}"#), refused);
        for foreign in [r#"{"rqi":"r-70-42"}"#, r#"{"rqi":"r-7-x"}"#, r#"{"rqi":7}"#, "{}", "x", ""] {
            assert_eq!(read(foreign), None, "{foreign}");
        }
    }
}
