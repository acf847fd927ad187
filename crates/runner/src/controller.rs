//! The controller: registers devices and subscriptions before a run and takes them away after it, as the platform's
//! profile says. Nothing of this is measured, so a plain client does it, some requests at a time.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use plimsoll_codec::hiding::cut;
use plimsoll_load::clock::wall_nanos;
use plimsoll_load::run_context::Token;
use plimsoll_load::tls_refusal;
use plimsoll_model::RunId;
use plimsoll_platform::unless_stopped;
use plimsoll_scenario::plan::{
    Capture, CaptureFrom, Each, Plan, PopulationPlan, Protocol, RequestPlan, StepPlan,
};
use plimsoll_scenario::plan::{Captures, Variables};
use plimsoll_stats::distribution::random;
use rustls_pki_types::PrivateKeyDer;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Requests under way at once, where the scenario does not say.
pub const PARALLELISM: usize = 8;
/// How often a request is sent that meets a busy server or no server at all, and the first and the longest pause between
/// two. A platform that has answered before has more time to come back: registering a city is worth some patience.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);
/// How long an answer is awaited.
const TIMEOUT: Duration = Duration::from_secs(30);
const HASTY_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer that is looked at, in bytes.
const LARGEST_ANSWER: u64 = 4 * 1024 * 1024;
/// Characters of an answer that an error shows.
const SHOWN: usize = 300;
/// Distinguishes the random numbers of set-up steps from others.
const STREAM: u64 = 0x7365_7475_7000_0000;

/// Why a step could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The profile names a port that the platform does not have.
    #[error("step `{step}`: the platform has no port `{port}`{help}")]
    Port {
        /// The step.
        step: String,
        /// The port's name.
        port: String,
        /// What to do.
        help: &'static str,
    },
    /// The platform answered with a status that the step does not expect.
    #[error("step `{step}`: {method} {url} was answered {status}: {body}")]
    Status {
        /// The step.
        step: String,
        /// The method.
        method: String,
        /// The whole address.
        url: String,
        /// The status.
        status: u16,
        /// The beginning of the answer.
        body: String,
    },
    /// No answer came.
    #[error("step `{step}`: {method} {url}: {cause}")]
    Request {
        /// The step.
        step: String,
        /// The method.
        method: String,
        /// The whole address.
        url: String,
        /// Why.
        cause: String,
    },
    /// The answer has not got what is to be kept of it.
    #[error("step `{step}`: the answer of {url} has no `{what}` that could stand in a request")]
    Capture {
        /// The step.
        step: String,
        /// The whole address.
        url: String,
        /// What was looked for. The answer itself is not shown: it may hold a key.
        what: String,
    },
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
}

/// What steps need to know of the run.
pub struct Scene<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The run.
    pub run: RunId,
    /// Where a port of the platform is reached over HTTP; `None` asks for the one that requests go to by themselves.
    pub address: &'a (dyn Fn(Option<&str>) -> Option<SocketAddr> + Sync),
    /// The access token.
    pub token: &'a Token,
    /// Where each subscriber listens.
    pub listener: &'a (dyn Fn(u32) -> String + Sync),
    /// Set to give up.
    pub stop: &'a AtomicBool,
    /// Whether nothing is tried twice and a request that fails does not keep the others from being sent: for what is
    /// taken away at the end.
    pub hasty: bool,
}

/// Does the steps in order and adds what they capture; `told` hears of each: its name, how many of its requests are done
/// and how many there are. Where the platform goes away for a while, they go on where they were once it is back.
///
/// # Errors
/// The first that a step meets; steps done before it stay done.
pub fn perform(
    steps: &[StepPlan],
    scene: &Scene<'_>,
    captures: &mut Captures,
    told: &mut dyn FnMut(&str, u64, u64),
) -> Result<(), ControllerError> {
    let client = client(scene.plan, if scene.hasty { HASTY_TIMEOUT } else { TIMEOUT }, false);
    let answers = AtomicBool::new(false);
    for step in steps {
        let address = (scene.address)(step.request.port.as_deref()).ok_or_else(|| ControllerError::Port {
            step: step.name.clone(),
            port: step.request.port.clone().unwrap_or_else(|| "http".into()),
            help: "; give its number under `platform.ports`",
        })?;
        let ended = perform_one(step, scene, (address, &answers), &client, captures, told);
        match ended.first {
            Some(error) => return Err(error),
            None if ended.done < ended.of => return Err(ControllerError::Interrupted),
            None => {}
        }
    }
    Ok(())
}

/// Does the steps that take away what was set up, each whatever became of the others, until the platform answers no more; what
/// stayed behind, for people.
pub fn clean_up(steps: &[StepPlan], scene: &Scene<'_>, captures: &mut Captures) -> Vec<String> {
    let client = client(scene.plan, HASTY_TIMEOUT, false);
    let answers = AtomicBool::new(false);
    let mut left = Vec::new();
    for step in steps {
        let name = &step.name;
        let Some(address) = (scene.address)(step.request.port.as_deref()) else {
            let port = step.request.port.as_deref().unwrap_or("http");
            left.push(format!("cleaning up, step `{name}`, was not done: the platform has no port `{port}`"));
            continue;
        };
        let ended = perform_one(step, scene, (address, &answers), &client, captures, &mut |_, _, _| {});
        let Some(first) = ended.first else { continue };
        let (failed, of, unsent) = (ended.failed, ended.of, ended.of - ended.done);
        let rest = if unsent > 0 { format!(" and {unsent} were not sent") } else { String::new() };
        left.push(format!(
            "cleaning up, step `{name}`: {failed} of {of} requests failed{rest}; what they were to take away stays at the \
             platform. The first: {first}"
        ));
        if unsent > 0 {
            left.push("cleaning up ended there, since the platform answered no more".to_owned());
            break;
        }
    }
    left
}

/// What became of a step.
struct Ended {
    /// Requests that it has.
    of: u64,
    /// Requests that were answered, or failed.
    done: u64,
    /// Of those, the ones that failed, and the first of them.
    failed: u64,
    first: Option<ControllerError>,
}

/// A client that waits so long for an answer. `secured` says that it speaks TLS also where devices do not.
pub(crate) fn client(plan: &Plan, timeout: Duration, secured: bool) -> ureq::Agent {
    ureq::Agent::config_builder()
        .tls_config(tls(plan, secured))
        .http_status_as_error(false)
        .max_redirects(0)
        // A profile may know of methods that have a body although they seldom do.
        .allow_non_standard_methods(true)
        .max_idle_connections_per_host(PARALLELISM)
        .timeout_global(Some(timeout))
        // Devices go directly, too.
        .proxy(None)
        .build()
        .into()
}

/// How the controller secures its connections: as the devices do, with what the first of them shows.
fn tls(plan: &Plan, secured: bool) -> ureq::tls::TlsConfig {
    use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
    let terms = plan.connection.transport.tls.as_ref();
    if terms.is_none() && !secured {
        return TlsConfig::builder().build();
    }
    let authorities = match terms.map(|terms| terms.authorities.as_slice()) {
        None | Some([]) => rustls_native_certs::load_native_certs().certs,
        Some(given) => given.to_vec(),
    };
    let owned = |der: &[u8]| Certificate::from_der(der).to_owned();
    let roots: Vec<_> = authorities.iter().map(|der| owned(der)).collect();
    let identity = terms.and_then(|terms| terms.identities.devices.first()).and_then(|identity| {
        let chain: Vec<_> = identity.chain.iter().map(|der| owned(der)).collect();
        let label = match &*identity.key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        // The client takes keys as text only.
        let text = BASE64_STANDARD.encode(identity.key.secret_der());
        let text = format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n");
        Some(ClientCert::new_with_certs(&chain, PrivateKey::from_pem(text.as_bytes()).ok()?))
    });
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .client_cert(identity)
        .disable_verification(terms.is_some_and(|terms| !terms.verify))
        .build()
}

fn perform_one(
    step: &StepPlan,
    scene: &Scene<'_>,
    (address, answers): (SocketAddr, &AtomicBool),
    client: &ureq::Agent,
    captures: &mut Captures,
    told: &mut dyn FnMut(&str, u64, u64),
) -> Ended {
    let devices = u64::from(scene.plan.devices);
    let subscribers = u64::from(scene.plan.subscribers.count);
    let followed = u64::from(scene.plan.subscribers.followed(scene.plan.devices));
    let count = match step.each {
        Each::Once => 1,
        Each::Device => devices,
        Each::Subscriber => subscribers,
        Each::Pair => followed * subscribers,
        Each::Item => u64::from(scene.plan.platform.state.preload),
    };
    let PopulationPlan { first_device, first_subscriber, .. } = scene.plan.population;
    let who = |number: u64| match step.each {
        Each::Once => Whom::default(),
        Each::Device => Whom { device: first_device + number as u32, ..Whom::default() },
        Each::Subscriber => Whom { subscriber: first_subscriber + number as u32, ..Whom::default() },
        Each::Pair => {
            let (subscriber, place) =
                ((number % subscribers.max(1)) as u32, (number / subscribers.max(1)) as u32);
            let device = scene.plan.subscribers.follows(subscriber, place, scene.plan.devices);
            Whom { device: first_device + device, subscriber: first_subscriber + subscriber, item: 0 }
        }
        Each::Item => Whom { item: number as u32, ..Whom::default() },
    };
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let (failures, unanswered) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<Option<ControllerError>> = Mutex::new(None);
    let shared = Mutex::new(captures);
    // Whoever is in a hurry goes on after a failure, but not with a platform that answers nothing any more.
    let halted = || {
        let ends = if scene.hasty {
            unanswered.load(Ordering::Relaxed) >= PARALLELISM as u64
        } else {
            lock(&failed).is_some()
        };
        ends || scene.stop.load(Ordering::Relaxed)
    };
    std::thread::scope(|scope| {
        for _ in 0..PARALLELISM.min(count as usize) {
            scope.spawn(|| {
                while !halted() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    if let Err(error) = request(step, scene, (address, answers), client, &shared, who(number))
                    {
                        let is_silent = matches!(error, ControllerError::Request { .. });
                        unanswered.fetch_add(u64::from(is_silent), Ordering::Relaxed);
                        failures.fetch_add(1, Ordering::Relaxed);
                        lock(&failed).get_or_insert(error);
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        loop {
            let now = done.load(Ordering::Relaxed);
            told(&step.name, now, count);
            if now >= count || halted() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let first = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ended { of: count, done: done.into_inner(), failed: failures.into_inner(), first }
}

/// Whom a request is about.
#[derive(Clone, Copy, Default)]
struct Whom {
    device: u32,
    subscriber: u32,
    item: u32,
}

/// A request as it goes out.
#[derive(Clone)]
pub(crate) struct Rendered {
    pub url: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

fn request(
    step: &StepPlan,
    scene: &Scene<'_>,
    (address, answers): (SocketAddr, &AtomicBool),
    client: &ureq::Agent,
    captures: &Mutex<&mut Captures>,
    whom: Whom,
) -> Result<(), ControllerError> {
    let (name, method) = (&step.name, &step.request.method);
    let hidden = |text: &str| lock(captures).hide(scene.token.hide(text), whom.device, whom.subscriber);
    let began = Instant::now();
    let mut pause = PAUSE;
    let mut tries = 1;
    let (written, (status, headers, body)) = loop {
        let (generation, token) = scene.token.current();
        let written = write(&step.request, scene, &token, address, &lock(captures), whom);
        // What is taken away at the end is taken away after the user's word, too.
        let answered = match scene.hasty {
            true => send(client, method, &written),
            false => send_unless_stopped(client, method, &written, scene.stop)
                .ok_or(ControllerError::Interrupted)?,
        };
        // What may have been done is done again only where that changes nothing (RFC 9110 section 9.2.2), or where the
        // profile knows what the platform says to the second time, which serves as well.
        let known =
            step.captures.is_empty() && [409, 422].iter().any(|code| step.request.expect.contains(code));
        let idempotent = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"].contains(&method.as_str()) || known;
        let again = match &answered {
            // Too many requests and unavailable: the platform has not done it (sections 15.6.4 and RFC 6585).
            Ok((status, ..)) if step.request.is_success(*status) => false,
            Ok((429 | 503, ..)) => true,
            // Not let in: with the next token it may be.
            Ok((401, ..)) if generation > 0 => {
                scene.token.refuse(generation);
                true
            }
            Ok((status, ..)) => *status >= 500 && idempotent,
            Err(Unanswered { reached, .. }) => !reached || idempotent,
        };
        let patient = answers.load(Ordering::Relaxed) && began.elapsed() < PATIENCE;
        if !again || scene.hasty || (tries >= TRIES && !patient) {
            let answer = answered.map_err(|Unanswered { cause, .. }| {
                let (step, method) = (name.clone(), method.clone());
                ControllerError::Request { step, method, url: hidden(&written.url), cause }
            })?;
            break (written, answer);
        }
        if !plimsoll_platform::pause(scene.stop, pause) {
            return Err(ControllerError::Interrupted);
        }
        (pause, tries) = ((pause * 2).min(LONGEST_PAUSE), tries + 1);
    };
    if !step.request.is_success(status) {
        // An answer that was not expected may have what was to be captured.
        let found = step.captures.iter();
        let found = found.filter_map(|capture| Some((capture.slot, captured(capture, &headers, &body)?)));
        let location = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
        let said = match location.filter(|_| (300..400).contains(&status)) {
            Some((_, location)) => format!("to {location}, which is not followed"),
            None => shown(&body),
        };
        let said = hidden(&said);
        let body = found.fold(said, |said, (slot, value)| lock(captures).hide_new(said, slot, &value));
        let (step, method, url) = (name.clone(), method.clone(), hidden(&written.url));
        return Err(ControllerError::Status { step, method, url, status, body });
    }
    answers.store(true, Ordering::Relaxed);
    for capture in &step.captures {
        let Some(value) = captured(capture, &headers, &body) else {
            let (step, url) = (name.clone(), hidden(&written.url));
            return Err(ControllerError::Capture { step, url, what: place(&capture.from) });
        };
        lock(captures).set(capture.slot, whom.device, whom.subscriber, value);
    }
    Ok(())
}

fn write(
    request: &RequestPlan,
    scene: &Scene<'_>,
    token: &str,
    address: SocketAddr,
    captures: &Captures,
    Whom { device, subscriber, item }: Whom,
) -> Rendered {
    let (run, listener) = (scene.run.to_string(), (scene.listener)(subscriber));
    let variables = Variables {
        run: &run,
        device,
        subscriber,
        item,
        listener: &listener,
        token,
        captures: Some(captures),
        feed: scene.plan.message.feed.as_deref(),
        time_ms: (wall_nanos() / 1_000_000) as u64,
        ..Variables::default()
    };
    let mut numbers =
        random(scene.plan.seed, &[STREAM, u64::from(device), u64::from(subscriber), u64::from(item)]);
    let mut render = |template: &plimsoll_scenario::plan::Template| {
        let mut out = Vec::new();
        template.render(&variables, &mut || numbers.bits(), &mut out);
        out
    };
    let path = render(&request.path);
    let path = String::from_utf8_lossy(&path);
    Rendered {
        url: format!("{}{path}", origin(scene.plan, address)),
        headers: request.headers.iter().map(|(name, value)| (name.clone(), render(value))).collect(),
        body: render(&request.body),
    }
}

/// What stands before the paths of requests to a port of the platform.
pub(crate) fn origin(plan: &Plan, address: SocketAddr) -> String {
    let endpoint = plan.platform.address.as_ref();
    let base = endpoint.map(|endpoint| endpoint.path.trim_end_matches('/')).unwrap_or_default();
    let secured = endpoint.filter(|endpoint| endpoint.protocol == Protocol::Http && endpoint.wire.tls);
    let authority = match secured {
        // By the name that the certificate has.
        Some(endpoint) if endpoint.host.contains(':') => format!("[{}]:{}", endpoint.host, address.port()),
        Some(endpoint) => format!("{}:{}", endpoint.host, address.port()),
        None => address.to_string(),
    };
    let scheme = if secured.is_some() { "https" } else { "http" };
    format!("{scheme}://{authority}{base}")
}

type Answer = (u16, Vec<(String, String)>, Vec<u8>);

/// A request without an answer.
pub(crate) struct Unanswered {
    /// Whether the platform may have had it.
    pub reached: bool,
    /// Why.
    pub cause: String,
}

impl Unanswered {
    fn at(reached: bool) -> impl Fn(&dyn std::fmt::Display) -> Unanswered {
        move |cause| Unanswered { reached, cause: cause.to_string() }
    }
}

/// The same; `None` where the user stops the run before the answer has come.
pub(crate) fn send_unless_stopped(
    client: &ureq::Agent,
    method: &str,
    written: &Rendered,
    stop: &AtomicBool,
) -> Option<Result<Answer, Unanswered>> {
    let (client, method, written) = (client.clone(), method.to_owned(), written.clone());
    unless_stopped(stop, move || send(&client, &method, &written))
}

pub(crate) fn send(client: &ureq::Agent, method: &str, written: &Rendered) -> Result<Answer, Unanswered> {
    let mut request = ureq::http::Request::builder().method(method).uri(&written.url);
    for (name, value) in &written.headers {
        request = request.header(name, value.as_slice());
    }
    let request = request.body(written.body.as_slice()).map_err(|error| Unanswered::at(false)(&error))?;
    let host = request.uri().host().unwrap_or_default().to_owned();
    let mut answer = client.run(request).map_err(|error| {
        let refused =
            matches!(&error, ureq::Error::Io(cause) if cause.kind() == std::io::ErrorKind::ConnectionRefused);
        let nobody = refused || matches!(error, ureq::Error::ConnectionFailed | ureq::Error::HostNotFound);
        match of_tls(&error) {
            Some(error) => Unanswered::at(!nobody)(&tls_refusal::told(error, &host)),
            None => Unanswered::at(!nobody)(&error),
        }
    })?;
    let headers = answer.headers().iter().map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    let headers = headers.collect();
    let status = answer.status().as_u16();
    let body = answer.body_mut().with_config().limit(LARGEST_ANSWER).read_to_vec();
    Ok((status, headers, body.map_err(|error| Unanswered::at(true)(&error))?))
}

/// What TLS says, where it is that which failed.
fn of_tls(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

fn captured(capture: &Capture, headers: &[(String, String)], body: &[u8]) -> Option<String> {
    let header = |name: &str| {
        headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    };
    let found = match &capture.from {
        CaptureFrom::Header(name) => header(name).map(str::to_owned),
        CaptureFrom::LocationEnd => {
            let path = header("location")?.split(['?', '#']).next()?;
            path.trim_end_matches('/').rsplit('/').next().map(str::to_owned)
        }
        CaptureFrom::Pointer(pointer) => {
            let json: serde_json::Value = serde_json::from_slice(body).ok()?;
            match json.pointer(pointer)? {
                serde_json::Value::String(text) => Some(text.clone()),
                serde_json::Value::Null => None,
                other => Some(other.to_string()),
            }
        }
    };
    // One with a line's end would break the request that it is put into.
    found.filter(|value| !value.contains(char::is_control))
}

fn place(from: &CaptureFrom) -> String {
    match from {
        CaptureFrom::Header(name) => format!("header {name}"),
        CaptureFrom::LocationEnd => "header Location".into(),
        CaptureFrom::Pointer(pointer) => pointer.clone(),
    }
}

fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.is_empty() { "nothing more was said".into() } else { cut(&text, SHOWN) }
}

/// What another thread left half done is no worse than what it had not begun.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
