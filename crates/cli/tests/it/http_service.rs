//! A small platform over HTTP, as a user might have one: things are registered and get a key, their values are put, hooks
//! are told. It follows a script, so that what a run must find is known beforehand.

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What befalls the value with a number, counted from 1 over all things.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Answered with that status and a word, not stored.
    Status(u16),
    /// Stored, but the connection is closed in place of an answer.
    Close,
    /// Stored and told, but the connection ends after the answer, which says so.
    GoodbyeAfter,
    /// Stored and told, answered in chunks.
    Chunked,
    /// Answered with bytes that are no HTTP.
    Garbage,
    /// Stored and told, never answered.
    Silence,
    /// Stored and answered, but nobody is told.
    Untold,
    /// Hooks are told twice.
    ToldTwice,
    /// Hooks are told of something that nobody of this run has sent, too.
    Foreign,
    /// Answered with a redirection.
    Redirect,
}

/// A running service; its threads end with the test's process.
pub struct HttpService {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// What the service has seen.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Bodies of the values, by thing.
    pub values: HashMap<String, Vec<String>>,
    /// Keys of the things.
    keys: HashMap<String, String>,
    hooks: Vec<String>,
    /// Values so far.
    puts: u64,
    /// Connections so far.
    pub connections: u64,
    faults: BTreeMap<u64, Fault>,
    /// Hooks are told before the sender is answered.
    told_first: bool,
}

impl HttpService {
    /// Starts one with those faults.
    pub fn start(faults: impl IntoIterator<Item = (u64, Fault)>) -> HttpService {
        HttpService::with(faults, true)
    }

    /// Starts one that tells its hooks before or after it answers.
    pub fn with(faults: impl IntoIterator<Item = (u64, Fault)>, told_first: bool) -> HttpService {
        HttpService::listen(faults, told_first, None)
    }

    /// Starts one behind TLS.
    pub fn secured(terms: Arc<ServerConfig>) -> HttpService {
        HttpService::listen([], true, Some(terms))
    }

    fn listen(
        faults: impl IntoIterator<Item = (u64, Fault)>,
        told_first: bool,
        terms: Option<Arc<ServerConfig>>,
    ) -> HttpService {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = State { faults: faults.into_iter().collect(), told_first, ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                lock(&shared).connections += 1;
                let (state, terms) = (Arc::clone(&shared), terms.clone());
                std::thread::spawn(move || match terms {
                    None => serve(stream, &state),
                    Some(terms) => {
                        let session = ServerConnection::new(terms).unwrap();
                        serve(StreamOwned::new(session, stream), &state);
                    }
                });
            }
        });
        HttpService { address, state }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The things that are registered, in the order of their names.
    pub fn things(&self) -> Vec<String> {
        let mut things: Vec<String> = lock(&self.state).keys.keys().cloned().collect();
        things.sort();
        things
    }

    /// What it has seen so far.
    pub fn state(&self) -> State {
        lock(&self.state).clone()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request as a service reads it.
pub struct Request {
    pub method: String,
    pub path: String,
    /// Header fields, by their names in small letters.
    pub headers: HashMap<String, String>,
    pub body: String,
}

/// Reads the next request; `None` at the connection's end.
pub fn read(reader: &mut BufReader<impl Read>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(": ")?;
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(Ok(0), |length| length.parse());
    let mut body = vec![0; length.ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, headers, body: String::from_utf8(body).ok()? })
}

fn serve(stream: impl Read + Write, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    let mut hooks = HashMap::new();
    while let Some(request) = read(&mut reader) {
        let answer = match (request.method.as_str(), request.path.split('/').collect::<Vec<_>>().as_slice()) {
            ("POST", ["", "things"]) => {
                let mut state = lock(state);
                let (id, key) = (request.body.clone(), format!("key-{}-{}", request.body, state.keys.len()));
                match state.keys.insert(id.clone(), key.clone()) {
                    None => answer(201, &format!("{{\"thing\":{{\"id\":\"{id}\",\"key\":\"{key}\"}}}}")),
                    Some(_) => answer(409, "it exists"),
                }
            }
            ("POST", ["", "hooks"]) => {
                lock(state).hooks.push(request.body);
                answer(201, "{}")
            }
            ("DELETE", ["", "hooks"]) => {
                lock(state).hooks.clear();
                answer(204, "")
            }
            ("DELETE", ["", "things", id]) => {
                lock(state).keys.remove(*id);
                answer(204, "")
            }
            ("GET", ["", "things", id]) => {
                let last = lock(state).values.get(*id).and_then(|values| values.last().cloned());
                last.map_or_else(|| answer(404, "no value"), |value| answer(200, &value))
            }
            ("PUT", ["", "things", id]) => match put(id, &request, state, &mut hooks) {
                Some(answer) => answer,
                None => return,
            },
            _ => answer(404, "no such thing"),
        };
        let goodbye = answer.contains("Connection: close");
        let writer = reader.get_mut();
        let told = writer.write_all(answer.as_bytes()).and_then(|()| writer.flush());
        if told.is_err() || goodbye {
            return;
        }
    }
}

/// Stores a value and tells the hooks; `None` where the connection is to end without an answer.
fn put(
    id: &str,
    request: &Request,
    state: &Mutex<State>,
    connections: &mut HashMap<String, TcpStream>,
) -> Option<String> {
    let (fault, hooks, told_first) = {
        let mut state = lock(state);
        if state.keys.get(id) != request.headers.get("x-key") {
            return Some(answer(401, "wrong key"));
        }
        state.puts += 1;
        let fault = state.faults.get(&state.puts).cloned();
        if !matches!(fault, Some(Fault::Status(_) | Fault::Redirect)) {
            state.values.entry(id.to_owned()).or_default().push(request.body.clone());
        }
        (fault, state.hooks.clone(), state.told_first)
    };
    let mut tell = |body: &str| hooks.iter().for_each(|hook| notify(hook, body, connections));
    let batch = format!("{{\"id\":\"{id}\",\"values\":[{}]}}", request.body);
    match fault {
        Some(Fault::Status(status)) => return Some(answer(status, "not now")),
        Some(Fault::Redirect) => {
            let location = "Location: http://elsewhere/\r\n";
            return Some(format!("HTTP/1.1 307 Temporary Redirect\r\n{location}Content-Length: 0\r\n\r\n"));
        }
        Some(Fault::Garbage) => return Some("SSH-2.0-OpenSSH\r\n\r\n".into()),
        Some(Fault::Untold) => return Some(answer(204, "")),
        Some(Fault::ToldTwice) => tell(&batch),
        Some(Fault::Foreign) => tell("{\"values\":[\"of another run\"]}"),
        _ => {}
    }
    let good = match fault {
        Some(Fault::Chunked) => {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n".into()
        }
        Some(Fault::GoodbyeAfter) => "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".into(),
        _ => answer(204, ""),
    };
    if told_first {
        tell(&batch);
    } else {
        let (hooks, batch) = (hooks.clone(), batch.clone());
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2));
            hooks.iter().for_each(|hook| notify(hook, &batch, &mut HashMap::new()));
        });
    }
    match fault {
        Some(Fault::Close) => None,
        Some(Fault::Silence) => {
            std::thread::sleep(Duration::from_secs(60));
            None
        }
        _ => Some(good),
    }
}

/// An answer with a body of known length.
pub fn answer(status: u16, body: &str) -> String {
    let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let body = if status == 204 { "" } else { body };
    format!("HTTP/1.1 {status} as the script says\r\n{length}\r\n{body}")
}

/// Brings a notification to a hook over a kept connection and reads its answer.
fn notify(hook: &str, body: &str, connections: &mut HashMap<String, TcpStream>) {
    let Some((authority, path)) = hook.trim_start_matches("http://").split_once('/') else { return };
    if !connections.contains_key(authority) {
        // At the end of a run nobody listens any more.
        let Ok(stream) = TcpStream::connect(authority) else { return };
        stream.set_nodelay(true).unwrap();
        connections.insert(authority.to_owned(), stream);
    }
    let Some(connection) = connections.get_mut(authority) else { return };
    let request =
        format!("POST /{path} HTTP/1.1\r\nHost: {authority}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut answer = [0; 1024];
    let told = connection.write_all(request.as_bytes()).and_then(|()| connection.read(&mut answer));
    if !told.is_ok_and(|count| count > 0) {
        connections.remove(authority);
    }
}
