//! Calls between test manager, devices and gateway, as in work E: `{"name", "args"}` is answered by `{"result"}` or by
//! `{"error": {"name", "args"}}`. One JSON object stands on a line; objects of others may follow each other without one.

use crate::received::Received;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The longest call or answer, bytes.
pub const LONGEST: usize = 1 << 20;
/// What is said of an answer without a call.
pub(crate) const UNASKED: &str = "it answers what nobody has asked";
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
    /// The caller did not want it any more.
    #[error("the end was asked for before the answer came")]
    GivenUp,
    /// What came is no answer.
    #[error("the answer is no answer: {0}")]
    Malformed(String),
    /// More came than the answer, which would be taken for the answer to the next call.
    #[error("{UNASKED}")]
    Unasked,
    /// The function raised an error.
    #[error("{} was raised: {}", .0.name, Value::Array(.0.args.clone()))]
    Raised(Raised),
}

/// Puts JSON objects together from the pieces in which they arrive. A byte is looked at once for where its object ends, and
/// once more when that is whole.
#[derive(Debug, Default)]
pub struct Messages {
    /// From the next object on.
    bytes: Received,
    /// White space before it that was passed over.
    spaces: usize,
    /// How far its end was looked for.
    seen: usize,
    scan: Scan,
}

/// What is open where the end of an object is looked for.
#[derive(Debug, Default)]
struct Scan {
    /// Brackets.
    depth: usize,
    /// Whether that is within a text, and behind a backslash.
    in_text: bool,
    escaped: bool,
}

impl Messages {
    /// More has come.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.add(bytes);
    }

    /// Bytes that are held; after [`Messages::take`] none of them is white space between objects.
    pub fn waiting(&self) -> usize {
        self.bytes.rest().len()
    }

    /// The next whole object, `None` where it is not whole yet. What is no JSON, or longer than [`LONGEST`] with the white space
    /// before it, is an error that says so.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, String> {
        if self.seen == 0 {
            self.pass_spaces();
        }
        let rest = self.bytes.rest();
        while let Some(&byte) = rest.get(self.seen) {
            self.seen += 1;
            if self.scan.ends_with(byte) {
                let object = serde_json::from_slice(&rest[..self.seen]);
                self.bytes.take(self.seen);
                (self.seen, self.spaces) = (0, 0);
                self.pass_spaces();
                return object.map(Some).map_err(|error| error.to_string());
            }
        }
        if self.spaces + self.seen > LONGEST {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        Ok(None)
    }

    fn pass_spaces(&mut self) {
        let rest = self.bytes.rest();
        let spaces = rest.len() - rest.trim_ascii_start().len();
        self.spaces += spaces;
        self.bytes.take(spaces);
    }
}

impl Scan {
    /// Looks at one more byte: whether the object ends with it. What is no object ends at once, to be refused.
    fn ends_with(&mut self, byte: u8) -> bool {
        if self.in_text {
            self.in_text = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
        } else {
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.depth == 0 && !self.in_text
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
    /// Connects within that time; calls that take longer than the patience fail.
    pub fn connect(address: SocketAddr, time: Duration, patience: Duration) -> Result<Caller, CallError> {
        let stream = TcpStream::connect_timeout(&address, time)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK.min(patience)))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Caller { stream, messages: Messages::default(), patience })
    }

    /// Where this end is.
    pub fn local_address(&self) -> Result<SocketAddr, CallError> {
        Ok(self.stream.local_addr()?)
    }

    /// Calls and waits for the answer until the patience is at its end, whatever comes meanwhile, or the call is given up. The
    /// end of either is seen with what comes next, or after 0.2 s.
    pub fn call(&mut self, line: &[u8], given_up: &dyn Fn() -> bool) -> Result<Value, CallError> {
        self.stream.write_all(line)?;
        let mut buffer = [0; 4096];
        // Most answers come at once and in one piece: the clock is read only for those that do not.
        let mut begin = None;
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(CallError::Closed),
                Ok(read) => self.messages.add(&buffer[..read]),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(answer) = self.messages.take().map_err(CallError::Malformed)? {
                if self.messages.waiting() > 0 {
                    return Err(CallError::Unasked);
                }
                return match answer {
                    Answer::Result(value) => Ok(value),
                    Answer::Error(raised) => Err(CallError::Raised(raised)),
                };
            }
            if given_up() {
                return Err(CallError::GivenUp);
            }
            if begin.get_or_insert_with(Instant::now).elapsed() >= self.patience {
                return Err(CallError::Late(self.patience));
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

    #[test]
    fn brackets_and_quotes_in_texts_end_nothing() {
        let mut messages = Messages::default();
        for byte in br#" {"result":"}]\"{\\"}{"error":{"name":"[","args":[{}]}}"# {
            assert_eq!(messages.take::<Answer>(), Ok(None));
            messages.add(&[*byte]);
            if messages.bytes.rest().ends_with(br#"\\"}"#) {
                assert_eq!(messages.take(), Ok(Some(Answer::Result(json!(r#"}]"{\"#)))));
            }
        }
        let raised = Raised { name: "[".into(), args: vec![json!({})] };
        assert_eq!(messages.take(), Ok(Some(Answer::Error(raised))));
        assert_eq!((messages.take::<Answer>(), messages.waiting()), (Ok(None), 0));
    }

    /// An object that does not end costs each of its bytes once: 1 MiB of brackets in small pieces, looked for anew with each
    /// piece, would be 16 GiB of them.
    #[test]
    fn an_object_without_end_is_refused_when_it_is_too_long() {
        let mut messages = Messages::default();
        messages.add(b"{\"result\":");
        for _ in 0..LONGEST / 32 {
            messages.add(&[b'['; 32]);
            match messages.take::<Answer>() {
                Ok(None) => {}
                other => return assert!(other.unwrap_err().contains("longer than 1048576")),
            }
        }
        panic!("it was never refused");
    }

    #[test]
    fn white_space_is_passed_over_and_counts_like_the_rest() {
        let mut messages = Messages::default();
        messages.add(b" \n{\"result\":1}\r\n ");
        assert_eq!(messages.take(), Ok(Some(Answer::Result(json!(1)))));
        assert_eq!(messages.waiting(), 0);
        for _ in 1..LONGEST / (1 << 14) {
            messages.add(&[b' '; 1 << 14]);
            // What was not looked at yet is held.
            assert_eq!(messages.waiting(), 1 << 14);
            assert_eq!((messages.take::<Answer>(), messages.waiting()), (Ok(None), 0));
        }
        messages.add(&[b' '; 1 << 14]);
        assert!(messages.take::<Answer>().unwrap_err().contains("longer than 1048576"));
    }

    /// Somebody who accepts a connection and sends a space each 5 ms until the other side has gone.
    fn who_drips() -> (SocketAddr, std::thread::JoinHandle<()>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let dripping = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        (address, dripping)
    }

    #[test]
    fn a_call_has_its_time_whatever_comes_meanwhile_and_can_be_given_up() {
        let call = Call::line("status", vec![]);
        let (address, dripping) = who_drips();
        let mut caller =
            Caller::connect(address, Duration::from_secs(20), Duration::from_millis(100)).unwrap();
        assert!(matches!(caller.call(&call, &|| false), Err(CallError::Late(_))));
        drop(caller);
        dripping.join().unwrap();

        let (address, dripping) = who_drips();
        let mut caller =
            Caller::connect(address, Duration::from_secs(20), Duration::from_secs(3600)).unwrap();
        let looks = std::cell::Cell::new(0);
        let third = || looks.replace(looks.get() + 1) == 2;
        assert!(matches!(caller.call(&call, &third), Err(CallError::GivenUp)));
        drop(caller);
        dripping.join().unwrap();
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
