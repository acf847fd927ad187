//! How answers are known that come as messages of their own.

use super::{Compiler, has};
use crate::plan::{AnswerName, AnswerPlan, AnswerTypes, CapturedName, Piece, Protocol, Template};
use crate::profiles::roles::{Answer, Word};

/// What may stand in the name of a device's message, and in the topic where its answers come; and in those of a query.
const OF_DEVICE: (&[&str], &[&str]) = (&["run", "device", "sequence"], &["run", "device"]);
const OF_QUERY: (&[&str], &[&str]) = (&["run", "sequence"], &["run", "querier"]);

impl Compiler<'_> {
    /// The answers to the messages of a device or a querier, where they are awaited; else what refuses some of them.
    pub(super) fn answer(
        &mut self,
        answer: &Answer,
        (path, protocol): (&str, Protocol),
        are_awaited: bool,
    ) -> Option<AnswerPlan> {
        let (in_names, in_topics) = if path.starts_with("querier") { OF_QUERY } else { OF_DEVICE };
        if !matches!(protocol, Protocol::Mqtt | Protocol::WebSocket) {
            let help = "remove it: the answer to a request is awaited by itself".to_owned();
            self.error(path, format!("{protocol} has answers of its own"), help);
        }
        let whose =
            if in_topics == OF_QUERY.1 { ", with `{querier}` in it" } else { ", with `{device}` in it" };
        let topic_path = format!("{path}.topic");
        self.check_answer_topic(answer, protocol, (&topic_path, whose));
        if protocol == Protocol::Mqtt && answer.of_type.is_some() {
            let help = "remove it, and write `id` and `is`".to_owned();
            self.error(&format!("{path}.type"), "answers over MQTT are known by their names", help);
        }
        let mut name = self.name(answer, in_names, path, None);
        if let Some(name) = &mut name
            && name.prefix.pieces.pop() != Some(Piece::Sequence)
        {
            let help = "write it such as `{run}-{device}-{sequence}`".to_owned();
            self.error(&format!("{path}.is"), "the name of a request must end with `{sequence}`", help);
        }
        let types = self.types(answer, path);
        if name.is_none() && types.is_none() && answer.id.is_none() {
            let help = "write `id` and `is`, or `type` and `types`".to_owned();
            self.error(path, "it is not said which messages are answers", help);
        }
        if are_awaited && types.as_ref().is_some_and(|types| types.answers.is_empty()) {
            let help = "write `types`, too, or `answered: false` in `websocket`".to_owned();
            self.error(&format!("{path}.types"), "no message would be an answer", help);
        }
        let topic = answer.topic.as_ref().map(|topic| self.plain(topic, in_topics, &topic_path));
        let is_of_querier = |topic: &Template| topic.has(&|piece| *piece == Piece::Querier);
        if in_topics == OF_QUERY.1 && topic.as_ref().is_some_and(|topic| !is_of_querier(topic)) {
            let help = "write it such as `answers/{run}/{querier}`".to_owned();
            self.error(&topic_path, "queriers with one topic would read each other's answers", help);
        }
        topic.iter().for_each(|topic| self.check_topic(topic, &topic_path));
        let expect = answer.expect.iter().map(Word::text).collect();
        Some(AnswerPlan { topic, name, types, status: answer.status.clone(), expect })
    }

    /// The answer to a message that is said once: with which a connection begins, or of a step.
    pub(super) fn answer_of_one(
        &mut self,
        answer: &Answer,
        (path, protocol): (&str, Protocol),
        variables: &[&str],
        captured: &[CapturedName],
    ) -> AnswerPlan {
        let path = format!("{path}.answer");
        let topic_path = format!("{path}.topic");
        self.check_answer_topic(answer, protocol, (&topic_path, ""));
        let topic = answer.topic.as_ref();
        let topic = topic.map(|topic| self.template(topic, variables, &topic_path, captured));
        topic.iter().for_each(|topic| self.check_topic(topic, &topic_path));
        // Each of these would be another one in the message.
        let fixed = |name: &&str| !["random", "time"].contains(name);
        let in_names: Vec<&str> = variables.iter().copied().filter(fixed).collect();
        let name = self.name(answer, &in_names, &path, Some(captured));
        let types = self.types(answer, &path);
        if answer.id.is_none() && answer.is.is_none() && types.is_none() {
            let help = "write `id` and `is`, or `type` and `types`".to_owned();
            self.error(&path, "it is not said which messages are answers", help);
        }
        if types.as_ref().is_some_and(|types| types.answers.is_empty()) {
            let help = "write `types`, too".to_owned();
            self.error(&format!("{path}.types"), "no message would be an answer", help);
        }
        let expect = answer.expect.iter().map(Word::text).collect();
        AnswerPlan { topic, name, types, status: answer.status.clone(), expect }
    }

    /// Whether answers have a topic where, and only where, their protocol has topics.
    fn check_answer_topic(&mut self, answer: &Answer, protocol: Protocol, (path, whose): (&str, &str)) {
        match (&answer.topic, protocol) {
            (None, Protocol::Mqtt) => {
                let help = format!("write the topic at which they come{whose}");
                self.error(path, "answers over MQTT come at a topic", help);
            }
            (Some(_), Protocol::WebSocket) => {
                let help = "remove it: they come over the connection of the message".to_owned();
                self.error(path, "answers over WebSocket have no topic", help);
            }
            _ => {}
        }
    }

    /// A text of these variables alone: the answer to it is known before anything is captured.
    pub(super) fn plain(&mut self, text: &str, variables: &[&str], path: &str) -> Template {
        Template::compile(&self.fill(text), variables).unwrap_or_else(|error| {
            self.error(path, error.message, error.help);
            Template::default()
        })
    }

    /// A topic that something is published to has no wildcards.
    pub(super) fn check_topic(&mut self, topic: &Template, path: &str) {
        if topic.pieces.is_empty() || has(topic, |c| matches!(c, '+' | '#' | '\0')) {
            let help = "write one topic; look at the values of variables, too".to_owned();
            self.error(path, "this is no topic that something is published to", help);
        }
    }

    /// Which messages answer, by their types.
    fn types(&mut self, answer: &Answer, path: &str) -> Option<AnswerTypes> {
        let pointers = [("id", &answer.id), ("type", &answer.of_type), ("status", &answer.status)];
        for (key, pointer) in pointers {
            if pointer.as_ref().is_some_and(|pointer| !pointer.starts_with('/')) {
                self.error(&format!("{path}.{key}"), "a JSON pointer begins with a slash", String::new());
            }
        }
        if answer.of_type.is_none() && !(answer.types.is_empty() && answer.refusals.is_empty()) {
            let help = "write `type: /0`, or where it stands".to_owned();
            self.error(&format!("{path}.type"), "it is not said where the type of a message stands", help);
        }
        if answer.status.is_none() && !answer.expect.is_empty() {
            let help = "write `status: /status`, or where it stands".to_owned();
            self.error(&format!("{path}.status"), "it is not said where the status stands", help);
        }
        if let Some(both) = answer.types.iter().find(|name| answer.refusals.contains(name)) {
            let help = "keep it in one of `types` and `refusals`".to_owned();
            self.error(&format!("{path}.refusals"), format!("`{both}` cannot both answer and refuse"), help);
        }
        let (answers, refusals) = (answer.types.clone(), answer.refusals.clone());
        answer.of_type.clone().map(|pointer| AnswerTypes { pointer, answers, refusals })
    }

    /// What an answer repeats.
    fn name(
        &mut self,
        answer: &Answer,
        variables: &[&str],
        path: &str,
        captured: Option<&[CapturedName]>,
    ) -> Option<AnswerName> {
        let (pointer, is) = match (&answer.id, &answer.is) {
            (Some(pointer), Some(is)) => (pointer.clone(), is),
            (None, None) => return None,
            (Some(_), None) => {
                let help = "write it such as `is: '{run}-{device}-{sequence}'`".to_owned();
                self.error(&format!("{path}.is"), "it is not said which name an answer repeats", help);
                return None;
            }
            (None, Some(_)) => {
                let help = "write `id: /requestId`, or where it stands".to_owned();
                self.error(&format!("{path}.id"), "it is not said where an answer has the name", help);
                return None;
            }
        };
        let path = format!("{path}.is");
        let prefix = match captured {
            Some(captured) => self.template(is, variables, &path, captured),
            None => self.plain(is, variables, &path),
        };
        Some(AnswerName { pointer, prefix })
    }
}
