//! What `plimsoll guard` does: stands between Plimsoll and a command, and outlives both.
//!
//! Whatever the command starts becomes a child of the guard once its own parent is gone (`PR_SET_CHILD_SUBREAPER`), daemons
//! that leave their group, session, environment and user included. So the guard finds all of it, and kills it when the
//! command has ended, or when its line to Plimsoll is closed, which the kernel does however Plimsoll ends. Where somebody
//! kills the guard as well, the kernel kills the command (`PR_SET_PDEATHSIG`).
//!
//! As long as the command runs, the guard slows it where Plimsoll asks for it (`slowing`).

use crate::clock::monotonic;
use crate::control_group::ControlGroups;
use crate::folder;
use crate::guard::{Bounds, heard};
use crate::guarding::{hear, take_name};
use crate::line::{Lines, Request, Told};
use crate::slowing::Slowing;
use crate::small_folder;
use crate::user::to_become;
use plimsoll_observe::family::family;
use rustix::fs::Mode;
use rustix::net::{SendFlags, send};
use rustix::process::{
    Gid, Pid, Resource, Rlimit, Signal, Uid, WaitOptions, WaitStatus, getpid, getppid, kill_process,
    kill_process_group, set_child_subreaper, set_parent_process_death_signal, setrlimit, umask, wait,
};
use rustix::thread::{CpuSet, sched_setaffinity, set_thread_gid, set_thread_groups, set_thread_uid};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// How long the command may take to end by itself where Plimsoll is gone.
const GRACE: Duration = Duration::from_millis(500);
/// How often descendants are looked for: one may start another while it is looked at, and one that the kernel holds takes time
/// to die.
const LOOKS: usize = 500;
/// How a shell ends whose last command was killed.
const KILLED: i32 = 128 + 9;
/// How often a signal is raised that shall end the guard: a first one may be caught by Rust's own handler.
const RAISES: usize = 3;

/// Starts the command that standard input says below this process, and returns when it and all that it has started have
/// ended: its exit code. Where a signal ended it, the same one ends this process.
///
/// # Errors
/// Plimsoll is gone already; the operating system does not start the command.
pub fn supervise(program: &Path, parent: i32, bounds: &Bounds) -> io::Result<u8> {
    take_name();
    let line = io::stdin();
    let command = heard(&mut line.lock())?;
    set_child_subreaper(Some(getpid()))?;
    // Held until this process ends.
    let _lock = bounds.folder.as_deref().map(folder::stay_in).transpose()?;
    if is_orphan(parent) {
        return Err(io::Error::other("the process that wanted this component is gone"));
    }
    let control_groups = Arc::new(groups(bounds, getpid())?);
    // Removed when all that is in them has ended.
    let made = control_groups.make()?;
    // Before there is another thread: those that are started later have the same file systems.
    bounds.small_folder.as_ref().map_or(Ok(()), |(folder, size)| small_folder::take(folder, *size))?;
    let mut call = Command::new(program);
    call.args(["guard", "become", "--parent", &std::process::id().to_string()]).args(bounds.arguments());
    let input = bounds.input.as_deref().map(File::open).transpose()?;
    let input = input.map_or_else(Stdio::null, Stdio::from);
    let child = call.arg("--").args(command).stdin(input).process_group(0).spawn()?;
    tell(Told::Started(child.id() as i32));
    let slowing = Arc::new(Slowing::new(
        Arc::clone(&control_groups),
        bounds.small_folder.as_ref().map(|(folder, _)| folder.clone()),
    ));
    let carried_out = Arc::clone(&slowing);
    thread::spawn(move || carried_out.carry_out(tell));
    let asked = Arc::clone(&slowing);
    let group = Pid::from_child(&child);
    thread::spawn(move || {
        let mut lines = Lines::default();
        hear(line, |bytes| {
            for request in lines.complete(bytes).iter().filter_map(|line| Request::parse(line)) {
                match request {
                    Request::Slow(slowdown) => asked.add(slowdown),
                    Request::Release => asked.release(),
                }
            }
        });
        // What is stopped cannot end by itself.
        asked.release();
        // A database lets go of what the kernel keeps for it only if it is asked to end.
        let _ = kill_process_group(group, Signal::TERM);
        let begin = Instant::now();
        while begin.elapsed() < GRACE && !descendants().is_empty() {
            thread::sleep(PAUSE);
        }
        end_descendants();
    });
    let status = loop {
        match wait(WaitOptions::empty())? {
            Some((process, status)) if process.as_raw_pid() == child.id() as i32 => break status,
            // A descendant whose parent had gone.
            _ => {}
        }
    };
    // Which of several components ended first is known here alone.
    tell(Told::Ended { at: monotonic() });
    slowing.release();
    slowing.await_told();
    if !(bounds.leaves && status.exit_status() == Some(0)) {
        end_descendants();
    }
    // One that ended otherwise may only have had a child that was killed.
    let was_killed =
        status.terminating_signal() == Some(Signal::KILL.as_raw()) || status.exit_status() == Some(KILLED);
    if let Some(told) = control_groups.killing().filter(|_| was_killed) {
        // The last of its log is what people read.
        eprintln!("{told}");
    }
    // What follows may not return.
    drop(made);
    Ok(end_like(status))
}

/// Binds this process to processors, becomes another user, asks the kernel to kill it when its parent ends, and becomes the
/// command. Returns only where that fails.
pub fn become_command(parent: i32, bounds: &Bounds, command: &[String]) -> io::Error {
    match prepare(parent, bounds, command) {
        Ok(mut command) => command.exec(),
        Err(error) => error,
    }
}

/// Tells Plimsoll, which may be gone or not listen.
fn tell(told: Told) {
    let line = format!("{told}\n");
    let _ = send(io::stdin().as_fd(), line.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// The control groups of what a guard has started.
fn groups(bounds: &Bounds, guard: Pid) -> io::Result<ControlGroups> {
    let folder = bounds.folder.as_deref();
    folder.map_or(Ok(ControlGroups::default()), |folder| ControlGroups::of(folder, guard, bounds.quota))
}

fn prepare(parent: i32, bounds: &Bounds, command: &[String]) -> io::Result<Command> {
    if bounds.private {
        umask(Mode::RWXG | Mode::RWXO);
    }
    if !bounds.processors.is_empty() {
        let mut set = CpuSet::new();
        bounds.processors.iter().for_each(|&processor| set.set(processor));
        sched_setaffinity(None, &set)?;
    }
    if let Some(most) = bounds.data {
        setrlimit(Resource::Data, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    // Before the change of user, who may not.
    if let Some(guard) = Pid::from_raw(parent) {
        groups(bounds, guard)?.join()?;
    }
    if let Some(user) = bounds.user.as_deref().and_then(to_become).transpose()? {
        // This thread alone changes. The command takes its place, and no other thread stays.
        set_thread_groups(&[])?;
        set_thread_gid(Gid::from_raw(user.group))?;
        set_thread_uid(Uid::from_raw(user.id))?;
    }
    // A change of user would make the kernel forget it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the kernel was asked.
    if is_orphan(parent) {
        return Err(io::Error::other("the process that started this component is gone"));
    }
    let (program, arguments) =
        command.split_first().ok_or_else(|| io::Error::other("no command was given"))?;
    let mut call = Command::new(program);
    call.args(arguments);
    Ok(call)
}

fn is_orphan(parent: i32) -> bool {
    getppid().map(Pid::as_raw_pid) != Some(parent)
}

/// Kills all that descends from this process.
fn end_descendants() {
    for _ in 0..LOOKS {
        let descendants = descendants();
        if descendants.is_empty() {
            return;
        }
        for descendant in descendants {
            // One that has just ended is no failure.
            let _ = kill_process(descendant, Signal::KILL);
        }
        thread::sleep(PAUSE);
    }
}

/// The processes below this one that have not ended.
fn descendants() -> Vec<Pid> {
    let own = getpid();
    let family = family(own.as_raw_pid()).into_iter();
    family.filter_map(|(process, _)| Pid::from_raw(process.pid)).filter(|pid| *pid != own).collect()
}

/// The exit code of a process that ended with that status; does not return where a signal ended it.
fn end_like(status: WaitStatus) -> u8 {
    let Some(signal) = status.terminating_signal() else {
        return status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    };
    // The command has left its core where it wanted one.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    for _ in 0..RAISES {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(getpid(), signal);
        }
        thread::sleep(PAUSE);
    }
    u8::try_from(128 + signal).unwrap_or(1)
}
