//! What bounds a gateway's throughput: the models of docs/gateway.md in numbers.

use crate::configuration::{Configuration, Model, Order, Spread};
use crate::work::{Work, calculate};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often work is done to know what it costs: the median counts.
const TRIES: usize = 101;
/// Heavy work is done less often: no more is begun after this time.
const PATIENCE: Duration = Duration::from_millis(500);

/// What one event costs, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// The CPU work.
    pub cpu: f64,
    /// The I/O work.
    pub io: f64,
    /// The two calls that fetch the event, from the first request to the last answer, without the network's delay.
    pub fetch: f64,
    /// Processor time of the gateway beside the work: its calls and its own code.
    pub own: f64,
    /// Processor time of the devices.
    pub device: f64,
}

/// Where gateway and devices are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Devices that are polled.
    pub devices: f64,
    /// What a device waits before it answers a call, in seconds.
    pub delay: f64,
    /// Processors that the gateway may use.
    pub processors: f64,
    /// Processors that the devices may use.
    pub device_processors: f64,
    /// Processors of the host that gateway and devices share; `None` where each has its own.
    pub shared: Option<f64>,
}

/// The least of what bounds the throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Events per second.
    pub rate: f64,
    /// What bounds it.
    pub by: &'static str,
}

/// What the work of an event costs on this host when nothing else goes on: medians, with files written in that folder.
/// Of work that varies from event to event, the mean one.
///
/// # Errors
/// The folder cannot be written to.
pub fn cost_of_work(configuration: &Configuration, folder: &Path) -> io::Result<(f64, f64)> {
    let work = Work::new(configuration, folder);
    let task = work.mean();
    let cpu = median(|| {
        calculate(task.prime);
        Ok(())
    })?;
    let io = median(|| work.write(0, task.bytes))?;
    Ok((cpu, io))
}

fn median(mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let mut taken = Vec::with_capacity(TRIES);
    let first = Instant::now();
    while taken.len() < TRIES && (taken.is_empty() || first.elapsed() < PATIENCE) {
        let begin = Instant::now();
        attempt()?;
        taken.push(begin.elapsed().as_secs_f64());
    }
    taken.sort_by(f64::total_cmp);
    Ok(taken.get(taken.len() / 2).copied().unwrap_or_default())
}

/// A gateway that was measured at its limit: what its events took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Events per second.
    pub rate: f64,
    /// What the work of an event costs alone, in seconds.
    pub work: f64,
    /// What a device waits before it answers a call, in seconds.
    pub delay: f64,
    /// Processor time of the gateway for an event, in seconds.
    pub gateway: f64,
    /// Processor time of the devices for an event, in seconds.
    pub device: f64,
    /// Whether its dispatcher and its handler are serial.
    pub is_serial: bool,
}

/// What fetching an event costs: what serial gateways took beside its work, the median. The processor times beside the work are
/// those of the cheapest gateway of all, so that what follows from them bounds each. `None` without a serial one.
pub fn cost_of_fetching(gateways: &[Measured]) -> Option<Costs> {
    let serial = gateways.iter().filter(|gateway| gateway.is_serial && gateway.rate > 0.0);
    let mut fetch: Vec<f64> =
        serial.map(|one| (1.0 / one.rate - one.work - 2.0 * one.delay).max(0.0)).collect();
    fetch.sort_by(f64::total_cmp);
    let middle = [fetch.len().checked_sub(1)? / 2, fetch.len() / 2].map(|at| fetch[at]);
    let fetch = middle[0].midpoint(middle[1]);
    let least = |of: fn(&Measured) -> f64| gateways.iter().map(of).fold(f64::INFINITY, f64::min).max(0.0);
    Some(Costs {
        fetch,
        own: least(|one| one.gateway - one.work),
        device: least(|one| one.device),
        ..Costs::default()
    })
}

/// Whether the models know such a gateway: each event causes the same work, first that of the processor, then that of files.
pub fn is_known(configuration: &Configuration) -> bool {
    let constant = |spread| spread == Spread::Constant;
    configuration.check().is_ok()
        && constant(configuration.cpu_spread)
        && constant(configuration.io_spread)
        && configuration.io_order == Order::After
}

/// The bound of a combination of dispatcher and event handler.
pub fn throughput(configuration: &Configuration, costs: &Costs, setting: &Setting) -> Bound {
    use Model::{Cooperative, Preemptive, Serial};
    let pool = configuration.pool_size as f64;
    // Devices that are connected at once.
    let queues = match configuration.sockets {
        0 => setting.devices,
        sockets => setting.devices.min(sockets as f64),
    };
    let fetch = costs.fetch + 2.0 * setting.delay;
    let work = costs.cpu + costs.io;
    let one_by_one = ("the calls, one after the other", fetch);
    let device = ("each device's own turn", (fetch + work) / queues);
    let pool_of = |cost: f64| ("the pool", cost / pool);
    // Seconds that the narrowest place has for one event.
    let places: &[(&str, f64)] = match (configuration.dispatcher, configuration.event_handler) {
        (Serial, Serial) => &[("everything, one after the other", fetch + work)],
        (Serial, Preemptive) => &[one_by_one, pool_of(work)],
        (Serial, Cooperative) => {
            &[("calls and CPU work, in one thread", fetch + costs.cpu), pool_of(costs.io)]
        }
        (Preemptive, Serial) => &[device, ("the work, under one lock", work)],
        (Preemptive, Preemptive) => &[device, pool_of(work)],
        (Preemptive, Cooperative) => &[device, ("the CPU work, on the loop", costs.cpu), pool_of(costs.io)],
        (Cooperative, Serial) => &[device, ("calls and work, on the loop", costs.own + work)],
        (Cooperative, Preemptive) => &[device, ("the calls, on the loop", costs.own), pool_of(work)],
        (Cooperative, Cooperative) => {
            &[device, ("calls and CPU work, on the loop", costs.own + costs.cpu), pool_of(costs.io)]
        }
    };
    let gateway = costs.own + work;
    let processors = match setting.shared {
        Some(all) => [
            ("the processors", (gateway + costs.device) / all),
            ("the gateway's processors", gateway / setting.processors),
        ],
        None => [
            ("the gateway's processors", gateway / setting.processors),
            ("the devices' processors", costs.device / setting.device_processors),
        ],
    };
    let all = places.iter().copied().chain(processors);
    let (by, seconds) =
        all.fold(("nothing", 0.0), |narrowest, place| if place.1 > narrowest.1 { place } else { narrowest });
    Bound { rate: if seconds > 0.0 { 1.0 / seconds } else { f64::INFINITY }, by }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Reactor;

    fn bound(dispatcher: Model, handler: Model, costs: Costs, setting: Setting) -> Bound {
        throughput(&configuration(dispatcher, handler), &costs, &setting)
    }

    fn configuration(dispatcher: Model, event_handler: Model) -> Configuration {
        Configuration {
            dispatcher,
            event_handler,
            cpu_intensity: 0.5,
            io_intensity: 1e-4,
            pool_size: 10,
            cores: 0,
            cpu_spread: Spread::Constant,
            io_spread: Spread::Constant,
            io_order: Order::After,
            event_loop: Reactor::Libuv,
            sockets: 0,
        }
    }

    const SETTING: Setting =
        Setting { devices: 25.0, delay: 0.0, processors: 2.0, device_processors: 2.0, shared: None };
    const COSTS: Costs = Costs { cpu: 100e-6, io: 40e-6, fetch: 200e-6, own: 50e-6, device: 50e-6 };

    /// What the work found follows from what adds up in one thread.
    #[test]
    fn the_findings_of_the_work_follow() {
        let rate = |dispatcher, handler, costs, setting| bound(dispatcher, handler, costs, setting).rate;
        let close = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
        // With a delay a serial dispatcher is bound by its calls whatever the handler does.
        let delayed = Setting { delay: 0.05, ..SETTING };
        for handler in Model::ALL {
            let serial = rate(Model::Serial, handler, COSTS, delayed);
            assert!(serial < 10.0, "{handler} {serial}");
            for dispatcher in [Model::Preemptive, Model::Cooperative] {
                assert!(rate(dispatcher, handler, COSTS, delayed) > 24.0 * serial, "{dispatcher}/{handler}");
            }
        }
        // With much CPU work only a pool uses a second processor, and with one processor all are equal.
        let heavy = Costs { cpu: 10e-3, ..COSTS };
        let pool = rate(Model::Cooperative, Model::Preemptive, heavy, SETTING);
        let on_the_loop = rate(Model::Cooperative, Model::Cooperative, heavy, SETTING);
        assert!(pool / on_the_loop > 1.9, "{pool} {on_the_loop}");
        let alone = Setting { processors: 1.0, ..SETTING };
        for dispatcher in [Model::Preemptive, Model::Cooperative] {
            for handler in Model::ALL {
                let one = rate(dispatcher, handler, heavy, alone);
                let other = rate(Model::Cooperative, Model::Preemptive, heavy, alone);
                assert!(close(one, other), "{dispatcher}/{handler}: {one} {other}");
            }
        }
    }

    #[test]
    fn the_narrowest_place_is_named() {
        let by = |dispatcher, handler, setting| bound(dispatcher, handler, COSTS, setting).by;
        assert_eq!(by(Model::Serial, Model::Serial, SETTING), "everything, one after the other");
        assert_eq!(by(Model::Serial, Model::Preemptive, SETTING), "the calls, one after the other");
        assert_eq!(by(Model::Preemptive, Model::Serial, SETTING), "the work, under one lock");
        assert_eq!(by(Model::Cooperative, Model::Serial, SETTING), "calls and work, on the loop");
        let one = Setting { devices: 1.0, ..SETTING };
        assert_eq!(by(Model::Preemptive, Model::Preemptive, one), "each device's own turn");
        let shared = Setting { shared: Some(2.0), ..SETTING };
        assert_eq!(by(Model::Cooperative, Model::Preemptive, shared), "the processors");
    }

    #[test]
    fn devices_that_take_turns_are_as_many_as_sockets() {
        let configuration =
            Configuration { sockets: 2, ..configuration(Model::Cooperative, Model::Preemptive) };
        let delayed = Setting { delay: 0.05, ..SETTING };
        let rate = throughput(&configuration, &COSTS, &delayed).rate;
        assert!((rate - 2.0 / 0.10034).abs() < 0.1, "{rate}");
    }

    #[test]
    fn what_fetching_costs_is_what_serial_gateways_took_beside_the_work() {
        let serial = Measured {
            rate: 1000.0,
            work: 300e-6,
            delay: 100e-6,
            gateway: 500e-6,
            device: 90e-6,
            is_serial: true,
        };
        let cheap = Measured { rate: 5000.0, gateway: 330e-6, device: 40e-6, is_serial: false, ..serial };
        let costs = cost_of_fetching(&[cheap, serial]).unwrap();
        let close = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(
            close(costs.fetch, 500e-6) && close(costs.own, 30e-6) && close(costs.device, 40e-6),
            "{costs:?}"
        );
        assert_eq!(cost_of_fetching(&[cheap]), None);
    }

    #[test]
    fn what_the_models_do_not_know_is_said() {
        let known = configuration(Model::Serial, Model::Serial);
        assert!(is_known(&known));
        assert!(!is_known(&Configuration { cpu_spread: Spread::Uniform, ..known.clone() }));
        assert!(!is_known(&Configuration { io_order: Order::Beside, ..known.clone() }));
        assert!(!is_known(&Configuration { io_intensity: 1e12, ..known }));
    }

    #[test]
    fn work_is_timed() {
        let folder = std::env::temp_dir().join(format!("plimsoll-bounds-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let configuration = configuration(Model::Serial, Model::Serial);
        let (cpu, io) = cost_of_work(&configuration, &folder).unwrap();
        assert!(cpu > 0.0 && io > 0.0, "{cpu} {io}");
        let none = Configuration { cpu_intensity: 0.0, io_intensity: 0.0, ..configuration };
        let (no_cpu, no_io) = cost_of_work(&none, &folder).unwrap();
        assert!(no_cpu < cpu && no_io < io, "{no_cpu} {no_io}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
