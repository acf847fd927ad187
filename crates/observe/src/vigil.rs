//! Notices that a process ends that somebody else has started, and nobody in this program can wait for.

use crate::found::{Place, began, process_at};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::os::fd::OwnedFd;

/// A watch over the first process of a component.
#[derive(Debug)]
pub struct Vigil {
    place: Place,
    process: i32,
    /// Refers to this process alone, also when its number is given to another one; `None` where the kernel refused it.
    handle: Option<OwnedFd>,
    /// When the process began, in ticks since the host was started.
    began: Option<u64>,
    /// Processes that began later have taken the place of one that ended.
    latest: u64,
}

impl Vigil {
    /// Watches the process that was found at a place, from now on.
    pub fn over(place: Place, process: i32) -> Vigil {
        Vigil { place, process, handle: handle(process), began: began(process), latest: ticks_now() }
    }

    /// The process, if it has ended. Where several processes share a place, the next of them takes over: that one of them
    /// ends is no death. One that began after the watch did is a restart.
    pub fn ended(&mut self) -> Option<i32> {
        if self.goes_on() {
            return None;
        }
        let ended = self.process;
        let shared = matches!(self.place, Place::Port(_) | Place::Unit(_));
        let next = process_at(&self.place).ok().filter(|&next| shared && next != ended);
        match next.and_then(|next| Some((next, began(next)?))).filter(|(_, began)| *began <= self.latest) {
            Some((next, began)) => {
                (self.process, self.handle, self.began) = (next, handle(next), Some(began));
                None
            }
            None => Some(ended),
        }
    }

    fn goes_on(&self) -> bool {
        let Some(handle) = &self.handle else {
            return process_at(&Place::Process(self.process)).is_ok() && began(self.process) == self.began;
        };
        let mut asked = [PollFd::new(handle, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        !poll(&mut asked, Some(&at_once)).is_ok_and(|answered| answered > 0)
    }
}

/// Ticks since the host was started, as the kernel counts them for processes.
fn ticks_now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let ticks = procfs::ticks_per_second();
    time.tv_sec.unsigned_abs() * ticks + time.tv_nsec.unsigned_abs() * ticks / 1_000_000_000
}

fn handle(process: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpStream;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    fn ends(vigil: &mut Vigil) -> Option<i32> {
        let begin = Instant::now();
        loop {
            let ended = vigil.ended();
            if ended.is_some() || begin.elapsed() > Duration::from_secs(10) {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn kill(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_is_killed_has_ended_and_one_that_lives_has_not() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = child.id() as i32;
        let mut vigil = Vigil::over(Place::Process(process), process);
        let mut without_handle = Vigil { handle: None, ..Vigil::over(Place::Process(process), process) };
        assert_eq!((vigil.ended(), without_handle.ended()), (None, None));
        kill(child);
        assert_eq!((ends(&mut vigil), ends(&mut without_handle)), (Some(process), Some(process)));
    }

    /// Says the port at which it listens, and lets others listen there, too.
    const SERVER: &str = "import socket,sys,time\ns=socket.socket()\n\
        s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEPORT,1)\ns.bind((\"127.0.0.1\",int(sys.argv[1])))\n\
        s.listen()\nprint(s.getsockname()[1],flush=True)\ntime.sleep(60)";

    fn server(port: u16) -> (Child, u16) {
        let mut command = Command::new("python3");
        command.args(["-c", SERVER, &port.to_string()]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        (child, line.trim().parse().unwrap())
    }

    #[test]
    fn of_several_that_listen_at_a_port_the_last_one_ends_the_component_and_a_restart_does_not_hide_it() {
        let (first, port) = server(0);
        let (second, _) = server(port);
        let place = Place::Port(port);
        let mut vigil = Vigil::over(place.clone(), process_at(&place).unwrap());
        kill(first);
        let last = second.id() as i32;
        assert_eq!((vigil.ended(), vigil.process), (None, last));
        kill(second);
        // As a service manager does.
        std::thread::sleep(Duration::from_millis(50));
        let (third, _) = server(port);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert_eq!(ends(&mut vigil), Some(last));
        kill(third);
    }
}
