//! What bounds a gateway's throughput: the models of docs/gateway.md in numbers.

use crate::configuration::{Configuration, Model};
use crate::work::{Work, calculate};
use std::io;
use std::path::Path;
use std::time::Instant;

/// How often work is done to know what it costs: the median counts.
const TRIES: usize = 101;

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
    for _ in 0..TRIES {
        let begin = Instant::now();
        attempt()?;
        taken.push(begin.elapsed().as_secs_f64());
    }
    taken.sort_by(f64::total_cmp);
    Ok(taken.get(TRIES / 2).copied().unwrap_or_default())
}

/// The bound of a combination of dispatcher and event handler.
pub fn throughput(configuration: &Configuration, costs: &Costs, setting: &Setting) -> Bound {
    use Model::{Cooperative, Preemptive, Serial};
    let (pool, queues) = (configuration.pool_size as f64, setting.devices);
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
            ("the devices' processor", costs.device),
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
    use crate::configuration::{Order, Reactor, Spread};

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

    const SETTING: Setting = Setting { devices: 25.0, delay: 0.0, processors: 2.0, shared: None };
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
