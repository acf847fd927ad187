//! When something can work: never while it is paused, in turns with others where these hold its processor.

use plimsoll_model::Nanos;

/// One turn of those who hold a processor and of the one who wants it, together: a few time slices of Linux.
const TURN: Nanos = Nanos::from_millis(20);

/// Who keeps something from working.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hindrance {
    /// It is stopped and wants no processor.
    Paused,
    /// Others hold its processor for that share of the time.
    Starved(f64),
    /// An order stops it for a time at the beginning of each cycle.
    Stopped(Cycle),
    /// By an order others hold its processor at the beginning of each cycle; what needs no processor goes on.
    Occupied(Cycle),
}

/// Something that is done again and again, for a time at the beginning of each cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cycle {
    /// How long it is done.
    pub stop: Nanos,
    /// From the beginning of one stop to that of the next.
    pub cycle: Nanos,
}

impl Cycle {
    /// Whether it is done so long after the beginning of all, and after how long that may change.
    fn at(self, passed: Nanos) -> (bool, Nanos) {
        if self.stop >= self.cycle {
            return (true, Nanos::MAX);
        }
        let phase = Nanos(passed.0 % self.cycle.0);
        let held = phase < self.stop;
        (held, if held { self.stop - phase } else { self.cycle - phase })
    }

    /// The share of so long a time in which it is done.
    pub fn share(self, length: Nanos) -> f64 {
        if self.stop >= self.cycle {
            return 1.0;
        }
        let rest = Nanos(length.0 % self.cycle.0).min(self.stop);
        (self.stop * (length.0 / self.cycle.0) + rest).0 as f64 / length.0 as f64
    }
}

/// What work needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Processor,
    /// That its process is not stopped and gets a processor for a moment at times.
    Process,
}

/// The hindrances of something that works, each with the time from which and up to which it lasts.
#[derive(Clone, Debug, Default)]
pub struct Calendar(Vec<(Nanos, Nanos, Hindrance)>);

/// What happens at one moment.
struct Moment {
    works: bool,
    starved: bool,
    /// When that may change.
    until: Nanos,
}

impl Calendar {
    /// Adds a hindrance.
    pub fn add(&mut self, from: Nanos, to: Nanos, hindrance: Hindrance) {
        self.0.push((from, to, hindrance));
    }

    /// Whether there is any hindrance at all.
    fn is_free(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets orders that are over by then.
    pub fn forget(&mut self, before: Nanos) {
        let ordered = |kind: &Hindrance| matches!(kind, Hindrance::Stopped(_) | Hindrance::Occupied(_));
        self.0.retain(|(_, to, kind)| *to > before || !ordered(kind));
    }

    fn at(&self, now: Nanos, needs: Needs) -> Moment {
        let mut moment = Moment { works: true, starved: false, until: Nanos::MAX };
        for &(from, to, hindrance) in &self.0 {
            if now < from {
                moment.until = moment.until.min(from);
            }
            if now < from || now >= to {
                continue;
            }
            moment.until = moment.until.min(to);
            let cycle = match hindrance {
                Hindrance::Paused => {
                    moment.works = false;
                    continue;
                }
                Hindrance::Occupied(_) if needs == Needs::Process => continue,
                Hindrance::Starved(share) => {
                    Cycle { stop: Nanos((TURN.0 as f64 * share) as i64), cycle: TURN }
                }
                Hindrance::Stopped(cycle) | Hindrance::Occupied(cycle) => cycle,
            };
            let (held, left) = cycle.at(now - from);
            if left < moment.until - now {
                moment.until = now + left;
            }
            match hindrance {
                Hindrance::Stopped(_) => moment.works &= !held,
                _ => moment.starved |= held,
            }
        }
        moment.works &= !moment.starved;
        moment
    }

    /// When so much work is done that is begun then; [`Nanos::MAX`] for never.
    pub fn finish(&self, from: Nanos, work: Nanos) -> Nanos {
        self.walk(from, work).0
    }

    /// When it works again, from then on.
    pub fn next_work(&self, from: Nanos) -> Nanos {
        self.stay(from, Nanos::ZERO).0
    }

    /// When work is done that is begun then, and how long it waits for a processor meanwhile.
    pub fn walk(&self, from: Nanos, work: Nanos) -> (Nanos, Nanos) {
        self.pass(from, work, Needs::Processor)
    }

    /// As [`Calendar::walk`], for work that needs no processor of its own and so heeds no occupation.
    pub fn stay(&self, from: Nanos, work: Nanos) -> (Nanos, Nanos) {
        self.pass(from, work, Needs::Process)
    }

    /// Up to when it works without a break from then on, but no longer than to `most`.
    pub fn works_until(&self, from: Nanos, most: Nanos) -> Nanos {
        let mut now = from;
        while now < most {
            let moment = self.at(now, Needs::Process);
            if !moment.works {
                return now;
            }
            now = moment.until;
        }
        most
    }

    fn pass(&self, from: Nanos, work: Nanos, needs: Needs) -> (Nanos, Nanos) {
        if self.is_free() {
            return (from + work, Nanos::ZERO);
        }
        let (mut now, mut left, mut waited) = (from, work, Nanos::ZERO);
        loop {
            let moment = self.at(now, needs);
            if moment.works {
                if now + left < moment.until || left == Nanos::ZERO {
                    return (now + left, waited);
                }
                left = left - (moment.until - now);
            } else if moment.until == Nanos::MAX {
                return (Nanos::MAX, waited);
            } else if moment.starved {
                waited += moment.until - now;
            }
            now = moment.until;
        }
    }

    /// How much work can be done between two times.
    pub fn work_between(&self, from: Nanos, to: Nanos) -> Nanos {
        if self.is_free() {
            return to - from;
        }
        let (mut now, mut work) = (from, Nanos::ZERO);
        while now < to {
            let moment = self.at(now, Needs::Processor);
            let until = moment.until.min(to);
            if moment.works {
                work += until - now;
            }
            now = until;
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: i64) -> Nanos {
        Nanos::from_millis(millis)
    }

    #[test]
    fn a_pause_delays_what_falls_into_it() {
        let mut calendar = Calendar::default();
        calendar.add(ms(100), ms(300), Hindrance::Paused);
        assert_eq!(calendar.walk(ms(0), ms(50)), (ms(50), ms(0)));
        assert_eq!(calendar.walk(ms(90), ms(20)), (ms(310), ms(0)), "who is stopped waits for no processor");
        assert_eq!(calendar.next_work(ms(150)), ms(300));
        assert_eq!(calendar.work_between(ms(50), ms(350)), ms(100));
        calendar.add(ms(400), Nanos::MAX, Hindrance::Paused);
        assert_eq!(calendar.finish(ms(390), ms(20)), Nanos::MAX);
    }

    #[test]
    fn who_is_starved_waits_in_turns() {
        let mut calendar = Calendar::default();
        calendar.add(ms(0), ms(1000), Hindrance::Starved(0.5));
        // Held for 10 ms, free for 10 ms.
        assert_eq!(calendar.walk(ms(0), ms(5)), (ms(15), ms(10)));
        assert_eq!(calendar.walk(ms(10), ms(15)), (ms(35), ms(10)));
        assert_eq!(calendar.work_between(ms(0), ms(1000)), ms(500));
        assert_eq!(calendar.walk(ms(1000), ms(5)), (ms(1005), ms(0)));
    }

    #[test]
    fn an_order_is_one_hindrance_for_all_of_its_stops() {
        let cycle = Cycle { stop: ms(20), cycle: ms(100) };
        let mut calendar = Calendar::default();
        calendar.add(ms(1000), ms(1210), Hindrance::Stopped(cycle));
        assert_eq!(calendar.walk(ms(990), ms(15)), (ms(1025), ms(0)));
        assert_eq!(calendar.work_between(ms(1000), ms(1210)), ms(160), "the last stop is cut off");
        assert_eq!(cycle.share(ms(210)), 50.0 / 210.0);
        assert_eq!(calendar.works_until(ms(1030), ms(2000)), ms(1100));
        assert_eq!(calendar.works_until(ms(1030), ms(1040)), ms(1040));
        calendar.forget(ms(1209));
        assert!(!calendar.is_free());
        calendar.forget(ms(1210));
        assert!(calendar.is_free());
        let always = Cycle { stop: ms(20), cycle: ms(20) };
        calendar.add(ms(0), Nanos::MAX, Hindrance::Stopped(always));
        assert_eq!(calendar.next_work(ms(5)), Nanos::MAX);
    }

    #[test]
    fn who_needs_no_processor_heeds_no_occupation() {
        let mut calendar = Calendar::default();
        calendar.add(ms(0), ms(1000), Hindrance::Occupied(Cycle { stop: ms(30), cycle: ms(100) }));
        assert_eq!(calendar.walk(ms(0), ms(5)), (ms(35), ms(30)));
        assert_eq!(calendar.stay(ms(0), ms(5)), (ms(5), ms(0)));
        assert_eq!(calendar.work_between(ms(0), ms(1000)), ms(700));
    }
}
