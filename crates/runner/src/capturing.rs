//! Captures packets with `dumpcap` or `tcpdump`, whichever is installed: no library is linked for it.

mod claim;

use claim::Claim;
use plimsoll_capture::source::{Block, PacketSource};
use plimsoll_model::Nanos;
use plimsoll_observe::containers::containers;
use plimsoll_platform::guard::{Bounds, Guarded, guarded};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a tool may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);
/// The tools hand on packets with a delay: what is captured in the last moment would be missing.
const LAST_PACKETS: Duration = Duration::from_millis(1200);
/// How long a tool may take to end once it is asked.
const GRACE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// The kernel's buffer for packets on their way to the tool, KiB.
const BUFFER: u32 = 64 * 1024;
/// Files of a ring: the oldest is written over.
const RING: u32 = 4;
const MIB: u64 = 1 << 20;
/// The most that is read of what a tool says, bytes.
const LOG: usize = 1 << 20;

/// Where packets are captured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// Of this process.
    Own,
    /// A network namespace by its name (`ip netns`).
    Named(String),
    /// Of a process: that of a container is the one of its first process.
    OfProcess(u32),
}

impl Network {
    /// That of a container or pod that runs on this host.
    pub fn of_container(name: &str) -> Result<Network, CapturingError> {
        let all = containers();
        let mut called = all.iter().filter(|container| container.name == name).map(|one| one.process);
        let found = called.next();
        if let (Some(one), Some(other)) = (found, called.next()) {
            let (name, pids) = (name.to_owned(), format!("{one}, {other}"));
            return Err(CapturingError::SeveralContainers { name, pids });
        }
        found.and_then(|process| u32::try_from(process).ok()).map(Network::OfProcess).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|container| container.name.as_str()).collect();
            CapturingError::NoContainer { name: name.to_owned(), there_are: names.join(", ") }
        })
    }
}

/// What is captured.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// In which network.
    pub network: Network,
    /// On which interface, `any` for all.
    pub interface: String,
    /// Which packets, in the tools' own words; empty for all.
    pub filter: String,
    /// The file.
    pub file: PathBuf,
    /// The most that is kept, bytes; beyond it the oldest packets are written over.
    pub limit: Option<u64>,
    /// Whether packets that are already there may be written over.
    pub replace: bool,
}

/// Why nothing could be captured.
#[derive(Debug, thiserror::Error)]
pub enum CapturingError {
    /// No tool.
    #[error(
        "packets cannot be captured: neither dumpcap nor tcpdump is installed; install one: apt-get install tcpdump"
    )]
    NoTool,
    /// No container of that name.
    #[error(
        "packets cannot be captured: no container is called `{name}`; there are: {there_are}\nothers are found by the number of a process in them (`docker inspect -f '{{{{.State.Pid}}}}' NAME`)"
    )]
    NoContainer {
        /// The name.
        name: String,
        /// Those that were found.
        there_are: String,
    },
    /// Several containers of that name.
    #[error(
        "packets cannot be captured: several containers are called `{name}`; take one by a process in it: {pids}"
    )]
    SeveralContainers {
        /// The name.
        name: String,
        /// A process in each of two.
        pids: String,
    },
    /// No name of a namespace.
    #[error(
        "packets cannot be captured: `{name}` is no network namespace; `ip netns` lists those that have names"
    )]
    NoNamespace {
        /// What was given.
        name: String,
    },
    /// It cannot be started.
    #[error("packets cannot be captured: {command} cannot be started: {cause}")]
    Start {
        /// The tool.
        command: String,
        /// Why.
        cause: std::io::Error,
    },
    /// The file cannot be written.
    #[error("packets cannot be captured into {}: {cause}", file.display())]
    Unwritable {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The file holds packets.
    #[error("{} exists: give the capture another name, or --force to write over it", file.display())]
    Exists {
        /// Which.
        file: PathBuf,
    },
    /// Another capture writes the file.
    #[error("{}: another capture is being written there; give this one another name", file.display())]
    Busy {
        /// Which.
        file: PathBuf,
    },
    /// The user stopped it before it had begun.
    #[error("interrupted")]
    Interrupted,
    /// It refused.
    #[error(
        "packets cannot be captured on {interface}: {tool} says: {words}\ncapturing needs the rights of root or of the capability cap_net_raw"
    )]
    Refused {
        /// Where.
        interface: String,
        /// The tool.
        tool: &'static str,
        /// What it says.
        words: String,
    },
}

/// What was captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The files that hold something, the oldest first.
    pub files: Vec<PathBuf>,
    /// Packets in them; of a pipe or device, those that the tool counted.
    pub packets: u64,
    /// Packets that the kernel dropped since the tool was too slow.
    pub dropped: Option<u64>,
    /// Whether the limit was reached, so that the oldest packets are gone.
    pub wrapped: bool,
    /// Where the files hold nothing of the last part of the time: the tool ended by itself, or could not write.
    pub died: Option<Death>,
}

/// A capture's end before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// When the last packet was captured that is in the files, since 1970; zero where none is.
    pub at: Nanos,
    /// Why, for people.
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Tcpdump,
    Dumpcap,
}

/// A capture that goes on. Dropped, it is stopped.
#[derive(Debug)]
pub struct Capturing {
    child: Guarded,
    tool: Tool,
    wanted: Wanted,
    /// What the tool says; it has no name, so that nothing of it is left however this ends.
    log: File,
    stopped: bool,
    _claim: Claim,
}

impl Capturing {
    /// Begins; returns when packets are being captured, or `stop` is set before. `program` is this program, which sees to it that the tool ends with
    /// it.
    pub fn start(program: &Path, wanted: Wanted, stop: &AtomicBool) -> Result<Capturing, CapturingError> {
        // tcpdump first: it reads the loopback interface of a namespace as well, and is the smaller one.
        let tool = [Tool::Tcpdump, Tool::Dumpcap].into_iter().find(|tool| is_there(tool.name()));
        let tool = tool.ok_or(CapturingError::NoTool)?;
        // Without a limit there is no ring: files with such names are somebody else's.
        let ring = wanted.limit.map(|_| tool.ring(&wanted.file)).unwrap_or_default();
        let claim = Claim::take(&wanted.file, &ring, wanted.replace)?;
        let mut command: Vec<String> = match &wanted.network {
            Network::Own => Vec::new(),
            // It becomes a word of a command, and a file of a folder.
            Network::Named(name) if name.is_empty() || name.starts_with('-') || name.contains('/') => {
                return Err(CapturingError::NoNamespace { name: name.clone() });
            }
            Network::Named(name) => ["ip", "netns", "exec", name].map(str::to_owned).to_vec(),
            Network::OfProcess(pid) => {
                ["nsenter", "-t", &pid.to_string(), "-n", "--"].map(str::to_owned).to_vec()
            }
        };
        command.extend(tool.command(&wanted));
        let failed = |cause| CapturingError::Start { command: command.join(" "), cause };
        let log = tempfile::tempfile().map_err(failed)?;
        let failed = |cause| CapturingError::Start { command: command.join(" "), cause };
        let out = log.try_clone().map_err(failed)?;
        let bounds = Bounds { private: true, ..Bounds::default() };
        let mut call = guarded(program, &bounds, &command);
        call.guard.stdout(Stdio::null()).stderr(out);
        let failed = |cause| CapturingError::Start { command: command.join(" "), cause };
        let child = Guarded::start(call).map_err(failed)?;
        let mut capturing = Capturing { child, tool, wanted, log, stopped: false, _claim: claim };
        capturing.await_begin(stop)?;
        Ok(capturing)
    }

    fn await_begin(&mut self, stop: &AtomicBool) -> Result<(), CapturingError> {
        let begin = Instant::now();
        loop {
            let words = read(&self.log);
            if words.contains("listening on") || words.contains("File: ") {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                // A tool that has not begun holds no packet that it would have to write.
                self.stopped = true;
                self.child.end(Duration::ZERO);
                return Err(CapturingError::Interrupted);
            }
            let ended = !self.child.goes_on();
            if ended || begin.elapsed() > PATIENCE {
                self.stopped = true;
                self.child.end(Duration::ZERO);
                let words = read(&self.log).trim().to_owned();
                let words = if words.is_empty() { "nothing".to_owned() } else { words };
                return Err(CapturingError::Refused {
                    interface: self.wanted.interface.clone(),
                    tool: self.tool.name(),
                    words,
                });
            }
            thread::sleep(PAUSE);
        }
    }

    /// Whether the tool has ended by itself.
    pub fn has_died(&mut self) -> bool {
        !self.child.goes_on()
    }

    /// Waits for the last packets and ends.
    pub fn stop(mut self) -> Captured {
        let died = self.has_died();
        if !died {
            thread::sleep(LAST_PACKETS);
        }
        self.end();
        let words = read(&self.log);
        let files = self.files();
        let (captured, dropped) = self.tool.counts(&words);
        let (packets, at) = if files.iter().all(|path| path.is_file()) {
            held(&files)
        } else {
            // A pipe or a device: what went into it cannot be read again.
            (captured.unwrap_or(0), Nanos::ZERO)
        };
        let wrapped = self.has_turned(&files, captured.is_some_and(|captured| captured > packets));
        // tcpdump goes on where a disk is full, and says nothing.
        let unwritten = captured.filter(|_| !wrapped).map_or(0, |captured| captured.saturating_sub(packets));
        let is_gone = self.wanted.limit.is_none() && !self.wanted.file.exists();
        let why = match (died, unwritten) {
            (false, _) if is_gone => Some("its file was removed".to_owned()),
            (true, _) => Some(self.last_words(&words)),
            (false, 0) => None,
            (false, _) => Some(format!("{unwritten} packets could not be written: is the disk full?")),
        };
        let died = why.map(|why| Death { at, why });
        Captured { files, packets, dropped, wrapped, died }
    }

    /// Why the tool has ended.
    fn last_words(&mut self, words: &str) -> String {
        let status = self.child.try_wait().ok().flatten();
        let status = status.map_or_else(String::new, |status| format!(": {status}"));
        reason(words).map_or_else(|| format!("{} ended{status}", self.tool.name()), str::to_owned)
    }

    fn end(&mut self) {
        self.stopped = true;
        self.child.signal(Signal::INT);
        self.child.await_end(GRACE);
        self.child.end(Duration::from_secs(1));
    }

    /// The file, or those of the ring, the oldest first.
    fn files(&self) -> Vec<PathBuf> {
        let file = &self.wanted.file;
        let mut files = match self.wanted.limit {
            Some(_) => self.tool.ring(file),
            None => vec![file.clone()],
        };
        files.retain(|path| fs::metadata(path).is_ok_and(|data| !data.is_file() || data.len() > 0));
        files.sort_by_key(|path| fs::metadata(path).and_then(|data| data.modified()).ok());
        files
    }

    /// Whether the first file of the ring was written over, or removed. Where the ring has just come round, its first file is
    /// the oldest again, and only that packets are `missing` tells.
    fn has_turned(&self, files: &[PathBuf], missing: bool) -> bool {
        let number = |path: &PathBuf| self.tool.number(&self.wanted.file, path);
        let first = match self.tool {
            Tool::Tcpdump => 0,
            Tool::Dumpcap => 1,
        };
        files.len() as u32 >= RING && missing
            || files.len() > 1 && files.first().and_then(number) != Some(first)
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        if !self.stopped {
            self.end();
        }
    }
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Tool::Tcpdump => "tcpdump",
            Tool::Dumpcap => "dumpcap",
        }
    }

    fn command(self, wanted: &Wanted) -> Vec<String> {
        let file = wanted.file.display().to_string();
        let part = wanted.limit.map(|limit| (limit / u64::from(RING)).max(MIB));
        let mut command = vec![self.name().to_owned(), "-i".to_owned(), wanted.interface.clone()];
        match self {
            Tool::Tcpdump => {
                command.extend(
                    [
                        "-n",
                        "-s",
                        "262144",
                        "-Z",
                        "root",
                        "--immediate-mode",
                        "--time-stamp-precision=nano",
                        "-B",
                    ]
                    .map(str::to_owned),
                );
                command.extend([BUFFER.to_string(), "-w".to_owned(), file]);
                if let Some(part) = part {
                    // In units of a million bytes.
                    let size = (part / 1_000_000).max(1);
                    command.extend(["-C".to_owned(), size.to_string(), "-W".to_owned(), RING.to_string()]);
                }
            }
            Tool::Dumpcap => {
                command.extend(["-q", "-s", "262144", "-B"].map(str::to_owned));
                command.extend([(BUFFER / 1024).to_string(), "-w".to_owned(), file]);
                if let Some(part) = part {
                    let size = format!("filesize:{}", part / 1000);
                    command.extend(["-b".to_owned(), size, "-b".to_owned(), format!("files:{RING}")]);
                }
            }
        }
        if !wanted.filter.is_empty() {
            match self {
                // What begins like an option is none.
                Tool::Tcpdump => command.extend(["--".to_owned(), wanted.filter.clone()]),
                Tool::Dumpcap => command.extend(["-f".to_owned(), wanted.filter.clone()]),
            }
        }
        command
    }

    /// The files of that file's ring that are there.
    fn ring(self, file: &Path) -> Vec<PathBuf> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| self.number(file, path).is_some()).collect()
    }

    /// Which file of its ring a path is: tcpdump appends a number to the name, dumpcap a number from 1 and a time to its
    /// stem.
    fn number(self, file: &Path, path: &Path) -> Option<u64> {
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let (file, path) = (name(file)?, name(path)?);
        match self {
            Tool::Tcpdump => {
                let digits = path.strip_prefix(&file)?;
                let number: u64 = digits.parse().ok()?;
                (number < u64::from(RING) && digits == number.to_string()).then_some(number)
            }
            Tool::Dumpcap => {
                let (stem, extension) = file.rsplit_once('.').unwrap_or((&file, ""));
                let rest = path.strip_prefix(stem)?.strip_prefix('_')?;
                let rest = rest.strip_suffix(extension)?.trim_end_matches('.');
                let (number, time) = rest.split_once('_')?;
                let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
                let is_ours = number.len() == 5 && time.len() >= 8 && are_digits(number) && are_digits(time);
                number.parse().ok().filter(|_| is_ours)
            }
        }
    }

    /// Packets captured and dropped, from the last words.
    fn counts(self, words: &str) -> (Option<u64>, Option<u64>) {
        let before = |what: &str| {
            let line = words.lines().rev().find(|line| line.contains(what))?;
            line.split_whitespace().next()?.parse().ok()
        };
        match self {
            Tool::Tcpdump => (before("packets captured"), before("packets dropped by kernel")),
            // Packets received/dropped on interface 'lo': 10/0 (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0) (100.0%)
            Tool::Dumpcap => {
                let counts = words.lines().rev().find(|line| line.starts_with("Packets received/dropped"));
                let both = counts
                    .and_then(|line| line.rsplit_once("': "))
                    .and_then(|(_, rest)| rest.split_once(' '));
                let both = both.and_then(|(both, _)| both.split_once('/'));
                (
                    both.and_then(|(taken, _)| taken.parse().ok()),
                    both.and_then(|(_, dropped)| dropped.parse().ok()),
                )
            }
        }
    }
}

fn is_there(command: &str) -> bool {
    plimsoll_platform::is_installed(command)
}

/// How many packets those files hold, and when the last of them was captured.
fn held(files: &[PathBuf]) -> (u64, Nanos) {
    let (mut packets, mut last) = (0, Nanos::ZERO);
    // What cannot be read is told by whoever reads it for its contents.
    for mut source in files.iter().filter_map(|path| PacketSource::open(path).ok()) {
        let mut block = Block::default();
        while source.next(&mut block).is_ok_and(|more| more) {
            packets += block.records.len() as u64;
            last = block.records.iter().map(|record| record.at).fold(last, Nanos::max);
        }
    }
    (packets, last)
}

/// The last line of what a tool said that is neither its beginning nor a count.
fn reason(words: &str) -> Option<&str> {
    let is_reason = |line: &&str| !line.contains("listening on") && !line.contains("ackets ");
    words.lines().map(str::trim).rfind(|line| !line.is_empty() && is_reason(line))
}

/// All of a log, whose writer's place in it stays where it is.
fn read(log: &File) -> String {
    let length = log.metadata().map_or(0, |data| data.len());
    let mut words = vec![0; usize::try_from(length).unwrap_or(0).min(LOG)];
    let read = log.read_at(&mut words, 0).unwrap_or(0);
    words.truncate(read);
    String::from_utf8_lossy(&words).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_ring_are_known_from_others() {
        let number = |tool: Tool, path: &str| tool.number(Path::new("/x/c.pcap"), Path::new(path));
        assert_eq!(
            (number(Tool::Tcpdump, "/x/c.pcap2"), number(Tool::Tcpdump, "/x/c.pcap.gz")),
            (Some(2), None)
        );
        assert_eq!(number(Tool::Dumpcap, "/x/c_00003_20261121.pcap"), Some(3));
        assert_eq!(
            [number(Tool::Dumpcap, "/x/c-notes.txt"), number(Tool::Dumpcap, "/x/c.old.pcap")],
            [None, None]
        );
    }

    #[test]
    fn counts_are_read_off_the_tools_last_words() {
        let tcpdump = "listening on lo\n483 packets captured\n966 packets received by filter\n7 packets dropped by kernel\n";
        assert_eq!(Tool::Tcpdump.counts(tcpdump), (Some(483), Some(7)));
        let dumpcap = "Packets captured: 10\nPackets received/dropped on interface 'lo': 10/2 (pcap:0/dumpcap:2) (83.3%)\n";
        assert_eq!(Tool::Dumpcap.counts(dumpcap), (Some(10), Some(2)));
        assert_eq!(Tool::Tcpdump.counts(""), (None, None));
        assert_eq!(reason(tcpdump), None);
        let full = "listening on lo\ntcpdump: Unable to write output: No space left on device\n";
        assert_eq!(reason(full), Some("tcpdump: Unable to write output: No space left on device"));
    }

    #[test]
    fn only_files_that_a_ring_has_written_are_its_own() {
        let number = |tool: Tool, path: &str| tool.number(Path::new("day.pcap"), Path::new(path));
        assert_eq!(number(Tool::Tcpdump, "day.pcap3"), Some(3));
        for others in ["day.pcap", "day.pcap4", "day.pcap03", "day.pcap2024", "day.pcap1x"] {
            assert_eq!(number(Tool::Tcpdump, others), None, "{others}");
        }
        assert_eq!(number(Tool::Dumpcap, "day_00002_20261122051500.pcap"), Some(2));
        for others in ["day_2.pcap", "day_00002.pcap", "day_00002_x.pcap", "day_2026_1.pcap"] {
            assert_eq!(number(Tool::Dumpcap, others), None, "{others}");
        }
    }
}
