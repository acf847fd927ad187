//! What the models of docs/gateway.md say of the combinations of a sweep over gateways that poll their devices.

use plimsoll_analysis::sweep::{Quantity, Sweep};
use plimsoll_gateway::bounds::{self, Costs, Setting};
use plimsoll_gateway::configuration::{Configuration, Model};
use plimsoll_runner::Placement;
use plimsoll_scenario::Matrix;
use plimsoll_scenario::plan::Plan;
use std::collections::HashMap;

/// Adds predictions to the combinations whose platform is a gateway with a configuration that we know. What work costs is
/// measured here and now; what fetching an event costs is what serial gateways of this sweep took beside it.
pub fn predict(sweep: &mut Sweep, matrix: &Matrix) {
    let plan = |position: &[usize]| {
        let cell = matrix.cells.iter().find(|cell| cell.position == position)?;
        let configuration = Configuration::of_words(&cell.plan.platform.roles.device.configuration)?;
        Some((&cell.plan, configuration))
    };
    let mut known = HashMap::new();
    let mut fetching = Vec::new();
    for cell in &sweep.cells {
        let Some((plan, configuration)) = plan(&cell.position) else { return };
        let Some((cpu, io)) = cost_of_work(&configuration, &mut known) else { return };
        let serial =
            (configuration.dispatcher, configuration.event_handler) == (Model::Serial, Model::Serial);
        let mean = |quantity| cell.measured(quantity).map(|measured| measured.mean);
        let (Some(rate), Some(platform), Some(device)) =
            (mean(Quantity::Throughput), mean(Quantity::PlatformCpu), mean(Quantity::GeneratorCpu))
        else {
            continue;
        };
        if serial && rate > 0.0 {
            let work = cpu + io;
            let fetch = (1.0 / rate - work - 2.0 * delay(plan)).max(0.0);
            fetching.push(Costs { cpu, io, fetch, own: (platform - work).max(0.0), device });
        }
    }
    let Some(found) = typical(&fetching) else {
        let why = "nothing is predicted: no serial gateway among the combinations tells what fetching an event costs";
        sweep.notes.push(why.into());
        return;
    };
    for cell in &mut sweep.cells {
        let Some((plan, configuration)) = plan(&cell.position) else { continue };
        let Some((cpu, io)) = cost_of_work(&configuration, &mut known) else { continue };
        let bound =
            bounds::throughput(&configuration, &Costs { cpu, io, ..found }, &setting(plan, &configuration));
        cell.predicted = Some(bound.rate);
        cell.bound_by = Some(bound.by.to_owned());
    }
    sweep.notes.push(format!(
        "predicted with {:.0} µs for fetching an event, of which the gateway computes {:.0} µs and the devices {:.0} µs, as \
         serial gateways took in this sweep, and with the work of an event as it took alone on this host",
        found.fetch * 1e6,
        found.own * 1e6,
        found.device * 1e6
    ));
}

/// What the work of an event costs, measured once for each intensity; `None` where no file can be written.
fn cost_of_work(
    configuration: &Configuration,
    known: &mut HashMap<(u64, u64), (f64, f64)>,
) -> Option<(f64, f64)> {
    let intensity = (configuration.cpu_intensity.to_bits(), configuration.io_intensity.to_bits());
    if let Some(costs) = known.get(&intensity) {
        return Some(*costs);
    }
    let folder = tempfile::tempdir().ok()?;
    let costs = bounds::cost_of_work(configuration, folder.path()).ok()?;
    known.insert(intensity, costs);
    Some(costs)
}

fn delay(plan: &Plan) -> f64 {
    plan.gateway.delay.as_secs_f64()
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
    Setting { devices: f64::from(plan.devices), delay: delay(plan), processors, shared }
}

/// The median of each cost.
fn typical(costs: &[Costs]) -> Option<Costs> {
    let median = |of: fn(&Costs) -> f64| {
        let mut values: Vec<f64> = costs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    Some(Costs {
        fetch: median(|costs| costs.fetch)?,
        own: median(|costs| costs.own)?,
        device: median(|costs| costs.device)?,
        ..Costs::default()
    })
}
