//! Which sockets of a shard are ready: one epoll, waited for so that a wake-up handles much and a due time is not missed.

use crate::clock::Clock;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::LoadPlan;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::thread::clock_nanosleep_relative;
use rustix::time::ClockId;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

/// Sockets told of by one look.
const READY: usize = 256;

/// See the module.
pub struct Readiness {
    clock: Clock,
    epoll: OwnedFd,
    waiting: Waiting,
    /// Whether the last look found something, and more may come.
    lively: bool,
    /// Whether the last wait ended without a look, since something was due then.
    owes_look: bool,
    looks: Looks,
    /// Clients whose next step waits for the platform: their bytes are read at once.
    urgent: u32,
    /// What the last look found.
    found: Vec<Ready>,
}

/// A socket that is ready.
#[derive(Clone, Copy)]
pub struct Ready {
    /// Whose it is.
    pub slot: u32,
    /// Its number among the sockets of that client.
    pub generation: u32,
    /// Ready for what.
    pub flags: EventFlags,
}

/// What a socket is registered with: whose it is, and its number among those of that client, so that events of an earlier one are
/// known.
pub fn data(slot: u32, generation: u32) -> u64 {
    u64::from(slot) << 32 | u64::from(generation)
}

impl Readiness {
    /// Without sockets.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn new(clock: Clock, load: &LoadPlan) -> std::io::Result<Readiness> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // Waiting with nanoseconds came with Linux 5.11; without it every wait would fail at once, unseen.
        epoll::wait(&epoll, &mut [MaybeUninit::uninit(); 1][..], Some(&timespec(Nanos::ZERO)))?;
        Ok(Readiness {
            clock,
            epoll,
            waiting: Waiting::of(load),
            lively: false,
            owes_look: false,
            looks: Looks::default(),
            urgent: 0,
            found: Vec::with_capacity(READY),
        })
    }

    /// Where sockets register.
    pub fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    /// Notes whether a client's next step waits for the platform; `was` is what was noted before.
    pub fn tell_urgency(&mut self, was: &mut bool, urgent: bool) {
        if urgent != std::mem::replace(was, urgent) {
            self.urgent = if urgent { self.urgent + 1 } else { self.urgent.saturating_sub(1) };
        }
    }

    /// Whether a client's next step waits for the platform.
    pub fn is_urgent(&self) -> bool {
        self.urgent > 0
    }

    /// Notes that nothing is under way that the platform would answer: to sleep once more for that is a wake-up in vain.
    pub fn expect_nothing(&mut self) {
        self.lively = false;
    }

    /// When bytes came that were read now after they had lain in the kernel for so long. They count from when the kernel
    /// had them, but not from before the last look but one, when nothing was there to be read: what was lost on the way
    /// and came again has the stamp of what overtook it.
    pub fn received_at(&self, now: Nanos, lag: Option<Nanos>) -> Nanos {
        self.received(now, lag).0
    }

    /// The same, and how long they could be read before they were; that is not known of what waited behind a loss.
    pub fn received(&self, now: Nanos, lag: Option<Nanos>) -> (Nanos, Option<Nanos>) {
        received_since(self.looks.unread_since, now, lag)
    }

    /// The time before which nothing came of what was found ready now.
    pub fn unread_since(&self) -> Nanos {
        self.looks.unread_since
    }

    /// Waits for the network until then at most; [`Readiness::found`] tells what is ready.
    pub fn wait(&mut self, until: Nanos) {
        if std::mem::take(&mut self.owes_look) {
            self.look(Nanos::ZERO);
            if self.lively {
                return;
            }
        }
        let left = until - self.clock.now();
        let slept = if self.urgent == 0 { self.waiting.gather(left, self.lively) } else { None };
        match slept {
            // What is due goes out before what has come is read.
            Some(slept) if slept == left => {
                self.found.clear();
                self.owes_look = true;
                return;
            }
            Some(_) => return self.look(Nanos::ZERO),
            None => {}
        }
        let spin = self.waiting.spin;
        self.look(left - spin);
        while !self.lively && spin > Nanos::ZERO && self.clock.now() < until {
            self.look(Nanos::ZERO);
        }
    }

    /// Takes what the last look found; to be given back by [`Readiness::served`], so that its room is kept.
    pub fn found(&mut self) -> Vec<Ready> {
        std::mem::take(&mut self.found)
    }

    /// Gives back what was found.
    pub fn served(&mut self, found: Vec<Ready>) {
        self.found = found;
    }

    /// Waits so long at most for sockets to be ready.
    fn look(&mut self, wait: Nanos) {
        let timeout = timespec(wait.max(Nanos::ZERO));
        let begun = self.clock.now();
        self.found.clear();
        // The only error of a sound epoll instance is an interrupting signal, after which we look again anyway.
        let mut room = [const { MaybeUninit::uninit() }; READY];
        let Ok((ready, _)) = epoll::wait(&self.epoll, &mut room[..], Some(&timeout)) else { return };
        self.found.extend(ready.iter().map(Ready::from));
        self.lively = !self.found.is_empty();
        self.looks.note(begun, self.found.len() == READY);
    }
}

/// How a thread waits that has something to do at a known time, while bytes may come before.
pub struct Waiting {
    /// How long what has arrived may lie unread, so that a wake-up reads more of it.
    coalescing: Nanos,
    /// The same where the known time is as near: that wake-up reads it, too.
    precision: Nanos,
    /// How long before the known time the clock is watched.
    pub spin: Nanos,
}

impl Waiting {
    /// As the plan says.
    pub fn of(load: &LoadPlan) -> Waiting {
        Waiting { coalescing: load.coalescing(), precision: load.precision, spin: load.spin }
    }

    /// How long to sleep whatever comes, where something is to be done in so long and `lively` says whether much comes. A wake-up
    /// costs more than a reading, and when bytes came is known from the kernel's stamps.
    fn gathering(&self, left: Nanos, lively: bool) -> Nanos {
        match self.spin == Nanos::ZERO && left <= self.precision {
            true => left,
            false if lively => self.coalescing.min(left),
            false => Nanos::ZERO,
        }
    }

    /// Sleeps for as long; for how long, if it did.
    pub fn gather(&self, left: Nanos, lively: bool) -> Option<Nanos> {
        let span = Some(self.gathering(left, lively)).filter(|&span| span > Nanos::ZERO)?;
        // Cut short by a signal, it only gathers less.
        let _ = clock_nanosleep_relative(ClockId::Monotonic, &timespec(span));
        Some(span)
    }
}

/// When it was looked for what is ready.
#[derive(Default)]
struct Looks {
    /// When the last look began, and whether it left something that was ready.
    last: Nanos,
    left_some: bool,
    /// When the last look before it that left nothing began.
    unread_since: Nanos,
}

impl Looks {
    fn note(&mut self, begun: Nanos, left_some: bool) {
        if !std::mem::replace(&mut self.left_some, left_some) {
            self.unread_since = self.last;
        }
        self.last = begun;
    }
}

/// When bytes came that were read now after they had lain in the kernel for so long, of which nothing was there to be read at
/// `since`; and how long they could have been read, `None` where they lay there before.
pub fn received_since(since: Nanos, now: Nanos, lag: Option<Nanos>) -> (Nanos, Option<Nanos>) {
    let unread = (now - since).max(Nanos::ZERO);
    (now - lag.unwrap_or_default().min(unread), lag.filter(|&lag| lag <= unread))
}

impl From<&epoll::Event> for Ready {
    fn from(event: &epoll::Event) -> Ready {
        let data = event.data.u64();
        Ready { slot: (data >> 32) as u32, generation: data as u32, flags: event.flags }
    }
}

fn timespec(span: Nanos) -> Timespec {
    Timespec { tv_sec: span.0 / 1_000_000_000, tv_nsec: span.0 % 1_000_000_000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_look_could_not_hold_counts_from_the_last_that_left_nothing() {
        let mut looks = Looks::default();
        for (begun, left_some) in [(10, false), (20, true), (500, true), (600, false)] {
            looks.note(Nanos(begun), left_some);
        }
        // All came after the look at 10, and was read at 610.
        let received =
            |looks: &Looks, now, lag| received_since(looks.unread_since, Nanos(now), Some(Nanos(lag)));
        assert_eq!(received(&looks, 610, 595), (Nanos(15), Some(Nanos(595))));
        looks.note(Nanos(700), false);
        assert_eq!(received(&looks, 710, 695), (Nanos(600), None));
    }

    #[test]
    fn what_comes_shortly_before_something_is_due_is_left_until_then() {
        let micros = Nanos::from_micros;
        let waiting = |spin| Waiting { coalescing: micros(10), precision: micros(100), spin };
        let (calm, spinning) = (waiting(Nanos::ZERO), waiting(micros(50)));
        assert_eq!(calm.gathering(micros(80), false), micros(80));
        assert_eq!(calm.gathering(micros(300), false), Nanos::ZERO);
        assert_eq!(calm.gathering(micros(300), true), micros(10));
        assert_eq!(calm.gathering(Nanos(-5), true), Nanos(-5));
        assert_eq!(spinning.gathering(micros(80), false), Nanos::ZERO);
        assert_eq!(calm.gather(Nanos(-5), true), None, "what is due is not put off");
    }

    /// A segment that overtook a lost one lies in the kernel until that one came again: no fault of who reads.
    #[test]
    fn what_could_not_be_read_before_is_not_read_late() {
        let (at, lag) =
            received_since(Nanos::from_millis(1000), Nanos::from_millis(1002), Some(Nanos::from_millis(200)));
        assert_eq!((at, lag), (Nanos::from_millis(1000), None));
        assert_eq!(received_since(Nanos::ZERO, Nanos::from_millis(5), None), (Nanos::from_millis(5), None));
    }
}
