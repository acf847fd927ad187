//! Subscribers that are notified over MQTT by a platform that wants an answer: what they publish.

use plimsoll_model::RunId;
use plimsoll_scenario::plan::Variables;
use plimsoll_scenario::plan::{NotificationAnswerPlan, Plan};
use serde_json::Value;

/// Answers the notifications of a run.
pub struct Notified {
    plan: NotificationAnswerPlan,
    run: String,
    topic: Vec<u8>,
    payload: Vec<u8>,
}

impl Notified {
    /// Of a run; `None` where notifications are not answered.
    pub fn of(plan: &Plan, run: RunId) -> Option<Notified> {
        let answer = plan.platform.roles.notified.as_ref()?.answer.clone()?;
        Some(Notified { plan: answer, run: run.to_string(), topic: Vec::new(), payload: Vec::new() })
    }

    /// Topic and payload of a subscriber's answer to a notification; `None` for one without a name.
    pub fn answer(&mut self, subscriber: u32, notification: &[u8]) -> Option<(&[u8], &[u8])> {
        let json: Value = serde_json::from_slice(notification).ok()?;
        let id = match json.pointer(&self.plan.id)? {
            Value::String(id) => id.clone(),
            Value::Number(id) => id.to_string(),
            _ => return None,
        };
        let variables = Variables { run: &self.run, subscriber, id: &id, ..Variables::default() };
        for (template, out) in [(&self.plan.topic, &mut self.topic), (&self.plan.payload, &mut self.payload)]
        {
            out.clear();
            template.render(&variables, &mut || 0, out);
        }
        Some((&self.topic, &self.payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::plan::{Piece, Template};

    #[test]
    fn an_answer_names_its_notification() {
        let text = |text: &str| Piece::Text(text.into());
        let plan = NotificationAnswerPlan {
            topic: Template { pieces: vec![text("resp/"), Piece::Run, text("/"), Piece::Subscriber] },
            payload: Template { pieces: vec![text("{\"rqi\":\""), Piece::Id, text("\"}")] },
            id: "/a/rqi".into(),
        };
        let mut notified = Notified { plan, run: "r".into(), topic: Vec::new(), payload: Vec::new() };
        let mut answer = |notification: &str| {
            let (topic, payload) = notified.answer(7, notification.as_bytes())?;
            Some([topic, payload].map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
        };
        let expected = |payload: &str| Some(["resp/r/7".to_owned(), payload.to_owned()]);
        assert_eq!(answer(r#"{"a":{"rqi":"x1"},"pc":{}}"#), expected(r#"{"rqi":"x1"}"#));
        assert_eq!(answer(r#"{"a":{"rqi":12}}"#), expected(r#"{"rqi":"12"}"#));
        // A name cannot break out of the text that it stands in.
        assert_eq!(answer(r#"{"a":{"rqi":"x\",\"y\\"}}"#), expected(r#"{"rqi":"x\",\"y\\"}"#));
        for nameless in [r#"{"a":{"rqi":null}}"#, r#"{"rqi":"x"}"#, "{}", "x", ""] {
            assert_eq!(answer(nameless), None, "{nameless}");
        }
    }
}
