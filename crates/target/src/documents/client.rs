//! A client of a document store, on one connection.

use super::connection::take;
use plimsoll_codec::mongodb::bson::Document;
use plimsoll_codec::mongodb::{Body, Message};
use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a store may take to accept a connection, and to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes read at once.
const READ_SIZE: usize = 64 * 1024;

/// A connection to a store.
pub struct Client {
    stream: TcpStream,
    kept: Vec<u8>,
    scratch: Vec<u8>,
    number: i32,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(address: SocketAddr) -> std::io::Result<Client> {
        Client::connect_within(address, PATIENCE)
    }

    /// Connects. `patience`: how long the store may take to accept the connection, and for anything after that.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect_within(address: SocketAddr, patience: Duration) -> std::io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Client { stream, kept: Vec::new(), scratch: vec![0; READ_SIZE], number: 0 })
    }

    /// Sends a command, whose answer [`Client::receive`] gives.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn send(&mut self, command: Document) -> std::io::Result<()> {
        self.number = self.number.wrapping_add(1);
        let body = Body::Message { document: command, is_silent: false };
        let mut out = Vec::new();
        Message { number: self.number, answers: 0, body }.write(&mut out);
        self.stream.write_all(&out)
    }

    /// The answer to the last command.
    ///
    /// # Errors
    /// The connection is lost, or what comes is no answer to it.
    pub fn receive(&mut self) -> std::io::Result<Document> {
        let broken = |error: String| Error::new(ErrorKind::InvalidData, error);
        loop {
            match take(&mut self.kept).map_err(|error| broken(error.to_string()))? {
                Some(Message { answers, body: Body::Message { document, .. }, .. })
                    if answers == self.number =>
                {
                    return Ok(document);
                }
                Some(_) => return Err(broken("an answer to another command".into())),
                None => {}
            }
            match self.stream.read(&mut self.scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.kept.extend_from_slice(self.scratch.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a command and awaits its answer.
    ///
    /// # Errors
    /// See [`Client::send`] and [`Client::receive`].
    pub fn ask(&mut self, command: Document) -> std::io::Result<Document> {
        self.send(command)?;
        self.receive()
    }
}
