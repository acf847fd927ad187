//! What `plimsoll guard platform` does: runs the command that brings a platform up, waits until Plimsoll wants the platform no
//! more or is gone, and runs the command that takes it down. So that one is run once, however Plimsoll ends. Both run below
//! guards of their own ([`crate::supervise`]).

use crate::folder::{private, stay_in, write_private};
use crate::guard::{Bounds, Guarded, guarded, heard, spoken};
use crate::guarding::{await_close, take_name};
use crate::output::end_of;
use plimsoll_model::text::one_line;
use plimsoll_scenario::{LONGEST_OUTPUT, last_object};
use rustix::net::{SendFlags, send};
use std::fmt;
use std::io::{self, BufRead};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a command may take to end when it is asked to, before it is killed.
const GRACE: Duration = Duration::from_secs(3);
/// Longest reason why a command was not started, in characters.
const LONGEST_REASON: usize = 200;

/// Files of a job in its folder: what `up` prints, what it says beside, its object alone, and what `down` says.
pub(crate) const UP_OUTPUT: &str = "up.stdout";
pub(crate) const UP_ERRORS: &str = "up.log";
const UP_OBJECT: &str = "up.json";
pub(crate) const DOWN_LOG: &str = "down.log";

/// What is to be run, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Has the files above.
    pub folder: PathBuf,
    /// Both commands run there; empty for where this process runs.
    pub place: String,
    pub up: Vec<String>,
    pub down: Vec<String>,
    pub within: Duration,
    pub down_within: Duration,
}

impl Job {
    /// As bytes for the line to the keeper.
    ///
    /// # Errors
    /// The folder's path is no UTF-8.
    pub fn spoken(&self) -> io::Result<Vec<u8>> {
        let folder = self.folder.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        let times = [self.within, self.down_within].map(|time| time.as_nanos().to_string());
        let words = [folder.to_owned(), self.place.clone(), self.up.len().to_string()];
        let words: Vec<String> =
            words.iter().chain(&times).chain(&self.up).chain(&self.down).cloned().collect();
        Ok(spoken(&words))
    }

    /// Reads what [`Job::spoken`] gave.
    pub fn heard(line: &mut impl BufRead) -> io::Result<Job> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let words = heard(line)?;
        let [folder, place, count, within, down_within, commands @ ..] = &words[..] else {
            return Err(wrong());
        };
        let number = |text: &String| text.parse::<u64>().map_err(|_| wrong());
        let time = |text: &String| number(text).map(Duration::from_nanos);
        let count = usize::try_from(number(count)?).map_err(|_| wrong())?;
        let (up, down) = commands.split_at_checked(count).ok_or_else(wrong)?;
        Ok(Job {
            folder: PathBuf::from(folder),
            place: place.clone(),
            up: up.to_vec(),
            down: down.to_vec(),
            within: time(within)?,
            down_within: time(down_within)?,
        })
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with that status as the operating system has it.
    With(i32),
    /// It took too long and was killed.
    Late,
    /// Plimsoll was gone or did not want it any more, and it was killed.
    Stopped,
    /// It was not begun: why.
    Never(String),
}

impl Ended {
    /// Whether it did what it should.
    pub fn is_good(&self) -> bool {
        *self == Ended::With(0)
    }

    /// For people, behind the command: what it did in place of ending well. `most` is how long it might take.
    pub fn in_words(&self, most: Duration) -> String {
        match self {
            Ended::With(status) => format!("ended with {}", ExitStatus::from_raw(*status)),
            Ended::Late => format!("took longer than {} s and was killed", most.as_secs_f64()),
            Ended::Stopped => "was killed, for nobody wanted it any more".to_owned(),
            Ended::Never(why) => format!("could not be started: {why}"),
        }
    }
}

/// What the keeper says: a line for each command when it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The command that brings the platform up.
    Up(Ended),
    /// The one that takes it down.
    Down(Ended),
}

impl Said {
    /// Reads a line; `None` where a keeper says no such thing.
    pub fn parse(line: &str) -> Option<Said> {
        let (which, how) = line.split_once(' ')?;
        let ended = match how.split_once(' ') {
            None if how == "late" => Ended::Late,
            None if how == "stopped" => Ended::Stopped,
            Some(("with", status)) => Ended::With(status.parse().ok()?),
            Some(("never", why)) => Ended::Never(why.to_owned()),
            _ => return None,
        };
        match which {
            "up" => Some(Said::Up(ended)),
            "down" => Some(Said::Down(ended)),
            _ => None,
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (which, ended) = match self {
            Said::Up(ended) => ("up", ended),
            Said::Down(ended) => ("down", ended),
        };
        match ended {
            Ended::With(status) => write!(f, "{which} with {status}"),
            Ended::Late => write!(f, "{which} late"),
            Ended::Stopped => write!(f, "{which} stopped"),
            Ended::Never(why) => write!(f, "{which} never {why}"),
        }
    }
}

/// Does the job that standard input says: brings a platform up, and takes it down when standard input is closed. `program` is
/// this program.
///
/// # Errors
/// Plimsoll is gone already, and nothing was begun.
pub fn keep(program: &Path) -> io::Result<()> {
    take_name();
    let line = io::stdin();
    let job = Job::heard(&mut line.lock())?;
    // The files stay until this process ends.
    let _lock = stay_in(&job.folder)?;
    let is_unwanted = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_unwanted);
    let waiting = thread::spawn(move || {
        await_close(line);
        seen.store(true, Ordering::Relaxed);
    });
    let output = (UP_OUTPUT, UP_ERRORS);
    // What a platform is made of goes on when the command has ended well.
    let bounds = Bounds { leaves: true, ..Bounds::default() };
    let up = carry_out(program, &job, &job.up, &bounds, output, job.within, &is_unwanted);
    say(&Said::Up(up));
    let _ = waiting.join();
    let object = job.folder.join(UP_OBJECT);
    let printed = end_of(&job.folder.join(UP_OUTPUT), LONGEST_OUTPUT as u64);
    let written = write_private(&object, last_object(&printed).unwrap_or_default());
    let bounds = Bounds { input: written.ok().map(|()| object), ..Bounds::default() };
    let output = (DOWN_LOG, DOWN_LOG);
    let is_wanted = AtomicBool::new(false);
    let down = carry_out(program, &job, &job.down, &bounds, output, job.down_within, &is_wanted);
    say(&Said::Down(down));
    Ok(())
}

/// Runs a command to its end, until it has taken too long, or until `is_unwanted`.
fn carry_out(
    program: &Path,
    job: &Job,
    command: &[String],
    bounds: &Bounds,
    (output, errors): (&str, &str),
    within: Duration,
    is_unwanted: &AtomicBool,
) -> Ended {
    let start = || {
        let mut call = guarded(program, bounds, command);
        call.guard.stdout(private(&job.folder.join(output))?).stderr(private(&job.folder.join(errors))?);
        if !job.place.is_empty() {
            call.guard.current_dir(&job.place);
        }
        Guarded::start(call)
    };
    let mut process = match start() {
        Ok(process) => process,
        Err(error) => return Ended::Never(one_line(&error.to_string(), LONGEST_REASON)),
    };
    let begin = Instant::now();
    loop {
        if let Ok(Some(status)) = process.try_wait() {
            return Ended::With(status.into_raw());
        }
        let ended = match (is_unwanted.load(Ordering::Relaxed), begin.elapsed() >= within) {
            (true, _) => Ended::Stopped,
            (false, true) => Ended::Late,
            (false, false) => {
                thread::sleep(PAUSE);
                continue;
            }
        };
        process.end(GRACE);
        return ended;
    }
}

/// Says something to Plimsoll, which may be gone.
fn say(said: &Said) {
    let _ = send(io::stdin().as_fd(), format!("{said}\n").as_bytes(), SendFlags::NOSIGNAL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_heard_as_it_was_said() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let job = Job {
            folder: PathBuf::from("/tmp/a b"),
            place: String::new(),
            up: words("./up.sh 3 "),
            down: words("terraform destroy"),
            within: Duration::from_secs(600),
            down_within: Duration::from_nanos(7),
        };
        let said = job.spoken().unwrap();
        assert_eq!(Job::heard(&mut said.as_slice()).unwrap(), job);
        for length in 0..said.len() {
            assert!(Job::heard(&mut said.get(..length).unwrap()).is_err(), "of {length} bytes");
        }
        assert!(Job::heard(&mut &spoken(&words("/f p 9 1 1 up"))[..]).is_err(), "fewer words than it says");
    }

    #[test]
    fn what_became_of_a_command_is_said_in_a_line() {
        for ended in
            [Ended::With(0), Ended::With(256), Ended::Late, Ended::Stopped, Ended::Never("a b".into())]
        {
            for said in [Said::Up(ended.clone()), Said::Down(ended.clone())] {
                assert_eq!(Said::parse(&said.to_string()), Some(said));
            }
        }
        for line in ["", "up", "up with", "up with x", "up early", "off late", "up late 3", "late"] {
            assert_eq!(Said::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_end_of_a_command_is_told_in_words() {
        let words = |ended: Ended| ended.in_words(Duration::from_millis(1500));
        assert_eq!(words(Ended::With(3 << 8)), "ended with exit status: 3");
        assert_eq!(words(Ended::With(9)), "ended with signal: 9 (SIGKILL)");
        assert_eq!(words(Ended::Late), "took longer than 1.5 s and was killed");
        assert!(Ended::With(0).is_good() && !Ended::With(9).is_good() && !Ended::Late.is_good());
    }
}
