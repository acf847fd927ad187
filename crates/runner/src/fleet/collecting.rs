//! What workers kept in a run, brought to the coordinator when the load has ended: captures, put on one clock, and logs.

use super::{Clocks, Fleet, FleetError, Member};
use crate::capturing::{Captured, Death};
use plimsoll_capture::source::Correction;
use plimsoll_model::Nanos;
use plimsoll_observe::host::network_identity;
use plimsoll_platform::folder::make_private;
use plimsoll_workers::message::{Collected, Message, OwnedEnd};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Bytes that a worker may send beside what its capture may hold: logs, keys of TLS sessions, and a packet more in each file.
const BESIDE: u64 = 4 * 1024 * 1024 * 1024;

/// Nothing more comes where nobody has sent anything for so long.
const SILENCE: Duration = Duration::from_secs(60);

/// What workers have of the wire, for the reader of captures.
#[derive(Debug, Default)]
pub struct WireElsewhere {
    /// Servers at workers: their components, and where they listen.
    pub servers: Vec<(String, SocketAddr)>,
    /// What each of the workers captured.
    pub captures: Vec<CapturedElsewhere>,
    /// Whether the run has workers, though what they captured may be lost.
    pub has_workers: bool,
}

/// What one worker has of the wire.
#[derive(Debug)]
pub struct CapturedElsewhere {
    /// Its name.
    pub worker: String,
    /// Its captures, in files here.
    pub captured: Captured,
    /// How its wall clock stood to ours.
    pub clock: Correction,
    /// Within which that is known; `None` where it has ours.
    pub within: Option<Nanos>,
    /// Whether it is in our network, so that its loopback addresses are ours.
    pub is_here: bool,
    /// Whose connections were there.
    pub ends: Vec<OwnedEnd>,
    /// A key log of its TLS sessions, here.
    pub keys: Option<PathBuf>,
}

/// Where it is brought.
#[derive(Debug, Default)]
pub struct Folders {
    /// A folder for captures, which is there, and how the names of files in it begin.
    pub captures: Option<(PathBuf, String)>,
    /// The folder of the run's logs, which is made.
    pub logs: Option<PathBuf>,
}

impl Fleet {
    /// Ends the captures of workers, and brings what they have kept into those folders; what is missing is said for people. What a
    /// worker that is gone has kept is lost.
    pub fn collect(&mut self, folders: &Folders) -> (WireElsewhere, Vec<String>) {
        let (servers, limit) = self.captured.take().unwrap_or_default();
        let mut wire = WireElsewhere { servers, captures: Vec::new(), has_workers: true };
        if folders.captures.is_none() && folders.logs.is_none() {
            return (wire, Vec::new());
        }
        let mut coming: Vec<Coming> = Vec::new();
        for (place, member) in self.members.iter_mut().enumerate() {
            let is_there = !member.is_gone && member.tell(&Message::Collect).is_ok();
            let captures = folders.captures.as_ref();
            coming.push(Coming {
                state: if is_there { State::Awaited } else { State::Gone },
                captures: captures.map(|(folder, name)| {
                    folder.join(format!("{name}-{}", file_name(place, &member.worker.name)))
                }),
                logs: folders.logs.clone(),
                components: member.components.clone(),
                kept: Collected::default(),
                files: Vec::new(),
                open: None,
                room: limit.saturating_add(BESIDE),
            });
        }
        // An interrupt has ended the load; what was kept until then is worth as much as ever.
        let go_on = AtomicBool::new(false);
        let mut heard = Instant::now();
        while coming.iter().any(Coming::is_awaited) && heard.elapsed() < SILENCE {
            match self.turn(&go_on) {
                Ok(messages) => {
                    for (place, message) in messages {
                        heard = Instant::now();
                        coming.get_mut(place).into_iter().for_each(|one| one.take(&message));
                    }
                }
                // The others have kept what they have.
                Err(FleetError::Refused { worker, reason }) => {
                    let of_it = |(_, member): &(&mut Coming, &Member)| member.worker.name == worker;
                    if let Some((one, _)) = coming.iter_mut().zip(&self.members).find(of_it) {
                        one.state = State::Failed(io::Error::other(reason));
                    }
                }
                Err(_) => break,
            }
            for (one, member) in coming.iter_mut().zip(&self.members).filter(|(one, _)| one.is_awaited()) {
                if member.is_lost() {
                    one.state = State::Gone;
                }
            }
        }
        let (mut notes, ours) = (Vec::new(), network_identity());
        for (one, member) in coming.into_iter().zip(&self.members) {
            let worker = member.worker.name.clone();
            match one.state {
                State::Whole => {
                    let is_here = ours.is_some() && member.worker.network == ours;
                    wire.captures.extend(one.captured((worker, is_here), &self.clocks, member.clock));
                }
                State::Failed(error) => {
                    notes.push(format!(
                        "what worker {worker} has kept of the run could not be taken: {error}"
                    ));
                }
                State::Gone | State::Awaited | State::Coming => {
                    notes.push(format!(
                        "what worker {worker} has kept of the run is lost: it was gone, or did not send it"
                    ));
                }
            }
        }
        (wire, notes)
    }
}

/// What a worker sends of what it has kept.
struct Coming {
    state: State,
    /// How the paths of its captures begin, where they are wanted.
    captures: Option<PathBuf>,
    /// The folder of the run's logs, where they are wanted.
    logs: Option<PathBuf>,
    /// The components that stand there.
    components: Vec<String>,
    kept: Collected,
    files: Vec<PathBuf>,
    /// The file that is being written.
    open: Option<File>,
    /// Bytes that may still come.
    room: u64,
}

enum State {
    /// It has not answered yet.
    Awaited,
    /// Its files come.
    Coming,
    /// All of them are here.
    Whole,
    /// It is gone.
    Gone,
    /// They cannot be written.
    Failed(io::Error),
}

impl Coming {
    fn is_awaited(&self) -> bool {
        matches!(self.state, State::Awaited | State::Coming)
    }

    fn take(&mut self, message: &Message) {
        match (message, &self.state) {
            (Message::Collected(kept), State::Awaited) => {
                self.kept = kept.as_ref().clone();
                self.state = State::Coming;
                self.look_whether_whole();
            }
            (Message::FilePart(number, bytes), State::Coming) => {
                let expected = self.files.len() - usize::from(self.open.is_some());
                if usize::from(*number) == expected {
                    match self.write(expected, bytes) {
                        Ok(()) => self.look_whether_whole(),
                        Err(error) => self.state = State::Failed(error),
                    }
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, number: usize, bytes: &[u8]) -> io::Result<()> {
        let left = self.room.checked_sub(bytes.len() as u64);
        self.room = left.ok_or_else(|| io::Error::other("it is more than may come"))?;
        let file = match &mut self.open {
            Some(file) => file,
            none => {
                let path = path_of(
                    number,
                    &self.kept,
                    (self.captures.as_deref(), self.logs.as_deref()),
                    &self.components,
                )?;
                // Passwords may be in it: its owner alone reads it.
                let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
                self.files.push(path);
                none.insert(file)
            }
        };
        match bytes {
            [] => self.open = None,
            bytes => file.write_all(bytes)?,
        }
        Ok(())
    }

    fn look_whether_whole(&mut self) {
        let Collected { captures, has_keys, logs, .. } = &self.kept;
        let all = usize::from(*captures) + usize::from(*has_keys) + logs.len();
        if self.open.is_none() && self.files.len() >= all {
            self.state = State::Whole;
        }
    }

    /// What it has of the wire, where that was wanted.
    fn captured(
        mut self,
        (worker, is_here): (String, bool),
        clocks: &Clocks,
        clock: Option<usize>,
    ) -> Option<CapturedElsewhere> {
        self.captures?;
        let mut further =
            self.files.split_off(self.files.len().min(usize::from(self.kept.captures))).into_iter();
        let keys = further.next().filter(|_| self.kept.has_keys);
        let Collected { packets, dropped, wrapped, died, ends, .. } = self.kept;
        let (correction, within) = match clock.map(|clock| clocks.track(clock)) {
            Some((points, within)) => (Correction::new(points), Some(within)),
            None => (Correction::default(), None),
        };
        let died = died.map(|(at, why)| Death { at: correction.right(at), why });
        Some(CapturedElsewhere {
            worker,
            captured: Captured { files: self.files, packets, dropped, wrapped, died },
            clock: correction,
            within,
            is_here,
            ends,
            keys,
        })
    }
}

/// Where the file of that number goes.
fn path_of(
    number: usize,
    Collected { captures, has_keys, logs, .. }: &Collected,
    (of_captures, of_logs): (Option<&Path>, Option<&Path>),
    components: &[String],
) -> io::Result<PathBuf> {
    let unwanted = || io::Error::other("it sends a file that nobody wants");
    let captures = usize::from(*captures);
    let Some(log) = number.checked_sub(captures + usize::from(*has_keys)) else {
        let ending = if number < captures { format!("-{number}.pcap") } else { "-keys.log".into() };
        let mut path = of_captures.ok_or_else(unwanted)?.as_os_str().to_owned();
        path.push(ending);
        return Ok(path.into());
    };
    // Only those that were to stand there: a name is no path.
    let component = logs.get(log).filter(|name| components.contains(name)).ok_or_else(unwanted)?;
    let folder = of_logs.ok_or_else(unwanted)?;
    make_private(folder)?;
    Ok(folder.join(format!("{component}.log")))
}

/// The name of a worker as a part of the name of a file; no two are equal.
fn file_name(place: usize, worker: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = worker.chars().map(plain).take(64).collect();
    format!("worker-{}-{name}", place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coming(folder: &Path) -> Coming {
        Coming {
            state: State::Awaited,
            captures: Some(folder.join("run")),
            logs: Some(folder.join("logs")),
            components: vec!["broker".into()],
            kept: Collected::default(),
            files: Vec::new(),
            open: None,
            room: 20,
        }
    }

    fn part(number: u16, bytes: &[u8]) -> Message {
        Message::FilePart(number, bytes.to_vec())
    }

    fn collected(logs: &[&str]) -> Message {
        let logs = logs.iter().map(|name| (*name).to_owned()).collect();
        Message::Collected(Box::new(Collected { captures: 1, has_keys: true, logs, ..Collected::default() }))
    }

    #[test]
    fn captures_come_first_and_then_keys_and_logs() {
        let folder = tempfile::tempdir().unwrap();
        let mut coming = coming(folder.path());
        coming.take(&part(0, b"too soon"));
        coming.take(&collected(&["broker"]));
        let parts: [(u16, &[u8]); 8] = [
            (0, b"one"),
            (7, b"nonsense"),
            (0, b" two"),
            (0, b""),
            (1, b"key"),
            (1, b""),
            (2, b"words"),
            (2, b""),
        ];
        for (number, bytes) in parts {
            assert!(coming.is_awaited());
            coming.take(&part(number, bytes));
        }
        assert!(matches!(coming.state, State::Whole));
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&folder.path().join("logs/broker.log")), "words");
        let one = coming.captured(("w".into(), false), &Clocks::new(None), None).unwrap();
        assert_eq!((one.captured.files.len(), read(&one.captured.files[0])), (1, "one two".to_owned()));
        assert_eq!(read(&one.keys.unwrap()), "key");
        assert_eq!(file_name(0, "a/../b ü"), "worker-1-a----b--");
    }

    #[test]
    fn what_nobody_wants_and_what_is_too_much_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let mut wrong = coming(folder.path());
        wrong.take(&collected(&["../../elsewhere"]));
        for number in [0, 1, 2] {
            wrong.take(&part(number, b""));
        }
        assert!(matches!(wrong.state, State::Failed(_)));
        let mut large = coming(folder.path());
        large.captures = Some(folder.path().join("large"));
        large.take(&collected(&[]));
        large.take(&part(0, &[1; 21]));
        assert!(matches!(large.state, State::Failed(_)));
    }
}
