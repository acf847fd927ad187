//! Which process opens which connection, as the kernel tells it at that moment: also of connections that live shorter than any
//! look at tables. The kernel's trace of socket states (`sock:inet_sock_set_state`) says it, in an instance of tracefs of our
//! own, which disturbs nobody else's; root's rights are needed.

use plimsoll_model::Nanos;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the reader sleeps when there is nothing.
const PAUSE: Duration = Duration::from_millis(5);
/// Connections that are remembered: those that come later have no known owner.
const MOST: usize = 1 << 20;
/// Connections that are being opened.
const OPENING: usize = 1 << 14;
/// Generations of processes that are looked at.
const ANCESTORS: usize = 32;
/// Names of our instances: a number of a process follows.
const NAME: &str = "plimsoll-";
/// What is listened to: states of sockets, and who begins processes and threads.
const STATES: &str = "events/sock/inet_sock_set_state";
const FORKS: &str = "events/sched/sched_process_fork";
/// Threads and processes of which it is remembered who began them.
const FORKED: usize = 1 << 16;
/// The states of TCP in the kernel.
const ESTABLISHED: u64 = 1;
const SYN_SENT: u64 = 2;
const FILTER: &str = "newstate == 2 || (oldstate == 2 && newstate == 1)";

/// A connection that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// When, since 1970.
    pub at: Nanos,
    /// The address of who opened it; of IPv6 it is not told.
    pub address: Option<IpAddr>,
    /// Its port.
    pub port: u16,
    /// The port that it was opened to.
    pub to: u16,
    /// The process that opened it, and its ancestors.
    pub processes: Arc<[i32]>,
}

/// Listens to the kernel.
#[derive(Debug)]
pub struct ConnectionTracer {
    stop: Arc<AtomicBool>,
    /// `None` once it has ended.
    reader: Option<JoinHandle<Vec<Opened>>>,
    instance: PathBuf,
    /// Keeps a tracefs that is mounted nowhere.
    _detached: Option<OwnedFd>,
}

impl ConnectionTracer {
    /// Begins to listen; `None` where the kernel or our rights do not allow it.
    pub fn begin() -> Option<ConnectionTracer> {
        let (root, detached) = tracefs()?;
        let instances = root.join("instances");
        remove_stale(&instances);
        let instance = instances.join(format!("{NAME}{}", std::process::id()));
        let _ = fs::remove_dir(&instance);
        fs::create_dir(&instance).ok()?;
        let pipe = prepare(&instance);
        let Some((pipe, offset)) = pipe else {
            let _ = fs::remove_dir(&instance);
            return None;
        };
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let reader = std::thread::Builder::new()
            .name("connections".into())
            .spawn(move || read(pipe, offset, &ends))
            .inspect_err(|_| {
                let _ = fs::remove_dir(&instance);
            })
            .ok()?;
        Some(ConnectionTracer { stop, reader: Some(reader), instance, _detached: detached })
    }

    /// Ends, and tells which connections were opened, in their order.
    pub fn end(mut self) -> Vec<Opened> {
        self.stop.store(true, Ordering::Relaxed);
        self.reader.take().and_then(|reader| reader.join().ok()).unwrap_or_default()
    }
}

impl Drop for ConnectionTracer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        for event in [STATES, FORKS] {
            let _ = fs::write(self.instance.join(event).join("enable"), "0");
        }
        let _ = fs::remove_dir(&self.instance);
    }
}

/// Where tracefs is, or one that is mounted for us alone.
fn tracefs() -> Option<(PathBuf, Option<OwnedFd>)> {
    let mounted = Path::new("/sys/kernel/tracing");
    if mounted.join("instances").is_dir() {
        return Some((mounted.to_owned(), None));
    }
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_create(&context).ok()?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).ok()?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
    path.join("instances").is_dir().then_some((path, Some(mount)))
}

/// Instances of programs that were killed.
fn remove_stale(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(NAME)).and_then(|text| text.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Asks for the events; their stream, and how far the clock of 1970 is ahead of theirs.
fn prepare(instance: &Path) -> Option<(File, Nanos)> {
    let event = instance.join(STATES);
    fs::write(instance.join("trace_clock"), "mono").ok()?;
    fs::write(instance.join("options/fields"), "1").ok()?;
    fs::write(event.join("filter"), FILTER).ok()?;
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let pipe = File::options().read(true).custom_flags(nonblocking).open(instance.join("trace_pipe")).ok()?;
    // A thread may be gone when it is asked whose it was.
    fs::write(instance.join(FORKS).join("enable"), "1").ok()?;
    fs::write(event.join("enable"), "1").ok()?;
    let nanos = |clock| {
        let now = clock_gettime(clock);
        Nanos(now.tv_sec * 1_000_000_000 + now.tv_nsec)
    };
    Some((pipe, nanos(ClockId::Realtime) - nanos(ClockId::Monotonic)))
}

fn read(mut pipe: File, offset: Nanos, stop: &AtomicBool) -> Vec<Opened> {
    let mut trace = Trace { offset, ..Trace::default() };
    let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        // What was opened before the end is read before it.
        let ends = stop.load(Ordering::Relaxed);
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    text.extend_from_slice(&buffer[..read]);
                    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
                    let lines: Vec<u8> = text.drain(..whole).collect();
                    String::from_utf8_lossy(&lines).lines().for_each(|line| trace.line(line));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if ends {
            return trace.opened;
        }
        trace.families.clear();
        std::thread::sleep(PAUSE);
    }
}

/// Puts together what the kernel tells of a connection: first who opens it, then which port it was given.
#[derive(Debug, Default)]
struct Trace {
    offset: Nanos,
    opening: HashMap<u64, Arc<[i32]>>,
    /// Who began a task.
    parents: HashMap<i32, i32>,
    /// Those of one reading.
    families: HashMap<i32, Arc<[i32]>>,
    opened: Vec<Opened>,
}

impl Trace {
    fn line(&mut self, line: &str) {
        if let Some((_, fields)) = line.split_once(": sched_process_fork: ") {
            return self.forked(fields);
        }
        let Some((head, fields)) = line.split_once(": inet_sock_set_state: ") else { return };
        let field = |name: &str| number(fields, name);
        let (Some(socket), Some(state)) = (field("skaddr"), field("newstate")) else { return };
        match state {
            SYN_SENT => {
                let Some(task) = task(head) else { return };
                let family = self.families.entry(task).or_insert_with(|| family(task, &self.parents));
                if self.opening.len() >= OPENING {
                    self.opening.clear();
                }
                self.opening.insert(socket, Arc::clone(family));
            }
            ESTABLISHED => {
                // Of whom nothing is known, nothing is told.
                let opened = self.opening.remove(&socket).filter(|processes| !processes.is_empty());
                let Some(processes) = opened else { return };
                let port = |name: &str| field(name).and_then(|port| u16::try_from(port).ok());
                let (Some(port), Some(to), Some(at)) = (port("sport"), port("dport"), time(head)) else {
                    return;
                };
                // As it stands in memory.
                let address = field("saddr")
                    .filter(|&address| address != 0)
                    .and_then(|address| u32::try_from(address).ok());
                let address = address.map(|address| IpAddr::V4(Ipv4Addr::from(address.to_ne_bytes())));
                if self.opened.len() < MOST {
                    self.opened.push(Opened { at: at + self.offset, address, port, to, processes });
                }
            }
            _ => {}
        }
    }
}

impl Trace {
    fn forked(&mut self, fields: &str) {
        let field = |name: &str| number(fields, name).and_then(|task| i32::try_from(task).ok());
        let (Some(parent), Some(child)) = (field("parent_pid"), field("child_pid")) else { return };
        if self.parents.len() >= FORKED {
            self.parents.clear();
        }
        self.parents.insert(child, parent);
        // The number is another task's now.
        self.families.remove(&child);
    }
}

/// The number of a field: `sport=0x9bb2 (39858)`.
fn number(fields: &str, name: &str) -> Option<u64> {
    let mut words = fields.split_ascii_whitespace();
    let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
    u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()
}

/// The task of a line that begins with `name-1234  [001] ..... 12.345678`; names may hold anything.
fn task(head: &str) -> Option<i32> {
    let before = head.rsplit_once(" [")?.0;
    before.trim_end().rsplit_once('-')?.1.parse().ok()
}

/// The time of such a line.
fn time(head: &str) -> Option<Nanos> {
    let (seconds, fraction) = head.rsplit_once(' ')?.1.split_once('.')?;
    let digits = u32::try_from(fraction.len()).ok().filter(|&digits| digits <= 9)?;
    let nanos = fraction.parse::<i64>().ok()? * 10_i64.pow(9 - digits);
    Some(Nanos(seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)? + nanos))
}

/// The process of a task and its ancestors, up to the first of all; none where it cannot be followed so far. Of a task that is
/// gone, who began it counts.
fn family(task: i32, parents: &HashMap<i32, i32>) -> Arc<[i32]> {
    let status = |process: i32| fs::read_to_string(format!("/proc/{process}/status")).ok();
    let value = |status: &str, key: &str| -> Option<i32> {
        status.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
    };
    let (mut processes, mut next) = (Vec::new(), task);
    for _ in 0..ANCESTORS {
        if next == 0 {
            return processes.into();
        }
        match status(next) {
            Some(status) => {
                let (Some(process), Some(parent)) = (value(&status, "Tgid:"), value(&status, "PPid:")) else {
                    break;
                };
                processes.push(process);
                next = parent;
            }
            None => match parents.get(&next) {
                Some(&parent) => {
                    processes.push(next);
                    next = parent;
                }
                None => break,
            },
        }
    }
    Arc::from([])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// Beyond the highest number of a task.
    const GONE: i32 = 4_194_999;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let mut trace = Trace { offset: Nanos(10), ..Trace::default() };
        let own = std::process::id() as i32;
        // A thread that is gone, of this process.
        trace.line(&format!(
            " a-1 [000] ..... 1.5: sched_process_fork: parent_pid={own:#x} ({own}) child_pid={GONE:#x} (1) x"
        ));
        let head = "  a b-3 [x-4194999    [000] .....  2703.664862: inet_sock_set_state: skaddr=0xffff88812ca16f00 (-131)";
        trace.line(&format!("{head} oldstate=0x7 (7) newstate=0x2 (2) sport=0x0 (0) dport=0xd06d (53357)"));
        trace.line(&format!(
            "{head} oldstate=0x2 (2) newstate=0x1 (1) sport=0x9bb2 (39858) dport=0xd06d (53357) saddr=0x100007f (16777343) x"
        ));
        trace.line(&format!("{head} oldstate=0x2 (2) newstate=0x1 (1) sport=0x9bb2 (39858)"));
        for line in ["", "x", ": inet_sock_set_state: ", "-9: inet_sock_set_state: skaddr=0x newstate=0x2"] {
            trace.line(line);
        }
        let one = &trace.opened[0];
        assert_eq!((one.at, one.port, one.to), (Nanos(2_703_664_862_010), 39858, 53357));
        assert_eq!((&one.processes[..2], trace.opened.len()), (&[GONE, own][..], 1));
        assert_eq!(one.address.map(|address| address.is_loopback()), Some(cfg!(target_endian = "little")));
    }

    #[test]
    fn connections_that_live_for_a_moment_have_an_owner() {
        // Where the kernel does not tell, nothing is told.
        let Some(opened) = ConnectionTracer::begin() else {
            return assert!(!rustix::process::geteuid().is_root());
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let connect = move || TcpStream::connect(to).unwrap().local_addr().unwrap().port();
        let ports: Vec<u16> = (0..100).map(|_| std::thread::spawn(connect).join().unwrap()).collect();
        let opened = opened.end();
        let own = std::process::id() as i32;
        let known = |port: &&u16| {
            opened.iter().any(|one| one.port == **port && one.to == to.port() && one.processes.contains(&own))
        };
        assert_eq!(ports.iter().filter(known).count(), 100, "{opened:?}");
    }
}
