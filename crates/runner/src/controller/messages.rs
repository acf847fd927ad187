//! Messages in the place of requests: what is said, and which message is its answer.

use super::{Unanswered, lock};
use plimsoll_load::drivers::answers::{verdict, word};
use plimsoll_scenario::plan::AnswerPlan;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Mutex;

/// A message as it goes out.
pub(super) struct Said {
    /// Where it goes, for people.
    pub place: String,
    /// Where it is published over MQTT; `None` over WebSocket.
    pub topic: Option<String>,
    /// What is said.
    pub content: Vec<u8>,
    /// Its answer; `None` where none is awaited.
    pub answer: Option<Awaited>,
}

/// An answer that is awaited.
pub(super) struct Awaited {
    pub plan: AnswerPlan,
    /// Where it comes over MQTT.
    pub topic: String,
    /// The name that it repeats; empty where it repeats none.
    pub name: Vec<u8>,
}

impl Awaited {
    /// What a message that came says of ours: that the platform takes it, or why not, for people. `None` where it is another message.
    pub fn read(&self, content: &[u8]) -> Option<Verdict> {
        let json: Value = serde_json::from_slice(content).ok()?;
        if let Some(name) = &self.plan.name
            && word(json.pointer(&name.pointer)?).as_bytes() != self.name
        {
            return None;
        }
        let refused = verdict(&self.plan, &json)?;
        Some(refused.map_or(Verdict::Taken, Verdict::Refused))
    }
}

/// What became of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The platform takes it.
    Taken,
    /// It does not: why, for people.
    Refused(String),
}

/// Where messages go.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub address: SocketAddr,
    /// Name of the port; `None` for that of the devices.
    pub port: Option<&'a str>,
}

/// What became of a message, and what was said of it, where anything was.
pub(super) type Heard = (Verdict, Vec<u8>);

/// What the controller says of itself over the connections of its messages.
#[derive(Default)]
pub(super) struct Door {
    /// Header fields of the request for a WebSocket.
    pub headers: String,
    /// What lets it in over Socket.IO; `None` where that is not spoken.
    pub auth: Option<Vec<u8>>,
    /// What it says at first over a WebSocket.
    pub opening: Vec<Said>,
    /// The user over MQTT; `None` for the scenario's.
    pub user: Option<(String, Option<Vec<u8>>)>,
}

/// Connections that nobody uses at present.
pub(super) struct Idle<T>(Mutex<Vec<T>>);

impl<T> Default for Idle<T> {
    fn default() -> Idle<T> {
        Idle(Mutex::default())
    }
}

impl<T> Idle<T> {
    /// Uses one that fits, else a new one; one over which something went wrong is closed. `None` where the user stops the run before.
    pub fn with<R>(
        &self,
        fits: impl Fn(&mut T) -> bool,
        open: impl FnOnce() -> Result<Option<T>, Unanswered>,
        work: impl FnOnce(&mut T) -> Result<Option<R>, Unanswered>,
    ) -> Result<Option<R>, Unanswered> {
        let mut kept = std::iter::from_fn(|| lock(&self.0).pop());
        let kept = kept.find_map(|mut kept| fits(&mut kept).then_some(kept));
        let opened = kept.map_or_else(open, |kept| Ok(Some(kept)))?;
        let Some(mut connection) = opened else { return Ok(None) };
        let done = work(&mut connection)?;
        if done.is_some() {
            lock(&self.0).push(connection);
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::plan::{AnswerName, Template};

    fn awaited(name: Option<&str>, expect: &[&str]) -> Awaited {
        let pointer = |_| AnswerName { pointer: "/requestId".into(), prefix: Template::default() };
        let plan = AnswerPlan {
            topic: None,
            name: name.map(pointer),
            types: None,
            status: Some("/status".into()),
            expect: expect.iter().map(|word| (*word).to_owned()).collect(),
        };
        Awaited { plan, topic: String::new(), name: name.unwrap_or_default().into() }
    }

    #[test]
    fn an_answer_is_known_by_its_name_and_says_whether_the_platform_takes_it() {
        let save = awaited(Some("save-7"), &["success"]);
        assert_eq!(save.read(br#"{"requestId":"save-7","status":"success"}"#), Some(Verdict::Taken));
        let refused = save.read(br#"{"requestId":"save-7","status":"error"}"#);
        assert_eq!(refused, Some(Verdict::Refused("the platform answered \"error\"".into())));
        for other in [&br#"{"requestId":"save-70","status":"success"}"#[..], b"{}", b"[]", b"x", b"\xff"] {
            assert_eq!(save.read(other), None);
        }
    }

    #[test]
    fn a_connection_is_used_again_unless_something_went_wrong() {
        let idle: Idle<u32> = Idle::default();
        let number = |work: Result<Option<()>, &str>| {
            let mut used = 0;
            let done = idle.with(
                |kept| *kept < 3,
                || Ok(Some(lock(&idle.0).len() as u32 + 1)),
                |connection| {
                    used = *connection;
                    *connection += 1;
                    work.map_err(|cause| Unanswered::at(true)(&cause))
                },
            );
            (used, done.is_ok())
        };
        assert_eq!(number(Ok(Some(()))), (1, true));
        assert_eq!(number(Ok(Some(()))), (2, true), "it is the same one");
        assert_eq!(number(Ok(Some(()))), (1, true), "the one that fits no more is closed");
        assert_eq!(number(Err("lost")), (2, false));
        assert_eq!(number(Ok(None)), (1, true), "a lost one is not used again");
        assert_eq!(number(Ok(Some(()))), (1, true), "nor is one that was given up");
    }
}
