//! The experiment: which levels it consists of, and what is slowed in each of their blocks.
//!
//! First one operation at a time, which tells how long a stop must be for a component that only waits to lose time by it. Then many
//! at a time, which tells how many come to their end in a second. Then each part of the platform is slowed by much, the paths to those
//! that may decide are delayed where relays stand there, these get short and medium stops and stops in turn, and those of which that
//! leaves the answer open are slowed by little, alone and in pairs: always in blocks in random order with untouched ones between, while
//! so many operations are in flight that nobody else runs out of work during a stop. Last, what computes is slowed under a load that
//! leaves room, for latency (docs/why.md).

mod blocks;
mod conductor;
mod delays;
mod latency;
#[cfg(test)]
mod tests;

pub use conductor::Conductor;

use plimsoll_analysis::experiment::{
    self, NOTHING_SLOWED, SHORT_STOP, SHORTER, Waits, effect::Effect, latency as latency_of,
};
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{ExperimentLevel, Means, Perturbation, Slowable, Stage};
use plimsoll_model::record::{ComponentUsage, LevelRecord, Terms};
use plimsoll_scenario::plan::{ExperimentPlan, LevelPlan};
use std::ops::RangeInclusive;

/// Hold of the first level, and of the second, in which components are read that use much and little.
const FIRST: Nanos = Nanos::from_secs(5);
const SECOND: Nanos = Nanos::from_secs(20);
/// Samples of each of these.
const FIRST_SAMPLES: u16 = 10;
/// Operations in flight of the second level, and the fewest of the later ones.
const SATURATED: u32 = 64;
/// A level with so many times the operations of the one before it may show more of the platform; and most such levels.
const MORE: u32 = 2;
const MOST_SATURATED: usize = 4;
/// A stop is so many times as long as an operation alone: a worker that sleeps through the beginning of it loses the rest.
const LONGER: f64 = 25.0;
/// A stop is at least so long, and so many operations come to their end meanwhile on the untouched platform.
const SHORTEST_STOP: Nanos = Nanos::from_millis(45);
const OPERATIONS_IN_STOP: f64 = 40.0;
/// Where a component has a quota: it is renewed in such periods, and blocks hold many of them, a whole number.
const QUOTA_PERIOD: Nanos = Nanos::from_millis(100);
const SHORTEST_STOP_WITH_QUOTA: Nanos = Nanos::from_millis(150);
/// The least quota that the kernel grants, in processors.
const LEAST_QUOTA: f64 = 0.01;
/// The shortest sample of a level.
const SHORTEST_SAMPLE: Nanos = Nanos::from_millis(10);
/// A stop that is not so many times as long as an operation alone says nothing of a worker that waits.
const FEWEST_TIMES: f64 = 6.0;
/// The longest stop, as a part of the time after which an operation is given up: a slowed platform keeps one for some stops.
const LONGEST_STOP: f64 = 0.12;
/// So many times the operations of a stop are in flight.
const IN_FLIGHT: f64 = 2.0;
/// The large dose, a share of the time.
const LARGE: f64 = 0.6;
/// The small dose leaves a part so much more than what is done, if the large one has told what it allows; it lies between these.
const ROOM: f64 = 1.08;
const SMALL: RangeInclusive<f64> = 0.15..=0.4;
/// The dose of the processors, which are taken in small pieces.
const OCCUPIED: f64 = 0.5;
const OCCUPIED_FOR: Nanos = Nanos::from_millis(5);
/// Samples of a stop; a cycle of the large dose has five.
const SAMPLES_OF_STOP: i64 = 3;
/// Samples that count in each block, at least: whole cycles.
const MEASURED_LARGE: u16 = 20;
const MEASURED_SMALL: u16 = 40;
/// The same of a small dose where the time is short.
const MEASURED_AT_LEAST: u16 = 20;
/// Levels with long stops after the one with the large dose, at most: what is not known by then has its interval.
const MOST_FURTHER: usize = 9;
/// Levels with shorter stops or stops in turn alone beside them, at most.
const MOST_OTHER: usize = 3;
/// The share of the time for the large dose; what it leaves belongs to the small one.
const FOR_LARGE: f64 = 0.5;
/// Short stops slow what computes; a wait goes on meanwhile.
const SHORT: f64 = 0.2;
/// Stops of medium length. Each outlasts so many operations alone, and so many that come to their end in that time, which
/// leaves to a component that limits at least three quarters of the dose, whatever goes on in its stops.
const MEDIUM: f64 = 4.0;
const MEDIUM_SHARE: f64 = 0.3;
const SHORTEST_MEDIUM_STOP: Nanos = Nanos::from_millis(4);
/// Processors that a component uses with many operations in flight, from which on short stops can show in it.
const COMPUTES: f64 = 0.2;
/// The dose of each of two components that are stopped in turn: a cycle has ten samples.
const IN_TURN: f64 = 0.3;
/// Levels in which components are stopped in turn, at most.
const MOST_IN_TURN: usize = 2;
/// Most parts that are slowed in pairs.
const MOST_IN_PAIRS: usize = 3;

/// The next level of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct NextLevel {
    /// Its load.
    pub level: LevelPlan,
    /// Its hold.
    pub hold: Nanos,
    /// Its samples.
    pub samples: u16,
    /// What it is for.
    pub experiment: ExperimentLevel,
    /// The same for people.
    pub purpose: &'static str,
}

/// What comes next.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// A level.
    Level(Box<NextLevel>),
    /// Nothing more, and why if that is not what was wanted.
    Over(Option<String>),
}

/// The levels of an experiment, one after the other.
pub struct Experiment<'a> {
    plan: ExperimentPlan,
    terms: &'a Terms,
    seed: u64,
    parts: Vec<Slowable>,
    /// Those of them that use up their quota while nothing is slowed.
    used_up: Vec<String>,
    /// For which part of the time components wait for a processor meanwhile.
    waits: Waits,
    /// How long medium stops are; `None` where that would hardly differ from the long ones.
    medium_stop: Option<Nanos>,
    /// Whether the platform's processors are its own, so that they can be occupied.
    own_processors: bool,
    /// What each level takes beside its hold.
    besides: Nanos,
    /// When the first level began.
    begun: Option<Nanos>,
}

impl<'a> Experiment<'a> {
    /// The experiment of a plan with those parts; `besides` is what each level takes beside its hold.
    pub fn new(
        plan: ExperimentPlan,
        (terms, seed): (&'a Terms, u64),
        parts: Vec<Slowable>,
        own_processors: bool,
        besides: Nanos,
    ) -> Experiment<'a> {
        let (used_up, waits, medium_stop, begun) = (Vec::new(), Waits::new(), None, None);
        Experiment { plan, terms, seed, parts, used_up, waits, medium_stop, own_processors, besides, begun }
    }

    /// What comes after the levels so far, with what components used in them, at that time of the run.
    pub fn next(&mut self, done: &[LevelRecord], components: &[ComponentUsage], now: Nanos) -> Step {
        let begun = *self.begun.get_or_insert(now);
        let most = self.plan.most_in_flight;
        let first = |stage, in_flight: u32, purpose| {
            Step::Level(Box::new(NextLevel {
                level: LevelPlan::Experiment(in_flight.min(most).max(1)),
                hold: if stage == Stage::Alone { FIRST } else { SECOND },
                samples: FIRST_SAMPLES,
                experiment: ExperimentLevel::new(stage, Vec::new()),
                purpose,
            }))
        };
        let left = self.plan.within - (now - begun);
        match done {
            [] if self.parts.is_empty() => {
                Step::Over(Some(format!("{NOTHING_SLOWED}: the run started no component")))
            }
            [] => first(Stage::Alone, 1, "one operation at a time"),
            [_] => first(Stage::Saturated, SATURATED, "many operations at a time"),
            [alone, rest @ ..] => {
                let is_saturated = |level: &&LevelRecord| level.start.stage() == Some(Stage::Saturated);
                let (saturated, slowed) = rest.split_at(rest.iter().take_while(is_saturated).count());
                let [.., last] = saturated else { return Step::Over(None) };
                if !slowed.is_empty() {
                    let slowed: Vec<&LevelRecord> = slowed.iter().collect();
                    return self.slower((alone, last), &slowed, components, left);
                }
                // One that leaves its quota unused is slowed by stops: a smaller quota would change nothing of it.
                self.used_up = experiment::used_up_quotas(last, components);
                self.waits = experiment::waits_in(last, components);
                let (stop, in_flight) = match self.measures(alone, last, left) {
                    Ok(measures) => measures,
                    Err(why) => return Step::Over(Some(format!("{NOTHING_SLOWED}: {why}"))),
                };
                // Fewer need not have shown what the platform can do, nor what its components use then.
                let is_more = last.start.load.in_flight().is_some_and(|own| in_flight > own * MORE);
                if is_more && saturated.len() < MOST_SATURATED {
                    return first(Stage::Saturated, in_flight, "more operations at a time");
                }
                self.medium_stop = self.medium_stop(alone, last, stop);
                self.large((stop, in_flight), left)
            }
        }
    }

    /// What comes after the first level in which components were slowed.
    fn slower(
        &self,
        (alone, saturated): (&LevelRecord, &LevelRecord),
        slowed: &[&LevelRecord],
        components: &[ComponentUsage],
        left: Nanos,
    ) -> Step {
        let at = |stage| slowed.iter().find(|level| level.start.stage() == Some(stage));
        if at(Stage::Latency).is_some() {
            return Step::Over(None);
        }
        let is_delays = |level: &&LevelRecord| level.start.stage() == Some(Stage::Delays);
        let stopped: Vec<&LevelRecord> = slowed.iter().copied().filter(|level| !is_delays(level)).collect();
        // Between which a path limits, or which share something, whatever more is done to them.
        let mut known =
            at(Stage::Delays).map(|delays| experiment::limited_by_path(&stopped, delays)).unwrap_or_default();
        known.extend(experiment::share_something(&stopped, &self.waits));
        let next = match &stopped[..] {
            // Nothing that a component does by itself would change that.
            [large, further @ ..] if experiment::processors_limit(large, saturated, components) => {
                self.processors_again(large, further.is_empty(), left)
            }
            [large] if at(Stage::Delays).is_none() => match self.delays(alone, large, left) {
                Step::Over(_) => self.after_large((large, saturated), &known, components, left),
                delays => delays,
            },
            [large] => self.after_large((large, saturated), &known, components, left),
            // The name is known then; small doses show how little the others decide, where there is time.
            [large, shorter]
                if stops_shorter(shorter, large) && experiment::short_stops_tell(&[large, shorter]) =>
            {
                match self.small(&stopped, &known, left) {
                    Step::Over(_) => Step::Over(None),
                    next => next,
                }
            }
            [large, further @ ..]
                if further.iter().all(|level| stops_shorter(level, large) || stops_in_turn(level)) =>
            {
                self.after_shorter(&stopped, &known, left)
            }
            _ => self.again(&stopped, &known, left),
        };
        match next {
            Step::Over(None) => self.latency((alone, saturated), components, left),
            next => next,
        }
    }

    /// The processors once more, where it is not known well enough how much they decide.
    fn processors_again(&self, large: &LevelRecord, is_first: bool, left: Nanos) -> Step {
        let open = experiment::open_processors(large).filter(|_| is_first);
        let measures = large.start.longest_stop().zip(large.start.load.in_flight());
        let (Some(open), Some((stop, in_flight))) = (open, measures) else { return Step::Over(None) };
        match self.further(&[open], (stop, in_flight, left), 1) {
            // What is known by then has its interval.
            Step::Over(_) => Step::Over(None),
            next => next,
        }
    }

    /// What comes once each part was slowed by much, and the paths that could be were delayed.
    fn after_large(
        &self,
        (large, saturated): (&LevelRecord, &LevelRecord),
        known: &[String],
        components: &[ComponentUsage],
        left: Nanos,
    ) -> Step {
        match self.shorter((large, saturated), known, components, left) {
            Step::Over(_) => self.after_shorter(&[large], known, left),
            shorter => shorter,
        }
    }

    /// What comes once those that seem to decide had shorter stops, if they were to have some: stops in turn where two of them surely slow the
    /// platform by more than one that only comes near to the limit would. Elsewhere small doses leave one of them, in less time.
    fn after_shorter(&self, done: &[&LevelRecord], known: &[String], left: Nanos) -> Step {
        let is_for_turns = known.is_empty() && experiment::several_surely_contend(done);
        let in_turn = if is_for_turns { self.in_turn(done) } else { Vec::new() };
        let measures =
            done.first().and_then(|large| Some((large.start.longest_stop()?, large.start.load.in_flight()?)));
        let next = match measures {
            Some((stop, in_flight)) if !in_turn.is_empty() => {
                self.further(&in_turn, (stop, in_flight, left), done.len())
            }
            _ => Step::Over(None),
        };
        match next {
            Step::Over(_) => self.small(done, known, left),
            next => next,
        }
    }

    /// How long a stop is, and how many operations are in flight meanwhile; or why that cannot be had, for people.
    fn measures(
        &self,
        alone: &LevelRecord,
        saturated: &LevelRecord,
        left: Nanos,
    ) -> Result<(Nanos, u32), String> {
        let rate = experiment::capacity(saturated).filter(|rate| *rate > 0.0);
        let alone = experiment::alone(alone, self.terms);
        let (Some(alone), Some(rate)) = (alone, rate) else {
            return Err(
                "hardly any operation came to its end that acknowledgements or subscribers can show".into()
            );
        };
        let longest = self.plan.timeout.as_secs_f64() * LONGEST_STOP;
        if longest < alone * FEWEST_TIMES {
            return Err(format!(
                "an operation takes {}, and its stops would be too long for load.operation_timeout: {} is enough",
                Nanos::from_secs_f64(alone),
                Nanos::from_secs_f64((alone * FEWEST_TIMES / LONGEST_STOP).ceil())
            ));
        }
        let has_quota = self.parts.iter().any(|part| self.most_cut(part).is_some());
        let shortest = if has_quota { SHORTEST_STOP_WITH_QUOTA } else { SHORTEST_STOP };
        let wanted = (alone * LONGER).max(OPERATIONS_IN_STOP / rate).max(shortest.as_secs_f64());
        // With fewer operations in flight than that takes, others would run out of work.
        let most = f64::from(self.plan.most_in_flight) / (IN_FLIGHT * rate);
        let stop = wanted.min(longest).min(most);
        // Shorter ones leave time for what comes after the large dose; so short that they say nothing they need not be.
        let parts = self.parts.len() + usize::from(self.own_processors);
        let samples = blocks::fewest_samples(parts, MEASURED_LARGE) as f64;
        let affordable = left.as_secs_f64() * FOR_LARGE * SAMPLES_OF_STOP as f64 / samples;
        let least = (alone * FEWEST_TIMES).max(OPERATIONS_IN_STOP / rate).max(shortest.as_secs_f64());
        let stop = stop.min(affordable.max(least));
        // A whole number of milliseconds a sample, and of periods of a quota a block.
        let unit = if has_quota { QUOTA_PERIOD / i64::from(MEASURED_LARGE) } else { Nanos::from_millis(1) };
        let sample = unit * (Nanos::from_secs_f64(stop).0 / (unit.0 * SAMPLES_OF_STOP));
        if sample < SHORTEST_SAMPLE || stop < alone * FEWEST_TIMES {
            let least = (SHORTEST_SAMPLE * SAMPLES_OF_STOP).as_secs_f64().max(alone * FEWEST_TIMES);
            return Err(format!(
                "that needs {:.0} operations in flight, and {} are possible (population.devices, \
                 load.experiment.in_flight)",
                (IN_FLIGHT * rate * least).ceil(),
                self.plan.most_in_flight
            ));
        }
        let stop = sample * SAMPLES_OF_STOP;
        let in_flight = (IN_FLIGHT * rate * stop.as_secs_f64()).ceil() as u32;
        Ok((stop, in_flight.max(SATURATED).min(self.plan.most_in_flight)))
    }

    fn large(&self, (stop, in_flight): (Nanos, u32), left: Nanos) -> Step {
        let mut perturbations: Vec<Perturbation> =
            self.parts.iter().map(|part| self.slowed(part, LARGE, stop)).collect();
        if self.own_processors {
            let (means, share, stop) = (Means::Occupy, OCCUPIED, OCCUPIED_FOR);
            perturbations.push(Perturbation::new(Vec::new(), means, share, stop));
        }
        let time = Nanos::from_secs_f64(left.as_secs_f64() * FOR_LARGE);
        let purpose = "each part is slowed by much";
        self.level(Stage::Large, &perturbations, (MEASURED_LARGE, stop, in_flight, time, left), (0, purpose))
    }

    /// Short stops of components that seem to decide, each of them. Where one that computes stops those that wait for it, that shows more
    /// than the small doses, and sooner. Of one that decides alone and computes all the time, they show whether that is what operations
    /// wait for: a thread may spin while others of it wait. Of several, medium stops show who only feeds the one that limits.
    fn shorter(
        &self,
        (large, saturated): (&LevelRecord, &LevelRecord),
        known: &[String],
        components: &[ComponentUsage],
        left: Nanos,
    ) -> Step {
        let contenders = self.stoppable(experiment::contenders(&[large]));
        let used = |name: &String| latency_of::processor_of(name, saturated, components).unwrap_or(0.0);
        let measures = large.start.longest_stop().zip(large.start.load.in_flight());
        let are_several = contenders.len() > 1;
        let are_short = contenders.iter().any(|name| used(name) > COMPUTES)
            && (are_several || experiment::compute_all_the_time(&contenders, saturated, components));
        let are_medium = are_several && known.is_empty();
        let short = contenders.iter().filter(|_| are_short).cloned().map(stopped_shortly);
        let medium = contenders.iter().filter(|_| are_medium);
        let short: Vec<Perturbation> = short.collect();
        let medium = medium.filter_map(|name| self.stopped_for_medium(name));
        let both: Vec<Perturbation> = short.iter().cloned().chain(medium).collect();
        let of = |stops: &[Perturbation]| match measures {
            Some((stop, in_flight)) if !stops.is_empty() => self.further(stops, (stop, in_flight, left), 1),
            _ => Step::Over(None),
        };
        match of(&both) {
            Step::Over(_) => of(&short),
            level => level,
        }
    }

    /// How long medium stops are, if that differs from the long ones.
    fn medium_stop(&self, alone: &LevelRecord, saturated: &LevelRecord, long: Nanos) -> Option<Nanos> {
        let alone = experiment::alone(alone, self.terms)?;
        let rate = experiment::capacity(saturated).filter(|rate| *rate > 0.0)?;
        let seconds = MEDIUM * alone.max(1.0 / rate);
        let stop = Nanos::from_millis((seconds * 1e3).ceil() as i64).max(SHORTEST_MEDIUM_STOP);
        (stop * SHORTER < long).then_some(stop)
    }

    fn stopped_for_medium(&self, component: &str) -> Option<Perturbation> {
        self.medium_stop
            .map(|stop| Perturbation::new(vec![component.to_owned()], Means::Stop, MEDIUM_SHARE, stop))
    }

    /// Those of some components that stops slow: of a quota, they would only use what it withholds anyway.
    fn stoppable(&self, mut components: Vec<String>) -> Vec<String> {
        let is_stoppable = |name: &String| {
            self.parts.iter().any(|part| part.component == *name && self.most_cut(part).is_none())
        };
        components.retain(is_stoppable);
        components
    }

    /// Each component of which the large dose leaves it open whether it limits, by a small one; not those of which that is known anyway.
    fn small(&self, done: &[&LevelRecord], known: &[String], left: Nanos) -> Step {
        let [large, ..] = done else { return Step::Over(None) };
        let (Some(stop), Some(in_flight)) = (large.start.longest_stop(), large.start.load.in_flight()) else {
            return Step::Over(None);
        };
        let mut open = experiment::open(large);
        let fed = experiment::excluded_by_medium_stops(done);
        open.retain(|effect| !has_any(&effect.components, known) && !has_any(&effect.components, &fed));
        let mut perturbations = self.by_little(&open, stop);
        let is_open = |own: &Perturbation| open.iter().any(|effect| effect.components == own.components);
        let unsettled = experiment::unsettled(&[large]).into_iter().filter(|own| !is_open(own));
        let is_known = |own: &Perturbation| has_any(&own.components, known) || has_any(&own.components, &fed);
        perturbations.extend(unsettled.filter(|own| !is_known(own)));
        if perturbations.is_empty() {
            return self.again(done, known, left);
        }
        let all = self.further(&perturbations, (stop, in_flight, left), done.len());
        // Where there is no time for all, those come first that could decide without a small dose.
        let may_decide = |own: &Perturbation| {
            let effect = open.iter().find(|effect| effect.components == own.components);
            effect.is_some_and(|effect| effect.interval.is_none_or(|own| own.hi > experiment::EXCLUDED))
        };
        match all {
            Step::Over(why) => {
                perturbations.retain(may_decide);
                match self.further(&perturbations, (stop, in_flight, left), done.len()) {
                    Step::Over(_) => Step::Over(why),
                    fewer => fewer,
                }
            }
            all => all,
        }
    }

    /// Components slowed by as little as their effects under a large dose allow.
    fn by_little(&self, large: &[Effect], stop: Nanos) -> Vec<Perturbation> {
        let of = |part: &Slowable| {
            let effect = large.iter().find(|effect| effect.components == [part.component.clone()])?;
            Some(self.slowed(part, small_dose(effect), stop))
        };
        self.parts.iter().filter_map(of).collect()
    }

    /// Those that may decide together, in pairs and by short stops, once; and the perturbations whose effect is not known well enough.
    fn again(&self, slowed: &[&LevelRecord], known: &[String], left: Nanos) -> Step {
        let [large, further @ ..] = slowed else { return Step::Over(None) };
        // Shorter stops and those in turn ask something else.
        let is_long = |level: &&&LevelRecord| !stops_shorter(level, large) && !stops_in_turn(level);
        let long = further.iter().filter(is_long).count();
        if long >= MOST_FURTHER || further.len() >= MOST_FURTHER + MOST_OTHER {
            return Step::Over(None);
        }
        let mut wanted = if slowed.len() > 1 { experiment::unsettled(slowed) } else { Vec::new() };
        wanted.retain(|own| !has_any(&own.components, known));
        if known.is_empty() && !slowed.iter().any(|level| slows_pairs(level)) {
            wanted.extend(self.pairs_of(&experiment::contenders(slowed), slowed));
        }
        if known.is_empty() {
            wanted.extend(self.in_turn(slowed));
            let open = self.stoppable(experiment::open_by_medium_stops(slowed));
            let medium: Vec<Perturbation> =
                open.iter().filter_map(|name| self.stopped_for_medium(name)).collect();
            wanted.retain(|own| !medium.contains(own));
            wanted.extend(medium);
        }
        let measures = large.start.longest_stop().zip(large.start.load.in_flight());
        let Some((stop, in_flight)) = measures else { return Step::Over(None) };
        // Medium stops may have excluded them until more was known.
        let mut open = experiment::open_without_small_dose(slowed);
        open.retain(|effect| !has_any(&effect.components, known));
        wanted.extend(self.by_little(&open, stop));
        if wanted.is_empty() {
            return Step::Over(None);
        }
        match self.further(&wanted, (stop, in_flight, left), slowed.len()) {
            // What is known by then has its interval.
            Step::Over(_) => Step::Over(None),
            next => next,
        }
    }

    /// Two components that may decide, one after the other, whether what one did before is left for the other to do meanwhile: if that was not
    /// done yet, and once more where that left it open.
    fn in_turn(&self, slowed: &[&LevelRecord]) -> Vec<Perturbation> {
        let stop = slowed.first().and_then(|large| large.start.longest_stop()).unwrap_or_default();
        let in_turn = |components| Perturbation {
            in_turn: true,
            ..Perturbation::new(components, Means::Stop, IN_TURN, stop)
        };
        let done = slowed.iter().filter(|level| perturbations(level).any(|own| own.in_turn)).count();
        let wanted = match done {
            0 => pairs(&self.stoppable(experiment::all_contenders(slowed))),
            done if done < MOST_IN_TURN => experiment::open_in_turn(slowed, &self.waits),
            _ => Vec::new(),
        };
        wanted.into_iter().map(in_turn).collect()
    }

    /// Pairs of the components that may decide, and each of them by short stops, if that was not done yet.
    fn pairs_of(&self, contenders: &[String], slowed: &[&LevelRecord]) -> Vec<Perturbation> {
        let contenders = self.stoppable(contenders.to_vec());
        let Some(stop) = slowed.first().and_then(|large| large.start.longest_stop()) else {
            return Vec::new();
        };
        if contenders.len() < 2 {
            return Vec::new();
        }
        let is_new = !slowed.iter().any(|level| perturbations(level).any(|own| own.stop == SHORT_STOP));
        let short = contenders.iter().filter(|_| is_new).cloned().map(stopped_shortly);
        let pair = |components| Perturbation::new(components, Means::Stop, LARGE, stop);
        pairs(&contenders).into_iter().map(pair).chain(short).collect()
    }

    fn further(
        &self,
        perturbations: &[Perturbation],
        (stop, in_flight, left): (Nanos, u32, Nanos),
        number: usize,
    ) -> Step {
        let purpose = "those that matter are slowed again";
        let level = |measured| {
            self.level(
                Stage::Small,
                perturbations,
                (measured, stop, in_flight, left, left),
                (number, purpose),
            )
        };
        match level(MEASURED_SMALL) {
            // A short look is better than none, and says of itself how exact it is.
            Step::Over(why) => match level(MEASURED_AT_LEAST) {
                Step::Over(_) => Step::Over(why),
                short => short,
            },
            whole => whole,
        }
    }

    /// A component that is slowed by the means that fits it: where a quota limits, stops would only eat what it leaves unused.
    fn slowed(&self, part: &Slowable, share: f64, stop: Nanos) -> Perturbation {
        let (means, share) = match self.most_cut(part) {
            Some(most) => (Means::Quota, share.min(most)),
            None => (Means::Stop, share),
        };
        Perturbation::new(vec![part.component.clone()], means, share, stop)
    }

    /// The share by which its quota can be cut; `None` where it uses none up, or none that can be cut by enough.
    fn most_cut(&self, part: &Slowable) -> Option<f64> {
        let used_up = part.quota.filter(|_| self.used_up.contains(&part.component));
        used_up.map(|quota| 1.0 - LEAST_QUOTA / quota).filter(|most| most >= SMALL.end())
    }
}

/// A dose that leaves a part some room above what is done, as far as a large dose has told what it allows. Its cycle has a whole
/// number of samples.
fn small_dose(large: &Effect) -> f64 {
    let dose = (1.0 - ROOM / large.capacity()).clamp(*SMALL.start(), *SMALL.end());
    SAMPLES_OF_STOP as f64 / (SAMPLES_OF_STOP as f64 / dose).round()
}

/// Whether some components are among those of that name.
fn has_any(components: &[String], names: &[String]) -> bool {
    components.iter().any(|name| names.contains(name))
}

/// What was slowed in the blocks of a level.
fn perturbations(level: &LevelRecord) -> impl Iterator<Item = &Perturbation> {
    level.start.blocks().iter().filter_map(|block| block.perturbation.as_ref())
}

/// Whether several components were slowed at the same moments in a level.
fn slows_pairs(level: &LevelRecord) -> bool {
    perturbations(level).any(|own| own.components.len() > 1 && !own.in_turn)
}

/// Whether components were stopped in turn, and nothing else was done, in a level.
fn stops_in_turn(level: &LevelRecord) -> bool {
    let mut slowed = perturbations(level).peekable();
    slowed.peek().is_some() && slowed.all(|own| own.in_turn)
}

/// Whether components had short or medium stops alone in a level.
fn stops_shorter(level: &LevelRecord, large: &LevelRecord) -> bool {
    let longest = large.start.longest_stop().unwrap_or_default();
    let mut slowed = perturbations(level).peekable();
    slowed.peek().is_some() && slowed.all(|own| own.stop * SHORTER < longest)
}

fn stopped_shortly(component: String) -> Perturbation {
    Perturbation::new(vec![component], Means::Stop, SHORT, SHORT_STOP)
}

/// All pairs of some components; none of too many.
fn pairs(components: &[String]) -> Vec<Vec<String>> {
    if components.len() > MOST_IN_PAIRS {
        return Vec::new();
    }
    let of = |(place, one): (usize, &String)| {
        let pair = |other: &String| vec![one.clone(), other.clone()];
        components.iter().skip(place + 1).map(pair).collect::<Vec<_>>()
    };
    components.iter().enumerate().flat_map(of).collect()
}
