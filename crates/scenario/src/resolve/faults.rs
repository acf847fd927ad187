//! Faults on a schedule: what each is, whether it fits into its level, and what the platform must be prepared for.

use super::component;
use crate::config::{Fault, FaultKind as Written, Load, Scenario};
use crate::context::Context;
use crate::plan::{FaultPlan, LONGEST_RELAY_DELAY, LoadPlan, PlatformPlan, RelayPlan};
use crate::quantity::Quantity;
use plimsoll_model::Nanos;
use plimsoll_model::fault::{FaultKind, PlannedFault};

/// Samples that come before a fault and after it at least: what is said of recovery rests on them.
pub(super) const SAMPLES_BESIDE: i64 = 3;
/// The share of its processor time that a component keeps at least, and at most.
const KEPT: [f64; 2] = [0.01, 0.99];
/// With less memory, in bytes, no program goes on.
const LEAST_MEMORY: u64 = 1 << 20;
/// The smallest folder, in bytes, since a component has its files in it; and the largest, since it is kept in memory.
const FOLDERS: [u64; 2] = [1 << 20, 1 << 30];

/// Resolves the faults, and prepares the platform for them. What is wrong is reported.
pub(super) fn resolve(
    scenario: &mut Scenario,
    platform: Option<&mut PlatformPlan>,
    load: Option<&LoadPlan>,
    context: &mut Context<'_>,
) -> Vec<FaultPlan> {
    if scenario.faults.is_empty() {
        return Vec::new();
    }
    check_load(&scenario.load, context);
    let Some(platform) = platform else { return Vec::new() };
    let levels = load.map(|load| load.levels.len()).unwrap_or_default();
    let mut plans = Vec::new();
    for (place, fault) in scenario.faults.iter_mut().enumerate() {
        let path = format!("faults.{place}");
        let kind = kind(fault, &path, context);
        let name = named(fault, &path, platform, context);
        let span = span(fault, &path, &scenario.load, context);
        if let Some(level) = fault.level.filter(|level| levels > 0 && usize::from(*level) > levels) {
            let message = format!("there is no level {level}");
            let help = format!("the scenario has {levels}; remove `level` for all of them");
            context.error_with_help(&format!("{path}.level"), message, help);
        }
        if let (Some(kind), Some(component), Some((at, length))) = (kind, name, span) {
            prepare(&component, kind, &path, platform, context);
            plans.push((
                path,
                FaultPlan { level: fault.level, fault: PlannedFault { component, kind, at, length } },
            ));
        }
    }
    check_overlaps(&plans, context);
    let mut plans: Vec<FaultPlan> = plans.into_iter().map(|(_, plan)| plan).collect();
    plans.sort_by_key(|plan| plan.fault.at);
    plans
}

/// Faults have levels of known length in which nothing else goes wrong on purpose.
fn check_load(load: &Load, context: &mut Context<'_>) {
    let excluded = [
        (
            "search",
            load.search.is_some(),
            "write `levels`: a search looks for the load line of a healthy platform",
        ),
        ("calibrate", load.calibrate.is_some(), "write `levels`: a calibration looks at a healthy platform"),
        ("storm", load.storm.is_some(), "remove `load.storm`: a fault of kind `kill` does the same"),
        ("messages", load.messages.is_some(), "remove `load.messages`: a level with faults ends by time"),
        ("cycles", load.cycles.is_some(), "remove `load.cycles`: a level with faults ends by time"),
        (
            "spike",
            load.spike.is_some(),
            "remove `load.spike`: nobody could say from what the platform recovers",
        ),
        (
            "connect_rates",
            load.connect_rates.is_some(),
            "write `levels`: these levels connect all devices again",
        ),
    ];
    for (key, _, help) in excluded.into_iter().filter(|(_, is_there, _)| *is_there) {
        context.error_with_help("faults", format!("`faults` and `load.{key}` exclude each other"), help);
    }
}

/// What goes wrong; `None` where what it needs is missing or wrong.
fn kind(fault: &Fault, path: &str, context: &mut Context<'_>) -> Option<FaultKind> {
    let keys = fault.kind.keys();
    let given = [
        ("keep", fault.keep.is_some()),
        ("limit", fault.limit.is_some()),
        ("size", fault.size.is_some()),
        ("delay", fault.delay.is_some()),
        ("jitter", fault.jitter.is_some()),
        ("rate", fault.rate.is_some()),
        ("loss", fault.loss.is_some()),
    ];
    let name = fault.kind.name();
    for (key, _) in given.iter().filter(|(key, is_given)| *is_given && !keys.contains(key)) {
        let message = format!("`{key}` means nothing to a fault of kind `{name}`");
        let help = match keys {
            [] => "remove it".to_owned(),
            keys => format!("remove it; such a fault has `{}`", keys.join("` and `")),
        };
        context.error_with_help(&format!("{path}.{key}"), message, help);
    }
    if !keys.is_empty() && !given.iter().any(|(key, is_given)| *is_given && keys.contains(key)) {
        let message = format!("a fault of kind `{name}` needs `{}`", keys[0]);
        let example = match fault.kind {
            Written::Processor => "keep: 20 %",
            Written::Memory => "limit: 64 MiB",
            Written::Disk => "size: 64 MiB",
            Written::Delay => "delay: 100ms",
            Written::Rate => "rate: 1mbit",
            _ => "loss: 5 %",
        };
        context.error_with_help(path, message, format!("write `{example}`"));
        return None;
    }
    let time = |written: Option<crate::quantity::Duration>| written.map_or(Nanos::ZERO, |time| time.0);
    let mut refuse = |key: &str, message: &str| context.error(&format!("{path}.{key}"), message);
    Some(match fault.kind {
        Written::Kill => FaultKind::Kill,
        Written::Restart => FaultKind::Restart,
        Written::Pause => FaultKind::Pause,
        Written::Cut => FaultKind::Cut,
        Written::HalfOpen => FaultKind::HalfOpen,
        Written::Processor => {
            let keep = fault.keep?.0.0;
            if !(KEPT[0]..=KEPT[1]).contains(&keep) {
                refuse("keep", "a component keeps from 1 % to 99 %; a fault of kind `pause` leaves nothing");
            }
            FaultKind::Processor { keep }
        }
        Written::Memory => {
            let limit = fault.limit?.0.0;
            if limit < LEAST_MEMORY {
                refuse("limit", "it is 1 MiB at least");
            }
            FaultKind::Memory { limit }
        }
        Written::Disk => {
            let size = fault.size?.0.0;
            if !(FOLDERS[0]..=FOLDERS[1]).contains(&size) {
                refuse("size", "it is from 1 MiB to 1 GiB");
            }
            FaultKind::Disk { size }
        }
        Written::Delay => {
            let (delay, jitter) = (time(fault.delay), time(fault.jitter));
            for (key, time) in [("delay", delay), ("jitter", jitter)] {
                if time > LONGEST_RELAY_DELAY {
                    refuse(key, "a relay delays by one minute at most");
                }
            }
            FaultKind::Delay { delay, jitter }
        }
        Written::Rate => FaultKind::Rate { bits: fault.rate?.0.0 },
        Written::Loss => FaultKind::Loss { share: fault.loss?.0.0 },
    })
}

/// The component that is meant; `None` where there is none, which is reported.
fn named(
    fault: &mut Fault,
    path: &str,
    platform: &PlatformPlan,
    context: &mut Context<'_>,
) -> Option<String> {
    let profile = &platform.profile;
    let started = profile.components.iter().map(|component| component.name.as_str());
    let simulated = profile.simulated.iter().flat_map(|spec| spec.stations.iter());
    let names: Vec<&str> = started.chain(simulated.map(|station| station.name.as_str())).collect();
    let protocol = platform.protocol();
    let spoken_to = profile.components.iter().find(|component| component.port(protocol).is_some());
    let first = spoken_to.map(|component| component.name.as_str()).or(names.first().copied());
    let Some(first) = first else {
        let message =
            format!("the profile `{}` starts nothing in which something could go wrong", profile.name);
        let help =
            "use a profile that starts its platform; `plimsoll target relay` can stand before one that runs";
        context.error_with_help(path, message, help);
        return None;
    };
    let name = fault.component.get_or_insert_with(|| first.to_owned()).clone();
    if !names.contains(&name.as_str()) {
        let message = format!("the profile `{}` has no component `{name}`", profile.name);
        let help = crate::check::near_miss(&name, names.iter().copied());
        context.error_with_help(&format!("{path}.component"), message, help);
        return None;
    }
    Some(name)
}

/// When it begins and how long it lasts, where it fits into the hold.
fn span(fault: &Fault, path: &str, load: &Load, context: &mut Context<'_>) -> Option<(Nanos, Nanos)> {
    let is_restart = fault.kind == Written::Restart;
    let length = match (fault.length, is_restart) {
        (Some(length), false) => length.0,
        (None, true) => Nanos::ZERO,
        (Some(_), true) => {
            let message = "a restart lasts as long as the component takes to end";
            let help = "remove `for`, or write `kind: kill` for a component that stays away";
            context.error_with_help(&format!("{path}.for"), message, help);
            return None;
        }
        (None, false) => {
            let message = format!("a fault of kind `{}` needs `for`", fault.kind.name());
            context.error_with_help(path, message, "write how long it lasts, such as `for: 5s`");
            return None;
        }
    };
    if length <= Nanos::ZERO && !is_restart {
        context.error(&format!("{path}.for"), "a fault lasts for some time");
        return None;
    }
    let (at, hold) = (fault.at.0, load.hold.0);
    let beside = hold * SAMPLES_BESIDE / i64::from(load.samples.max(1));
    let sample = hold / i64::from(load.samples.max(1));
    if at < beside {
        let message = format!(
            "it begins {} into the hold, and the first {SAMPLES_BESIDE} samples of {} show the platform before it",
            at.show(),
            sample
        );
        let help = format!("begin it at {} or later, or have more `load.samples`", beside.show());
        context.error_with_help(&format!("{path}.at"), message, help);
        return None;
    }
    if at + length + beside > hold {
        let message = format!(
            "it ends {} into a hold of {}, and the {SAMPLES_BESIDE} samples of {} after it must show whether the platform recovers",
            (at + length).show(),
            hold.show(),
            sample
        );
        let help = "begin it earlier, shorten `for`, or lengthen `load.hold`";
        context.error_with_help(&format!("{path}.at"), message, help);
        return None;
    }
    Some((at, length))
}

/// What the platform has for the fault from its start on.
fn prepare(name: &str, kind: FaultKind, path: &str, platform: &mut PlatformPlan, context: &mut Context<'_>) {
    if let Some(spec) = &platform.profile.simulated {
        let is_first = spec.stations.first().is_some_and(|first| first.name == name);
        let can = match kind {
            FaultKind::Memory { .. } | FaultKind::Disk { .. } | FaultKind::Rate { .. } => false,
            FaultKind::Cut | FaultKind::HalfOpen | FaultKind::Loss { .. } => is_first,
            _ => true,
        };
        if !can {
            let message = format!("the simulation has no fault of kind `{}` at `{name}`", kind.name());
            context.error(&format!("{path}.kind"), message);
        }
        return;
    }
    if kind.is_on_the_way() {
        let help = "a relay stands before a port that the profile names, as with `ready_port`";
        component::with_port(name, &format!("{path}.component"), &platform.profile, help, context);
        if !platform.relays.iter().any(|relay| relay.component == name) {
            platform.relays.push(RelayPlan { component: name.to_owned(), ..RelayPlan::default() });
        }
        return;
    }
    if platform.replicas_of(name) > 1 {
        let message =
            format!("a fault of kind `{}` does not concern replicas, and `{name}` has some", kind.name());
        let help = "name a component without replicas, or remove `platform.replicas`";
        context.error_with_help(&format!("{path}.component"), message, help);
    }
    let needs = platform.needs.entry(name.to_owned()).or_default();
    match kind {
        FaultKind::Processor { .. } => needs.squeeze = true,
        FaultKind::Disk { size } => {
            if needs.folder.is_some_and(|other| other != size) {
                let message = format!("the folder of `{name}` has another `size` for an earlier fault");
                context.error_with_help(&format!("{path}.size"), message, "give both the same `size`");
            }
            needs.folder = Some(size);
        }
        _ => {}
    }
}

/// Two faults at once would leave it open from which of them the platform recovers.
fn check_overlaps(plans: &[(String, FaultPlan)], context: &mut Context<'_>) {
    for (place, (path, later)) in plans.iter().enumerate() {
        let overlaps = |(_, other): &&(String, FaultPlan)| {
            let (one, two) = (&later.fault, &other.fault);
            let in_one_level = later.level.is_none() || other.level.is_none() || later.level == other.level;
            in_one_level && one.at <= two.end() && two.at <= one.end()
        };
        if let Some((_, other)) = plans.iter().take(place).find(overlaps) {
            let message = format!(
                "it goes on while another fault does, from {} to {} of the hold: nobody could say from which one the platform recovers",
                other.fault.at.show(),
                other.fault.end().show()
            );
            context.error_with_help(&format!("{path}.at"), message, "begin it later, or in another `level`");
        }
    }
}
