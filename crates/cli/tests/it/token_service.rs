//! An authorization server (OAuth 2.0, RFC 6749) and a service that wants its tokens, in one and after a script.

use crate::http_service::{Request, answer, read};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What the service does.
#[derive(Clone, Debug)]
pub struct Script {
    /// How long tokens live.
    pub life: Duration,
    /// How much longer they are taken, so that also a slow machine renews them in time.
    pub grace: Duration,
    /// Whether answers say so.
    pub says_life: bool,
    /// Whether answers have a refresh token, and whether that is taken later.
    pub refresh: Option<bool>,
    /// Whether only the first token is given: renewals are answered 503.
    pub once: bool,
    /// The message that finds all tokens revoked, counted from 1.
    pub revoked_at: Option<u64>,
}

impl Default for Script {
    fn default() -> Script {
        let life = Duration::from_secs(3600);
        let grace = Duration::ZERO;
        Script { life, grace, says_life: true, refresh: None, once: false, revoked_at: None }
    }
}

/// What the service has seen.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Forms that came to the token endpoint and the header Authorization beside them.
    pub forms: Vec<(String, Option<String>)>,
    /// Messages taken, by the token that came with them, in the order of the tokens.
    pub taken: Vec<u64>,
    /// Messages without a valid token.
    pub unauthorized: u64,
    /// When each token ends to be valid.
    ends: Vec<Instant>,
    messages: u64,
}

/// A running service; its threads end with the test's process.
pub struct TokenService {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl TokenService {
    /// Starts one.
    pub fn start(script: Script) -> TokenService {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, script) = (Arc::clone(&shared), script.clone());
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream);
                    while let Some(request) = read(&mut reader) {
                        let said = respond(&request, &script, &mut lock(&state));
                        if reader.get_mut().write_all(said.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        TokenService { address, state }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has seen so far.
    pub fn state(&self) -> State {
        lock(&self.state).clone()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn respond(request: &Request, script: &Script, state: &mut State) -> String {
    match request.path.as_str() {
        "/oauth2/token" => grant(request, script, state),
        "/data" => take(request, script, state),
        _ => answer(404, "{}"),
    }
}

fn grant(request: &Request, script: &Script, state: &mut State) -> String {
    let refreshes = request.body.starts_with("grant_type=refresh_token");
    state.forms.push((request.body.clone(), request.headers.get("authorization").cloned()));
    if script.once && !state.ends.is_empty() {
        return answer(503, "{}");
    }
    if request.body.contains("wrong") || refreshes && script.refresh != Some(true) {
        return answer(400, r#"{"error":"invalid_grant","error_description":"not with wrong words"}"#);
    }
    let number = state.ends.len();
    state.ends.push(Instant::now() + script.life + script.grace);
    state.taken.push(0);
    let mut words = format!(r#""access_token":"hush-token-{number}","token_type":"Bearer""#);
    if script.says_life {
        words += &format!(r#","expires_in":{}"#, script.life.as_secs_f64());
    }
    if script.refresh.is_some() {
        words += &format!(r#","refresh_token":"hush-refresh-{number}""#);
    }
    answer(200, &format!("{{{words}}}"))
}

fn take(request: &Request, script: &Script, state: &mut State) -> String {
    state.messages += 1;
    if Some(state.messages) == script.revoked_at {
        state.ends.fill(Instant::now());
    }
    let shown = request.headers.get("authorization").cloned().unwrap_or_default();
    let number = shown.strip_prefix("Bearer hush-token-").and_then(|number| number.parse::<usize>().ok());
    match number.filter(|&number| state.ends.get(number).is_some_and(|end| *end > Instant::now())) {
        Some(number) => {
            state.taken[number] += 1;
            answer(204, "")
        }
        None => {
            state.unauthorized += 1;
            // Some repeat what they were shown.
            answer(401, &format!("no good: {shown}"))
        }
    }
}
