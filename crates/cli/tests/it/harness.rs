//! Starts the program in a fresh folder, beside no test that it would disturb, and gives what it said, wrote and returned.

use rustix::process::{Pid, Resource, Rlimit, Signal, geteuid, kill_process, prlimit};
use serde_json::Value;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Set while tests run that do not measure.
const OTHERS: &str = "PLIMSOLL_TESTS_BESIDE_OTHERS";

/// Held alone by a test that measures, together by those to which the speed of the machine is no matter.
static MACHINE: RwLock<()> = RwLock::new(());

/// A run that takes longer than this hangs: the longest here, with experiments beside other tests, takes about 120 s.
const LONGEST_RUN: Duration = Duration::from_secs(240);
/// How often a measurement that a busy machine spoilt is tried.
pub const ATTEMPTS: usize = 8;
/// Pause between two looks at something that is awaited.
const PAUSE: Duration = Duration::from_millis(20);

/// A fresh folder, and the machine while it lives: alone, or beside others that do not measure either.
pub struct Bench {
    folder: TempDir,
    /// Commands started so far.
    started: Cell<usize>,
    _alone: Option<RwLockWriteGuard<'static, ()>>,
    _beside: Option<RwLockReadGuard<'static, ()>>,
}

impl Bench {
    /// Waits until the machine is free, and has it alone: for tests of times, rates and verdicts. They stand in modules named
    /// `alone`, which `scripts/test` runs after all others, so that nobody waits for them.
    pub fn new() -> Bench {
        let others = std::env::var_os(OTHERS).is_some();
        assert!(!others, "this test measures: move it into the module `alone` of its file");
        // A test that failed has left nothing behind that others would see.
        Bench::with(Some(MACHINE.write().unwrap_or_else(PoisonError::into_inner)), None)
    }

    /// Waits until nobody measures: for tests that load next to nothing and whose result no busy machine changes.
    pub fn beside_others() -> Bench {
        Bench::with(None, Some(MACHINE.read().unwrap_or_else(PoisonError::into_inner)))
    }

    fn with(
        alone: Option<RwLockWriteGuard<'static, ()>>,
        beside: Option<RwLockReadGuard<'static, ()>>,
    ) -> Bench {
        Bench {
            folder: TempDir::with_prefix("plimsoll-test-").unwrap(),
            started: Cell::new(0),
            _alone: alone,
            _beside: beside,
        }
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of the folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The names of the folder's files, sorted; what the harness itself put there is left out.
    pub fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.starts_with("output."));
        names.sort();
        names
    }

    /// The program with arguments, to be started in the folder.
    pub fn plimsoll<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.in_folder(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(arguments);
        command
    }

    /// A command of `plimsoll` as a user without rights, where the tests run as root.
    pub fn as_nobody(&self, arguments: &[&str]) -> Command {
        let plimsoll = self.plimsoll(arguments);
        if !geteuid().is_root() {
            return plimsoll;
        }
        let mut command = self.in_folder("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(plimsoll.get_program()).args(plimsoll.get_args());
        command
    }

    /// Any program, to be started in the folder.
    pub fn in_folder(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path());
        // The tests decide about these.
        command.env_remove("NO_COLOR").env_remove("PLIMSOLL_STORE").env_remove("PLIMSOLL_PASSWORD");
        command
    }

    /// The program behind a line of shell, which sets what children inherit and ends in `exec "$@"`.
    pub fn behind_shell(&self, line: &str, program: &Command) -> Command {
        let mut command = self.in_folder("sh");
        command.args(["-c", line, "sh"]).arg(program.get_program()).args(program.get_args());
        command
    }

    /// `plimsoll run` of a scenario, with a store and a summary but without a report. Levels that decided nothing are not
    /// held again unless the scenario asks for it: a test knows its levels, and looks at ledgers of short ones.
    pub fn run_command(&self, scenario: &str) -> Command {
        self.write("scenario.yaml", scenario);
        let mut command = self.plimsoll(["run", "scenario.yaml"]);
        command.args(RESULTS);
        if scenario.contains("load:") && !scenario.contains("again:") {
            command.args(["--set", "load.again=0s"]);
        }
        command
    }

    /// Runs a scenario to its end.
    pub fn run(&self, scenario: &str) -> Finished {
        self.start(&mut self.run_command(scenario)).finish()
    }

    /// Runs anything of the program to its end.
    pub fn call<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Finished {
        self.start(&mut self.plimsoll(arguments)).finish()
    }

    /// Starts a command that [`Bench::plimsoll`] or its like made.
    pub fn start(&self, command: &mut Command) -> Started {
        // A command may be started while another one goes on.
        let number = self.started.get();
        self.started.set(number + 1);
        let output = self.path(&format!("output.{number}.stdout"));
        let errors = self.path(&format!("output.{number}.stderr"));
        let summarises = command.get_args().any(|argument| argument == "--summary-json");
        let summary = summarises.then(|| self.path(SUMMARY));
        if let Some(earlier) = &summary {
            // That of an earlier run must not be taken for this one's.
            let _ = fs::remove_file(earlier);
        }
        command.stdin(Stdio::null());
        command.stdout(File::create(&output).unwrap()).stderr(File::create(&errors).unwrap());
        let shown = format!("{command:?}");
        let child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        let may_be_spoilt = self._beside.is_some();
        Started {
            child,
            shown,
            output,
            errors,
            summary,
            may_be_spoilt,
            began: Instant::now(),
            peak_memory: 0,
        }
    }

    /// Waits until the run store has a level with that number that has delivered something: the run is in its middle.
    pub fn await_level(&self, index: usize) {
        self.await_count(index, "delivered");
    }

    /// The same where that level has counted some of what is named.
    pub fn await_count(&self, index: usize, name: &str) {
        let begin = Instant::now();
        loop {
            let shown = self.call(["show", "--store", STORE, "--json"]);
            let summary: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
            if summary["levels"][index][name].as_u64().unwrap_or(0) > 0 {
                return;
            }
            assert!(begin.elapsed() < LONGEST_RUN, "level {index} did not begin: {shown:?}");
            // Each look starts a program.
            std::thread::sleep(5 * PAUSE);
        }
    }
}

/// The run store of [`Bench::run`].
pub const STORE: &str = "runs.db";
const SUMMARY: &str = "summary.json";
/// Options that write store and summary where the harness looks for them, and print everything.
pub const RESULTS: [&str; 6] = ["--store", STORE, "--no-report", "--summary-json", SUMMARY, "-v"];

/// A run that goes on. Dropped, it is killed.
pub struct Started {
    child: Child,
    shown: String,
    output: PathBuf,
    errors: PathBuf,
    /// Where it writes its summary, if it does.
    summary: Option<PathBuf>,
    may_be_spoilt: bool,
    began: Instant,
    peak_memory: u64,
}

impl Started {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard output so far.
    pub fn said_so_far(&self) -> String {
        read(&self.output)
    }

    /// What it has written to standard error so far.
    pub fn told_so_far(&self) -> String {
        read(&self.errors)
    }

    /// What it has printed so far to standard output.
    pub fn printed_so_far(&self) -> String {
        read(&self.output)
    }

    /// Waits until a capture says that it misses no packet any more: its file is there before that.
    pub fn await_capture(&self) {
        while !self.told_so_far().contains("capturing") {
            assert!(self.began.elapsed() < LONGEST_RUN, "{} does not capture", self.shown);
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(pid(self.child.id()), signal).unwrap();
    }

    /// Lets no file that it writes grow above that many bytes.
    pub fn limit_file_size(&self, bytes: u64) {
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        prlimit(Some(pid(self.child.id())), Resource::Fsize, limit).unwrap();
    }

    /// Waits for its end; one that hangs fails the test with what it said.
    pub fn finish(self) -> Finished {
        self.finish_within(LONGEST_RUN)
    }

    /// The same of one that may take so long.
    pub fn finish_within(mut self, longest: Duration) -> Finished {
        let status = loop {
            self.peak_memory = self.peak_memory.max(peak_memory(self.child.id()));
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.began.elapsed() > longest {
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!("{} hangs\n{}\n{}", self.shown, read(&self.output), read(&self.errors));
            }
            std::thread::sleep(PAUSE);
        };
        Finished {
            command: self.shown.clone(),
            code: status.code(),
            stdout: read(&self.output),
            stderr: read(&self.errors),
            summary: self
                .summary
                .as_deref()
                .map_or(Value::Null, |path| serde_json::from_str(&read(path)).unwrap_or_default()),
            may_be_spoilt: self.may_be_spoilt,
            took: self.began.elapsed(),
            peak_memory: self.peak_memory,
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that says nothing and ends with the test.
pub struct Ended(Child);

impl Ended {
    /// Starts it.
    pub fn start(command: &mut Command) -> Ended {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ended(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a run left.
#[derive(Debug)]
pub struct Finished {
    /// The command line, for failures.
    pub command: String,
    /// Exit code, `None` where a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The summary, null where none was written.
    pub summary: Value,
    /// Whether other tests had the machine, too, and nobody looked whether its levels are valid.
    may_be_spoilt: bool,
    /// From start to end.
    pub took: Duration,
    /// The most resident memory of the process itself, bytes.
    pub peak_memory: u64,
}

impl Finished {
    /// Asserts that the run was carried through, whatever a busy machine made of its times: met, missed or invalid.
    /// Together with others, a test looks at ledgers after this, or at verdicts after [`until_valid`].
    #[track_caller]
    pub fn judged(self) -> Finished {
        assert!([0, 3, 99].map(Some).contains(&self.code), "{:?}\n{}{}", self.code, self.stdout, self.stderr);
        self
    }

    /// Asserts that nothing was met: missed, or invalid where a busy machine forbids to say so.
    #[track_caller]
    pub fn not_met(self) -> Finished {
        assert!([3, 99].map(Some).contains(&self.code), "{:?}\n{}{}", self.code, self.stdout, self.stderr);
        self
    }

    /// Asserts that a run was no success because a file was not written, or invalid where a busy machine forbids to say more.
    #[track_caller]
    pub fn unwritten(self) -> Finished {
        assert!([1, 3].map(Some).contains(&self.code), "{:?}\n{}{}", self.code, self.stdout, self.stderr);
        self
    }

    /// Fails with everything that the program said unless it ended with that code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Finished {
        // A verdict needs a valid level, which a machine that others use may refuse, unless a component died or time is
        // simulated. This does not see verdicts that a test finds in the texts or the summary.
        let simulated = self.summary["provenance"]["platform"]["profile"] == "simulated";
        let levels = self.summary["levels"].as_array().map_or(&[][..], Vec::as_slice);
        let measured =
            !levels.is_empty() && levels.iter().all(|level| level["death"].is_null()) && !simulated;
        let verdict = code == 0 || code == 99;
        assert!(
            !(self.may_be_spoilt && measured && verdict),
            "use `judged` or `until_valid` beside other tests: {}",
            self.command
        );
        assert_eq!(self.code, Some(code), "exit code of {}\n{}\n{}", self.command, self.stdout, self.stderr);
        self
    }

    /// Everything that it said, with runs of white space as one space each, so that wrapped lines can be searched.
    pub fn said(&self) -> String {
        let words: Vec<&str> = self.stdout.split_whitespace().chain(self.stderr.split_whitespace()).collect();
        words.join(" ")
    }

    /// Fails unless it said that.
    #[track_caller]
    pub fn says(self, text: &str) -> Finished {
        let said = self.said();
        assert!(
            said.contains(text),
            "{} does not say {text:?} but:\n{}\n{}",
            self.command,
            self.stdout,
            self.stderr
        );
        self
    }

    /// A level of the summary.
    #[track_caller]
    pub fn level(&self, index: usize) -> &Value {
        let level = &self.summary["levels"][index];
        assert!(level.is_object(), "no level {index}\n{}\n{}", self.stdout, self.stderr);
        level
    }

    /// All levels of the summary.
    #[track_caller]
    pub fn levels(&self) -> &[Value] {
        let levels = self.summary["levels"].as_array();
        levels.unwrap_or_else(|| panic!("no levels\n{}\n{}", self.stdout, self.stderr))
    }
}

/// A count of a level.
#[track_caller]
pub fn count(level: &Value, name: &str) -> u64 {
    level[name].as_u64().unwrap_or_else(|| panic!("no count {name} in {level:#}"))
}

/// Messages sent, of as many due. The others are unsent, which only a machine that stood still when the level ended explains.
#[track_caller]
pub fn sent(level: &Value, expected: impl RangeBounds<u64>) -> u64 {
    let [due, sent, unsent] = ["due", "sent", "unsent"].map(|name| count(level, name));
    assert!(expected.contains(&due) && due == sent + unsent, "{level:#}");
    assert!(unsent == 0 || level["validity"] == "host_bound", "{level:#}");
    sent
}

/// A number of a level, by the path of its keys.
#[track_caller]
pub fn number(level: &Value, path: &[&str]) -> f64 {
    let value = path.iter().fold(level, |value, key| &value[*key]);
    value.as_f64().unwrap_or_else(|| panic!("no number {} in {level:#}", path.join(".")))
}

/// Measures again while the host took the processor from our threads: then nothing was measured, and the program says
/// so itself. A host that stays busy fails the test.
#[track_caller]
pub fn on_a_calm_host(measure: impl FnMut() -> Finished) -> Finished {
    until(measure, |level| level["validity"] != "host_bound")
}

/// Measures again until every level is valid, for tests that compare times: a shared machine also makes the generator
/// late, which the program says itself.
#[track_caller]
pub fn until_valid(measure: impl FnMut() -> Finished) -> Finished {
    until(measure, |level| level["validity"] == "valid")
}

/// Measures again until every level measured what the test is about, and not a machine that was busy.
#[track_caller]
pub fn until_told(validity: &str, measure: impl FnMut() -> Finished) -> Finished {
    until(measure, |level| level["validity"] == validity)
}

/// Waits before another attempt, longer each time: who shares this machine is busy for seconds or minutes.
pub fn await_calm(attempt: usize) {
    std::thread::sleep(Duration::from_secs(2) * attempt.try_into().unwrap_or(u32::MAX));
}

/// Measures again until every level is fit to be looked at.
#[track_caller]
pub fn until(mut measure: impl FnMut() -> Finished, fit: impl Fn(&Value) -> bool) -> Finished {
    for attempt in 0..ATTEMPTS {
        await_calm(attempt);
        let mut finished = measure();
        if finished.levels().iter().all(&fit) {
            finished.may_be_spoilt &= finished.levels().iter().any(|level| level["validity"] != "valid");
            return finished;
        }
        println!("this machine was busy, once more:\n{}", finished.stdout);
    }
    panic!("this machine was too busy to measure anything in {ATTEMPTS} attempts");
}

/// The processes that a process has started and that still run; what it has started by way of a guard, without the guard.
pub fn children(parent: u32) -> Vec<u32> {
    let is_guard = |number: u32| {
        fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|name| name.trim() == "platform-guard")
    };
    let through = |child: u32| if is_guard(child) { children(child) } else { vec![child] };
    started_by(parent).into_iter().flat_map(through).collect()
}

/// The processes that a process has started itself and that still run.
pub fn started_by(parent: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    numbers.filter(|&number| state(number).is_some_and(|(state, of)| of == parent && state != "Z")).collect()
}

/// Fails unless those processes end within a time. One that its new parent has not waited for yet has ended.
#[track_caller]
pub fn assert_end_within(limit: Duration, processes: &[u32]) {
    let begin = Instant::now();
    let runs = |number: &&u32| state(**number).is_some_and(|(state, _)| state != "Z" && state != "X");
    while let Some(left) = processes.iter().find(runs) {
        assert!(begin.elapsed() < limit, "process {left} still runs after {limit:?}");
        std::thread::sleep(PAUSE);
    }
}

/// Kills a process from outside.
pub fn kill(process: u32) {
    kill_process(pid(process), Signal::KILL).unwrap();
}

/// State and parent of a process (proc(5), `/proc/PID/stat`), `None` where there is none.
fn state(process: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn peak_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number as i32).unwrap()
}

fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
