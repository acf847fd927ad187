//! A process that ends with Plimsoll however that ends, with all that it has started. It is started by way of
//! `plimsoll guard` ([`crate::supervise`]), which stays above it.

use crate::line::{Lines, Request, Told, ToldFault};
use plimsoll_scenario::plan::QuotaPlan;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a guard may take to start what it guards, and to end once that has ended. It needs some milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a guarded command may and may not do.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// Processors that it is bound to; empty for any.
    pub processors: Vec<usize>,
    /// What it may use at most, with all that it starts; needs `folder`.
    pub quota: QuotaPlan,
    /// Bytes of data that each of its processes may have; `None` for any.
    pub data: Option<u64>,
    /// The user that it runs as; `None` for ours.
    pub user: Option<String>,
    /// A folder that stays until the command has ended (see [`crate::folder`]).
    pub folder: Option<PathBuf>,
    /// A folder that becomes a small file system for it alone, and its size in bytes; `None` for none. Needs root.
    pub small_folder: Option<(PathBuf, u64)>,
    /// Whether nobody else may read the files that it makes.
    pub private: bool,
    /// Whether what it has started goes on once it has ended well: it may have started a platform.
    pub leaves: bool,
    /// The file that is its standard input; `None` for an empty one.
    pub input: Option<PathBuf>,
}

impl Bounds {
    /// The options of `plimsoll guard` that say the same.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let processors: Vec<String> = self.processors.iter().map(ToString::to_string).collect();
        let mut arguments: Vec<OsString> = vec!["--processors".into(), processors.join(",").into()];
        let QuotaPlan { processors, memory, period } = self.quota;
        let period = period.map(|period| period.0);
        arguments.extend(processors.iter().flat_map(|most| ["--quota".into(), most.to_string().into()]));
        arguments.extend(memory.iter().flat_map(|most| ["--memory".into(), most.to_string().into()]));
        arguments.extend(period.iter().flat_map(|length| ["--period".into(), length.to_string().into()]));
        arguments.extend(self.data.iter().flat_map(|most| ["--data".into(), most.to_string().into()]));
        arguments.extend(self.user.iter().flat_map(|user| ["--user".into(), user.into()]));
        arguments.extend(self.folder.iter().flat_map(|folder| ["--folder".into(), folder.into()]));
        arguments.extend(self.private.then(|| "--private".into()));
        if let Some((folder, size)) = &self.small_folder {
            arguments.extend([
                "--small-folder".into(),
                folder.into(),
                "--small-size".into(),
                size.to_string().into(),
            ]);
        }
        arguments.extend(self.leaves.then(|| "--leaves".into()));
        arguments.extend(self.input.iter().flat_map(|file| ["--input".into(), file.into()]));
        arguments
    }
}

/// A command of which [`Guarded::start`] makes a process.
#[derive(Debug)]
pub struct Call {
    /// How its guard is started; what is set here, such as the environment, the command inherits, but for standard input.
    pub guard: Command,
    command: Vec<String>,
}

/// A call of a command. `program` is this program.
pub fn guarded(program: &Path, bounds: &Bounds, command: &[String]) -> Call {
    let mut call = Command::new(program);
    call.args(["guard", "supervise", "--parent", &std::process::id().to_string()]).args(bounds.arguments());
    // Ctrl-C at the terminal reaches Plimsoll alone, which then ends what it started.
    call.process_group(0);
    Call { guard: call, command: command.to_vec() }
}

/// A command as the guard reads it: how many words it has, and the words, each with a zero byte behind it. It is no part of the
/// guard's own command line, so that whoever looks for the command finds the command.
pub(crate) fn spoken(command: &[String]) -> Vec<u8> {
    let count = command.len().to_string();
    let words = std::iter::once(&count).chain(command);
    words.flat_map(|word| word.bytes().chain([0])).collect()
}

/// Reads what [`spoken`] said.
pub(crate) fn heard(line: &mut impl BufRead) -> io::Result<Vec<String>> {
    let mut word = || {
        let mut bytes = Vec::new();
        line.read_until(0, &mut bytes)?;
        let whole = bytes.pop() == Some(0);
        let text = String::from_utf8(bytes).ok().filter(|_| whole);
        text.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    };
    let count = word()?.parse::<usize>().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    (0..count).map(|_| word()).collect()
}

/// A guarded process. Dropping it kills the process and all that it has started.
#[derive(Debug)]
pub struct Guarded {
    guard: Child,
    /// The guard reads its other end: that it is closed tells the guard that nobody wants the process any more.
    line: Option<UnixStream>,
    heard: Lines,
    /// Once the guard has told.
    process: Option<i32>,
    /// When the process ended, once the guard has told.
    ended: Option<i64>,
    /// What the guard has told and nobody has taken.
    doses: Vec<ToldDose>,
    /// The same of planned faults.
    faults: Vec<ToldFault>,
}

/// What a guard has told of a slowdown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ToldDose {
    /// When it was to begin, on the host's monotonic clock in nanoseconds.
    pub from: i64,
    /// The share of its time, or of the quota, that was taken in fact.
    pub share: f64,
}

impl Guarded {
    /// Starts it.
    ///
    /// # Errors
    /// This program cannot be started. A command that cannot be is one that ends at once, with its reason on standard error.
    pub fn start(call: Call) -> io::Result<Guarded> {
        let (mut line, other) = UnixStream::pair()?;
        let Call { mut guard, command } = call;
        let child = guard.stdin(OwnedFd::from(other)).spawn()?;
        // It holds the other end.
        drop(guard);
        let guard = child;
        line.set_read_timeout(Some(PATIENCE))?;
        line.set_write_timeout(Some(PATIENCE))?;
        let said = line.write_all(&spoken(&command));
        let line = Some(line);
        let (heard, doses, faults) = (Lines::default(), Vec::new(), Vec::new());
        let mut guarded = Guarded { guard, line, heard, process: None, ended: None, doses, faults };
        // A guard that could not start the command says nothing, and ends.
        while said.is_ok() && guarded.process.is_none() && guarded.hear().is_some() {}
        Ok(guarded)
    }

    /// The id of the process, not of its guard.
    pub fn id(&self) -> i32 {
        self.process.unwrap_or(self.guard.id() as i32)
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The operating system does not tell.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.guard.try_wait()
    }

    /// When its process ended, on the host's monotonic clock in nanoseconds, as soon as its guard tells: that may still be at work.
    pub fn ended_at(&mut self) -> Option<i64> {
        self.hear_all();
        self.ended
    }

    /// Asks the guard for something, which it does when it has heard it.
    ///
    /// # Errors
    /// The guard is gone.
    pub(crate) fn ask(&mut self, request: &Request) -> io::Result<()> {
        let line = self.line.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        line.write_all(format!("{request}\n").as_bytes())
    }

    /// The doses that the guard has told so far, each once.
    pub(crate) fn take_doses(&mut self) -> Vec<ToldDose> {
        self.hear_all();
        std::mem::take(&mut self.doses)
    }

    /// The planned faults that the guard has told of so far, each once.
    pub(crate) fn take_faults(&mut self) -> Vec<ToldFault> {
        self.hear_all();
        std::mem::take(&mut self.faults)
    }

    /// Asks the process and its group to end, and does not wait for it.
    pub fn ask_to_end(&mut self) {
        let _ = self.ask(&Request::Release);
        if let Some(group) = Pid::from_raw(self.id()).filter(|_| self.goes_on()) {
            // One that has just ended is no failure.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    /// Hears what the guard has told, without waiting for more.
    fn hear_all(&mut self) {
        let waits = |line: &Option<UnixStream>, waits: bool| {
            line.as_ref().is_some_and(|line| line.set_nonblocking(!waits).is_ok())
        };
        if waits(&self.line, false) {
            while self.hear().is_some() {}
            waits(&self.line, true);
        }
    }

    /// Hears the next bytes that the guard tells; `None` where there are none.
    fn hear(&mut self) -> Option<()> {
        let mut bytes = [0; 1024];
        let count = match self.line.as_mut()?.read(&mut bytes) {
            Ok(count @ 1..) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Ok(0) | Err(_) => return None,
        };
        for line in self.heard.complete(bytes.get(..count)?) {
            match Told::parse(&line) {
                Some(Told::Started(process)) => self.process = Some(process),
                Some(Told::Ended { at }) => self.ended = Some(at),
                Some(Told::Dose { from, share }) => self.doses.push(ToldDose { from, share }),
                Some(Told::Fault(fault)) => self.faults.push(fault),
                None => {}
            }
        }
        Some(())
    }

    /// Whether it has not ended yet.
    pub fn goes_on(&mut self) -> bool {
        matches!(self.guard.try_wait(), Ok(None))
    }

    /// What it writes to standard output, where that was piped.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.guard.stdout.take()
    }

    /// Sends a signal to the process alone.
    pub fn signal(&mut self, signal: Signal) {
        if let Some(process) = Pid::from_raw(self.id()).filter(|_| self.goes_on()) {
            // One that has just ended is no failure.
            let _ = kill_process(process, signal);
        }
    }

    /// Waits until it has ended, for so long. Whether it has.
    pub fn await_end(&mut self, patience: Duration) -> bool {
        let begin = Instant::now();
        while self.goes_on() {
            if begin.elapsed() >= patience {
                return false;
            }
            thread::sleep(PAUSE);
        }
        true
    }

    /// Asks the process and its group to end, and kills what is left of all that it has started after `grace`, processes that
    /// are stopped included. Whether the process ended without being killed.
    pub fn end(&mut self, grace: Duration) -> bool {
        // What is stopped cannot end by itself. A guard that is gone has nothing to release.
        self.ask_to_end();
        let ended = self.await_end(grace);
        self.kill();
        ended
    }

    /// Kills the process and all that it has started, as a crash would.
    pub fn kill(&mut self) {
        if let Some(group) = Pid::from_raw(self.id()).filter(|_| self.goes_on()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if let Some(line) = &self.line {
            // The other way stays open: the guard may have something to tell.
            let _ = line.shutdown(Shutdown::Write);
        }
        if !self.await_end(PATIENCE) {
            // Somebody has stopped the guard: it cannot do its work, and the command dies with it.
            let _ = self.guard.kill();
        }
        let _ = self.guard.wait();
        self.hear_all();
        self.line = None;
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_hears_the_command_that_was_said() {
        let command = ["redis-server", "--save", "", "a b\nc"].map(str::to_owned).to_vec();
        let mut line = [spoken(&command), b"more".to_vec()].concat();
        assert_eq!(heard(&mut line.as_slice()).unwrap(), command);
        line.truncate(12);
        assert_eq!(heard(&mut line.as_slice()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(heard(&mut &b"x\0"[..]).is_err());
    }
}
