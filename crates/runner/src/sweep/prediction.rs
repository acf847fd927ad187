//! What the models of docs/gateway.md say of the combinations of a sweep over gateways that poll their devices.

use crate::Placement;
use plimsoll_analysis::sweep::{Cell, Quantity, Sweep};
use plimsoll_gateway::bounds::{self, Costs, Measured, Setting};
use plimsoll_gateway::configuration::{Configuration, Model};
use plimsoll_scenario::Matrix;
use plimsoll_scenario::plan::{Plan, Protocol};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the CPU and the I/O work of an event cost, in seconds.
type Work = (f64, f64);

/// Measuring what work costs takes up to a second for each intensity.
const INTERRUPTED: &str = "the sweep was interrupted";

/// Events in a hold from which their rate is taken as the gateway's: with a delay and many devices, a few say where it was in its
/// round.
const ENOUGH: f64 = 100.0;

/// So many times a bound is no measuring error any more.
const BEYOND: f64 = 1.2;

/// Adds predictions where each combination is a gateway that the models know. What work costs is measured here and now; what
/// fetching an event costs is what the gateways of this sweep took beside it. A user who wants to stop gets none.
pub fn predict(sweep: &mut Sweep, matrix: &Matrix, stop: &AtomicBool) {
    let gateway = |cell: &Cell| {
        let mut plan = matrix.plan(&cell.position, matrix.first.seed).ok()?;
        let polls = plan.protocol() == Protocol::Gateway;
        let configuration = Configuration::of_words(&plan.platform.roles.device.configuration);
        // The texts are what is large in a plan, and of each combination one is kept here.
        (plan.resolved, plan.platform.profile.source) = Default::default();
        polls.then_some(plan).zip(configuration)
    };
    let mut gateways = Vec::new();
    for cell in &sweep.cells {
        // No gateways, or not they alone: there is nothing to say.
        let Some(gateway) = gateway(cell) else { return };
        gateways.push(gateway);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    match costs(sweep, &gateways, stop) {
        Ok((found, _)) if found.fetch <= 0.0 || found.own <= 0.0 => sweep.notes.push(
            "nothing is predicted: the work of an event alone took longer on this host now than all of an event, or all of its \
             processor time, in a run of the sweep, so this host was busier"
                .to_owned(),
        ),
        Ok((found, work)) => {
            for ((cell, (plan, configuration)), (cpu, io)) in sweep.cells.iter_mut().zip(&gateways).zip(work)
            {
                let costs = Costs { cpu, io, ..found };
                let bound = bounds::throughput(configuration, &costs, &setting(plan, configuration));
                cell.predicted = Some(bound.rate);
                cell.bound_by = Some(bound.by.to_owned());
            }
            sweep.notes.push(format!(
                "predicted with {:.0} µs for fetching an event, as serial gateways took in this sweep; with {:.0} µs of the \
                 gateway's and {:.0} µs of the devices' processor time beside the work, the least of all gateways here; and with \
                 the work of an event as it took alone on this host",
                found.fetch * 1e6,
                found.own * 1e6,
                found.device * 1e6
            ));
            let did = |cell: &Cell| cell.measured(Quantity::Throughput).map(|measured| measured.mean);
            let more = |cell: &&Cell| did(cell).zip(cell.predicted).is_some_and(|(did, most)| did > BEYOND * most);
            match sweep.cells.iter().filter(more).count() {
                0 => {}
                count => sweep.notes.push(format!(
                    "{count} of {} combinations did more than {BEYOND} times what is predicted to be the most: an event cost them \
                     less than it did where the costs were measured",
                    sweep.cells.len()
                )),
            }
        }
        Err(why) => sweep.notes.push(format!("nothing is predicted: {why}")),
    }
}

/// The costs of fetching, and of each combination those of its work, CPU and I/O; or why they are not known.
fn costs(
    sweep: &Sweep,
    gateways: &[(Plan, Configuration)],
    stop: &AtomicBool,
) -> Result<(Costs, Vec<Work>), &'static str> {
    if stop.load(Ordering::Relaxed) {
        return Err(INTERRUPTED);
    }
    let is_serial = |configuration: &Configuration| {
        (configuration.dispatcher, configuration.event_handler) == (Model::Serial, Model::Serial)
    };
    if !gateways.iter().all(|(_, configuration)| bounds::is_known(configuration)) {
        return Err(
            "the models know only events that cause the same work each, its files after its CPU work",
        );
    }
    if !gateways.iter().any(|(_, configuration)| is_serial(configuration)) {
        return Err("no serial gateway among the combinations shows what fetching an event costs");
    }
    // One that could do more takes as long for an event as its events are apart.
    if !gateways.iter().all(|(plan, _)| plan.load.calibration.is_some()) {
        return Err("only gateways at their limit show what fetching an event costs (load.calibrate)");
    }
    let mut known = HashMap::new();
    let mut work: Vec<Work> = Vec::new();
    for (_, configuration) in gateways {
        if stop.load(Ordering::Relaxed) {
            return Err(INTERRUPTED);
        }
        let costs = cost_of_work(configuration, &mut known);
        work.push(costs.ok_or("no file can be written in the folder for temporary files")?);
    }
    let measured = sweep.cells.iter().zip(gateways).zip(&work).filter_map(|((cell, gateway), (cpu, io))| {
        let (plan, configuration) = gateway;
        let mean = |quantity| cell.measured(quantity).map(|measured| measured.mean);
        let rate = mean(Quantity::Throughput)?;
        if rate * plan.load.hold.as_secs_f64() < ENOUGH {
            return None;
        }
        Some(Measured {
            rate,
            work: cpu + io,
            delay: plan.gateway.delay.as_secs_f64(),
            gateway: mean(Quantity::PlatformCpu)?,
            device: mean(Quantity::GeneratorCpu)?,
            is_serial: is_serial(configuration),
        })
    });
    let found = bounds::cost_of_fetching(&measured.collect::<Vec<_>>());
    let missing = "no run of a serial gateway counts or did a hundred events in its hold, or its processor time could not be read";
    Ok((found.ok_or(missing)?, work))
}

/// What the work of an event costs, measured once for each intensity; `None` where no file can be written.
fn cost_of_work(configuration: &Configuration, known: &mut HashMap<(u64, u64), Work>) -> Option<Work> {
    let intensity = (configuration.cpu_intensity.to_bits(), configuration.io_intensity.to_bits());
    if let Some(costs) = known.get(&intensity) {
        return Some(*costs);
    }
    let folder = tempfile::tempdir().ok()?;
    let costs = bounds::cost_of_work(configuration, folder.path()).ok()?;
    known.insert(intensity, costs);
    Some(costs)
}

fn setting(plan: &Plan, configuration: &Configuration) -> Setting {
    let placement = Placement::choose(plan);
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    let shared = placement.platform.is_empty().then_some(all);
    let given = shared.unwrap_or(placement.platform.len() as f64);
    let processors = match configuration.cores {
        0 => given,
        cores => given.min(cores as f64),
    };
    Setting {
        devices: f64::from(plan.devices),
        delay: plan.gateway.delay.as_secs_f64(),
        processors,
        device_processors: placement.load.len() as f64,
        shared,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_analysis::level::LevelSummary;
    use plimsoll_analysis::sweep::{Axis, Origin, Taken};
    use plimsoll_model::Verdict;
    use plimsoll_scenario::{Environment, SourceFile, matrix};

    /// A sweep of serial gateways at their limits, each with an intensity of its own.
    fn swept() -> (Sweep, Matrix) {
        let text = "
name: g
platform: { profile: gateway, with: { dispatcher: serial, handler: serial, io: \"0\" } }
population: { devices: 2, subscribers: 0 }
load: { arrivals: constant, per: device, calibrate: { from: 1k, done: 90 % } }
objectives: { publish_p99: null }
matrix: { platform.with.cpu: [\"0\", \"0.0001\"] }
";
        let environment = Environment { profile: &|_| Err(String::new()), variable: &|_| None };
        let source = SourceFile { name: "f".into(), text: text.into() };
        let matrix = matrix(&source, false, &[], &environment).unwrap();
        let taken = |position: Vec<usize>| Taken {
            position,
            run: "r".into(),
            verdict: Verdict::Met,
            line: None,
            demanded: None,
            limits: Vec::new(),
            cost: None,
            headroom: None,
            level: Some(LevelSummary { achieved: Some(500.0), finished: true, ..LevelSummary::default() }),
        };
        let taken: Vec<Taken> = matrix.positions().map(taken).collect();
        let axes = matrix.axes.iter();
        let axes = axes.map(|axis| Axis { key: axis.key.clone(), values: axis.values.clone() }).collect();
        (Sweep::of("g", Origin::default(), axes, &taken), matrix)
    }

    /// Whether predictions are made needs processor times too, which these runs have not.
    #[test]
    fn nothing_is_predicted_for_a_user_who_wants_to_stop() {
        for (stop, expected) in [(true, INTERRUPTED), (false, "no run of a serial gateway")] {
            let (mut sweep, matrix) = swept();
            predict(&mut sweep, &matrix, &AtomicBool::new(stop));
            let note = sweep.notes.last().cloned().unwrap_or_default();
            assert!(note.starts_with(&format!("nothing is predicted: {expected}")), "{:?}", sweep.notes);
            assert!(sweep.cells.iter().all(|cell| cell.predicted.is_none()));
        }
    }
}
