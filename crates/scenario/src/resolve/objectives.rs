//! Objectives: the defaults, what the user gave instead, and what cannot be demanded of this scenario.

use crate::config::{Scenario, WorkloadModel};
use crate::context::Context;
use crate::objective::{Name, finest_quantile};
use crate::plan::{LevelPlan, LoadPlan, Objective, Objectives, PlatformPlan, Subject};
use crate::protocols::slice;
use plimsoll_model::Metric;

/// Resolves the objectives; what cannot be used is reported and left out.
pub(super) fn resolve(
    scenario: &mut Scenario,
    platform: Option<&PlatformPlan>,
    context: &mut Context<'_>,
) -> Objectives {
    let receivers = scenario.population.subscribers.count();
    let acknowledged = is_acknowledged(scenario, platform);
    let closed = scenario.load.model == WorkloadModel::Closed;
    let load = &scenario.load;
    let connecting = load.devices.is_some() || load.connect_rates.is_some();
    let idle = connecting && load.rate_per_device.is_none_or(|rate| rate.0.0 == 0.0);
    for (name, condition) in defaults(acknowledged, receivers, closed, connecting, idle) {
        scenario.objectives.0.entry(name.key()).or_insert_with(|| Some(condition.to_owned()));
    }
    let asks = |name: &String| name.starts_with("connect_");
    if let Some(quantile) = default_of_connecting(scenario, context)
        && !scenario.objectives.0.keys().any(asks)
    {
        let name = Name::Level(Subject::Quantile(Metric::ConnectTime, quantile));
        scenario.objectives.0.insert(name.key(), Some("< 1 s".to_owned()));
    }
    let mut resolved = Objectives { level: Vec::new(), load_line: None };
    for name in Name::all() {
        let key = name.key();
        let Some(Some(text)) = scenario.objectives.0.get(&key) else { continue };
        let path = format!("objectives.{key}");
        let queries = scenario.northbound.is_some();
        let cannot = impossible(name, acknowledged, receivers, closed, queries);
        let cannot =
            cannot.or(without_faults(name, scenario.faults.is_empty() && scenario.load.spike.is_none()));
        match cannot.or(out_of_place(name, connecting, idle)) {
            Some((message, help)) => context.error_with_help(&path, message, help),
            None => match (name, name.condition(text)) {
                (Name::LoadLine, Ok(condition)) => resolved.load_line = Some(condition.bound),
                (Name::Level(subject), Ok(condition)) => resolved.level.push(Objective {
                    population: None,
                    subject,
                    comparison: condition.comparison,
                    bound: condition.bound,
                }),
                (_, Err(reason)) => context.error(&path, format!("`{text}`: {reason}")),
            },
        }
    }
    resolved
}

/// What is demanded where the user says nothing.
fn defaults(
    acknowledged: bool,
    receivers: u32,
    closed: bool,
    connecting: bool,
    idle: bool,
) -> Vec<(Name, &'static str)> {
    let p99 = |metric| Name::Level(Subject::Quantile(metric, 0.99));
    let mut defaults = Vec::new();
    if connecting {
        defaults.push((Name::Level(Subject::Connected), ">= 99.9 %"));
    }
    if idle {
        return defaults;
    }
    if receivers > 0 {
        defaults.push((Name::Level(Subject::Delivered), ">= 99.9 %"));
    }
    if !closed {
        defaults.push((Name::Level(Subject::Achieved), ">= 99 %"));
    }
    if acknowledged {
        defaults.push((p99(Metric::PublishTime), "< 50 ms"));
    } else if receivers > 0 {
        defaults.push((p99(Metric::SubscribeTime), "< 50 ms"));
    }
    defaults
}

/// The quantile of the connect time that is demanded by default where levels connect devices: the highest that the level which
/// connects fewest has enough observations for. Several populations divide a level, so nothing is demanded of them.
fn default_of_connecting(scenario: &Scenario, context: &Context<'_>) -> Option<f64> {
    if context.part.is_some() {
        return None;
    }
    let load = &scenario.load;
    let fewest = match (&load.devices, &load.connect_rates) {
        (Some(levels), _) => {
            let before = std::iter::once(&0).chain(levels);
            let connected = before.zip(levels).map(|(before, level)| level.saturating_sub(*before));
            connected.filter(|count| *count > 0).min()?
        }
        (None, Some(_)) => scenario.population.devices,
        (None, None) => return None,
    };
    finest_quantile(f64::from(fewest))
}

/// Why an objective has nothing to look at where levels connect devices, or where they do not.
fn out_of_place(name: Name, connecting: bool, idle: bool) -> Option<(&'static str, &'static str)> {
    match name {
        Name::Level(subject) if subject.needs_connecting() => (!connecting).then_some((
            "all devices are connected before the first level, so no level can miss this",
            "write `load.devices` or `load.connect_rates` in place of `levels`, or remove the objective",
        )),
        Name::LoadLine => connecting.then_some((
            "the load line is not in operations per second here",
            "remove the objective: every level is judged by itself",
        )),
        Name::Level(_) => idle.then_some((
            "the devices are idle, so nothing is published that could be measured",
            "give `load.devices` a `rate_per_device`, or remove the objective",
        )),
    }
}

/// Why an objective cannot be measured in this scenario, and what to do.
fn impossible(
    name: Name,
    acknowledged: bool,
    receivers: u32,
    closed: bool,
    queries: bool,
) -> Option<(&'static str, &'static str)> {
    let subject = match name {
        Name::LoadLine if closed => {
            return Some((
                "the closed model offers no rate, so it has no load line",
                "remove the objective, or write `load: { model: open, .. }`",
            ));
        }
        Name::LoadLine => return None,
        Name::Level(subject) => subject,
    };
    if subject.needs_acknowledgement() && !acknowledged {
        return Some((
            "nothing is acknowledged here, as at QoS 0, so there is no publish time",
            "use QoS 1 or 2, a stream or confirms; or an objective on subscribe time",
        ));
    }
    if subject.needs_subscribers() && receivers == 0 {
        return Some((
            "without subscribers nothing is delivered, so this cannot be measured",
            "add `population.subscribers`, or remove the objective",
        ));
    }
    if subject.needs_queries() && !queries {
        return Some((
            "without `northbound` nobody asks, so this cannot be measured",
            "add `northbound: { rate: 10/s }`, or remove the objective",
        ));
    }
    if subject == Subject::Achieved && closed {
        return Some((
            "in the closed model nothing is due that could be missed",
            "remove the objective, or write `load: { model: open, .. }`",
        ));
    }
    None
}

/// Why there is nothing to recover from.
fn without_faults(name: Name, none: bool) -> Option<(&'static str, &'static str)> {
    (none && name == Name::Level(Subject::FaultRecovery)).then_some((
        "without `faults` or a `load.spike` there is nothing to recover from",
        "plan a fault, as with `faults: [{ kind: pause, at: 20s, for: 5s }]`, or remove the objective",
    ))
}

/// Whether messages are acknowledged: by the protocol, by an answer of the platform's own, or by what a gateway's log tells.
fn is_acknowledged(scenario: &Scenario, platform: Option<&PlatformPlan>) -> bool {
    let otherwise =
        |platform: &PlatformPlan| platform.roles.device.answer.is_some() || platform.reports_stages();
    let protocol = platform.map(PlatformPlan::protocol).unwrap_or_default();
    (slice(protocol).acknowledges)(scenario) || platform.is_some_and(otherwise)
}

/// Refuses a demanded load line above all listed levels: it could be missed, and never met.
pub(super) fn check_load_line(objectives: &Objectives, load: &LoadPlan, context: &mut Context<'_>) {
    if load.curve.is_some() && objectives.load_line.is_some() {
        let message = "a level whose load changes has no load line";
        let help = "remove it: objectives hold all along a curve, and `fault_recovery` is about a spike";
        context.error_with_help("objectives.load_line", message, help);
        return;
    }
    let rates = load.levels.iter().filter_map(|level| match level {
        LevelPlan::Rate(rate) | LevelPlan::Listed { rate, .. } => Some(*rate),
        _ => None,
    });
    let highest = rates.reduce(f64::max);
    if let Some((demanded, highest)) =
        objectives.load_line.zip(highest).filter(|(demanded, most)| demanded > most)
    {
        let message = format!(
            "no level is as high as the load line of {demanded} that is demanded: the highest is {highest}"
        );
        context.error_with_help("objectives.load_line", message, format!("add a level of {demanded}"));
    }
}
