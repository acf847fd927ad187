//! One connection of a client: commands in, answers out, in their order.

use plimsoll_codec::mongodb::bson::Document;
use plimsoll_codec::mongodb::{Body, Malformed, Message, length};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long a client may be silent, and how long it may take to read: drivers keep connections that they do not use.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Bytes read at once.
const READ_SIZE: usize = 64 * 1024;

/// Answers a client until it leaves.
///
/// # Errors
/// The connection is lost, or the client breaks the protocol.
pub fn answer_all(
    mut stream: &TcpStream,
    mut answer: impl FnMut(Document) -> Document,
) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut kept, mut scratch, mut out) = (Vec::new(), vec![0; READ_SIZE], Vec::new());
    let mut number = 0i32;
    loop {
        while let Some(message) =
            take(&mut kept).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))?
        {
            number = number.wrapping_add(1);
            let body = match message.body {
                Body::Message { document, is_silent } => {
                    let document = answer(document);
                    if is_silent {
                        continue;
                    }
                    Body::Message { document, is_silent: false }
                }
                Body::Query { document, .. } => Body::Reply(vec![answer(document)]),
                Body::Reply(_) => return Err(ErrorKind::InvalidData.into()),
            };
            Message { number, answers: message.number, body }.write(&mut out);
            stream.write_all(&out)?;
            out.clear();
        }
        match stream.read(&mut scratch) {
            Ok(0) => return Ok(()),
            Ok(count) => kept.extend_from_slice(scratch.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Takes the first message out of what has come, if it is whole.
pub(super) fn take(kept: &mut Vec<u8>) -> Result<Option<Message>, Malformed> {
    let Some(length) = length(kept)?.filter(|length| *length <= kept.len()) else { return Ok(None) };
    let message = Message::read(kept.get(..length).unwrap_or_default());
    kept.drain(..length);
    message.map(Some)
}
