//! Calls between test manager, devices and gateway, as in work E: `{"name", "args"}` is answered by `{"result"}` or by
//! `{"error": {"name", "args"}}`. One JSON object stands on a line; objects of others may follow each other without one.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The longest call or answer, bytes.
pub const LONGEST: usize = 1 << 20;
/// How long a caller waits before it looks whether its call was given up.
const LOOK: Duration = Duration::from_millis(200);

/// A call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Of the function.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<Value>,
}

impl Call {
    /// A call, as it goes over the wire.
    pub fn line(name: &str, args: Vec<Value>) -> Vec<u8> {
        line(&Call { name: name.to_owned(), args })
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// What the function returned.
    Result(Value),
    /// What it raised.
    Error(Raised),
}

impl Answer {
    /// As it goes over the wire.
    pub fn line(&self) -> Vec<u8> {
        line(self)
    }

    /// An error of that kind.
    pub fn error(name: &str, message: impl Into<String>) -> Answer {
        Answer::Error(Raised { name: name.to_owned(), args: vec![Value::String(message.into())] })
    }
}

/// An error that the other side raised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Raised {
    /// Its kind.
    pub name: String,
    /// What it was made with.
    #[serde(default)]
    pub args: Vec<Value>,
}

fn line(message: &impl Serialize) -> Vec<u8> {
    // Neither type can fail: they hold strings and JSON values alone.
    let mut bytes = serde_json::to_vec(message).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The connection.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The other side closed before the answer was whole.
    #[error("the connection was closed before the answer was whole")]
    Closed,
    /// No answer came in time.
    #[error("there was no answer within {0:?}")]
    Late(Duration),
    /// What came is no answer.
    #[error("the answer is no answer: {0}")]
    Malformed(String),
    /// The function raised an error.
    #[error("{} was raised: {}", .0.name, Value::Array(.0.args.clone()))]
    Raised(Raised),
}

/// Puts JSON objects together from the pieces in which they arrive.
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
}

impl Messages {
    /// More has come.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that are part of no object yet.
    pub fn waiting(&self) -> usize {
        self.bytes.trim_ascii().len()
    }

    /// The next whole object, `None` where it is not whole yet. What is no JSON, or longer than [`LONGEST`], is an error
    /// that says so.
    pub fn take<T: for<'a> Deserialize<'a>>(&mut self) -> Result<Option<T>, String> {
        let mut stream = serde_json::Deserializer::from_slice(&self.bytes).into_iter::<T>();
        match stream.next() {
            None => {
                self.bytes.clear();
                Ok(None)
            }
            Some(Ok(message)) => {
                let read = stream.byte_offset();
                self.bytes.drain(..read);
                Ok(Some(message))
            }
            Some(Err(error)) if error.is_eof() && self.bytes.len() <= LONGEST => Ok(None),
            Some(Err(error)) if error.is_eof() => Err(format!("it is longer than {LONGEST} bytes")),
            Some(Err(error)) => Err(error.to_string()),
        }
    }
}

/// A connection on which one call follows the other.
#[derive(Debug)]
pub struct Caller {
    stream: TcpStream,
    messages: Messages,
    patience: Duration,
}

impl Caller {
    /// Connects; what takes longer than the patience fails.
    pub fn connect(address: SocketAddr, patience: Duration) -> Result<Caller, CallError> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK.min(patience)))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Caller { stream, messages: Messages::default(), patience })
    }

    /// Where this end is.
    pub fn local_address(&self) -> Result<SocketAddr, CallError> {
        Ok(self.stream.local_addr()?)
    }

    /// Calls and waits for the answer, unless it is given up meanwhile.
    pub fn call(&mut self, line: &[u8], given_up: &dyn Fn() -> bool) -> Result<Value, CallError> {
        self.stream.write_all(line)?;
        let mut buffer = [0; 4096];
        // Most answers come at once: the clock is read only for those that do not.
        let mut begin = None;
        loop {
            if let Some(answer) = self.messages.take().map_err(CallError::Malformed)? {
                return match answer {
                    Answer::Result(value) => Ok(value),
                    Answer::Error(raised) => Err(CallError::Raised(raised)),
                };
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(CallError::Closed),
                Ok(read) => self.messages.add(&buffer[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    let begin = begin.get_or_insert_with(|| Instant::now() - LOOK);
                    if given_up() || begin.elapsed() >= self.patience {
                        return Err(CallError::Late(self.patience));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The first address of `HOST:PORT`.
pub fn resolve(address: &str) -> Result<SocketAddr, CallError> {
    let mut all = address.to_socket_addrs()?;
    all.next().ok_or_else(|| CallError::Malformed(format!("{address} has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn calls_look_as_in_the_work() {
        assert_eq!(Call::line("hostnames", vec![]), b"{\"name\":\"hostnames\",\"args\":[]}\n");
        assert_eq!(Answer::Result(json!([5000, 5001])).line(), b"{\"result\":[5000,5001]}\n");
        let error = Answer::error("AttributeError", "The API-function is not available.");
        assert_eq!(
            error.line(),
            b"{\"error\":{\"name\":\"AttributeError\",\"args\":[\"The API-function is not available.\"]}}\n"
        );
    }

    #[test]
    fn objects_without_lines_and_in_pieces_are_read() {
        let mut messages = Messages::default();
        messages.add(b"{\"result\":1}{\"resu");
        assert_eq!(messages.take(), Ok(Some(Answer::Result(json!(1)))));
        assert_eq!(messages.take::<Answer>(), Ok(None));
        messages.add(b"lt\":\"x\"}\n\n {\"error\":{\"name\":\"E\"}}");
        assert_eq!(messages.take(), Ok(Some(Answer::Result(json!("x")))));
        assert_eq!(messages.take(), Ok(Some(Answer::Error(Raised { name: "E".into(), args: vec![] }))));
        assert_eq!(messages.take::<Answer>(), Ok(None));
        messages.add(b"GET / HTTP/1.1\r\n");
        assert!(messages.take::<Answer>().is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_object_an_error_or_not_whole(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut messages = Messages::default();
            for byte in bytes {
                messages.add(&[byte]);
                if messages.take::<Answer>().is_err() {
                    break;
                }
            }
        }
    }
}
