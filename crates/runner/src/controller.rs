//! The controller: registers devices and subscriptions before a run and takes them away after it, as the platform's
//! profile says. Nothing of this is measured, so plain clients do it: some requests or messages at a time, over CoAP over TCP and
//! over MQTT one.

mod answers;
mod clients;
mod coap;
mod coap_tcp;
pub(crate) mod http;
mod messages;
mod mqtt;
mod stream;
mod websocket;
mod writing;

use answers::{captured, place, shown};
pub use clients::Sessions;
use clients::{Client, Outcome};
use plimsoll_codec::coap::code;
use plimsoll_load::run_context::Token;
use plimsoll_model::RunId;
use plimsoll_scenario::plan::{Ask, Captures, ControllerProtocol, Each, Plan, PopulationPlan, StepPlan};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
pub(crate) use writing::Rendered;

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
    #[error("step `{step}`: {asked} was answered {status}: {body}")]
    Status {
        /// The step.
        step: String,
        /// The method and the whole address.
        asked: String,
        /// The status, as its protocol writes it.
        status: String,
        /// The beginning of the answer.
        body: String,
    },
    /// The platform refused a message.
    #[error("step `{step}`: {asked} was refused: {reason}: {body}")]
    Refused {
        /// The step.
        step: String,
        /// What was asked, and where.
        asked: String,
        /// Why.
        reason: String,
        /// The beginning of the answer.
        body: String,
    },
    /// No answer came.
    #[error("step `{step}`: {asked}: {cause}")]
    Request {
        /// The step.
        step: String,
        /// What was asked, and where.
        asked: String,
        /// Why.
        cause: String,
    },
    /// The answer has not got what is to be kept of it.
    #[error("step `{step}`: the answer to {asked} has no `{what}` that could stand in a request")]
    Capture {
        /// The step.
        step: String,
        /// What was asked, and where.
        asked: String,
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
    /// Where devices reach it.
    pub devices: SocketAddr,
    /// The connections over which goes what does not speak HTTP.
    pub sessions: &'a Sessions,
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

impl Scene<'_> {
    /// Where something is asked.
    fn address_of(&self, ask: &Ask) -> Option<SocketAddr> {
        match (ask, ask.port()) {
            // Messages speak what devices do, unless they name a port.
            (Ask::Message(_), None) => Some(self.devices),
            (_, port) => (self.address)(port),
        }
    }
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
        let address = scene.address_of(&step.ask).ok_or_else(|| ControllerError::Port {
            step: step.name.clone(),
            port: step.ask.port().unwrap_or("http").to_owned(),
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
        let Some(address) = scene.address_of(&step.ask) else {
            let port = step.ask.port().unwrap_or("http");
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

/// The status, the header fields and the body of an answer.
type Answer = (u16, Vec<(String, String)>, Vec<u8>);

/// A request or message without an answer.
pub(crate) struct Unanswered {
    /// Whether the platform may have had it.
    pub reached: bool,
    /// Whether the platform did not let the connection in.
    pub is_unauthorized: bool,
    /// Why.
    pub cause: String,
}

impl Unanswered {
    fn at(reached: bool) -> impl Fn(&dyn std::fmt::Display) -> Unanswered {
        move |cause| Unanswered { reached, is_unauthorized: false, cause: cause.to_string() }
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
    let name = &step.name;
    let hidden = |text: &str| lock(captures).hide(scene.token.hide(text), whom.device, whom.subscriber);
    let began = Instant::now();
    let mut pause = PAUSE;
    let mut tries = 1;
    let (asked, (outcome, headers, body)) = loop {
        let (generation, token) = scene.token.current();
        let written = writing::write(&step.ask, scene, &token, address, &lock(captures), whom);
        // What is taken away at the end is taken away after the user's word, too.
        let stop = Some(scene.stop).filter(|_| !scene.hasty);
        let answered = client.send(step, &written, (scene, address), stop);
        let answered = answered.ok_or(ControllerError::Interrupted)?;
        let idempotent = is_idempotent(step);
        let again = match &answered {
            Ok((Outcome::Taken | Outcome::Refused(_), ..)) => false,
            // Too many requests and unavailable: the platform has not done it (sections 15.6.4 and RFC 6585).
            Ok((Outcome::Status(429 | 503), ..)) => true,
            // Not let in: with the next token it may be.
            Ok((Outcome::Status(401), ..)) | Err(Unanswered { is_unauthorized: true, .. })
                if generation > 0 =>
            {
                scene.token.refuse(generation);
                true
            }
            Ok((Outcome::Status(status), ..)) => *status >= 500 && idempotent,
            Err(Unanswered { reached, .. }) => !reached || idempotent,
        };
        let patient = answers.load(Ordering::Relaxed) && began.elapsed() < PATIENCE;
        if !again || scene.hasty || (tries >= TRIES && !patient) {
            let asked = hidden(&written.asked());
            let answer = answered.map_err(|Unanswered { cause, .. }| {
                let (step, asked, cause) = (name.clone(), asked.clone(), hidden(&cause));
                ControllerError::Request { step, asked, cause }
            })?;
            break (asked, answer);
        }
        if !plimsoll_platform::pause(scene.stop, pause) {
            return Err(ControllerError::Interrupted);
        }
        (pause, tries) = ((pause * 2).min(LONGEST_PAUSE), tries + 1);
    };
    if outcome != Outcome::Taken {
        // An answer that was not expected may have what was to be captured.
        let found = step.captures.iter();
        let found = found.filter_map(|capture| Some((capture.slot, captured(capture, &headers, &body)?)));
        let found: Vec<(usize, String)> = found.collect();
        let without = |text: String| {
            let hide = |text, (slot, value): &(usize, String)| lock(captures).hide_new(text, *slot, value);
            found.iter().fold(hidden(&text), hide)
        };
        let step = name.clone();
        return Err(match outcome {
            Outcome::Refused(reason) => {
                ControllerError::Refused { step, asked, reason: without(reason), body: without(shown(&body)) }
            }
            Outcome::Status(status) => {
                let location = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
                let body = match location.filter(|_| (300..400).contains(&status)) {
                    Some((_, location)) => format!("to {location}, which is not followed"),
                    None => shown(&body),
                };
                let status = match scene.plan.platform.roles.controller.requests {
                    ControllerProtocol::Http => status.to_string(),
                    ControllerProtocol::Coap | ControllerProtocol::CoapTcp => code::dotted_status(status),
                };
                ControllerError::Status { step, asked, status, body: without(body) }
            }
            Outcome::Taken => return Ok(()),
        });
    }
    answers.store(true, Ordering::Relaxed);
    for capture in &step.captures {
        let Some(value) = captured(capture, &headers, &body) else {
            let step = name.clone();
            return Err(ControllerError::Capture { step, asked, what: place(&capture.from) });
        };
        lock(captures).set(capture.slot, whom.device, whom.subscriber, value);
    }
    Ok(())
}

/// Whether what may have been done may be done again: where that changes nothing (RFC 9110 section 9.2.2), or where the profile knows
/// what the platform says to the second time, which serves as well.
fn is_idempotent(step: &StepPlan) -> bool {
    step.ask.request().is_some_and(|request| {
        let known = step.captures.is_empty() && [409, 422].iter().any(|code| request.expect.contains(code));
        known || ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"].contains(&request.method.as_str())
    })
}

/// What another thread left half done is no worse than what it had not begun.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
