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

    fn at(&self, now: Nanos) -> Moment {
        let mut moment = Moment { works: true, starved: false, until: Nanos::MAX };
        for &(from, to, hindrance) in &self.0 {
            if now < from {
                moment.until = moment.until.min(from);
            }
            if now < from || now >= to {
                continue;
            }
            moment.until = moment.until.min(to);
            match hindrance {
                Hindrance::Paused => moment.works = false,
                Hindrance::Starved(share) => {
                    let held = Nanos((TURN.0 as f64 * share) as i64);
                    let phase = Nanos((now - from).0 % TURN.0);
                    let begin = now - phase;
                    moment.starved |= phase < held;
                    moment.until = moment.until.min(begin + if phase < held { held } else { TURN });
                }
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
        self.finish(from, Nanos::ZERO)
    }

    /// When work is done that is begun then, and how long it waits for a processor meanwhile.
    pub fn walk(&self, from: Nanos, work: Nanos) -> (Nanos, Nanos) {
        if self.is_free() {
            return (from + work, Nanos::ZERO);
        }
        let (mut now, mut left, mut waited) = (from, work, Nanos::ZERO);
        loop {
            let moment = self.at(now);
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
            let moment = self.at(now);
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
}
