//! How much, when and for how long.

use super::rate::check_rate;
use super::{connections, curve, search, trace};
use crate::config::{Arrivals, LevelRange, Levels, Load, Marker, Per, Processors, Scenario, WorkloadModel};
use crate::context::Context;
use crate::plan::{
    ArrivalsPer, CalibrationPlan, CountPlan, LevelPlan, LoadPlan, Model, Protocol, SearchTerms,
};
use crate::protocols::slice;
use crate::quantity::{AsText, Quantity, Rate};
use plimsoll_model::{ArrivalTrace, LoadCurve, Nanos};
use plimsoll_stats::distribution::InterArrival;
use std::sync::Arc;

/// Most levels of one run.
const MOST_LEVELS: usize = 1000;
/// Shortest sample.
const SHORTEST_SAMPLE: Nanos = Nanos::from_millis(10);
/// Fine enough to be small beside the times of a platform on a local network (0.2 ms and more), coarse enough for a
/// machine that takes 70 µs to wake a thread.
const DEFAULT_PRECISION: Nanos = Nanos::from_micros(100);
/// Coarsest `precision` and longest `spin`.
const COARSEST_PRECISION: Nanos = Nanos::from_secs(1);
const LONGEST_SPIN: Nanos = Nanos::from_millis(10);
/// Longest time between levels.
const LONGEST_IDLE: Nanos = Nanos::from_secs(3600);
/// How long a level may take that ends by count, where the scenario does not say.
const LONGEST_COUNT: Nanos = Nanos::from_secs(3600);
/// Most messages after which a level ends: their due times are walked before it begins.
const MOST_MESSAGES: u64 = 100_000_000;
/// Most devices and messages of a device that an integer marker can number.
const INTEGER_DEVICES: u32 = 1 << 17;
const INTEGER_SEQUENCES: f64 = (1 << 24) as f64;

pub(super) fn resolve(
    scenario: &mut Scenario,
    protocol: Protocol,
    context: &mut Context<'_>,
) -> Option<LoadPlan> {
    let devices = scenario.population.devices;
    let load = &mut scenario.load;
    let count = count(load, context);
    if count.is_some() && !context.written("load.hold") {
        load.hold = AsText(LONGEST_COUNT);
    }
    let curve = curve::resolve(load, context);
    let trace = trace::resolve(load, devices, context);
    // Without levels, a trace is played as it was taken.
    let as_taken = trace.as_deref().filter(|_| says_no_levels(load) && context.part.is_none());
    if let Some(trace) = as_taken.filter(|_| !context.written("load.hold")) {
        load.hold = AsText(trace.length());
    }
    let own_rate = as_taken.map(ArrivalTrace::rate);
    if count.is_none() && is_short(load.hold.0, load) {
        let at = if context.written("load.hold") { "load.hold" } else { "load.samples" };
        context.error_with_help(at, short(load), "lengthen `hold` or lower `samples`");
    }
    check_rate(load.connect_rate.0, "load.connect_rate", context);
    let (precision, spin) = match load.model {
        WorkloadModel::Open => precision(load, context),
        WorkloadModel::Closed | WorkloadModel::PartlyOpen => (Nanos::ZERO, Nanos::ZERO),
    };
    let (model, levels) = match load.model {
        WorkloadModel::Open => {
            let all = context.part.and_then(|part| part.all_devices);
            open(load, (curve.as_ref(), trace, own_rate), all.unwrap_or(devices), context)
        }
        WorkloadModel::Closed => closed(load, context),
        WorkloadModel::PartlyOpen => partly_open(load, context),
    }?;
    let (levels, turn) = with_way_down(&scenario.load, levels, context);
    if let Some(count) = count {
        check_count(&scenario.load, scenario.population.devices, count, &levels, context);
    }
    let search = search::resolve(&scenario.load, context);
    if scenario.load.search.is_some() && search.is_none() {
        return None;
    }
    let calibration = calibration(&scenario.load, context);
    check_numbers(scenario, (&levels, count), search.as_ref(), protocol, context);
    let load = &scenario.load;
    let idle = load.idle_before.map_or(Nanos::ZERO, |idle| idle.0);
    let level = idle + load.warm_up.0 + load.hold.0 + load.drain.0;
    // What ends by count, follows a curve or plays a trace may take very long.
    let may_be_long = count.is_some() || curve.is_some() || own_rate.is_some();
    let by_default = if may_be_long { Nanos::ZERO } else { level * 2 * levels.len() as i64 };
    let again = load.again.as_ref().map_or(by_default, |again| again.0);
    Some(LoadPlan {
        again,
        idle_before: idle_before(load, context),
        idle_after: idle_after(load, context),
        model,
        levels,
        turn,
        curve,
        search,
        calibration,
        stop_after_missed: load.stop_after_missed,
        storm: None,
        faults: Vec::new(),
        experiment: None,
        warm_up: load.warm_up.0,
        hold: load.hold.0,
        count,
        samples: load.samples,
        drain: load.drain.0,
        connect_rate: load.connect_rate.0.0,
        threads: load.threads,
        shares_processors: load.processors == Some(Processors::Shared),
        precision,
        spin,
    })
}

/// Whether the scenario leaves it open at which rates levels are.
fn says_no_levels(load: &Load) -> bool {
    let by_experiment = load.experiment.as_ref().is_some_and(|own| !own.with_levels);
    load.levels.is_none() && load.search.is_none() && load.calibrate.is_none() && !by_experiment
}

/// After how many messages each hold ends, and what excludes that.
fn count(load: &Load, context: &mut Context<'_>) -> Option<CountPlan> {
    let (key, count) = match (load.messages, load.cycles) {
        (None, None) => return None,
        (Some(messages), None) => ("messages", CountPlan::Messages(messages)),
        (None, Some(cycles)) => ("cycles", CountPlan::Cycles(cycles)),
        (Some(_), Some(_)) => {
            let message = "`messages` and `cycles` exclude each other";
            context.error_with_help(
                "load.cycles",
                message,
                "remove one: `cycles` counts those of each device",
            );
            return None;
        }
    };
    let path = format!("load.{key}");
    let excluded = [
        ("search", load.search.is_some()),
        ("calibrate", load.calibrate.is_some()),
        ("storm", load.storm.is_some()),
        ("connect_rates", load.connect_rates.is_some()),
        ("model: partly_open", load.model == WorkloadModel::PartlyOpen),
    ];
    for (other, _) in excluded.into_iter().filter(|(_, is_there)| *is_there) {
        let message = format!("`{key}` and `{other}` exclude each other");
        context.error_with_help(&path, message, format!("remove `{key}`: these levels end by time"));
    }
    if load.devices.is_some() && load.rate_per_device.is_none() {
        let message = format!("nothing is due in levels of idle devices, so `{key}` would never end one");
        context.error_with_help(&path, message, format!("write `rate_per_device`, or remove `{key}`"));
    }
    let take_turns = matches!(load.arrivals, Some(Arrivals::Constant)) && load.per != Some(Per::Device);
    if key == "cycles" && load.model == WorkloadModel::Open && !take_turns {
        let message = "devices that do not take turns do not send equally much in any time";
        let help = "write `arrivals: constant` without `per: device`, or `messages` in place of `cycles`";
        context.error_with_help(&path, message, help);
    }
    Some(count)
}

/// Whether the samples of such a hold are too short.
fn is_short(hold: Nanos, load: &Load) -> bool {
    hold / i64::from(load.samples.max(1)) < SHORTEST_SAMPLE
}

fn short(load: &Load) -> String {
    format!("{} samples of the hold are shorter than 10 ms each", load.samples)
}

/// The same of holds that end by count, as far as their length is known, and whether anybody can count so far.
fn check_count(load: &Load, devices: u32, count: CountPlan, levels: &[LevelPlan], context: &mut Context<'_>) {
    let key = match count {
        CountPlan::Messages(_) => "messages",
        CountPlan::Cycles(_) => "cycles",
    };
    let at = format!("load.{key}");
    let messages = levels.iter().map(|level| count.messages(*level, devices)).max();
    if let Some(messages) = messages.filter(|messages| *messages > MOST_MESSAGES) {
        let message = format!("a level can end after 100 million messages at most, and these are {messages}");
        context.error(&at, message);
    }
    let shortest = levels.iter().filter_map(|level| count.hold(*level, devices)).min();
    // Populations have their parts of the messages.
    let shortest = shortest.filter(|_| context.part.is_none());
    if shortest.is_some_and(|shortest| is_short(shortest, load)) {
        context.error_with_help(&at, short(load), format!("raise `{key}` or lower `samples`"));
    }
}

/// Time without load before each level.
fn idle_before(load: &Load, context: &mut Context<'_>) -> Nanos {
    const KEY: &str = "load.idle_before";
    let Some(idle) = load.idle_before else { return Nanos::ZERO };
    if idle.0 > LONGEST_IDLE {
        context.error(KEY, "levels can be an hour apart at most");
    }
    if idle.0 > Nanos::ZERO && (load.search.is_some() || load.calibrate.is_some()) {
        let message = "`idle_before` is for listed levels, and these are searched";
        context.error_with_help(KEY, message, "remove it; idle levels are `load: { devices: [1000] }`");
    }
    idle.0
}

/// Time without load after the last level.
fn idle_after(load: &Load, context: &mut Context<'_>) -> Nanos {
    let idle = load.idle_after.map_or(Nanos::ZERO, |idle| idle.0);
    if idle > LONGEST_IDLE {
        context.error("load.idle_after", "the platform can be left without load for an hour at most");
    }
    idle
}

/// What `calibrate` asks for, and what it excludes.
fn calibration(load: &Load, context: &mut Context<'_>) -> Option<CalibrationPlan> {
    let calibrate = load.calibrate.as_ref()?;
    for key in ["levels", "search", "stop_after_missed", "devices", "connect_rates", "curve", "spike"] {
        if context.written(&format!("load.{key}")) {
            let help = format!("remove `{key}`: a calibration chooses its levels");
            context.error_with_help(
                "load.calibrate",
                format!("`calibrate` and `{key}` exclude each other"),
                help,
            );
        }
    }
    if !(0.5..=1.0).contains(&calibrate.done.0.0) {
        context.error("load.calibrate.done", "a calibration demands from 50 % to 100 %");
    }
    check_rate(calibrate.from.0, "load.calibrate.from", context);
    Some(CalibrationPlan { from: calibrate.from.0.0, done: calibrate.done.0.0, attempts: calibrate.attempts })
}

/// Precision and spinning time of the open model.
fn precision(load: &mut Load, context: &mut Context<'_>) -> (Nanos, Nanos) {
    let precision = load.precision.get_or_insert(AsText(DEFAULT_PRECISION)).0;
    let spin = load.spin.get_or_insert(AsText(Nanos::ZERO)).0;
    if precision > COARSEST_PRECISION {
        let message = "sending can lag behind due by a second at most";
        context.error_with_help(
            "load.precision",
            message,
            "write `1ms` for cheap load, `100us` for fine times",
        );
    }
    if spin > LONGEST_SPIN {
        let message = "a load thread can watch its clock for 10 ms at most before each due time";
        context.error_with_help("load.spin", message, "30us to 80us bring lateness down to the clock's own");
    }
    (precision, spin)
}

/// Reports keys that belong to other models.
fn refuse(keys: &[&str], belongs: &str, remedy: &str, load: &Load, context: &mut Context<'_>) {
    for key in keys {
        let path = format!("load.{key}");
        if context.written(&path) {
            let model = load.model.name();
            let message = format!("`{key}` belongs to the {belongs}, but the model is {model}");
            context.error_with_help(&path, message, format!("remove it, or write `model: {remedy}`"));
        }
    }
}

fn open(
    load: &mut Load,
    (curve, trace, own_rate): (Option<&LoadCurve>, Option<Arc<ArrivalTrace>>, Option<f64>),
    devices: u32,
    context: &mut Context<'_>,
) -> Option<(Model, Vec<LevelPlan>)> {
    refuse(&["in_flight", "think_time"], "closed model", "closed", load, context);
    // An experiment keeps operations in flight, whatever the model is.
    if load.experiment.is_none() {
        refuse(&["operation_timeout"], "closed model", "closed", load, context);
    }
    refuse(&["session_messages"], "partly open model", "partly_open", load, context);
    let model = match trace {
        Some(trace) => Model::Trace(trace),
        None => {
            let per = match load.per.get_or_insert(Per::Population) {
                Per::Population => ArrivalsPer::Population,
                Per::Device => ArrivalsPer::Device,
            };
            Model::Open { arrivals: inter_arrival(load), per }
        }
    };
    connections::check_place(load, context);
    let connects = load.devices.is_some() || load.connect_rates.is_some();
    let follows = load.curve.is_some() || load.spike.is_some();
    let levels = match (load.levels.is_none() && load.search.is_none(), own_rate) {
        (true, _) if connects => connections::resolve(load, devices, context)?,
        (true, _) if follows => vec![LevelPlan::Rate(readable(curve?.mean()))],
        (true, Some(rate)) => vec![LevelPlan::Rate(rate)],
        _ => rates(load, context)?,
    };
    Some((model, levels))
}

/// The mean of a curve to three decimals, or to nine where it is small, so that people can read it. A millionth more or less is offered
/// than the curve says.
fn readable(mean: f64) -> f64 {
    if mean >= 1.0 { (mean * 1e3).round() / 1e3 } else { decimal(mean) }
}

/// The levels with those of the way down, where the scenario asks for it, and how many are of the way up then.
fn with_way_down(
    load: &Load,
    levels: Vec<LevelPlan>,
    context: &mut Context<'_>,
) -> (Vec<LevelPlan>, Option<usize>) {
    const KEY: &str = "load.ramp_down";
    if !load.ramp_down {
        return (levels, None);
    }
    if load.levels.is_none() {
        context.error_with_help(KEY, "`ramp_down` belongs to `levels`", "write `levels: [100, 200, 400]`");
        return (levels, None);
    }
    let rise = levels.windows(2).all(|pair| matches!(pair, [one, other] if one.load() < other.load()));
    if levels.len() < 2 || !rise {
        let message = "a way down needs a way up: two levels or more, each above the one before";
        context.error_with_help(KEY, message, "list the levels in rising order");
        return (levels, None);
    }
    let turn = levels.len();
    if 2 * turn > MOST_LEVELS {
        too_many(2.0 * turn as f64 - 1.0, KEY, context);
        return (levels, None);
    }
    let down = levels.iter().rev().skip(1).copied().collect::<Vec<_>>();
    (levels.into_iter().chain(down).collect(), Some(turn))
}

fn partly_open(load: &mut Load, context: &mut Context<'_>) -> Option<(Model, Vec<LevelPlan>)> {
    refuse(&["in_flight"], "closed model", "closed", load, context);
    let of_open =
        ["per", "precision", "spin", "devices", "rate_per_device", "connect_rates", "curve", "spike"];
    refuse(&of_open, "open model", "open", load, context);
    let arrivals = inter_arrival(load);
    let (think_time, timeout) = pace(load, context);
    let Some(messages) = load.session_messages else {
        let help = "write how many messages a session sends: `session_messages: 10`";
        context.error_with_help("load", "missing key `session_messages` in `load`", help);
        return None;
    };
    let thinking = think_time * i64::from(messages - 1);
    if load.warm_up.0 < thinking {
        let at = if context.written("load.warm_up") { "load.warm_up" } else { "load.session_messages" };
        let message = format!(
            "the warm-up ({}) is shorter than a session thinks ({}): the hold would have fewer messages than its level says",
            load.warm_up.0.show(),
            thinking.show()
        );
        context.error_with_help(
            at,
            message,
            "lengthen `warm_up`, or lower `session_messages` or `think_time`",
        );
    }
    Some((Model::PartlyOpen { arrivals, messages, think_time, timeout }, rates(load, context)?))
}

fn inter_arrival(load: &mut Load) -> InterArrival {
    // What is wrong with a trace was reported.
    gaps_of(load.arrivals.get_or_insert(Arrivals::Poisson)).unwrap_or(InterArrival::Exponential)
}

/// The distribution that a user named; `None` for a trace, which has none.
pub(super) fn gaps_of(arrivals: &Arrivals) -> Option<InterArrival> {
    Some(match arrivals {
        Arrivals::Poisson => InterArrival::Exponential,
        Arrivals::Constant => InterArrival::Constant,
        Arrivals::Uniform(gaps) => InterArrival::Uniform { spread: gaps.spread },
        Arrivals::Normal(gaps) => InterArrival::Normal { cv: gaps.cv },
        Arrivals::Gamma(gaps) => InterArrival::Gamma { shape: gaps.shape },
        Arrivals::Trace(_) => return None,
    })
}

/// Think time and patience.
fn pace(load: &mut Load, context: &mut Context<'_>) -> (Nanos, Nanos) {
    let think_time = load.think_time.get_or_insert(AsText(Nanos::ZERO)).0;
    let timeout = load.operation_timeout.get_or_insert(AsText(Nanos::from_secs(10))).0;
    if timeout == Nanos::ZERO {
        context.error("load.operation_timeout", "no operation can end within zero time");
    }
    (think_time, timeout)
}

fn rates(load: &Load, context: &mut Context<'_>) -> Option<Vec<LevelPlan>> {
    let rates = match &load.levels {
        Some(Levels::List(list)) => listed(list, context)?,
        Some(Levels::Range(range)) => stepped(range, context)?,
        None if load.search.is_some() || load.calibrate.is_some() => Vec::new(),
        None if load.experiment.as_ref().is_some_and(|own| !own.with_levels) => Vec::new(),
        None => {
            let help = "write `levels: { from: 100, to: 1500, step: 100 }`, `levels: [100, 200, 500]` or `search: { \
                        from: 100, to: 200k }`";
            context.error_with_help("load", "missing key `levels` in `load`", help);
            return None;
        }
    };
    Some(rates.into_iter().map(LevelPlan::Rate).collect())
}

fn listed(list: &[AsText<Rate>], context: &mut Context<'_>) -> Option<Vec<f64>> {
    if list.len() > MOST_LEVELS {
        too_many(list.len() as f64, "load.levels", context);
        return None;
    }
    let mut fine = true;
    for (position, rate) in list.iter().enumerate() {
        fine &= check_rate(rate.0, &format!("load.levels.{position}"), context);
    }
    fine.then(|| list.iter().map(|rate| rate.0.0).collect())
}

fn stepped(range: &LevelRange, context: &mut Context<'_>) -> Option<Vec<f64>> {
    let (Rate(from), Rate(to), Rate(step)) = (range.from.0, range.to.0, range.step.0);
    let mut fine = check_rate(range.from.0, "load.levels.from", context);
    fine &= check_rate(range.to.0, "load.levels.to", context);
    if step <= 0.0 {
        context.error("load.levels.step", "the step must be above zero");
        fine = false;
    }
    if from > to {
        let help = "levels rise; swap the two";
        context.error_with_help("load.levels.from", format!("`from` ({from}) is above `to` ({to})"), help);
        fine = false;
    }
    if !fine {
        return None;
    }
    // The allowance keeps the last level where decimal steps do not add up exactly (0.1 + 0.1 + 0.1).
    let steps = ((to - from) / step + 1e-9).floor();
    if steps >= MOST_LEVELS as f64 {
        too_many(steps + 1.0, "load.levels.step", context);
        return None;
    }
    Some((0..=steps as u32).map(|number| decimal(from + f64::from(number) * step)).collect())
}

/// The rate to nine decimals, so that 0.1 + 2 x 0.1 is the 0.3 that the user means.
fn decimal(rate: f64) -> f64 {
    format!("{rate:.9}").parse().unwrap_or(rate)
}

fn too_many(count: f64, path: &str, context: &mut Context<'_>) {
    let message = format!("these are {count} levels, more than the {MOST_LEVELS} that a run may have");
    context.error(path, message);
}

fn closed(load: &mut Load, context: &mut Context<'_>) -> Option<(Model, Vec<LevelPlan>)> {
    let of_open = [
        "levels",
        "search",
        "calibrate",
        "devices",
        "rate_per_device",
        "connect_rates",
        "curve",
        "spike",
        "ramp_down",
    ];
    for key in of_open {
        let path = format!("load.{key}");
        if context.written(&path) {
            let help = "give the operations in flight with `in_flight: [1, 5, 50]`, or write `model: open`";
            let message = format!("`{key}` belongs to the open model, but the model is closed");
            context.error_with_help(&path, message, help);
        }
    }
    refuse(&["arrivals", "per", "precision", "spin"], "open model", "open", load, context);
    refuse(&["session_messages"], "partly open model", "partly_open", load, context);
    let (think_time, timeout) = pace(load, context);
    let in_flight = load.in_flight.get_or_insert_with(|| vec![1]);
    if in_flight.len() > MOST_LEVELS {
        too_many(in_flight.len() as f64, "load.in_flight", context);
        return None;
    }
    let levels = in_flight.iter().copied().map(LevelPlan::InFlight).collect();
    Some((Model::Closed { think_time, timeout }, levels))
}

/// What devices, windows and markers can number.
fn check_numbers(
    scenario: &Scenario,
    (levels, count): (&[LevelPlan], Option<CountPlan>),
    search: Option<&SearchTerms>,
    protocol: Protocol,
    context: &mut Context<'_>,
) {
    let devices = scenario.population.devices;
    // Several populations have a part of it each, which is known when all are.
    let bound = (slice(protocol).most_in_flight)(scenario).filter(|_| context.part.is_none());
    if let Some((most, help)) = bound {
        for (position, level) in levels.iter().enumerate() {
            if let LevelPlan::InFlight(count) = level
                && u64::from(*count) > most
            {
                context.error_with_help(
                    &format!("load.in_flight.{position}"),
                    format!("{count} operations cannot be in flight: the devices may have {most} together"),
                    help,
                );
            }
        }
    }
    if scenario.message.marker != Some(Marker::Integer) {
        return;
    }
    if devices >= INTEGER_DEVICES {
        let message = format!("an integer marker can number {} devices, not {devices}", INTEGER_DEVICES - 1);
        context.error_with_help("population.devices", message, "use the marker `binary` or `ascii`");
    }
    let (warm_up, hold) = (scenario.load.warm_up.0, scenario.load.hold.0);
    let hold_of = |level: LevelPlan| {
        count.and_then(|count| count.hold(level, devices)).map_or(hold, |own| own.min(hold))
    };
    let of_level = |level: &LevelPlan| level.rate() * (warm_up + hold_of(*level)).as_secs_f64();
    // A search that spends all of its time at the top has the most messages.
    let searched = search.map_or(0.0, |search| search.to * search.time.as_secs_f64());
    let of_one = (levels.iter().map(of_level).sum::<f64>() + searched) / f64::from(devices);
    if of_one >= INTEGER_SEQUENCES {
        context.error_with_help(
            "message.marker",
            format!("an integer marker can number 16,777,216 messages of a device; {of_one:.0} are planned"),
            "use the marker `binary` or `ascii`, more devices, or fewer or shorter levels",
        );
    }
}
