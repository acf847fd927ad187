//! The clocks of workers: how each stands to the coordinator's. Round trips through the server say so, and, where the user says that the
//! wall clocks of all hosts are kept, these do.

use plimsoll_load::clock::wall_ahead;
use plimsoll_model::Nanos;
use plimsoll_model::record::ClockReading;
use plimsoll_stats::clock_offset::{Offset, Reading};
use plimsoll_workers::announcement::Announcement;

/// Clocks are compared so often before the load begins, and then once a second.
const READINGS: usize = 8;
const BETWEEN_FIRST: Nanos = Nanos::from_millis(20);
const BETWEEN: Nanos = Nanos::from_secs(1);
/// Of thousands of clocks that are not known yet, not more are asked in a time: the server would carry nothing else, and questions that
/// wait for it would say nothing of the clocks.
const BETWEEN_QUESTIONS: Nanos = Nanos::from_micros(500);

/// A wall clock that moves by more than that between two readings, beside what is uncertain, was set.
const SET: Nanos = Nanos::from_millis(1);

/// All clocks of a run that are not the coordinator's. Workers that read the same one have it in common, so that they agree exactly.
pub(super) struct Clocks {
    all: Vec<HostClock>,
    /// By how much the wall clocks of two hosts differ at most, as the user says.
    bound: Option<Nanos>,
    /// Whether it is remembered how their wall clocks stood.
    is_tracked: bool,
}

/// One clock.
#[derive(Default)]
struct HostClock {
    /// Which it is; `None` where its only worker does not know.
    identity: Option<String>,
    offset: Offset,
    /// By how many nanoseconds the wall clock there is ahead of it.
    wall_ahead: Option<i64>,
    /// By how many nanoseconds it was ahead of ours when the load threads started.
    ahead: i64,
    next_ping: Nanos,
    /// How it stood when the level began.
    began: ClockReading,
    /// By how much it has jumped in the level.
    jumped: Nanos,
    /// What the wall clock there showed, and by how much it was ahead of ours then.
    track: Vec<(Nanos, Nanos)>,
    /// Within which these are known.
    track_within: Nanos,
}

impl Clocks {
    /// None yet.
    pub(super) fn new(bound: Option<Nanos>) -> Clocks {
        Clocks { all: Vec::new(), bound, is_tracked: false }
    }

    /// The place of a worker's clock; `None` where it reads ours.
    pub(super) fn of(&mut self, worker: &Announcement, ours: Option<&str>) -> Option<usize> {
        let identity = worker.clock.as_ref();
        if identity.is_some_and(|identity| Some(identity.as_str()) == ours) {
            return None;
        }
        let is_it = |clock: &HostClock| identity.is_some() && clock.identity.as_ref() == identity;
        let known = self.all.iter().position(is_it);
        Some(known.unwrap_or_else(|| {
            self.all.push(HostClock { identity: identity.cloned(), ..HostClock::default() });
            self.all.len() - 1
        }))
    }

    /// Those that are to be asked for the time now.
    pub(super) fn due(&mut self, now: Nanos) -> Vec<usize> {
        let first = BETWEEN_FIRST.max(Nanos(BETWEEN_QUESTIONS.0 * self.all.len() as i64)).min(BETWEEN);
        let mut due = Vec::new();
        for (place, clock) in self.all.iter_mut().enumerate().filter(|(_, clock)| clock.next_ping <= now) {
            clock.next_ping = now + if clock.is_known() { BETWEEN } else { first };
            due.push(place);
        }
        due
    }

    /// Takes an answer.
    pub(super) fn answered(&mut self, clock: usize, reading: Reading, wall_ahead: i64) {
        if let Some(clock) = self.all.get_mut(clock) {
            if let Some(jump) = clock.offset.jump_to(&reading) {
                clock.jumped += jump;
                clock.offset = Offset::default();
            }
            clock.offset.add(reading);
            clock.wall_ahead = Some(wall_ahead);
            if self.is_tracked && clock.is_known() {
                clock.remember(reading.theirs + Nanos(wall_ahead), self.bound);
            }
        }
    }

    /// Remembers from now on how wall clocks stand: packets have their times.
    pub(super) fn keep_track(&mut self) {
        self.is_tracked = true;
    }

    /// What a wall clock showed at each reading, and by how much it was ahead of ours then; and within which that is known.
    pub(super) fn track(&self, clock: usize) -> (Vec<(Nanos, Nanos)>, Nanos) {
        let of = |clock: &HostClock| (clock.track.clone(), clock.track_within);
        self.all.get(clock).map(of).unwrap_or_default()
    }

    /// Whether a clock was compared often enough for the load to begin. Ours is known.
    pub(super) fn is_known(&self, clock: Option<usize>) -> bool {
        clock.and_then(|clock| self.all.get(clock)).is_none_or(HostClock::is_known)
    }

    /// The load threads start now.
    pub(super) fn begin(&mut self) {
        for clock in &mut self.all {
            clock.ahead = clock.reading(self.bound).offset.0;
        }
    }

    /// By how many nanoseconds a clock was ahead of ours when the load threads started.
    pub(super) fn ahead(&self, clock: Option<usize>) -> i64 {
        clock.and_then(|clock| self.all.get(clock)).map_or(0, |clock| clock.ahead)
    }

    /// By how many nanoseconds more it is ahead of ours now.
    pub(super) fn drifted(&self, clock: usize) -> i64 {
        self.all.get(clock).map_or(0, |clock| clock.reading(self.bound).offset.0 - clock.ahead)
    }

    /// A level begins.
    pub(super) fn level_begins(&mut self) {
        for clock in &mut self.all {
            clock.began = clock.reading(self.bound);
            clock.jumped = Nanos::ZERO;
        }
    }

    /// How a clock stood when the level began, and stands now. If it jumped in between, times of the level may be wrong by that, too.
    pub(super) fn in_level(&self, clock: usize) -> Option<(ClockReading, ClockReading)> {
        let now = |clock: &HostClock| {
            let reading = clock.reading(self.bound);
            ClockReading { within: reading.within + clock.jumped, ..reading }
        };
        self.all.get(clock).map(|clock| (clock.began, now(clock)))
    }

    /// How wrong a time in this level may be that begins on one clock and ends on another one; `None` where both are the same.
    pub(super) fn between(&self, one: Option<usize>, other: Option<usize>) -> Option<Nanos> {
        let stood: Vec<_> =
            [one, other].into_iter().flatten().filter_map(|clock| self.in_level(clock)).collect();
        (one != other).then(|| uncertainty(&stood))
    }

    /// The worst of them, for people: its place, and within which it is known.
    pub(super) fn worst(&self) -> Option<(usize, Nanos)> {
        let of = |(place, clock): (usize, &HostClock)| (place, clock.reading(self.bound).within);
        self.all.iter().enumerate().map(of).max_by_key(|(_, within)| *within)
    }

    /// Clocks of which the round trips contradict what the user says, and by how much they do.
    pub(super) fn contradicted(&self) -> Vec<(usize, Nanos)> {
        let by = |(place, clock): (usize, &HostClock)| Some((place, clock.contradiction(self.bound?)?));
        self.all.iter().enumerate().filter_map(by).collect()
    }
}

impl HostClock {
    fn is_known(&self) -> bool {
        self.offset.count() >= READINGS
    }

    fn fitted(&self) -> ClockReading {
        let told = self.offset.told();
        ClockReading {
            offset: told.offset,
            within: self.offset.certain(BETWEEN),
            drift: told.drift,
            drift_within: told.drift_within,
            readings: told.readings,
            by_wall_clock: false,
        }
    }

    /// How it stands to ours by the wall clocks of both hosts.
    fn by_wall_clock(&self) -> Option<Nanos> {
        self.wall_ahead.map(|theirs| Nanos(wall_ahead() - theirs))
    }

    /// Remembers how its wall clock stands to ours, which shows this.
    fn remember(&mut self, shown: Nanos, bound: Option<Nanos>) {
        let ClockReading { offset, within, .. } = self.reading(bound);
        if let Some(by_wall_clock) = self.by_wall_clock() {
            let ahead = offset - by_wall_clock;
            // A clock that was set: around that moment times are wrong by as much.
            let moved = self.track.last().map_or(Nanos::ZERO, |(_, before)| Nanos((ahead - *before).0.abs()));
            let set = if moved > within + within + SET { moved } else { Nanos::ZERO };
            self.track.push((shown, ahead));
            self.track_within = self.track_within.max(within + set);
        }
    }

    /// By how much more the wall clocks differ than the user says and the round trips allow; `None` where they do not.
    fn contradiction(&self, bound: Nanos) -> Option<Nanos> {
        let fitted = self.fitted();
        let apart = Nanos((self.by_wall_clock()? - fitted.offset).0.abs());
        (apart > fitted.within + bound).then(|| apart - fitted.within - bound)
    }

    /// How it stands to ours now: by the wall clocks where the user's bound says more than the round trips and does not contradict them.
    fn reading(&self, bound: Option<Nanos>) -> ClockReading {
        let fitted = self.fitted();
        let bound = bound.filter(|bound| *bound < fitted.within && self.contradiction(*bound).is_none());
        match bound.zip(self.by_wall_clock()) {
            Some((within, offset)) => ClockReading { offset, within, by_wall_clock: true, ..fitted },
            None => fitted,
        }
    }
}

/// How wrong a time may be by one or two clocks that are not ours. Each is known to stand to ours within its own bound, so both bounds
/// add up. Wall clocks that are kept do not: no two of them differ by more than the bound.
fn uncertainty(stood: &[(ClockReading, ClockReading)]) -> Nanos {
    let widest = |(began, ended): &(ClockReading, ClockReading)| began.within.max(ended.within);
    let is_kept = |(began, ended): &(ClockReading, ClockReading)| began.by_wall_clock && ended.by_wall_clock;
    match stood.iter().all(is_kept) {
        true => stood.iter().map(widest).max().unwrap_or_default(),
        false => stood.iter().map(widest).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(within: i64, by_wall_clock: bool) -> (ClockReading, ClockReading) {
        let reading = ClockReading { within: Nanos(within), by_wall_clock, ..ClockReading::default() };
        (reading, ClockReading { within: Nanos(within / 2), ..reading })
    }

    #[test]
    fn bounds_of_two_fitted_clocks_add_up_and_that_of_kept_ones_does_not() {
        assert_eq!(uncertainty(&[reading(100, false), reading(300, false)]), Nanos(400));
        assert_eq!(uncertainty(&[reading(300, false)]), Nanos(300), "one of both is the coordinator's");
        assert_eq!(uncertainty(&[reading(100, true), reading(100, true)]), Nanos(100));
        assert_eq!(uncertainty(&[reading(100, true), reading(300, false)]), Nanos(400));
    }

    /// A clock that is ahead of ours by so much, by round trips of a millisecond each, on a host whose wall clock differs by so much.
    fn clock(ahead: i64, wall_differs: i64) -> HostClock {
        let mut clock =
            HostClock { wall_ahead: Some(wall_ahead() - ahead + wall_differs), ..HostClock::default() };
        for number in 0..20_i64 {
            let asked = number * 1_000_000_000;
            let answered = asked + 1_000_000;
            let theirs = asked + 500_000 + ahead;
            clock.offset.add(Reading {
                asked: Nanos(asked),
                answered: Nanos(answered),
                theirs: Nanos(theirs),
            });
        }
        clock
    }

    #[test]
    fn the_bound_that_the_user_says_counts_where_it_is_smaller_and_not_contradicted() {
        const AHEAD: i64 = 7_000_000_000;
        let fitted = clock(AHEAD, 0).reading(None);
        assert!(!fitted.by_wall_clock && fitted.within > Nanos::from_micros(500), "{fitted:?}");
        let bound = Nanos::from_micros(100);
        let kept = clock(AHEAD, 0).reading(Some(bound));
        assert!(kept.by_wall_clock && kept.within == bound, "{kept:?}");
        // The wall clocks of this host are read twice for it.
        assert!((kept.offset.0 - AHEAD).abs() < 500_000, "{kept:?}");
        let wide = clock(AHEAD, 0).reading(Some(Nanos::from_millis(5)));
        assert_eq!(wide, fitted, "the round trips say more");
        let wrong = clock(AHEAD, 20_000_000);
        assert!(!wrong.reading(Some(bound)).by_wall_clock, "wall clocks that differ by 20 ms are not kept");
        let apart = wrong.contradiction(bound).unwrap();
        assert!(apart > Nanos::from_millis(15) && apart < Nanos::from_millis(20), "{apart}");
    }

    #[test]
    fn a_clock_that_jumps_in_a_level_leaves_its_times_open_by_that_and_those_of_the_next_not() {
        let mut clocks = Clocks::new(None);
        clocks.all.push(clock(0, 0));
        clocks.level_begins();
        let before = clocks.between(None, Some(0)).unwrap();
        assert!(before < Nanos::from_millis(1), "{before}");
        let (asked, answered) = (Nanos::from_secs(20), Nanos::from_secs(20) + Nanos::from_millis(1));
        let theirs = asked + Nanos::from_micros(500) + Nanos::from_millis(80);
        clocks.answered(0, Reading { asked, answered, theirs }, 0);
        let within = clocks.between(None, Some(0)).unwrap();
        assert!(within > Nanos::from_millis(78) && within < Nanos::from_millis(82), "{within}");
        clocks.level_begins();
        assert!(clocks.between(None, Some(0)).unwrap() < Nanos::from_millis(2));
    }

    #[test]
    fn how_a_wall_clock_stood_is_remembered_while_packets_are_captured() {
        const AHEAD: i64 = 7_000_000_000;
        let mut clocks = Clocks::new(None);
        clocks.all.push(clock(AHEAD, 0));
        let answer = |clocks: &mut Clocks, differs: i64| {
            let (asked, answered) = (Nanos::from_secs(20), Nanos::from_secs(20) + Nanos::from_millis(1));
            let theirs = asked + Nanos::from_micros(500) + Nanos(AHEAD);
            clocks.answered(0, Reading { asked, answered, theirs }, wall_ahead() - AHEAD + differs);
        };
        answer(&mut clocks, 0);
        assert!(clocks.track(0).0.is_empty(), "nobody captures");
        clocks.keep_track();
        answer(&mut clocks, 3_000_000_000);
        let (points, within) = clocks.track(0);
        let [(_, ahead)] = points[..] else { panic!("{points:?}") };
        assert!((ahead.0 - 3_000_000_000).abs() < 1_000_000, "{ahead}");
        assert!(within > Nanos::ZERO && within < Nanos::from_millis(2), "{within}");
        // It is set by 5 s.
        answer(&mut clocks, 8_000_000_000);
        let within = clocks.track(0).1;
        assert!(within > Nanos::from_secs(5) && within < Nanos::from_millis(5_010), "{within}");
    }

    #[test]
    fn workers_of_one_host_have_one_clock() {
        let worker = |clock: Option<&str>| Announcement {
            clock: clock.map(str::to_owned),
            ..Announcement::of(plimsoll_workers::frame::ProcessId(1), "w")
        };
        let mut clocks = Clocks::new(None);
        let of = ["a", "b", "a", "ours"].map(|name| clocks.of(&worker(Some(name)), Some("ours")));
        assert_eq!(of, [Some(0), Some(1), Some(0), None]);
        assert_eq!(
            [None, None].map(|clock| clocks.of(&worker(clock), None)),
            [Some(2), Some(3)],
            "not known"
        );
        assert_eq!(clocks.between(Some(0), Some(0)), None);
        assert!(clocks.between(Some(0), Some(1)).is_some() && clocks.between(None, Some(1)).is_some());
    }
}
