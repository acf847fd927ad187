//! The controller: registers devices and subscriptions before a run and takes them away after it, as the platform's
//! profile says. Nothing of this is measured, so plain clients do it: over HTTP some requests at a time, over CoAP one.

pub(crate) mod coap_tcp;
pub(crate) mod http;

use coap_tcp::{Patience, Session};
use plimsoll_codec::cbor;
use plimsoll_codec::coap::OptionList;
use plimsoll_codec::hiding::cut;
use plimsoll_load::clock::wall_nanos;
use plimsoll_load::run_context::Token;
use plimsoll_model::RunId;
use plimsoll_scenario::plan::{
    Capture, CaptureFrom, ControllerProtocol, Each, OptionValue, Plan, PopulationPlan, RequestPlan, StepPlan,
};
use plimsoll_scenario::plan::{Captures, Template, Variables};
use plimsoll_stats::distribution::random;
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
    /// Where a port of the platform is reached; `None` asks for the one that requests go to by themselves.
    pub address: &'a (dyn Fn(Option<&str>) -> Option<SocketAddr> + Sync),
    /// The connection over which requests go where they do not speak HTTP.
    pub session: &'a Session,
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
    let client = Client::of(scene);
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
    let client = Client::of(scene);
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

fn perform_one(
    step: &StepPlan,
    scene: &Scene<'_>,
    (address, answers): (SocketAddr, &AtomicBool),
    client: &Client<'_>,
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

/// What requests go over.
enum Client<'a> {
    Http(ureq::Agent),
    CoapTcp(&'a Session, Duration),
}

impl<'a> Client<'a> {
    fn of(scene: &Scene<'a>) -> Client<'a> {
        let timeout = if scene.hasty { HASTY_TIMEOUT } else { TIMEOUT };
        match scene.plan.platform.roles.controller {
            ControllerProtocol::Http => Client::Http(http::client(scene.plan, timeout, false)),
            ControllerProtocol::CoapTcp => Client::CoapTcp(scene.session, timeout),
        }
    }

    /// The answer; `None` where the user stops the run before it has come.
    fn send(
        &self,
        step: &StepPlan,
        written: &Rendered,
        (plan, address): (&Plan, SocketAddr),
        stop: Option<&AtomicBool>,
    ) -> Option<Result<Answer, Unanswered>> {
        let method = &step.request.method;
        match (self, stop) {
            (Client::Http(client), Some(stop)) => http::send_unless_stopped(client, method, written, stop),
            (Client::Http(client), None) => Some(http::send(client, method, written)),
            (Client::CoapTcp(session, timeout), stop) => {
                session.send(step, written, (plan, address), Patience { timeout: *timeout, stop })
            }
        }
    }
}

/// A request as it goes out.
#[derive(Clone)]
pub(crate) struct Rendered {
    /// The whole address, for HTTP and for people.
    pub url: String,
    /// Path and query, for CoAP.
    pub path: String,
    /// Header fields of HTTP.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Options of CoAP beside path and query.
    pub options: OptionList,
    /// The body.
    pub body: Vec<u8>,
}

/// The status, the header fields and the body of an answer.
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

fn request(
    step: &StepPlan,
    scene: &Scene<'_>,
    (address, answers): (SocketAddr, &AtomicBool),
    client: &Client<'_>,
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
        let stop = Some(scene.stop).filter(|_| !scene.hasty);
        let answered = client.send(step, &written, (scene.plan, address), stop);
        let answered = answered.ok_or(ControllerError::Interrupted)?;
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
    let mut render = |template: &Template| {
        let mut out = Vec::new();
        template.render(&variables, &mut || numbers.bits(), &mut out);
        out
    };
    let path = render(&request.path);
    let path = String::from_utf8_lossy(&path);
    let (url, base) = match scene.plan.platform.roles.controller {
        ControllerProtocol::Http => (format!("{}{path}", http::origin(scene.plan, address)), ""),
        ControllerProtocol::CoapTcp => {
            let base =
                scene.plan.platform.address.as_ref().map(|endpoint| endpoint.path.trim_end_matches('/'));
            let base = base.unwrap_or_default();
            let scheme = if scene.plan.connection.transport.tls.is_some() { "coaps+tcp" } else { "coap+tcp" };
            (format!("{scheme}://{address}{base}{path}"), base)
        }
    };
    let mut options = OptionList::new();
    for option in &request.options {
        match &option.value {
            OptionValue::Number(number) => options.add_number(option.number, *number),
            OptionValue::Text(text) => options.add(option.number, &render(text)),
        }
    }
    Rendered {
        url,
        path: format!("{base}{path}"),
        headers: request.headers.iter().map(|(name, value)| (name.clone(), render(value))).collect(),
        options,
        body: render(&request.body),
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
            // What is a map or an array in CBOR is no JSON, so that nobody need say which it is.
            let json: serde_json::Value =
                serde_json::from_slice(body).ok().or_else(|| cbor::to_json(body).ok())?;
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
    let text = match (std::str::from_utf8(body), cbor::to_json(body)) {
        (Err(_), Ok(value)) => value.to_string().into(),
        _ => String::from_utf8_lossy(body),
    };
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.is_empty() { "nothing more was said".into() } else { cut(&text, SHOWN) }
}

/// What another thread left half done is no worse than what it had not begun.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
