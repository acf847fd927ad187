//! Runs that were asked for on the page. Each waits in a queue until its turn has come. Then it is a process of its own: `plimsoll run` in a
//! session of its own, which goes on when the server ends. All that is known of it stands in a folder for it, so another server finds it
//! again, also one that waits.
//!
//! | file | who writes it | what it holds |
//! |---|---|---|
//! | `job.json` | the server | the scenario, and the process with its boot, number and begin |
//! | `claimed` | the server that takes it out of the queue | nothing; only one server makes it |
//! | `now.json` | the run | what it does now (`run --now`) |
//! | `report.html` | a sweep or a comparison | its report |
//! | `output.txt` | the run | what it prints |
//! | `exit` | the server that started it | its exit code, if that server lived so long |
//! | `reported` | the server | which webhooks did not take that it has ended, and why |

use crate::folder::FileName;
use crate::tokens::random;
use jiff::Timestamp;
use plimsoll_observe::process::{identity_of, is_alive, number_in};
use plimsoll_runner::host_lock::{HostLock, LockError, VARIABLE};
use plimsoll_runner::live::Now;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The folder of all jobs, in the private one.
const FOLDER: &str = "jobs";
const JOB: &str = "job.json";
const CLAIMED: &str = "claimed";
const REPORT: &str = "report.html";
const NOW: &str = "now.json";
const OUTPUT: &str = "output.txt";
const EXIT: &str = "exit";
const REPORTED: &str = "reported";
/// Jobs that are kept; what they measured is in the run store.
const MOST_KEPT: usize = 100;
/// Jobs that wait at once.
const MOST_WAITING: usize = 20;
/// Why a job did not start that somebody removed.
const REMOVED: &str = "it was removed from the queue";
/// Bytes of a file that are read.
const MOST_READ: u64 = 4 << 20;
/// Bytes of the report of a sweep or a comparison.
const MOST_OF_REPORT: u64 = 32 << 20;
/// Bytes of the end of what a run has printed that are shown.
const SHOWN_OUTPUT: u64 = 8 * 1024;

/// Names a job: eight hexadecimal digits of the time, and eight random ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(String);

impl JobId {
    /// Takes a text for an id; `None` where it is none.
    pub fn parse(text: &str) -> Option<JobId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 16 && text.bytes().all(is_digit)).then(|| JobId(text.to_owned()))
    }

    fn fresh() -> io::Result<JobId> {
        Ok(JobId(format!("{:08x}{}", Timestamp::now().as_second() & 0xffff_ffff, random(4)?)))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a job does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It runs a scenario.
    #[default]
    Run,
    /// It runs each combination of what varies in a scenario.
    Sweep,
    /// It runs scenarios in turns, and compares them.
    Comparison,
}

impl Kind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Run => "run",
            Kind::Sweep => "sweep",
            Kind::Comparison => "comparison",
        }
    }
}

/// A run that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The files of its scenarios: several where it compares them.
    pub scenarios: Vec<String>,
    /// Whether these are run in their quick form.
    pub quick: bool,
    /// How often each combination of a sweep is run, or each scenario of a comparison.
    pub turns: u32,
    /// What it is. That a run is a sweep is known when it is started.
    pub kind: Kind,
    /// Whether it has a report of its own.
    pub has_report: bool,
    /// When it was asked for, and once it is started, when that was; RFC 3339.
    pub started: String,
    /// How many go before it, where it waits for its turn.
    pub waits: Option<usize>,
    /// Why it was not started, where its turn has come and it was not.
    pub not_started: Option<String>,
    /// Whether its process runs.
    pub goes_on: bool,
    /// What it said of itself last; `None` before it has said anything.
    pub now: Option<Now>,
    /// Its exit code, where that is known.
    pub exit: Option<i32>,
    /// Which webhooks did not take that it has ended, and why.
    pub untold: Vec<String>,
    /// The end of what it has printed.
    pub output: String,
}

impl Job {
    /// The files of its scenarios, for people.
    pub fn named(&self) -> String {
        self.scenarios.join(", ")
    }

    /// Whether nothing will change any more.
    pub fn is_over(&self) -> bool {
        !self.goes_on && self.waits.is_none()
    }
}

/// The runs that go on or wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AtWork {
    /// Those that go on, the newest first.
    pub going_on: Vec<Job>,
    /// Those that wait, the next one first.
    pub waiting: Vec<Job>,
}

/// What is kept of a job.
#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    scenarios: Vec<String>,
    #[serde(default)]
    quick: bool,
    #[serde(default)]
    turns: u32,
    #[serde(default)]
    kind: Kind,
    started: String,
    process: Option<String>,
    /// Whether it was not yet taken out of the queue.
    #[serde(default)]
    waits: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_started: Option<String>,
    /// Whether its end is told to webhooks.
    #[serde(default)]
    tells: bool,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish<'a> {
    /// The files of scenarios: one to be run, or several to be compared.
    pub scenarios: &'a [FileName],
    /// Whether these are run in their quick form.
    pub quick: bool,
    /// How often each combination of a sweep is run, or each scenario of a comparison.
    pub turns: u32,
}

/// How a run is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The environment variables that it has, and no others.
    pub variables: Vec<(OsString, OsString)>,
    /// As what.
    pub kind: Kind,
}

/// Why a run was not entered into the queue.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// Too many wait.
    #[error("{MOST_WAITING} runs wait already: remove one, or wait until one ends")]
    Full,
    /// Its folder cannot be written.
    #[error("the run cannot be kept: {0}")]
    Io(#[from] io::Error),
}

/// Why a run was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// It does not go on.
    #[error("the run has ended already")]
    Ended,
    /// The operating system refuses.
    #[error("the run cannot be stopped: {0}")]
    Io(#[from] io::Error),
}

/// All runs that were started from a page.
pub struct Jobs {
    program: PathBuf,
    store: PathBuf,
    /// Where the scenarios are.
    scenarios: PathBuf,
    folder: PathBuf,
    /// The name of the lock of this host, which runs inherit.
    pub lock: String,
    /// Whether there are webhooks that are told when one has ended.
    pub tells: bool,
    /// Held while the queue changes.
    queue: Mutex<()>,
    /// Whether one may wait; without one, nobody looks for it.
    may_wait: AtomicBool,
    /// Those of which it is known that they have ended.
    ended: Mutex<HashSet<JobId>>,
}

impl Jobs {
    /// Those of a page whose private folder that is.
    pub fn new(program: PathBuf, store: PathBuf, scenarios: PathBuf, private: &Path) -> Jobs {
        let lock = std::env::var(VARIABLE).unwrap_or_default();
        Jobs {
            program,
            store,
            scenarios,
            folder: private.join(FOLDER),
            lock,
            tells: false,
            queue: Mutex::default(),
            may_wait: AtomicBool::new(true),
            ended: Mutex::default(),
        }
    }

    /// Enters the run of a scenario of the folder into the queue.
    ///
    /// # Errors
    /// Too many wait, or nothing can be written.
    pub fn enqueue(&self, wish: Wish<'_>) -> Result<JobId, QueueError> {
        let _queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if self.at_work().waiting.len() >= MOST_WAITING {
            return Err(QueueError::Full);
        }
        self.forget_the_oldest();
        let id = JobId::fresh()?;
        DirBuilder::new().mode(0o700).recursive(true).create(self.place(&id))?;
        let kept = Kept {
            scenarios: wish.scenarios.iter().map(FileName::to_string).collect(),
            quick: wish.quick,
            turns: wish.turns,
            kind: if wish.scenarios.len() > 1 { Kind::Comparison } else { Kind::Run },
            started: Timestamp::now().to_string(),
            process: None,
            waits: true,
            not_started: None,
            tells: self.tells,
        };
        write(&self.place(&id).join(JOB), &kept)?;
        self.may_wait.store(true, Ordering::Release);
        Ok(id)
    }

    /// Starts the run whose turn has come: the first that waits, if no other one measures on this host. `permitted` says how, or why not.
    pub fn start_next(&self, permitted: impl FnOnce(&Job) -> Result<Permit, String>) {
        let _queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(job) = self.next() else { return };
        // Another server of this folder may have had the same idea.
        if !self.claim(&job.id) {
            return;
        }
        let started = permitted(&job).and_then(|permit| {
            self.start(&job, permit).map_err(|error| format!("the run cannot be started: {error}"))
        });
        if let Err(why) = started {
            self.give_up(&job.id, why);
        }
    }

    /// Takes a run out of the queue.
    ///
    /// # Errors
    /// It does not wait, or not any more.
    pub fn remove(&self, id: &JobId) -> Result<(), StopError> {
        let waits = self.kept(id).is_some_and(|kept| kept.waits);
        if !waits || !self.claim(id) {
            return Err(StopError::Ended);
        }
        self.give_up(id, REMOVED.to_owned());
        Ok(())
    }

    /// Whether nothing goes on or waits, here or elsewhere on this host.
    pub fn is_idle(&self) -> bool {
        self.at_work() == AtWork::default() && HostLock::take(&self.lock).is_ok()
    }

    /// Whether one may wait for its turn.
    pub fn may_wait(&self) -> bool {
        self.may_wait.load(Ordering::Acquire)
    }

    /// The first that waits, where the host is free.
    fn next(&self) -> Option<Job> {
        let AtWork { going_on, waiting } = self.at_work();
        let Some(next) = waiting.into_iter().next() else {
            // Who enters one holds the same lock.
            self.may_wait.store(false, Ordering::Release);
            return None;
        };
        // What else is wrong with the lock, the run says itself.
        let is_free = going_on.is_empty() && !matches!(HostLock::take(&self.lock), Err(LockError::Held));
        is_free.then_some(next)
    }

    /// Takes a job out of the queue; `false` where somebody else has done so.
    fn claim(&self, id: &JobId) -> bool {
        let path = self.place(id).join(CLAIMED);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).is_ok()
    }

    fn give_up(&self, id: &JobId, why: String) {
        if let Some(kept) = self.kept(id) {
            // Without it, the page says that the run has ended without a result, which is true as well.
            let _ = write(&self.place(id).join(JOB), &Kept { waits: false, not_started: Some(why), ..kept });
        }
    }

    /// Starts the process of a job.
    fn start(&self, job: &Job, permit: Permit) -> io::Result<()> {
        let place = self.place(&job.id);
        let mut kept = Kept {
            scenarios: job.scenarios.clone(),
            quick: job.quick,
            turns: job.turns,
            kind: permit.kind,
            started: Timestamp::now().to_string(),
            process: None,
            waits: false,
            not_started: None,
            tells: self.kept(&job.id).is_some_and(|kept| kept.tells),
        };
        write(&place.join(JOB), &kept)?;
        let output = private(&place.join(OUTPUT))?;
        let mut command = Command::new(&self.program);
        let turns = job.turns.max(1).to_string();
        match permit.kind {
            Kind::Run => command.arg("run").args(&job.scenarios).arg("--no-report"),
            Kind::Sweep => command.arg("sweep").args(&job.scenarios).args(["--repeat", &turns, "--report"]),
            Kind::Comparison => {
                command.arg("compare").args(&job.scenarios).args(["--repeat", &turns, "--html"])
            }
        };
        command.args((permit.kind != Kind::Run).then(|| place.join(REPORT)));
        command
            .args(["--exclusive", "--detach", "--store"])
            .arg(&self.store)
            .arg("--now")
            .arg(place.join(NOW))
            .args(job.quick.then_some("--quick"));
        command.current_dir(&self.scenarios).env_clear().envs(permit.variables);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut child = command.spawn()?;
        kept.process = identity_of(child.id());
        write(&place.join(JOB), &kept)?;
        // Somebody must ask how a child ended, or it stays as a zombie.
        std::thread::Builder::new().name("job".into()).spawn(move || {
            let code = child.wait().ok().and_then(|status| status.code());
            let _ = code.map(|code| private(&place.join(EXIT)).and_then(|mut file| write!(file, "{code}")));
        })?;
        Ok(())
    }

    /// Asks a run to stop, as Ctrl-C does. A second time, it ends at once.
    ///
    /// # Errors
    /// It has ended, or may not be asked.
    pub fn stop(&self, id: &JobId) -> Result<(), StopError> {
        let process = self.process(id).filter(|process| is_alive(process)).ok_or(StopError::Ended)?;
        let pid = number_in(&process).and_then(Pid::from_raw).ok_or(StopError::Ended)?;
        let open = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from)?;
        // What is open now stays the same process: its number cannot come to another one any more.
        if !is_alive(&process) {
            return Err(StopError::Ended);
        }
        Ok(pidfd_send_signal(open, Signal::INT).map_err(io::Error::from)?)
    }

    /// A job; `None` where there is none.
    pub fn job(&self, id: &JobId) -> Option<Job> {
        let job = self.read(id)?;
        match job.waits {
            // Its place in the queue depends on the others.
            Some(_) => self.at_work().waiting.into_iter().find(|waiting| waiting.id == *id).or(Some(job)),
            None => Some(job),
        }
    }

    /// The report of a sweep or a comparison; `None` where there is none.
    pub fn report(&self, id: &JobId) -> Option<String> {
        let mut text = String::new();
        let file = File::open(self.place(id).join(REPORT)).ok()?;
        file.take(MOST_OF_REPORT).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Those that go on or wait.
    pub fn at_work(&self) -> AtWork {
        let mut at_work = AtWork::default();
        for id in self.ids().into_iter().rev() {
            if self.known_ended().contains(&id) {
                continue;
            }
            let Some(job) = self.read(&id) else { continue };
            match job.waits {
                Some(_) => at_work.waiting.push(job),
                None if job.goes_on => at_work.going_on.push(job),
                None => {
                    if self.has_ended(&job) {
                        self.known_ended().insert(id);
                    }
                }
            }
        }
        at_work.waiting.sort_by_key(|job| job.started.parse::<Timestamp>().ok());
        let ahead = at_work.going_on.len();
        for (place, job) in at_work.waiting.iter_mut().enumerate() {
            job.waits = Some(ahead + place);
        }
        at_work
    }

    /// Those that are over, and whose end is still to be told to webhooks.
    pub fn to_be_told(&self) -> Vec<Job> {
        let is_untold = |id: &JobId| {
            !self.place(id).join(REPORTED).exists() && self.kept(id).is_some_and(|kept| kept.tells)
        };
        let untold = self.ids().into_iter().filter(is_untold);
        untold.filter_map(|id| self.job(&id)).filter(|job| self.has_ended(job)).collect()
    }

    /// Whether a job is over. One that is just being started has no process yet.
    fn has_ended(&self, job: &Job) -> bool {
        job.is_over() && (job.not_started.is_some() || self.process(&job.id).is_some())
    }

    /// The end of a job was told, or some webhooks will not be told: why.
    pub fn was_told(&self, id: &JobId, problems: &[String]) {
        // Where it cannot be kept, it is told again.
        let text = serde_json::to_vec(problems).unwrap_or_default();
        let _ = private(&self.place(id).join(REPORTED)).and_then(|mut file| file.write_all(&text));
    }

    /// The job of a run of the store, where the page started it.
    pub fn of_run(&self, run: &str) -> Option<Job> {
        let is_of_run = |job: &Job| job.now.as_ref().is_some_and(|now| now.run == run);
        self.ids().iter().rev().filter_map(|id| self.read(id)).find(is_of_run)
    }

    fn read(&self, id: &JobId) -> Option<Job> {
        let place = self.place(id);
        let kept = self.kept(id)?;
        // What a run that has ended said last is read after its end.
        let goes_on = self.process(id).is_some_and(|process| is_alive(&process));
        let exit = fs::read_to_string(place.join(EXIT)).ok().and_then(|code| code.trim().parse().ok());
        Some(Job {
            id: id.clone(),
            scenarios: kept.scenarios,
            quick: kept.quick,
            turns: kept.turns,
            kind: kept.kind,
            has_report: kept.kind != Kind::Run && place.join(REPORT).exists(),
            started: kept.started,
            waits: (kept.waits && !place.join(CLAIMED).exists()).then_some(0),
            not_started: kept.not_started,
            goes_on,
            now: read(&place.join(NOW)),
            exit,
            untold: read(&place.join(REPORTED)).unwrap_or_default(),
            output: end_of(&place.join(OUTPUT)).unwrap_or_default(),
        })
    }

    fn place(&self, id: &JobId) -> PathBuf {
        self.folder.join(&id.0)
    }

    fn kept(&self, id: &JobId) -> Option<Kept> {
        read(&self.place(id).join(JOB))
    }

    fn process(&self, id: &JobId) -> Option<String> {
        self.kept(id)?.process.or_else(|| read::<Now>(&self.place(id).join(NOW))?.process)
    }

    fn known_ended(&self) -> std::sync::MutexGuard<'_, HashSet<JobId>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All ids, the newest last.
    fn ids(&self) -> Vec<JobId> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        let mut ids: Vec<JobId> =
            entries.filter_map(|entry| JobId::parse(entry.ok()?.file_name().to_str()?)).collect();
        ids.sort();
        ids
    }

    fn forget_the_oldest(&self) {
        let ids = self.ids();
        for id in ids.iter().take(ids.len().saturating_sub(MOST_KEPT)) {
            if self.read(id).is_none_or(|job| job.is_over()) {
                // What stays of it does no harm.
                let _ = fs::remove_dir_all(self.place(id));
                self.known_ended().remove(id);
            }
        }
    }
}

/// A new file that nobody else may read.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Writes a file, all of it or nothing.
fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    let beside = path.with_extension("new");
    private(&beside)?.write_all(&serde_json::to_vec(kept)?)?;
    fs::rename(&beside, path)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(MOST_READ).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The end of a text, from the beginning of a line.
fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let skipped = file.metadata()?.len().saturating_sub(SHOWN_OUTPUT);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(SHOWN_OUTPUT).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match text.split_once('\n') {
        Some((_, rest)) if skipped > 0 => rest.to_owned(),
        _ => text,
    })
}

#[cfg(test)]
mod tests;
