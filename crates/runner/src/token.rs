//! The access token of a run (OAuth 2.0, RFC 6749): got before the set-up, renewed while the run goes on, in a thread of
//! its own. What could not be renewed is told in the report; the run goes on, and the platform's answers show the rest.

use crate::controller::{self, Rendered, Unanswered};
use crate::secrets::{Secrets, encoded, shown};
use plimsoll_codec::coap::OptionList;
use plimsoll_codec::hiding::{cut, hide};
use plimsoll_load::run_context::RunContext;
use plimsoll_scenario::plan::{Grant, Plan, TokenEndpoint, TokenPlan};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long an answer is awaited.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often the first token is asked for while nobody answers or the server is busy, and the first pause between two.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// Least time between two renewals, whatever server and platform say.
const LEAST_GAP: Duration = Duration::from_secs(1);
/// Longest pause after renewals that failed; it doubles from the least gap.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A token is renewed when this part of its life is left, but not earlier than so long before its end.
const PART_LEFT: u32 = 4;
const MOST_LEFT: Duration = Duration::from_secs(60);
/// A longer life is as good as one without end.
const LONGEST_LIFE: f64 = 1e8;
/// Characters of the server's words that are shown.
const SHOWN: usize = 200;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The profile names a port that the platform does not have.
    #[error("access token: the platform has no port `{0}`; give its number under `platform.ports`")]
    Port(String),
    /// No answer came.
    #[error("access token: POST {url}: {cause}")]
    Unanswered {
        /// The token endpoint.
        url: String,
        /// Why.
        cause: String,
    },
    /// The server gave none.
    #[error("access token: POST {url} was answered {status}{said}")]
    Refused {
        /// The token endpoint.
        url: String,
        /// The status.
        status: u16,
        /// Error and description (RFC 6749 section 5.2), with a colon before them.
        said: String,
    },
    /// The answer has no token that could stand in a request. It is not shown, for it may hold a secret.
    #[error("access token: the answer of {url} is no JSON with an `access_token` that a header can carry")]
    Answer {
        /// The token endpoint.
        url: String,
    },
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
}

impl TokenError {
    /// Whether it may be gone in a moment.
    fn is_passing(&self) -> bool {
        match self {
            TokenError::Unanswered { .. } => true,
            TokenError::Refused { status, .. } => *status == 429 || *status >= 500,
            _ => false,
        }
    }
}

/// What befell the token, for the report: each thing once, with how often.
#[derive(Debug, Default)]
pub struct Happenings(Mutex<BTreeMap<String, u64>>);

impl Happenings {
    fn tell(&self, what: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
    }

    /// What was told since the last call.
    pub fn take(&self) -> Vec<String> {
        let told = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let words = |(what, times)| if times == 1 { what } else { format!("{times} x {what}") };
        told.into_iter().map(words).collect()
    }
}

/// What the server gave beside the token.
pub struct Held {
    refresh: Option<String>,
    /// When it is to be renewed; `None` where it does not say that it expires.
    due: Option<Instant>,
}

/// Gets and renews a token.
pub struct Keeper<'a> {
    terms: &'a TokenPlan,
    url: String,
    client: ureq::Agent,
    context: Arc<RunContext>,
    happenings: &'a Happenings,
    secrets: Secrets,
    ended: AtomicBool,
}

impl<'a> Keeper<'a> {
    /// A keeper of the token that load threads are given; `address` finds a port of the platform.
    ///
    /// # Errors
    /// [`TokenError::Port`].
    pub fn new(
        plan: &Plan,
        terms: &'a TokenPlan,
        address: &dyn Fn(Option<&str>) -> Option<SocketAddr>,
        context: Arc<RunContext>,
        happenings: &'a Happenings,
    ) -> Result<Keeper<'a>, TokenError> {
        let url = match &terms.endpoint {
            TokenEndpoint::Url(url) => url.clone(),
            TokenEndpoint::Platform { port, path } => {
                let found = address(port.as_deref());
                let unknown = || TokenError::Port(port.clone().unwrap_or_else(|| "http".into()));
                format!("{}{path}", controller::http::origin(plan, found.ok_or_else(unknown)?))
            }
        };
        let client = controller::http::client(plan, TIMEOUT, url.starts_with("https://"));
        Ok(Keeper {
            terms,
            url,
            client,
            context,
            happenings,
            secrets: Secrets::of(plan),
            ended: AtomicBool::new(false),
        })
    }

    /// Gets the first token and gives it to the load threads.
    ///
    /// # Errors
    /// Nobody answered, or the server gave none.
    pub fn begin(&self, stop: &AtomicBool) -> Result<Held, TokenError> {
        let (mut pause, mut tries) = (PAUSE, 1);
        loop {
            match self.granted(stop) {
                Err(error) if error.is_passing() && tries < TRIES => {}
                ended => return ended,
            }
            if !plimsoll_platform::pause(stop, pause) {
                return Err(TokenError::Interrupted);
            }
            (pause, tries) = (pause * 2, tries + 1);
        }
    }

    /// Renews the token in the calling thread until the run ends.
    pub fn keep(&self, mut held: Held) {
        self.context.token.keep_here();
        let mut pause = LEAST_GAP;
        let mut not_before = Instant::now() + LEAST_GAP;
        while let Some(refused) = self.await_need(held.due, not_before) {
            // One that is refused before its time may have been revoked, and what would refresh it as well.
            let refresh = held.refresh.as_deref().filter(|_| !refused);
            match self.renewed(refresh) {
                Ok(renewed) => {
                    if refused {
                        self.happenings.tell("a new access token was got after an answer 401".into());
                    }
                    (held, pause) = (renewed, LEAST_GAP);
                    not_before = Instant::now() + LEAST_GAP;
                }
                Err(error) => {
                    self.happenings.tell(format!("not renewed: {error}"));
                    let now = Instant::now();
                    (held.due, not_before) = (Some(now), now + pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Ends [`keep`](Keeper::keep), which goes on in that thread, when it is dropped.
    pub fn ending<'b>(&'b self, thread: &Thread) -> Ending<'b> {
        Ending { ended: &self.ended, thread: thread.clone() }
    }

    /// Waits until the token is to be renewed; says whether the platform has refused it. `None` at the run's end.
    fn await_need(&self, due: Option<Instant>, not_before: Instant) -> Option<bool> {
        loop {
            if self.ended.load(Ordering::Acquire) {
                return None;
            }
            let refused = self.context.token.is_refused();
            let wanted = if refused { Some(not_before) } else { due.map(|due| due.max(not_before)) };
            match wanted.map(|wanted| wanted.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Some(refused),
                Some(left) => std::thread::park_timeout(left),
                None => std::thread::park(),
            }
        }
    }

    /// Renews the token by its refresh token (RFC 6749 section 6), else by the grant.
    fn renewed(&self, refresh: Option<&str>) -> Result<Held, TokenError> {
        let Some(refresh) = refresh else { return self.granted(&self.ended) };
        match self.ask(&[("grant_type", "refresh_token"), ("refresh_token", refresh)], &self.ended) {
            // The server may keep the refresh token by saying nothing of it.
            Ok(held) => Ok(Held { refresh: held.refresh.or_else(|| Some(refresh.to_owned())), ..held }),
            Err(error) if error.is_passing() => Err(error),
            Err(_) => self.granted(&self.ended),
        }
    }

    fn granted(&self, stop: &AtomicBool) -> Result<Held, TokenError> {
        let mut fields = vec![("grant_type", self.terms.grant.name())];
        if let Grant::Password { username, password } = &self.terms.grant {
            fields.extend([("username", username.as_str()), ("password", password.0.as_str())]);
        }
        fields.extend(self.terms.scope.as_deref().map(|scope| ("scope", scope)));
        self.ask(&fields, stop)
    }

    /// Asks the server, and gives what comes to the load threads.
    fn ask(&self, fields: &[(&str, &str)], stop: &AtomicBool) -> Result<Held, TokenError> {
        let began = Instant::now();
        let mut fields = fields.to_vec();
        let mut headers = vec![
            ("Content-Type".to_owned(), b"application/x-www-form-urlencoded".to_vec()),
            ("Accept".to_owned(), b"application/json".to_vec()),
        ];
        let (id, secret) = (&self.terms.client_id, &self.terms.client_secret);
        match secret {
            Some(secret) if !self.terms.client_in_body => {
                let value = format!("Basic {}", shown(id, &secret.0));
                headers.push(("Authorization".to_owned(), value.into_bytes()));
            }
            secret => {
                fields.push(("client_id", id));
                fields.extend(secret.as_ref().map(|secret| ("client_secret", secret.0.as_str())));
            }
        }
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let written = Rendered {
            url: self.url.clone(),
            path: String::new(),
            headers,
            options: OptionList::new(),
            body: body.join("&").into_bytes(),
        };
        let url = || self.url.clone();
        let (status, _, body) = controller::http::send_unless_stopped(&self.client, "POST", &written, stop)
            .ok_or(TokenError::Interrupted)?
            .map_err(|Unanswered { cause, .. }| TokenError::Unanswered { url: url(), cause })?;
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        if !(200..300).contains(&status) {
            let said = self.secrets.hide(&hidden(said(&json), &fields));
            return Err(TokenError::Refused { url: url(), status, said });
        }
        let token = json.get("access_token").and_then(Value::as_str).filter(|token| is_carried(token));
        self.context.token.renew(token.ok_or_else(|| TokenError::Answer { url: url() })?);
        let refresh = json.get("refresh_token").and_then(Value::as_str).map(str::to_owned);
        Ok(Held {
            refresh,
            due: lifetime(&json).map(|life| began + life - (life / PART_LEFT).min(MOST_LEFT)),
        })
    }
}

/// Ends the keeping of a token, also where the work that needs it panics.
pub struct Ending<'a> {
    ended: &'a AtomicBool,
    thread: Thread,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Whether a header can carry it.
fn is_carried(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| (0x21..0x7f).contains(&byte))
}

/// How long a token lives, where the server says so: seconds, of some as a text.
fn lifetime(json: &Value) -> Option<Duration> {
    let said = json.get("expires_in")?;
    let seconds = said.as_f64().or_else(|| said.as_str()?.parse().ok())?;
    (0.0..LONGEST_LIFE).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// What an error answer says (RFC 6749 section 5.2).
fn said(json: &Value) -> String {
    let text = |key| json.get(key).and_then(Value::as_str);
    let words: Vec<&str> = [text("error"), text("error_description")].into_iter().flatten().collect();
    let words = words.join(", ");
    let words: String = words.chars().filter(|word| !word.is_control()).collect();
    if words.is_empty() { words } else { format!(": {}", cut(&words, SHOWN)) }
}

/// The server's words without what was sent to it in secret.
fn hidden(words: String, fields: &[(&str, &str)]) -> String {
    let secret = |name: &str| ["password", "client_secret", "refresh_token"].contains(&name);
    let secrets = fields.iter().filter(|(name, _)| secret(name));
    secrets.fold(words, |words, (_, value)| hide(&words, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn forms_carry_any_character() {
        assert_eq!(encoded("a b&c=d%é*-._~"), "a+b%26c%3Dd%25%C3%A9*-._%7E");
    }

    #[test]
    fn a_life_is_seconds_as_a_number_or_a_text_and_nonsense_is_none() {
        let life = |value| lifetime(&json!({ "expires_in": value })).map(|life| life.as_secs_f64());
        assert_eq!(life(json!(3600)), Some(3600.0));
        assert_eq!(life(json!("30")), Some(30.0));
        for nonsense in [json!(-1), json!(1e300), json!(null), json!("soon"), json!([])] {
            assert_eq!(life(nonsense), None);
        }
        assert_eq!(lifetime(&json!({})), None);
    }

    #[test]
    fn what_the_server_repeats_of_a_secret_is_not_told() {
        let said = said(&json!({ "error": "invalid_grant", "error_description": "pass1 is\nwrong" }));
        assert_eq!(hidden(said, &[("password", "pass1")]), ": invalid_grant, *** iswrong");
    }

    #[test]
    fn tokens_that_would_break_a_header_are_none() {
        assert!(is_carried("eyJ.a-b_c~+/="));
        for token in ["", "two words", "line\r\n", "é"] {
            assert!(!is_carried(token), "{token:?}");
        }
    }
}
