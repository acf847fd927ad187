//! The partly open workload model: sessions arrive whatever becomes of earlier ones, and each sends a number of
//! messages, the next a think time after the end of the one before (Schroeder, Wierman and Harchol-Balter, Open versus
//! closed: a cautionary tale, NSDI 2006).

use crate::arrivals::{Arrival, Arrivals};
use crate::closed_loop::Begin;
use plimsoll_model::Nanos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::iter::Peekable;

/// What a session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Messages of a session.
    pub messages: u32,
    /// From the end of a message to the next.
    pub think_time: Nanos,
    /// After so long without an end a message is given up, and its session goes on.
    pub timeout: Nanos,
}

/// The sessions of one shard.
pub struct PartlyOpen {
    /// When sessions begin.
    starts: Peekable<Arrivals>,
    /// When the level began, from which the starts count.
    begin: Nanos,
    behaviour: Behaviour,
    sessions: Vec<Session>,
    /// Places in `sessions` that are free.
    free: Vec<usize>,
    wake: BinaryHeap<Reverse<(Nanos, usize)>>,
    in_flight: HashMap<(u32, u32), usize>,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    device: u32,
    /// Messages that it will still send after the present one.
    left: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Over,
    Thinking { until: Nanos },
    Busy { operation: (u32, u32), until: Nanos },
}

impl PartlyOpen {
    /// Sessions that begin at `starts`, counted from `begin`.
    pub fn new(starts: Arrivals, begin: Nanos, behaviour: Behaviour) -> PartlyOpen {
        PartlyOpen {
            starts: starts.peekable(),
            begin,
            behaviour,
            sessions: Vec::new(),
            free: Vec::new(),
            wake: BinaryHeap::new(),
            in_flight: HashMap::new(),
        }
    }

    /// When something has to be done next.
    pub fn next_wake(&mut self) -> Option<Nanos> {
        let start = self.starts.peek().map(|start| self.begin + start.due);
        let wake = self.wake.peek().map(|Reverse((at, _))| *at);
        start.into_iter().chain(wake).min()
    }

    /// The next message that is due; the caller sends it and says so by `begun`.
    pub fn take_up(&mut self, now: Nanos) -> Option<Begin> {
        loop {
            let next = self.next_wake().filter(|&next| next <= now)?;
            if self.wake.peek().is_none_or(|Reverse((at, _))| *at > next) {
                let Arrival { device, .. } = self.starts.next()?;
                let left = self.behaviour.messages.saturating_sub(1);
                let session = Session { device: device.0, left, state: State::Thinking { until: next } };
                let slot = self.place(session);
                return Some(Begin { slot, device: session.device, due: next });
            }
            let Reverse((at, slot)) = self.wake.pop()?;
            match self.sessions.get(slot).map(|session| (session.state, session.device)) {
                Some((State::Thinking { until }, device)) if until == at => {
                    return Some(Begin { slot, device, due: at });
                }
                Some((State::Busy { operation, until }, _)) if until == at => self.finished(operation, at),
                // The message ended before its time was up, or the place has another session now.
                _ => {}
            }
        }
    }

    /// When the next message by then was due, which will not be taken up: its session is over with it.
    pub fn give_up(&mut self, by: Nanos) -> Option<Nanos> {
        let begin = self.take_up(by)?;
        if let Some(session) = self.sessions.get_mut(begin.slot) {
            session.state = State::Over;
            self.free.push(begin.slot);
        }
        Some(begin.due)
    }

    /// The message of a session is on its way.
    pub fn begun(&mut self, begin: Begin, sequence: u32) {
        let operation = (begin.device, sequence);
        let until = begin.due + self.behaviour.timeout;
        if let Some(session) = self.sessions.get_mut(begin.slot) {
            session.state = State::Busy { operation, until };
            self.in_flight.insert(operation, begin.slot);
            self.wake.push(Reverse((until, begin.slot)));
        }
    }

    /// A message came to its end, good or bad; its session thinks and goes on, or is over.
    pub fn finished(&mut self, operation: (u32, u32), at: Nanos) {
        let Some(slot) = self.in_flight.remove(&operation) else { return };
        let Some(session) = self.sessions.get_mut(slot) else { return };
        if session.left == 0 {
            session.state = State::Over;
            self.free.push(slot);
            return;
        }
        session.left -= 1;
        let until = at + self.behaviour.think_time;
        session.state = State::Thinking { until };
        self.wake.push(Reverse((until, slot)));
    }

    fn place(&mut self, session: Session) -> usize {
        match self.free.pop() {
            Some(slot) => {
                if let Some(place) = self.sessions.get_mut(slot) {
                    *place = session;
                }
                slot
            }
            None => {
                self.sessions.push(session);
                self.sessions.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Process;
    use crate::share::Share;
    use plimsoll_scenario::plan::ArrivalsPer;
    use plimsoll_stats::distribution::InterArrival;

    const BEHAVIOUR: Behaviour =
        Behaviour { messages: 3, think_time: Nanos::from_millis(10), timeout: Nanos::from_millis(500) };

    /// Sessions at 1 s, 2 s, ... for 4 s, of two devices in turn.
    fn sessions() -> PartlyOpen {
        let process = Process {
            gaps: InterArrival::Constant,
            per: ArrivalsPer::Population,
            rate: 1.0,
            devices: 2,
            seed: 1,
            level: 0,
        };
        PartlyOpen::new(Arrivals::new(process, Share::WHOLE, Nanos::from_secs(5)), Nanos::ZERO, BEHAVIOUR)
    }

    /// Runs against a server that answers after a fixed time, in simulated time; gives what was due when.
    fn run(service: Nanos) -> Vec<(u32, i64)> {
        let (mut sessions, mut due, mut sequence) = (sessions(), Vec::new(), 0);
        let mut answers: Vec<(Nanos, (u32, u32))> = Vec::new();
        let mut now = Nanos::ZERO;
        while now < Nanos::from_secs(6) {
            answers.retain(|&(at, operation)| {
                if at <= now {
                    sessions.finished(operation, at);
                }
                at > now
            });
            while let Some(begin) = sessions.take_up(now) {
                due.push((begin.device, begin.due.0 / 1_000_000));
                sessions.begun(begin, sequence);
                answers.push((now + service, (begin.device, sequence)));
                sequence += 1;
            }
            now += Nanos::from_millis(1);
        }
        due
    }

    #[test]
    fn a_session_sends_its_messages_a_think_time_after_each_end() {
        let due = run(Nanos::from_millis(5));
        assert_eq!(due.len(), 4 * 3);
        assert_eq!(due[..4], [(0, 1000), (0, 1015), (0, 1030), (1, 2000)]);
    }

    #[test]
    fn sessions_arrive_whatever_becomes_of_earlier_ones_and_give_up_what_never_ends() {
        let due = run(Nanos::from_secs(100));
        let firsts = due.iter().filter(|(_, at)| at % 1000 == 0).count();
        assert_eq!(firsts, 4);
        assert_eq!(due[1], (0, 1510), "given up after 500 ms, then 10 ms of thinking");
        assert_eq!(due.len(), 4 * 3);
    }

    #[test]
    fn messages_that_are_not_taken_up_are_told_and_end_their_sessions() {
        let mut sessions = sessions();
        let first = sessions.take_up(Nanos::from_secs(1)).unwrap();
        sessions.begun(first, 0);
        sessions.finished((first.device, 0), Nanos::from_millis(1500));
        let by = Nanos::from_secs(3);
        let due: Vec<i64> = std::iter::from_fn(|| sessions.give_up(by)).map(|at| at.0 / 1_000_000).collect();
        assert_eq!(due, [1510, 2000, 3000]);
        assert_eq!(sessions.next_wake(), Some(Nanos::from_secs(4)), "only what comes later is left");
    }
}
