//! A platform that commands of the user's, or an engine, bring up before a run and take down after it (docs/bringing-up.md). A
//! process that outlives Plimsoll runs both ([`crate::command_keeper`]).

use crate::PlatformError;
use crate::command_keeper::{DOWN_LOG, Ended, Job, Said, UP_ERRORS, UP_OUTPUT};
use crate::component::is_installed;
use crate::engine::{self, Step};
use crate::folder::{Folder, private};
use crate::guard::{Bounds, Guarded, guarded};
use crate::line::Lines;
use crate::options::Options;
use crate::output::{end_of, last_lines, last_words};
use plimsoll_model::Nanos;
use plimsoll_model::text::one_line;
use plimsoll_scenario::plan::CommandPlan;
use plimsoll_scenario::{BroughtUp, LONGEST_OUTPUT};
use rustix::fs::{Access, access};
use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How much longer than a command the keeper may take until it says what became of it.
const SLACK: Duration = Duration::from_secs(30);
/// What the keeper itself says, in the folder.
const KEEPER_LOG: &str = "keeper.log";
/// The variable that has the run's id in the environment of both commands.
const RUN: &str = "PLIMSOLL_RUN";
/// What a held platform's engine says when it is released.
const RELEASE_LOG: &str = "release.log";
/// How long a command that is not wanted any more may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);
/// What a note has of the last words of a command, in characters.
const EXCERPT: usize = 300;

/// A platform that is being brought up, or is up, by a command. Dropping it takes it down.
#[derive(Debug)]
pub struct Commanded {
    plan: CommandPlan,
    /// The run's id.
    run: String,
    keeper: Child,
    /// That it is closed says to the keeper that the platform is not wanted any more.
    line: UnixStream,
    heard: Lines,
    said: VecDeque<Said>,
    /// Where the platform is, for people, once that was printed.
    place: Option<String>,
    is_down: bool,
    /// The command that lets a held platform go on, until that is done.
    release: Option<Vec<String>>,
    /// Has what the commands say, and is removed with this.
    folder: Folder,
}

/// What came of listening to the keeper.
enum Heard {
    /// This.
    Said(Said),
    /// The user wants to stop.
    Stopped,
    /// Nothing for too long, or it has ended.
    Nothing,
}

impl Commanded {
    /// Begins to bring a platform up for the run of that id. From now on it is taken down, whatever happens. Where `held` is set
    /// and its engine is able to, it stands still until [`Commanded::release`].
    ///
    /// # Errors
    /// This program cannot be started, or there is no folder for what the commands say.
    pub fn begin(
        plan: &CommandPlan,
        run: &str,
        held: bool,
        options: &Options,
    ) -> Result<Commanded, PlatformError> {
        let failed = |error: io::Error| PlatformError::Up {
            command: plan.up.join(" "),
            what: format!("could not be begun: {error}"),
            log: String::new(),
        };
        let folder = Folder::fresh(&options.program).map_err(failed)?;
        // The keeper's commands run elsewhere.
        let path = std::path::absolute(folder.path()).map_err(failed)?;
        let errors = private(&path.join(KEEPER_LOG)).map_err(failed)?;
        let [up, down, release] = match &plan.engine {
            None => [plan.up.clone(), plan.down.clone(), Vec::new()],
            Some(engine) => {
                // They run elsewhere, too.
                let program = std::path::absolute(&options.program).map_err(failed)?;
                let held = held && engine::can_hold(engine);
                let job =
                    engine::Job { plan: engine.clone(), run: run.to_owned(), folder: path.clone(), held };
                let call = |step| job.call(&program, step).map_err(failed);
                [call(Step::Up)?, call(Step::Down)?, if held { call(Step::Release)? } else { Vec::new() }]
            }
        };
        let job = Job {
            folder: path,
            place: plan.folder.to_string_lossy().into_owned(),
            up,
            down,
            within: duration(plan.within),
            down_within: duration(plan.down_within),
        };
        let job = job.spoken().map_err(failed)?;
        let (mut line, other) = UnixStream::pair().map_err(failed)?;
        let mut call = Command::new(&options.program);
        // Ctrl-C at the terminal reaches Plimsoll alone.
        call.args(["guard", "platform"]).env(RUN, run).process_group(0);
        // Those who read our output must not wait for it.
        call.stdin(OwnedFd::from(other)).stdout(Stdio::null()).stderr(errors);
        let keeper = call.spawn();
        let keeper =
            keeper.map_err(|cause| PlatformError::Program { path: options.program.clone(), cause })?;
        // It holds the other end.
        drop(call);
        let said = line.set_read_timeout(Some(LOOK)).and_then(|()| line.write_all(&job));
        let commanded = Commanded {
            plan: plan.clone(),
            run: run.to_owned(),
            keeper,
            line,
            heard: Lines::default(),
            said: VecDeque::new(),
            place: None,
            is_down: false,
            release: (!release.is_empty()).then_some(release),
            folder,
        };
        said.map_err(failed)?;
        Ok(commanded)
    }

    /// Waits until the platform is up, and reads what the command printed. Whatever comes of it, [`Commanded::take_down`] is to
    /// be called.
    ///
    /// # Errors
    /// The command failed, took too long, or did not print what it should; the user stopped the run.
    pub fn await_up(&mut self, stop: &AtomicBool) -> Result<BroughtUp, PlatformError> {
        let most = duration(self.plan.within);
        let ended = match self.hear(most + SLACK, Some(stop)) {
            Heard::Said(Said::Up(ended)) => ended,
            Heard::Stopped => return Err(PlatformError::Interrupted),
            Heard::Said(Said::Down(_)) | Heard::Nothing => {
                let said = last_lines(&self.folder.path().join(KEEPER_LOG)).join("; ");
                return Err(
                    self.failed(format!("is without its keeper, which has ended or stands still {said}"))
                );
            }
        };
        if !ended.is_good() {
            let longer = format!("; `{}.within` gives it longer", self.plan.key());
            let help = if ended == Ended::Late { longer } else { String::new() };
            return Err(self.failed(format!("{}{help}", ended.in_words(most))));
        }
        let printed = end_of(&self.folder.path().join(UP_OUTPUT), LONGEST_OUTPUT as u64);
        let brought_up = BroughtUp::read(&printed).map_err(|why| {
            self.failed(format!("ended well, but {why} (docs/bringing-up.md has an example)"))
        })?;
        self.place = Some(brought_up.in_words());
        Ok(brought_up)
    }

    /// Whether the platform stands still until it is released.
    pub fn is_held(&self) -> bool {
        self.release.is_some()
    }

    /// Lets a held platform go on, and waits until it is up. One that is not held is left alone.
    ///
    /// # Errors
    /// Its engine failed or took too long; the user stopped the run.
    pub fn release(&mut self, options: &Options) -> Result<(), PlatformError> {
        let Some(command) = self.release.take() else { return Ok(()) };
        let log = self.folder.path().join(RELEASE_LOG);
        let what = |error: io::Error| format!("could not let it go on: {error}");
        let output = private(&log).map_err(|error| self.failed_at(&log, what(error)))?;
        let errors = output.try_clone().map_err(|error| self.failed_at(&log, what(error)))?;
        let mut call = guarded(&options.program, &Bounds { leaves: true, ..Bounds::default() }, &command);
        call.guard.env(RUN, &self.run).stdout(output).stderr(errors);
        if !self.plan.folder.as_os_str().is_empty() {
            call.guard.current_dir(&self.plan.folder);
        }
        let mut process = Guarded::start(call).map_err(|error| self.failed_at(&log, what(error)))?;
        let (begin, most) = (Instant::now(), duration(self.plan.within));
        loop {
            let ended = match process.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => Ended::With(status.into_raw()),
                _ if options.stop.load(Ordering::Relaxed) => {
                    process.end(GRACE);
                    return Err(PlatformError::Interrupted);
                }
                _ if begin.elapsed() < most => {
                    thread::sleep(LOOK);
                    continue;
                }
                _ => {
                    process.end(GRACE);
                    Ended::Late
                }
            };
            return Err(self.failed_at(&log, ended.in_words(most)));
        }
    }

    /// Takes the platform down, also where it is not up yet; what of it may still run, for people. Does so once.
    pub fn take_down(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.is_down, true) {
            return None;
        }
        // The other way stays open: the keeper says what became of the command.
        let _ = self.line.shutdown(Shutdown::Write);
        let most = duration(self.plan.down_within);
        let ended = loop {
            match self.hear(most + SLACK, None) {
                Heard::Said(Said::Down(ended)) => break Some(ended),
                // Nobody has waited for that.
                Heard::Said(Said::Up(_)) => {}
                Heard::Stopped | Heard::Nothing => break None,
            }
        };
        let what = match ended {
            Some(ended) => {
                // It has nothing left to do.
                let _ = self.keeper.wait();
                if ended.is_good() {
                    return None;
                }
                ended.in_words(most)
            }
            None => "is without its keeper, which has ended or stands still".to_owned(),
        };
        let command = self.plan.down.join(" ");
        let place = self.place.as_ref().map_or_else(String::new, |place| format!(" at {place}"));
        let said = one_line(&last_lines(&self.folder.path().join(DOWN_LOG)).join(" | "), EXCERPT);
        let said = if said.is_empty() { said } else { format!("; it said: {said}") };
        Some(format!(
            "`{command}`, which takes the platform down, {what}: parts of the platform{place} may still run{said}"
        ))
    }

    fn failed(&self, what: String) -> PlatformError {
        self.failed_at(&self.folder.path().join(UP_ERRORS), what)
    }

    /// The same where its last words are in that file.
    fn failed_at(&self, log: &Path, what: String) -> PlatformError {
        let log = format!("; the last that it said on standard error:\n{}", last_words(log));
        PlatformError::Up { command: self.plan.up.join(" "), what, log }
    }

    /// Listens to the keeper for so long, or until the user wants to stop.
    fn hear(&mut self, patience: Duration, stop: Option<&AtomicBool>) -> Heard {
        let begin = Instant::now();
        let mut bytes = [0; 1024];
        loop {
            if let Some(said) = self.said.pop_front() {
                return Heard::Said(said);
            }
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Heard::Stopped;
            }
            if begin.elapsed() > patience {
                return Heard::Nothing;
            }
            match self.line.read(&mut bytes) {
                Ok(count @ 1..) => {
                    let lines = self.heard.complete(bytes.get(..count).unwrap_or_default());
                    self.said.extend(lines.iter().filter_map(|line| Said::parse(line)));
                }
                Err(error) if is_passing(&error) => {}
                Ok(0) | Err(_) => return Heard::Nothing,
            }
        }
    }
}

impl Drop for Commanded {
    fn drop(&mut self) {
        let _ = self.take_down();
    }
}

/// Whether it only means that nothing was said meanwhile.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.0.try_into().unwrap_or(0))
}

/// Finds out whether the programs of both commands can be run, or that of an engine, whose files must be there.
///
/// # Errors
/// Which one cannot, and what to do, for people.
pub fn check_commands(plan: &CommandPlan) -> Result<(), String> {
    if let Some(engine) = &plan.engine {
        return engine::obstacle(engine, &plan.folder).map_or(Ok(()), Err);
    }
    for (key, command) in [("up", &plan.up), ("down", &plan.down)] {
        let obstacle = command.first().and_then(|program| obstacle(program, &plan.folder));
        if let Some(obstacle) = obstacle {
            return Err(format!("platform.command.{key}: {obstacle}"));
        }
    }
    Ok(())
}

/// Why a program of that name cannot be run.
fn obstacle(program: &str, folder: &Path) -> Option<String> {
    if !program.contains('/') {
        let help = format!("install it, or write `./{program}` for a file in the folder of the scenario");
        return (!is_installed(program)).then(|| format!("the command `{program}` is not installed; {help}"));
    }
    let path = folder.join(program);
    let shown = path.display();
    match fs::metadata(&path) {
        Err(error) => Some(format!("`{shown}` cannot be run: {error}")),
        Ok(data) if !data.is_file() => Some(format!("`{shown}` cannot be run: it is no file")),
        Ok(_) => {
            let is_executable = access(path.as_path(), Access::EXEC_OK).is_ok();
            (!is_executable).then(|| format!("`{shown}` cannot be run: allow that with `chmod +x {shown}`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn programs_that_cannot_be_run_are_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        file("up.sh", 0o755);
        file("down.sh", 0o644);
        let plan = |up: &str, down: &str| CommandPlan {
            up: vec![up.to_owned(), "3".to_owned()],
            down: vec![down.to_owned()],
            engine: None,
            within: Nanos::from_secs(1),
            down_within: Nanos::from_secs(1),
            folder: folder.path().to_owned(),
        };
        assert_eq!(check_commands(&plan("./up.sh", "sh")), Ok(()));
        for (up, down, said) in [
            ("./up.sh", "./down.sh", ["platform.command.down", "chmod +x"]),
            ("./none.sh", "sh", ["platform.command.up", "No such file"]),
            ("./", "sh", ["platform.command.up", "it is no file"]),
            ("plimsoll-none", "sh", ["platform.command.up", "write `./plimsoll-none`"]),
        ] {
            let error = check_commands(&plan(up, down)).unwrap_err();
            assert!(said.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
