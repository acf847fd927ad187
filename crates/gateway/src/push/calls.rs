//! Events as calls: `event(name)` is answered by `true` when the event is done.

use super::{LONGEST_NAME, PATIENCE, Reply, Said, Session, is_name};
use crate::calls::{Answer, Call, Messages};
use crate::log::now;
use serde_json::{Value, json};
use std::time::Duration;

/// A session of calls.
#[derive(Debug, Default)]
pub struct Calls {
    messages: Messages,
}

impl Session for Calls {
    fn add(&mut self, bytes: &[u8]) {
        self.messages.add(bytes);
    }

    fn next(&mut self) -> Option<Said> {
        let call = match self.messages.take::<Call>() {
            Ok(call) => call?,
            Err(reason) => {
                let answer = Answer::error("ValueError", reason.clone()).line();
                return Some(Said::Refused(answer, reason));
            }
        };
        Some(match (call.name.as_str(), call.args.as_slice()) {
            ("event", [Value::String(name)]) if is_name(name.as_bytes()) => {
                Said::Event(Some(name.as_str().into()))
            }
            ("event", [Value::Number(number)]) => Said::Event(Some(number.to_string().into())),
            ("event", _) => {
                let wanted =
                    format!("An event has one name of 1 to {LONGEST_NAME} visible characters, no colon.");
                Said::Call(Answer::error("ValueError", wanted).line())
            }
            ("get_timestamp", _) => Said::Call(Answer::Result(json!(now() as f64 / 1e6)).line()),
            _ => Said::Call(Answer::error("AttributeError", "The API-function is not available.").line()),
        })
    }

    fn over(&mut self, is_done: bool) -> Reply {
        let answer = match is_done {
            true => Answer::Result(json!(true)),
            false => Answer::error("OSError", "The work of the event failed."),
        };
        Reply { bytes: answer.line(), is_last: false }
    }

    fn waiting(&self) -> usize {
        self.messages.waiting()
    }

    fn is_begun(&self) -> bool {
        self.messages.waiting() > 0
    }

    fn patience(&self) -> Option<Duration> {
        self.is_begun().then_some(PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_called_and_what_else_is_called_is_answered_at_once() {
        let mut calls = Calls::default();
        calls.add(b"{\"name\":\"event\",\"args\":[\"a-1\"]}\n{\"name\":\"event\",\"args\":[7]}{\"na");
        assert_eq!(calls.next(), Some(Said::Event(Some("a-1".into()))));
        assert_eq!(calls.over(true).bytes, b"{\"result\":true}\n");
        assert_eq!(calls.next(), Some(Said::Event(Some("7".into()))));
        assert!(calls.over(false).bytes.starts_with(b"{\"error\":{\"name\":\"OSError\""));
        assert_eq!(calls.next(), None);
        assert_eq!(calls.patience(), Some(PATIENCE));
        calls.add(b"me\":\"event\",\"args\":[\"a:1\"]}{\"name\":\"status\"}{\"name\":\"get_timestamp\"}\n");
        for expected in ["ValueError", "AttributeError", "result"] {
            let Some(Said::Call(answer)) = calls.next() else { panic!("{expected}") };
            assert!(String::from_utf8(answer).unwrap().contains(expected));
        }
        assert_eq!((calls.next(), calls.patience()), (None, None));
        calls.add(b"GET / HTTP/1.1\r\n");
        assert!(matches!(calls.next(), Some(Said::Refused(..))));
    }
}
