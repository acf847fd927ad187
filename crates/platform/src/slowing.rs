//! How a guard slows what it guards: it carries out one slowdown after the other, and whatever happens, nobody stays stopped.

use crate::clock::monotonic;
use crate::control_group::ControlGroups;
use crate::data_limit::DataLimit;
use crate::line::{How, Slowdown, Told, ToldFault};
use crate::precedence::take_precedence;
use crate::small_folder::Filler;
use crate::tree::{Descendant, descendants, goes_on};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::VecDeque;
use std::mem::take;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often it is looked for processes that others have started while those were stopped.
const LOOKS: usize = 8;
/// How often it is tried to give a quota back at once.
const TRIES: usize = 10;
/// After how long that is tried again where it failed so often.
const AGAIN: Duration = Duration::from_millis(100);
/// From one stop to the next where processor time is squeezed without a quota, in nanoseconds: the period of a quota.
const SQUEEZE: i64 = 100_000_000;
/// Why a fault was not there that nothing else kept from it.
const NOT_THERE: &str = "the component had ended, or somebody else had stopped it";
/// How long the last doses may take to be told.
const PATIENCE: Duration = Duration::from_secs(1);

/// The slowdowns of one component.
pub(crate) struct Slowing {
    groups: Arc<ControlGroups>,
    /// The folder that can be filled.
    folder: Option<PathBuf>,
    now: Mutex<Now>,
    /// Another slowdown has come, one is over, or all are.
    changed: Condvar,
}

/// What is slowed right now, and what will be.
#[derive(Default)]
struct Now {
    /// In the order in which they came; the first is being carried out.
    slowdowns: VecDeque<Slowdown>,
    /// The processes that are stopped, by nobody but this guard.
    stopped: Vec<Pid>,
    /// The share of the quota that is not left.
    cut: Option<f64>,
    /// Since when all of it is slowed, in nanoseconds.
    since: Option<i64>,
    /// How long the first slowdown has slowed it so far, in nanoseconds.
    taken: i64,
    /// From when to when the first slowdown was there, so far.
    span: Option<(i64, i64)>,
    /// What keeps processes from having more data.
    limit: Option<DataLimit>,
    /// What fills the folder.
    filler: Option<Filler>,
    /// Whether nothing is slowed any more.
    released: bool,
}

impl Slowing {
    /// Nothing is slowed yet.
    pub fn new(groups: Arc<ControlGroups>, folder: Option<PathBuf>) -> Slowing {
        Slowing { groups, folder, now: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes one up, to be carried out when those before it are over.
    pub fn add(&self, slowdown: Slowdown) {
        self.now().slowdowns.push_back(slowdown);
        self.changed.notify_all();
    }

    /// Lets all go on, for ever.
    pub fn release(&self) {
        let mut now = self.now();
        now.released = true;
        self.let_go(&mut now);
        self.changed.notify_all();
    }

    /// Waits until all doses are told, after [`Slowing::release`].
    pub fn await_told(&self) {
        // Who does not tell in time does not keep the guard.
        drop(self.changed.wait_timeout_while(self.now(), PATIENCE, |now| !now.slowdowns.is_empty()));
    }

    /// Carries out what comes, and tells the dose of each. Never returns.
    pub fn carry_out(&self, tell: impl Fn(Told)) {
        // A stop is short, and what is stopped may be all that keeps the processors busy.
        take_precedence();
        let mut now = self.now();
        loop {
            let Some(&slowdown) = now.slowdowns.front() else {
                now = self.await_change(now);
                continue;
            };
            let Slowdown { from, to, how } = slowdown;
            let mut words = how.in_words().to_owned();
            now = match how {
                How::Stop { length, cycle } => self.stop(now, slowdown, length, cycle),
                How::Pause => self.stop(now, slowdown, to - from, to - from),
                How::Quota { share } => self.cut(now, slowdown, share),
                How::Squeeze { keep } if self.groups.leave(1.0).is_ok_and(|has_one| has_one) => {
                    self.cut(now, slowdown, 1.0 - keep)
                }
                How::Squeeze { keep } => {
                    words = "by stops of all its processes in each 100 ms, since there is no control group"
                        .to_owned();
                    self.stop(now, slowdown, ((1.0 - keep) * SQUEEZE as f64) as i64, SQUEEZE)
                }
                How::Memory { limit } => self.limit(now, slowdown, limit, &mut words),
                How::Fill => self.fill(now, slowdown, &mut words),
            };
            let (taken, span) = (take(&mut now.taken), now.span.take());
            if span.is_none() && words == how.in_words() {
                words = NOT_THERE.to_owned();
            }
            let of_its_time = taken as f64 / (to - from) as f64;
            tell(match how {
                How::Stop { .. } => Told::Dose { from, share: of_its_time },
                How::Quota { share } => Told::Dose { from, share: share * of_its_time },
                _ => Told::Fault(ToldFault { from, span, words }),
            });
            now.slowdowns.pop_front();
            self.changed.notify_all();
        }
    }

    /// Waits until something changes. A quota that could not be given back is tried again meanwhile.
    fn await_change<'a>(&'a self, now: MutexGuard<'a, Now>) -> MutexGuard<'a, Now> {
        if now.cut.is_none() {
            return self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        let waited = self.changed.wait_timeout(now, AGAIN);
        let mut now = waited.unwrap_or_else(PoisonError::into_inner).0;
        self.let_go(&mut now);
        now
    }

    /// Stops all processes again and again. What counts is the time in which none of them went on: from the last that was stopped
    /// to the first that was continued.
    fn stop<'a>(
        &'a self,
        mut now: MutexGuard<'a, Now>,
        Slowdown { from, to, .. }: Slowdown,
        length: i64,
        cycle: i64,
    ) -> MutexGuard<'a, Now> {
        let mut begin = from;
        while begin < to && !now.released {
            let end = begin.saturating_add(length).min(to);
            now = self.await_time(now, begin);
            // One that is over before it has begun is left out.
            if !now.released && monotonic() < end {
                now.since = now.stop_all();
                now.span = now.span.or(now.since.map(|since| (since, since)));
                now = self.await_time(now, end);
                self.let_go(&mut now);
            }
            begin = begin.saturating_add(cycle);
        }
        now
    }

    /// Cuts the quota once. One that stays as it is for the next slowdown is not written again: the kernel grants it anew whenever it
    /// is written.
    fn cut<'a>(
        &'a self,
        mut now: MutexGuard<'a, Now>,
        Slowdown { from, to, .. }: Slowdown,
        share: f64,
    ) -> MutexGuard<'a, Now> {
        now = self.await_time(now, from);
        let is_due = !now.released && monotonic() < to;
        let leaves = || self.groups.leave(1.0 - share).is_ok_and(|has_one| has_one);
        let is_cut = is_due && (now.cut == Some(share) || leaves());
        if is_cut {
            now.cut = Some(share);
            now.begin();
            now = self.await_time(now, to);
        }
        let goes_on = |next: &Slowdown| next.from <= to && next.how == How::Quota { share };
        if is_cut && !now.released && now.slowdowns.get(1).is_some_and(goes_on) {
            now.count();
        } else {
            self.let_go(&mut now);
        }
        now
    }

    /// Keeps all processes from having more data than so many bytes each.
    fn limit<'a>(
        &'a self,
        mut now: MutexGuard<'a, Now>,
        Slowdown { from, to, .. }: Slowdown,
        limit: u64,
        words: &mut String,
    ) -> MutexGuard<'a, Now> {
        now = self.await_time(now, from);
        if now.released || monotonic() >= to {
            return now;
        }
        match DataLimit::impose(limit) {
            Ok(imposed) => {
                now.limit = Some(imposed);
                now.begin();
                now = self.await_time(now, to);
            }
            Err(error) => *words = format!("its processes take no limit of data: {error}"),
        }
        self.let_go(&mut now);
        now
    }

    /// Fills the folder.
    fn fill<'a>(
        &'a self,
        mut now: MutexGuard<'a, Now>,
        Slowdown { from, to, .. }: Slowdown,
        words: &mut String,
    ) -> MutexGuard<'a, Now> {
        now = self.await_time(now, from);
        let Some(folder) = self.folder.as_deref().filter(|_| !now.released && monotonic() < to) else {
            return now;
        };
        match Filler::fill(folder) {
            Ok(filler) => {
                now.filler = Some(filler);
                now.begin();
                now = self.await_time(now, to);
            }
            Err(error) => *words = format!("its folder cannot be filled: {error}"),
        }
        self.let_go(&mut now);
        now
    }

    /// Lets go on what is slowed right now. What somebody else has let go on before was not slowed.
    fn let_go(&self, now: &mut Now) {
        now.since = now.since.filter(|_| !now.stopped.iter().any(|process| goes_on(*process)));
        now.count();
        now.limit = None;
        now.filler = None;
        for process in now.stopped.drain(..) {
            // One that was killed meanwhile is no failure.
            let _ = kill_process(process, Signal::CONT);
        }
        // The group is there until this process ends, with a file that it has written before.
        now.cut = now.cut.filter(|_| (0..TRIES).all(|_| self.groups.leave(1.0).is_err()));
    }

    /// Waits until that time, or until all is released. The kernel is asked to wake this thread at that very time, as by
    /// `clock_nanosleep`: std waits on a futex with an absolute time of the monotonic clock.
    fn await_time<'a>(&'a self, mut now: MutexGuard<'a, Now>, time: i64) -> MutexGuard<'a, Now> {
        while !now.released {
            let rest = u64::try_from(time.saturating_sub(monotonic())).unwrap_or(0);
            if rest == 0 {
                break;
            }
            let waited = self.changed.wait_timeout(now, Duration::from_nanos(rest));
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        now
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    /// All of it is slowed from now on.
    fn begin(&mut self) {
        let now = monotonic();
        self.since = Some(now);
        self.span = self.span.or(Some((now, now)));
    }

    /// Counts for how long it was slowed until now.
    fn count(&mut self) {
        let now = monotonic();
        if let Some(since) = self.since.take() {
            self.taken += now - since;
            self.span = self.span.map(|(began, _)| (began, now));
        }
    }

    /// Stops all that descends from this process, but not what somebody else has stopped, who alone may continue it: when the
    /// last was stopped; `None` where there was none, and where one goes on: it may belong to another user.
    fn stop_all(&mut self) -> Option<i64> {
        let mut last = None;
        for _ in 0..LOOKS {
            let before = self.stopped.len();
            for Descendant { process, is_stopped } in descendants() {
                // One that the kernel is busy for stops a moment later.
                if is_stopped || self.stopped.contains(&process) {
                    continue;
                }
                match kill_process(process, Signal::STOP) {
                    Ok(()) => self.stopped.push(process),
                    // One that has just ended is no failure.
                    Err(Errno::SRCH) => {}
                    Err(_) => return None,
                }
            }
            if self.stopped.len() == before {
                return last;
            }
            last = Some(monotonic());
        }
        None
    }
}
