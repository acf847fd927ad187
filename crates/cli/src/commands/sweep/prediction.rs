//! What the models of docs/gateway.md say of the combinations of a sweep over gateways that poll their devices.

use plimsoll_analysis::sweep::{Cell, Quantity, Sweep};
use plimsoll_gateway::bounds::{self, Costs, Measured, Setting};
use plimsoll_gateway::configuration::{Configuration, Model};
use plimsoll_runner::Placement;
use plimsoll_scenario::Matrix;
use plimsoll_scenario::plan::{Plan, Protocol};
use std::collections::HashMap;

/// What the CPU and the I/O work of an event cost, in seconds.
type Work = (f64, f64);

/// Events in a hold from which their rate is taken as the gateway's: with a delay and many devices, a few say where it was in its
/// round.
const ENOUGH: f64 = 100.0;

/// Adds predictions where each combination is a gateway that the models know. What work costs is measured here and now; what
/// fetching an event costs is what the gateways of this sweep took beside it.
pub fn predict(sweep: &mut Sweep, matrix: &Matrix) {
    let gateway = |cell: &Cell| {
        let plan = &matrix.cells.iter().find(|planned| planned.position == cell.position)?.plan;
        let polls = plan.protocol() == Protocol::Gateway;
        let configuration = Configuration::of_words(&plan.platform.roles.device.configuration);
        polls.then_some(plan).zip(configuration)
    };
    let gateways: Option<Vec<(&Plan, Configuration)>> = sweep.cells.iter().map(gateway).collect();
    // No gateways, or not they alone: there is nothing to say.
    let Some(gateways) = gateways else { return };
    match costs(sweep, &gateways) {
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
        }
        Err(why) => sweep.notes.push(format!("nothing is predicted: {why}")),
    }
}

/// The costs of fetching, and of each combination those of its work, CPU and I/O; or why they are not known.
fn costs(sweep: &Sweep, gateways: &[(&Plan, Configuration)]) -> Result<(Costs, Vec<Work>), &'static str> {
    let is_serial = |configuration: &Configuration| {
        (configuration.dispatcher, configuration.event_handler) == (Model::Serial, Model::Serial)
    };
    if !gateways.iter().all(|(_, configuration)| bounds::is_known(configuration)) {
        return Err(
            "the models know only events that cause the same work each, its files after its CPU work",
        );
    }
    if !gateways.iter().any(|(_, configuration)| is_serial(configuration)) {
        return Err("no serial gateway among the combinations tells what fetching an event costs");
    }
    // One that could do more takes as long for an event as its events are apart.
    if !gateways.iter().all(|(plan, _)| plan.load.calibration.is_some()) {
        return Err("only gateways at their limit tell what fetching an event costs (load.calibrate)");
    }
    let mut known = HashMap::new();
    let work: Option<Vec<Work>> =
        gateways.iter().map(|(_, configuration)| cost_of_work(configuration, &mut known)).collect();
    let work = work.ok_or("no file can be written in the folder for temporary files")?;
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
