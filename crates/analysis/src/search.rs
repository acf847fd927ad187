//! Capacity search: which level comes next, and what the levels so far say. Pure: it is fed the levels in the order of
//! running, by the runner while they are run and by the summary when they are read back, and says the same both times.
//!
//! Three phases. *Bracketing* doubles the load while the objectives are met. *Bisection* halves the bracket between a
//! met level and one that is not, on the logarithm. *Confirmation* holds the highest met level anew (rule 6) and steps
//! down where that misses. A level that is undecided or invalid is repeated before it counts, and is never a miss. One in which
//! we or the host were the limit *blocks* the search from above: it goes on below, comes back to that load once, and where
//! that is invalid again, says that this host cannot decide.
//! `docs/decisions/0006-capacity-search.md` gives the reasons.

use crate::level::{LevelSummary, LevelVerdict};
use plimsoll_model::record::LevelRecord;
use plimsoll_model::search::SearchTerms;
use plimsoll_model::text::grouped;
use plimsoll_model::{Nanos, Validity};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Load of the next level / load of a met one while nothing has given way: no level is offered more than twice what is
/// known to be borne.
const GROWTH: f64 = 2.0;
/// How often an undecided level is run at most, each time with twice the hold, and one in which the host was busy.
const TRIES: u32 = 3;
/// How often a level is run at most in which generator or receiver was the limit: these rarely get better.
const TRIES_OF_OURS: u32 = 2;
/// How often a search may halve its lowest level, where host or generator were the limit there already.
const LOWER: u32 = 3;
/// How many levels may miss that ought to confirm, before the platform counts as one whose results do not repeat.
const CONFIRMATIONS: u32 = 4;
/// Significant digits of a level's load, far below any tolerance.
const DIGITS: i32 = 4;

/// A level as the search sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Its index within the run.
    pub index: u16,
    /// Its offered load, in operations per second.
    pub rate: f64,
    /// What it was judged to be.
    pub outcome: Outcome,
    /// When it was over, counted from the beginning of the first level's warm-up.
    pub over: Nanos,
}

/// What a level told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The platform bears it.
    Met,
    /// It does not.
    Missed,
    /// The measurement was too short to tell.
    Undecided,
    /// We, or the host, were the limit.
    Invalid(Validity),
}

/// Why a level is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To find a level that is not met.
    Bracketing,
    /// To narrow the bracket.
    Bisection,
    /// To hold the answer anew.
    Confirmation,
}

/// The next level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Next {
    /// Operations per second.
    pub rate: f64,
    /// Measured time.
    pub hold: Nanos,
    /// What it is for.
    pub purpose: Purpose,
    /// Whether the level before decided nothing and is run again.
    pub again: bool,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The load line was met again by a fresh hold.
    Confirmed,
    /// The lowest level was not met.
    LowestNotMet,
    /// The fresh hold decided nothing, however often it was repeated.
    NotConfirmed,
    /// Level after level missed when it was run again.
    NotRepeatable,
    /// The time was up.
    TimeUp,
    /// The run ended before the search did.
    CutShort,
    /// What lies above cannot be measured on this host, or with this generator.
    HostLimited,
    /// The platform died.
    Died,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Finding {
    /// How it ended.
    pub ended: Ending,
    /// The highest load that was met and never missed, in operations per second; null where there is none.
    pub met: Option<f64>,
    /// The lowest load that missed; null where none did.
    pub missed: Option<f64>,
    /// The lowest load above that at which the generator, a receiver or the host was the limit, however often it was tried,
    /// in operations per second; null where none was.
    pub blocked: Option<f64>,
    /// The gap that was reached between the load that was met and the lowest that missed, as a fraction of the former; null
    /// where nothing missed.
    pub precision: Option<f64>,
    /// The tolerance that was asked for: the largest wanted gap between the two, as a fraction.
    pub tolerance: f64,
    /// Whether the time ended the search before the tolerance was reached.
    pub out_of_time: bool,
    /// The highest load that may be offered.
    #[serde(skip)]
    pub to: f64,
    /// Index of the level that is the load line.
    #[serde(skip)]
    pub level: Option<u16>,
    /// Index of the lowest level above it that is not met.
    #[serde(skip)]
    pub above: Option<u16>,
    /// Whether that one decided nothing.
    #[serde(skip)]
    pub is_undecided_above: bool,
}

impl Finding {
    /// How the load line was found, for people.
    pub fn story(&self, levels: usize) -> String {
        let number =
            |rate: Option<f64>| rate.map_or("nothing".to_owned(), |rate| format!("{}/s", grouped(rate)));
        let ending = match self.ended {
            Ending::Confirmed => format!("{} was met again by a fresh hold", number(self.met)),
            Ending::LowestNotMet => "the lowest level is not met".to_owned(),
            Ending::NotConfirmed => {
                format!("{} was met, but the fresh hold decided nothing", number(self.met))
            }
            Ending::NotRepeatable => "levels that were met missed when they were run again".to_owned(),
            Ending::TimeUp => format!("the time was up when {} had been met", number(self.met)),
            Ending::CutShort => format!("the run ended when {} had been met", number(self.met)),
            Ending::HostLimited => format!(
                "{} was met, and from {} on the measurement is invalid on this host",
                number(self.met),
                number(self.blocked)
            ),
            Ending::Died => format!("the platform died when {} had been met", number(self.met)),
        };
        let missed = match self.missed {
            Some(missed) => format!("the lowest level that missed is {}/s", grouped(missed)),
            None => "no level missed".to_owned(),
        };
        let percent = |share: f64| (share * 1e4).round() / 1e2;
        let asked = percent(self.tolerance);
        let reached = match self.precision.map(percent) {
            // One tolerance more than asked for: an undecided level may lie between the two.
            Some(reached) if reached <= 2.0 * asked => {
                format!("reached within {reached} % ({asked} % asked for)")
            }
            Some(reached) => format!("known to within {reached} % only ({asked} % asked for)"),
            None => format!("no upper end found ({asked} % asked for)"),
        };
        format!("searched in {levels} levels, {reached}: {ending}; {missed}")
    }

    /// Why it stopped before its tolerance was reached, and what helps, in a sentence; `None` where it was reached, or where the
    /// verdict tells.
    pub fn early(&self) -> Option<String> {
        let per_second = |rate: f64| format!("{}/s", grouped(rate));
        let why = match self.ended {
            Ending::Confirmed | Ending::NotConfirmed | Ending::TimeUp
                if self.out_of_time && self.at_least() =>
            {
                "its time was up: give it more by `load.search.time`, or shorten the hold".to_owned()
            }
            Ending::Confirmed if self.met.is_some_and(|met| met >= self.to) => {
                format!(
                    "nothing missed up to its highest load, {}: raise `load.search.to`",
                    per_second(self.to)
                )
            }
            Ending::Confirmed if self.at_least() && self.is_undecided_above => {
                "levels above the load line decided nothing, however often they were held: lengthen the hold"
                    .to_owned()
            }
            Ending::NotConfirmed => {
                let met = self.met.map_or("the load line".to_owned(), per_second);
                format!("the fresh hold of {met} decided nothing: lengthen the hold")
            }
            _ => return None,
        };
        Some(format!("the search stopped because {why}"))
    }

    /// Whether the platform may bear more than was found: not confirmed, or nothing missed near the load line.
    pub fn at_least(&self) -> bool {
        // One tolerance more than asked for: an undecided level may lie between the two.
        let near = (1.0 + self.tolerance).powi(2) * (1.0 + f64::EPSILON);
        let closed = matches!((self.met, self.missed), (Some(met), Some(missed)) if missed <= met * near);
        !matches!(self.ended, Ending::Confirmed | Ending::Died) || !closed
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    rate: f64,
    index: u16,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Bracketing,
    Bisecting,
    /// To a load that was invalid.
    ComingBack(f64),
    Confirming(f64),
    Over(Ending),
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    terms: SearchTerms,
    phase: Phase,
    /// Met levels that no later level has contradicted, rising.
    met: Vec<Point>,
    /// The lowest level that is not met: missed, or undecided or invalid to the last try.
    not_met: Option<Point>,
    /// The lowest level that was invalid to the last try, above those that were met.
    blocked: Option<Point>,
    /// Loads at which it was blocked and to which it has come back.
    came_back: Vec<f64>,
    /// How often the lowest level was halved.
    lowered: u32,
    missed: Option<f64>,
    confirmed: Option<Point>,
    /// Levels that missed although they ought to confirm.
    contradicted: u32,
    /// Earlier tries of the present level, all of which decided nothing.
    tries: u32,
    hold: Nanos,
    used: Nanos,
    /// Whether there was no time for the levels that the tolerance asks for.
    out_of_time: bool,
}

impl Search {
    /// A search that has seen nothing yet.
    pub fn new(terms: SearchTerms) -> Search {
        Search {
            phase: Phase::Bracketing,
            met: Vec::new(),
            not_met: None,
            blocked: None,
            came_back: Vec::new(),
            lowered: 0,
            missed: None,
            confirmed: None,
            contradicted: 0,
            tries: 0,
            hold: terms.hold,
            used: Nanos::ZERO,
            out_of_time: false,
            terms,
        }
    }

    /// A search that has seen the levels of a run, as recorded and as judged.
    pub fn over(terms: SearchTerms, records: &[LevelRecord], levels: &[LevelSummary]) -> Search {
        let mut search = Search::new(terms);
        let begin = records.first().map_or(Nanos::ZERO, |first| first.start.hold_start - terms.warm_up);
        for (record, level) in records.iter().zip(levels) {
            // One that was cut off tells nothing.
            if let Some(tried) = tried(record, level, begin) {
                search.learn(tried);
            }
            if level.death.is_some() {
                search.phase = Phase::Over(Ending::Died);
            }
        }
        search
    }

    /// The next level, `None` where the search is over.
    pub fn next(&self) -> Option<Next> {
        let (rate, purpose) = self.target()?;
        Some(Next { rate, hold: self.hold, purpose, again: self.tries > 0 })
    }

    fn target(&self) -> Option<(f64, Purpose)> {
        let (from, to) = (self.terms.from, self.terms.to);
        match (self.phase, self.met.last(), self.above()) {
            (Phase::Bracketing, None, _) => {
                Some((rounded(from / f64::from(1u32 << self.lowered)), Purpose::Bracketing))
            }
            (Phase::ComingBack(rate), ..) => Some((rate, Purpose::Bisection)),
            (Phase::Bracketing, Some(met), _) => {
                Some((rounded(met.rate * GROWTH).min(to), Purpose::Bracketing))
            }
            (Phase::Bisecting, Some(met), Some(above)) => {
                Some((rounded((met.rate * above.rate).sqrt()), Purpose::Bisection))
            }
            (Phase::Confirming(rate), ..) => Some((rate, Purpose::Confirmation)),
            _ => None,
        }
    }

    /// Takes in the level that [`Search::next`] asked for.
    pub fn learn(&mut self, tried: Tried) {
        self.used = tried.over;
        let again = match tried.outcome {
            Outcome::Undecided | Outcome::Invalid(Validity::HostBound) => self.tries + 1 < TRIES,
            Outcome::Invalid(_) => self.tries + 1 < TRIES_OF_OURS,
            Outcome::Met | Outcome::Missed => false,
        };
        if again {
            self.tries += 1;
            if tried.outcome == Outcome::Undecided {
                self.hold = self.hold * 2;
            }
        } else {
            self.tries = 0;
            self.hold = self.terms.hold;
            let point = Point { rate: tried.rate, index: tried.index };
            match self.phase {
                Phase::Confirming(_) => self.confirm(point, tried.outcome),
                Phase::Bracketing | Phase::Bisecting | Phase::ComingBack(_) => {
                    self.narrow(point, tried.outcome);
                }
                Phase::Over(_) => {}
            }
        }
        self.mind_the_time(tried.outcome);
    }

    /// The lowest level above the met ones that is not met, for whatever reason.
    fn above(&self) -> Option<Point> {
        self.not_met.into_iter().chain(self.blocked).min_by(|a, b| a.rate.total_cmp(&b.rate))
    }

    fn narrow(&mut self, point: Point, outcome: Outcome) {
        match outcome {
            Outcome::Met => {
                self.met.push(point);
                self.blocked = self.blocked.filter(|blocked| blocked.rate > point.rate);
            }
            Outcome::Invalid(_) => self.blocked = Some(point),
            Outcome::Missed | Outcome::Undecided => {
                self.not_met = Some(point);
                // What is above a miss need not be known.
                self.blocked = self.blocked.filter(|blocked| blocked.rate < point.rate);
                if outcome == Outcome::Missed {
                    self.missed = Some(point.rate);
                }
            }
        }
        let Some(met) = self.met.last().copied() else {
            let lower = matches!(outcome, Outcome::Invalid(_)) && self.lowered < LOWER;
            self.lowered += u32::from(lower);
            self.phase = if lower { Phase::Bracketing } else { Phase::Over(Ending::LowestNotMet) };
            return;
        };
        self.phase = match self.above() {
            None if met.rate >= self.terms.to => Phase::Confirming(met.rate),
            None => Phase::Bracketing,
            Some(above) if !self.is_narrow(met.rate, above.rate) => Phase::Bisecting,
            Some(above) if self.is_blocked_at(above.rate) && !self.came_back.contains(&above.rate) => {
                self.came_back.push(above.rate);
                Phase::ComingBack(above.rate)
            }
            Some(_) => Phase::Confirming(met.rate),
        };
    }

    fn is_blocked_at(&self, rate: f64) -> bool {
        self.blocked.is_some_and(|blocked| blocked.rate == rate)
    }

    /// How the search ends that has its answer confirmed: not in full where host or generator hide what lies above.
    fn confirmed(&self) -> Ending {
        match self.above() {
            Some(above) if self.is_blocked_at(above.rate) => Ending::HostLimited,
            _ => Ending::Confirmed,
        }
    }

    /// Within the tolerance, or so near that no load lies between.
    fn is_narrow(&self, met: f64, above: f64) -> bool {
        let middle = rounded((met * above).sqrt());
        above <= met * (1.0 + self.terms.tolerance) || middle <= met || middle >= above
    }

    fn confirm(&mut self, point: Point, outcome: Outcome) {
        match outcome {
            Outcome::Met => {
                self.confirmed = Some(point);
                self.phase = Phase::Over(self.confirmed());
            }
            Outcome::Missed => {
                self.not_met = Some(point);
                self.missed = Some(point.rate);
                self.met.retain(|met| met.rate < point.rate);
                self.contradicted += 1;
                self.phase = if self.contradicted >= CONFIRMATIONS || point.rate <= self.terms.from {
                    Phase::Over(Ending::NotRepeatable)
                } else {
                    Phase::Confirming(self.step_down(point.rate))
                };
            }
            Outcome::Undecided => self.phase = Phase::Over(Ending::NotConfirmed),
            Outcome::Invalid(_) => {
                self.blocked = Some(point);
                self.phase = Phase::Over(Ending::HostLimited);
            }
        }
    }

    /// Down by one tolerance, then by two, by four: not further than to a level that was met.
    fn step_down(&self, rate: f64) -> f64 {
        let steps = 1 << (self.contradicted - 1).min(8);
        let lowest = self.met.last().map_or(self.terms.from, |met| met.rate);
        rounded(rate / (1.0 + self.terms.tolerance).powi(steps)).max(lowest)
    }

    /// Ends the search where the next level does not fit into the time any more. Before that, where time is left for
    /// one level only, that one confirms.
    fn mind_the_time(&mut self, last: Outcome) {
        if matches!(self.phase, Phase::Over(_)) {
            return;
        }
        // A platform that was asked for more than it bears first gets time to settle, as long as a level at most.
        let settling = self.terms.longest(self.terms.hold);
        let begin = if last == Outcome::Met { self.used } else { self.used + settling };
        let level = self.terms.longest(self.hold);
        let confirmation = settling + self.terms.longest(self.terms.hold);
        let confirming = matches!(self.phase, Phase::Confirming(_));
        if let (Some(met), false) = (self.met.last(), confirming)
            && begin + level + confirmation > self.terms.time
        {
            self.phase = Phase::Confirming(met.rate);
            (self.tries, self.hold) = (0, self.terms.hold);
            self.out_of_time = true;
        }
        if begin + self.terms.longest(self.hold) > self.terms.time {
            let blocked = self.confirmed() == Ending::HostLimited;
            self.phase = Phase::Over(if blocked { Ending::HostLimited } else { Ending::TimeUp });
            self.out_of_time = true;
        }
    }

    /// What the levels so far say.
    pub fn finding(&self) -> Finding {
        let line = self.confirmed.or(self.met.last().copied());
        let ended = match self.phase {
            Phase::Over(ending) => ending,
            _ => Ending::CutShort,
        };
        let line = line.filter(|_| ended != Ending::NotRepeatable);
        Finding {
            ended,
            met: line.map(|point| point.rate),
            missed: self.missed,
            blocked: self.blocked.map(|point| point.rate),
            precision: line.zip(self.missed).map(|(line, missed)| missed / line.rate - 1.0),
            tolerance: self.terms.tolerance,
            out_of_time: self.out_of_time,
            to: self.terms.to,
            level: line.map(|point| point.index),
            above: self.above().map(|point| point.index),
            is_undecided_above: self
                .above()
                .is_some_and(|point| self.missed.is_none_or(|missed| point.rate < missed)),
        }
    }
}

/// What the search learns from a level; `None` where it was cut off.
fn tried(record: &LevelRecord, level: &LevelSummary, begin: Nanos) -> Option<Tried> {
    let outcome = match level.verdict {
        LevelVerdict::Met => Outcome::Met,
        LevelVerdict::Missed => Outcome::Missed,
        LevelVerdict::Undecided => Outcome::Undecided,
        LevelVerdict::Invalid => Outcome::Invalid(level.validity),
        LevelVerdict::Unfinished => return None,
    };
    let over = record.end.as_ref()?.at - begin;
    Some(Tried { index: level.index, rate: level.load.offered()?, outcome, over })
}

/// To so many significant digits as people care to read.
fn rounded(rate: f64) -> f64 {
    let scale = 10f64.powi(DIGITS - 1 - rate.log10().floor() as i32);
    (rate * scale).round() / scale
}

#[cfg(test)]
mod tests;
