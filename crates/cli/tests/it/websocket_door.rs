//! WebSocket servers made of an independent implementation: a door before a broker that speaks TCP, which cuts and joins
//! what the broker says and asks clients whether they are there, and an echo.

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tungstenite::handshake::server::{Request, Response};
use tungstenite::http::HeaderValue;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameHeader};
use tungstenite::{Message, WebSocket};

/// How long one side is listened to before the other.
const TURN: Duration = Duration::from_millis(1);

/// Opens a door to the broker at that port, secured where a configuration is given; returns the door's own port. It
/// stays open while the tests run.
pub fn open(broker: u16, tls: Option<Arc<ServerConfig>>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, tls) = (stream.unwrap(), tls.clone());
            thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let turns = stream.try_clone().unwrap();
                match tls {
                    None => serve(stream, &turns, broker),
                    Some(tls) => {
                        serve(StreamOwned::new(ServerConnection::new(tls).unwrap(), stream), &turns, broker)
                    }
                }
            });
        }
    });
    port
}

/// Starts a server that sends each message back over TLS; returns its port. It stays while the tests run.
pub fn echo(tls: Arc<ServerConfig>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, tls) = (stream.unwrap(), tls.clone());
            thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let stream = StreamOwned::new(ServerConnection::new(tls).unwrap(), stream);
                let Ok(mut client) = tungstenite::accept(stream) else { return };
                while let Ok(message) = client.read() {
                    let data = message.is_binary() || message.is_text();
                    // Pings are answered by the library.
                    if data && client.send(message).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// Serves one client; whatever ends it, the client sees the end of its connection.
fn serve<S: Read + Write>(stream: S, turns: &TcpStream, broker: u16) {
    // The size of a refusal is the library's choice.
    #[allow(clippy::result_large_err)]
    let answer = |request: &Request, mut response: Response| {
        assert_eq!(request.uri().path(), "/mqtt");
        assert_eq!(request.headers()["sec-websocket-protocol"], "mqtt");
        response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("mqtt"));
        Ok(response)
    };
    let Ok(mut client) = tungstenite::accept_hdr(stream, answer) else { return };
    let mut broker = TcpStream::connect(("127.0.0.1", broker)).unwrap();
    broker.set_nodelay(true).unwrap();
    broker.set_read_timeout(Some(TURN)).unwrap();
    turns.set_read_timeout(Some(TURN)).unwrap();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match client.read() {
            Ok(Message::Binary(bytes)) => broker.write_all(&bytes).unwrap_or_default(),
            Ok(Message::Text(_)) => panic!("MQTT is binary"),
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if is_timeout(error.kind()) => {}
            Err(_) => return,
        }
        match broker.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                if say(&mut client, &buffer[..length]).is_err() {
                    return;
                }
            }
            Err(error) if is_timeout(error.kind()) => {}
            Err(_) => return,
        }
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Says bytes as one message of two frames with a ping between them.
fn say<S: Read + Write>(client: &mut WebSocket<S>, bytes: &[u8]) -> Result<(), tungstenite::Error> {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let frame = |opcode: OpCode, is_final: bool, content: &[u8]| {
        let header = FrameHeader { is_final, opcode, ..FrameHeader::default() };
        Message::Frame(Frame::from_payload(header, content.to_vec().into()))
    };
    sent(client.send(frame(OpCode::Data(Data::Binary), false, first)))?;
    sent(client.send(Message::Ping("there?".into())))?;
    sent(client.send(frame(OpCode::Data(Data::Continue), true, second)))
}

/// What the socket does not take at once is kept and goes with the next.
fn sent(result: Result<(), tungstenite::Error>) -> Result<(), tungstenite::Error> {
    match result {
        Err(tungstenite::Error::Io(error)) if is_timeout(error.kind()) => Ok(()),
        other => other,
    }
}
