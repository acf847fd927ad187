//! Becomes another program whose life ends with its parent's. `plimsoll guard` runs this: a component is started by
//! way of it, so that it dies with Plimsoll however that ends, a kill included.

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A command that ends with this process, bound to processors (none for any), without standard input. `program` is this
/// program. It leads a process group of its own: Ctrl-C at the terminal reaches Plimsoll alone, which then ends it (see
/// [`crate::end`]).
pub fn guarded(program: &Path, processors: &[usize], command: &[String]) -> Command {
    let processors: Vec<String> = processors.iter().map(ToString::to_string).collect();
    let mut call = Command::new(program);
    call.args(["guard", "--parent", &std::process::id().to_string()])
        .args(["--processors", &processors.join(",")])
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .process_group(0);
    call
}

/// Binds this process to processors, asks the kernel to kill it when its parent ends, and becomes the command.
/// Returns only where that fails.
pub fn become_command(parent: i32, processors: &[usize], command: &[String]) -> std::io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have died before the kernel was asked.
    if getppid().map(Pid::as_raw_pid) != Some(parent) {
        return std::io::Error::other("the process that started this component is gone");
    }
    if !processors.is_empty() {
        let mut set = CpuSet::new();
        processors.iter().for_each(|&processor| set.set(processor));
        if let Err(error) = sched_setaffinity(None, &set) {
            return error.into();
        }
    }
    match command.split_first() {
        Some((program, arguments)) => Command::new(program).args(arguments).exec(),
        None => std::io::Error::other("no command was given"),
    }
}
