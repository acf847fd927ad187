//! Runs that were started from the page. Each is a process of its own: `plimsoll run` in a session of its own, which goes on when the
//! server ends. All that is known of it stands in a folder for it, so another server finds it again.
//!
//! | file | who writes it | what it holds |
//! |---|---|---|
//! | `job.json` | the server | the scenario, and the process with its boot, number and begin |
//! | `now.json` | the run | what it does now (`run --now`) |
//! | `output.txt` | the run | what it prints |
//! | `exit` | the server that started it | its exit code, if that server lived so long |

use crate::folder::FileName;
use crate::tokens::random;
use jiff::Timestamp;
use plimsoll_observe::process::{identity_of, is_alive, number_in};
use plimsoll_runner::host_lock::{HostLock, LockError, VARIABLE};
use plimsoll_runner::live::Now;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The folder of all jobs, in the private one.
const FOLDER: &str = "jobs";
const JOB: &str = "job.json";
const NOW: &str = "now.json";
const OUTPUT: &str = "output.txt";
const EXIT: &str = "exit";
/// Jobs that are kept; what they measured is in the run store.
const MOST_KEPT: usize = 100;
/// Bytes of a file that are read.
const MOST_READ: u64 = 4 << 20;
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

/// A run that was started.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The file of its scenario.
    pub scenario: String,
    /// When it was started, RFC 3339.
    pub started: String,
    /// Whether its process runs.
    pub goes_on: bool,
    /// What it said of itself last; `None` before it has said anything.
    pub now: Option<Now>,
    /// Its exit code, where that is known.
    pub exit: Option<i32>,
    /// The end of what it has printed.
    pub output: String,
}

/// What is kept of a job.
#[derive(Serialize, Deserialize)]
struct Kept {
    scenario: String,
    started: String,
    process: Option<String>,
}

/// Why a run was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another run goes on.
    #[error(
        "a run of {0} goes on, and two runs on one host would measure each other: wait until it ends, or stop it"
    )]
    GoesOn(String),
    /// Another run has the lock of this host.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The process cannot be started.
    #[error("the run cannot be started: {0}")]
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
    /// Held while one is started.
    starting: Mutex<()>,
}

impl Jobs {
    /// Those of a page whose private folder that is.
    pub fn new(program: PathBuf, store: PathBuf, scenarios: PathBuf, private: &Path) -> Jobs {
        let lock = std::env::var(VARIABLE).unwrap_or_default();
        Jobs { program, store, scenarios, folder: private.join(FOLDER), lock, starting: Mutex::default() }
    }

    /// Starts the run of a scenario of the folder, with those environment variables and no others.
    ///
    /// # Errors
    /// Another run goes on on this host, or the process cannot be started.
    pub fn start(
        &self,
        scenario: &FileName,
        quick: bool,
        variables: Vec<(OsString, OsString)>,
    ) -> Result<JobId, StartError> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = self.going_on().into_iter().next() {
            return Err(StartError::GoesOn(other.scenario));
        }
        // The run takes the lock itself; that it would fail is better said now.
        drop(HostLock::take(&self.lock)?);
        self.forget_the_oldest();
        let id = JobId::fresh()?;
        let place = self.folder.join(&id.0);
        DirBuilder::new().mode(0o700).recursive(true).create(&place)?;
        let mut kept =
            Kept { scenario: scenario.to_string(), started: Timestamp::now().to_string(), process: None };
        write(&place.join(JOB), &kept)?;
        let output = private(&place.join(OUTPUT))?;
        let mut command = Command::new(&self.program);
        command.args(["run", scenario.as_str(), "--no-report", "--exclusive", "--detach", "--store"]);
        command.arg(&self.store).arg("--now").arg(place.join(NOW)).args(quick.then_some("--quick"));
        command.current_dir(&self.scenarios).env_clear().envs(variables);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut child = command.spawn()?;
        kept.process = identity_of(child.id());
        write(&place.join(JOB), &kept)?;
        // Somebody must ask how a child ended, or it stays as a zombie.
        std::thread::Builder::new().name("job".into()).spawn(move || {
            let code = child.wait().ok().and_then(|status| status.code());
            let _ = code.map(|code| private(&place.join(EXIT)).and_then(|mut file| write!(file, "{code}")));
        })?;
        Ok(id)
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
        let place = self.folder.join(&id.0);
        let kept: Kept = read(&place.join(JOB))?;
        // What a run that has ended said last is read after its end.
        let goes_on = self.process(id).is_some_and(|process| is_alive(&process));
        let exit = fs::read_to_string(place.join(EXIT)).ok().and_then(|code| code.trim().parse().ok());
        Some(Job {
            id: id.clone(),
            scenario: kept.scenario,
            started: kept.started,
            goes_on,
            now: read(&place.join(NOW)),
            exit,
            output: end_of(&place.join(OUTPUT)).unwrap_or_default(),
        })
    }

    /// Those that go on.
    pub fn going_on(&self) -> Vec<Job> {
        self.ids().iter().rev().filter_map(|id| self.job(id)).filter(|job| job.goes_on).collect()
    }

    /// The job of a run of the store, where the page started it.
    pub fn of_run(&self, run: &str) -> Option<Job> {
        let is_of_run = |job: &Job| job.now.as_ref().is_some_and(|now| now.run == run);
        self.ids().iter().rev().filter_map(|id| self.job(id)).find(is_of_run)
    }

    fn process(&self, id: &JobId) -> Option<String> {
        let place = self.folder.join(&id.0);
        let kept: Kept = read(&place.join(JOB))?;
        kept.process.or_else(|| read::<Now>(&place.join(NOW))?.process)
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
            if self.job(id).is_none_or(|job| !job.goes_on) {
                // What stays of it does no harm.
                let _ = fs::remove_dir_all(self.folder.join(&id.0));
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
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};
    use tempfile::TempDir;

    /// Jobs whose program is a shell script in the place of this one.
    fn jobs(script: &str) -> (TempDir, Jobs) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let mut jobs =
            Jobs::new(program, folder.path().join("runs.db"), folder.path().to_owned(), folder.path());
        jobs.lock = random(8).unwrap();
        (folder, jobs)
    }

    fn await_that(mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn start(jobs: &Jobs) -> Result<JobId, StartError> {
        jobs.start(
            &FileName::parse("a.yaml").unwrap(),
            true,
            vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        )
    }

    #[test]
    fn an_id_is_no_path() {
        for wrong in
            ["", "..", "0123456789abcde", "0123456789ABCDEF", "0123456789abcde/", "0123456789abcdef0"]
        {
            assert_eq!(JobId::parse(wrong), None, "{wrong}");
        }
        let id = JobId::fresh().unwrap();
        assert_eq!(JobId::parse(&id.to_string()), Some(id));
    }

    #[test]
    fn a_job_runs_alone_is_found_again_and_stops() {
        let (folder, first) =
            jobs("trap 'echo stopped; exit 5' INT\necho \"$@\"\nenv\nwhile :; do sleep 0.05; done");
        let id = start(&first).unwrap();
        await_that(|| first.job(&id).unwrap().output.contains("PATH="));
        assert!(matches!(start(&first), Err(StartError::GoesOn(scenario)) if scenario == "a.yaml"));
        // Another server of the same folder.
        let again = Jobs::new("x".into(), "x".into(), "x".into(), folder.path());
        let [found] = &again.going_on()[..] else { panic!("{:?}", again.going_on()) };
        assert_eq!((&found.id, found.scenario.as_str(), found.exit), (&id, "a.yaml", None));
        assert!(
            found.output.contains("run a.yaml --no-report --exclusive --detach --store"),
            "{}",
            found.output
        );
        assert!(found.output.contains("--quick"), "{}", found.output);
        assert!(!found.output.contains("CARGO"), "it has the variables that it was given: {}", found.output);
        again.stop(&id).unwrap();
        await_that(|| first.job(&id).unwrap().exit.is_some());
        let ended = again.job(&id).unwrap();
        assert_eq!((ended.exit, ended.goes_on), (Some(5), false));
        assert!(ended.output.ends_with("stopped\n"), "{}", ended.output);
        assert!(matches!(again.stop(&id), Err(StopError::Ended)));
        let mode = |name: &str| {
            fs::metadata(again.folder.join(&id.0).join(name)).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode(OUTPUT), mode(JOB), mode(".")), (0o600, 0o600, 0o700));
    }

    #[test]
    fn a_host_that_another_run_has_locked_is_left_alone() {
        let (_folder, jobs) = jobs("true");
        let _lock = HostLock::take(&jobs.lock).unwrap();
        assert!(matches!(start(&jobs), Err(StartError::Lock(LockError::Held))));
        assert!(jobs.ids().is_empty(), "nothing was begun");
    }

    #[test]
    fn a_process_that_took_over_the_number_is_not_stopped() {
        let (_folder, jobs) = jobs("true");
        let id = JobId::fresh().unwrap();
        let place = jobs.folder.join(&id.0);
        fs::create_dir_all(&place).unwrap();
        let own = identity_of(std::process::id()).unwrap();
        let other = format!("{own}1");
        write(
            &place.join(JOB),
            &Kept { scenario: "a.yaml".into(), started: String::new(), process: Some(other) },
        )
        .unwrap();
        assert!(!jobs.job(&id).unwrap().goes_on);
        assert!(matches!(jobs.stop(&id), Err(StopError::Ended)));
    }

    #[test]
    fn the_end_of_a_long_output_begins_with_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(OUTPUT);
        fs::write(&path, "a line that is long enough\n".repeat(1000)).unwrap();
        let end = end_of(&path).unwrap();
        assert!(end.starts_with("a line") && end.len() as u64 <= SHOWN_OUTPUT);
        fs::write(&path, "short").unwrap();
        assert_eq!(end_of(&path).unwrap(), "short");
    }
}
