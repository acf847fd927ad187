//! What the machine must give: processors, memory, time.

use super::demand::{Demand, Place, is_secured};
use plimsoll_model::host_check::HostCheck;
use plimsoll_model::text::grouped;
use plimsoll_model::{Histogram, Nanos};
use plimsoll_observe::limits::Limits;
use plimsoll_observe::probe::Probe;
use plimsoll_scenario::plan::Plan;

/// Memory of a device or subscriber in this process, in bytes: measured as the growth of the peak from 2,000 to 18,000
/// idle devices.
const OF_CLIENT: u64 = 640;
/// The same of one whose connection is secured by TLS: measured as the growth of the peak from 1,000 to 5,000 devices that
/// publish now and then over TLS 1.3. One over DTLS has less: roughly 8 KiB, in one run with 2,486 devices.
const OF_SECURED_CLIENT: u64 = 11 * 1024;
/// Kernel memory of one end of an idle TCP connection, in bytes: measured on Linux 6.18 as the growth of slab memory.
const OF_SOCKET: u64 = 4096;
/// Share of the memory beyond which connections, whose buffers grow under load, may use up the rest.
const MEMORY_WELL_USED: f64 = 0.5;
/// Share of the memory below which swapping goes on.
const SCARCE: f64 = 0.1;
/// `epoll_pwait2`, whose timeouts are in nanoseconds.
const OLDEST_KERNEL: (u32, u32) = (5, 11);
/// Clock sources that take a system call or a slow device for each reading.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];
/// Tasks beside the load threads: components, their threads, commands that are asked for their version.
const TASKS_BESIDE: u64 = 32;
/// Lateness that is allowed whatever the objectives are (rule 2).
const LATENESS: Nanos = Nanos::from_millis(1);
/// Share of the processors' time that the hypervisor may take before one must distrust the host.
const STEAL: f64 = 0.01;
/// The probe itself is busy for a few per cent of one processor.
const BUSY: f64 = 0.2;

pub fn kernel(limits: &Limits) -> Option<HostCheck> {
    const SUBJECT: &str = "kernel";
    let (major, minor) = limits.kernel?;
    if (major, minor) >= OLDEST_KERNEL {
        return Some(HostCheck::good(SUBJECT, format!("Linux {major}.{minor}")));
    }
    let told = format!("Linux {major}.{minor} has no epoll_pwait2, without which load threads cannot wait");
    Some(HostCheck::problem(SUBJECT, told, "use Linux 5.11 or later"))
}

pub fn processors(limits: &Limits, demand: Option<&Demand>) -> Option<HostCheck> {
    const SUBJECT: &str = "processors";
    let count = limits.processors?;
    if let Some(quota) = limits.quota.filter(|&quota| quota < count as f64) {
        let told = format!(
            "the control group grants {quota:.2} of {count} processors, and stops all threads when that is used up"
        );
        let remedy = "lift its cpu limit (docker: run without `--cpus`; cgroup: cpu.max)";
        return Some(HostCheck::warning(SUBJECT, told, remedy));
    }
    let Some(demand) = demand else {
        return Some(match count {
            1 => HostCheck::warning(
                SUBJECT,
                "one, which a platform on this host would share with the load",
                FURTHER,
            ),
            _ => HostCheck::good(SUBJECT, format!("{count}")),
        });
    };
    if demand.shared {
        let told = "load threads and platform share processors: their numbers influence each other";
        return Some(HostCheck::warning(SUBJECT, told, FURTHER));
    }
    let threads = demand.threads;
    let plural = if threads == 1 { "load thread" } else { "load threads" };
    let rest = match demand.place {
        Place::Elsewhere => String::new(),
        Place::Here | Place::Loopback => {
            format!(", {} for the platform", count.saturating_sub(threads as u64))
        }
    };
    Some(HostCheck::good(SUBJECT, format!("{threads} for {plural}{rest}")))
}

/// What a load thread spends on a gap that it draws, at most: measured at 5 ns for uniform gaps and 30 ns for gamma ones.
const OF_GAP: Nanos = Nanos(30);
/// Share of its time that a load thread may spend on arrivals of others.
const DRAWING: f64 = 0.03;

/// Arrivals that no closed form gives and that cannot be divided over the load threads.
pub fn arrivals(demand: Option<&Demand>) -> Option<HostCheck> {
    let demand = demand.filter(|demand| demand.threads > 1)?;
    let spent = demand.walked * OF_GAP.as_secs_f64();
    if spent <= DRAWING {
        return None;
    }
    let told = format!(
        "each of {} load threads draws all {} gaps a second, which takes up to {:.0} % of its time",
        demand.threads,
        grouped(demand.walked),
        spent * 100.0
    );
    let remedy = "`arrivals: poisson` or `constant`, which are divided over the threads, or `per: device`";
    Some(HostCheck::warning("arrivals", told, remedy))
}

const FURTHER: &str =
    "run the platform on another host, or on one with more processors; fewer `load.threads`";

/// Memory of so many idle clients of a plan in this process, and in the kernel if the platform is elsewhere; bytes.
pub fn memory_of_clients(clients: u64, plan: &Plan) -> u64 {
    clients.saturating_mul(of_client(plan.populations().any(is_secured)) + OF_SOCKET)
}

fn of_client(secured: bool) -> u64 {
    if secured { OF_SECURED_CLIENT } else { OF_CLIENT }
}

pub fn memory(limits: &Limits, demand: Option<&Demand>) -> Option<HostCheck> {
    const SUBJECT: &str = "memory";
    let free = limits.memory?;
    let Some(demand) = demand else {
        return Some(HostCheck::good(SUBJECT, format!("{} to be had", size(free))));
    };
    let ends = if demand.place == Place::Elsewhere { 1 } else { 2 };
    let of_client = of_client(demand.secured);
    let needed = demand.connections.saturating_mul(of_client + ends * OF_SOCKET);
    let told = format!(
        "{} connections{} need about {} while they are idle ({} here and {} in the kernel each, the platform's own \
         memory apart), {} can be had",
        grouped(demand.connections as f64),
        if demand.secured { " over TLS" } else { "" },
        size(needed),
        size(of_client),
        size(ends * OF_SOCKET),
        size(free)
    );
    let remedy = "use fewer devices, or a host with more memory";
    Some(if needed > free {
        HostCheck::problem(SUBJECT, told, remedy)
    } else if needed as f64 > free as f64 * MEMORY_WELL_USED {
        HostCheck::warning(SUBJECT, told, remedy)
    } else {
        HostCheck::good(SUBJECT, told)
    })
}

pub fn swap(limits: &Limits) -> Option<HostCheck> {
    const SUBJECT: &str = "swap";
    let (swapped, free, total) = (limits.swapped?, limits.memory?, limits.memory_total?);
    if swapped == 0 {
        return Some(HostCheck::good(SUBJECT, "none in use"));
    }
    let told = format!("{} are on disk", size(swapped));
    if free as f64 >= total as f64 * SCARCE {
        return Some(HostCheck::good(SUBJECT, format!("{told}, and memory is free")));
    }
    let told = format!("{told} and memory is scarce: what must be read back comes late");
    Some(HostCheck::warning(SUBJECT, told, "end what needs the memory, then `sudo swapoff -a`"))
}

pub fn tasks(limits: &Limits, demand: Option<&Demand>) -> Option<HostCheck> {
    const SUBJECT: &str = "tasks";
    let left = limits.tasks?;
    let needed = demand.map_or(1, |demand| demand.threads as u64) + TASKS_BESIDE;
    if left >= needed {
        return Some(HostCheck::good(
            SUBJECT,
            format!("the control group allows {} more", grouped(left as f64)),
        ));
    }
    let [left, needed] = [left, needed].map(|count| grouped(count as f64));
    let told =
        format!("the control group allows {left} more processes and threads, about {needed} are needed");
    Some(HostCheck::warning(SUBJECT, told, "raise its limit (docker: `--pids-limit`; cgroup: pids.max)"))
}

pub fn governor(limits: &Limits) -> Option<HostCheck> {
    const SUBJECT: &str = "cpu governor";
    let governor = limits.governor.as_ref()?;
    if governor == "performance" {
        return Some(HostCheck::good(SUBJECT, "performance"));
    }
    let told =
        format!("{governor}: processors slow down while there is little to do, so times depend on the load");
    Some(HostCheck::warning(SUBJECT, told, "`sudo cpupower frequency-set -g performance`"))
}

pub fn clock_source(limits: &Limits) -> Option<HostCheck> {
    const SUBJECT: &str = "clock source";
    let source = limits.clock_source.as_ref()?;
    if !SLOW_CLOCKS.contains(&source.as_str()) {
        return Some(HostCheck::good(SUBJECT, source.clone()));
    }
    let told = format!("{source}: each reading of the clock takes about a microsecond instead of some 20 ns");
    let remedy =
        "boot with `tsc=reliable` where the processor's counter is; in a virtual machine use kvm-clock";
    Some(HostCheck::warning(SUBJECT, told, remedy))
}

pub fn wake_ups(probe: &Probe, demand: Option<&Demand>) -> Option<HostCheck> {
    const SUBJECT: &str = "wake-ups";
    let at = |late: &Histogram, q| late.quantile(q);
    let (half, most) = (at(&probe.wake_up, 0.5)?, at(&probe.wake_up, 0.99)?);
    let count = probe.wake_up.count();
    let told = format!("{half} late at p50, {most} at p99, over {count} just now");
    if most > LATENESS {
        let told = format!("{told}: levels may become generator_bound or host_bound");
        let remedy = "keep other work off this host; a virtual machine needs processors of its own";
        return Some(HostCheck::warning(SUBJECT, told, remedy));
    }
    Some(match demand.map(|demand| demand.precision) {
        Some(precision) if precision > Nanos::ZERO && most > precision => {
            let told = format!("{told}, more than the {precision} of load.precision");
            let remedy = format!("`--set load.precision={}us`, or a calmer host", most.0 / 1_000 + 1);
            HostCheck::warning(SUBJECT, told, remedy)
        }
        Some(_) => HostCheck::good(SUBJECT, told),
        None => HostCheck::good(SUBJECT, format!("{told}: load.precision can be kept down to that")),
    })
}

pub fn precedence(probe: &Probe, demand: Option<&Demand>) -> Option<HostCheck> {
    const SUBJECT: &str = "precedence";
    if probe.precedence {
        return Some(HostCheck::good(SUBJECT, "load threads may go before other processes"));
    }
    // Where the platform has the same processors, load threads would not ask for it.
    demand.is_none_or(|demand| !demand.shared).then(|| {
        let told = "load threads have no priority over other processes, and are late when those run";
        HostCheck::warning(
            SUBJECT,
            told,
            "run as root, or `sudo setcap cap_sys_nice+ep \"$(command -v plimsoll)\"`",
        )
    })
}

pub fn steal(probe: &Probe) -> Option<HostCheck> {
    const SUBJECT: &str = "steal";
    let steal = probe.steal?;
    let share = steal * 100.0;
    if steal <= STEAL {
        let told = format!("the hypervisor takes {share:.1} % just now, while there is little to do");
        return Some(HostCheck::good(SUBJECT, told));
    }
    let told =
        format!("the hypervisor takes {share:.1} % of the processors' time: times will be too long by that");
    Some(HostCheck::warning(SUBJECT, told, "use a machine whose processors are not shared"))
}

pub fn busy(probe: &Probe, limits: &Limits) -> Option<HostCheck> {
    const SUBJECT: &str = "other work";
    let (busy, count) = (probe.busy?, limits.processors?);
    if busy <= BUSY {
        return Some(HostCheck::good(SUBJECT, "next to none just now"));
    }
    let told = format!("{busy:.1} of {count} processors are busy just now");
    Some(HostCheck::warning(SUBJECT, told, "end it while you measure; `top` shows what it is"))
}

/// A size for people.
fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fitting = units.into_iter().find(|(unit, _)| bytes >= *unit as f64);
    fitting.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{:.1} {name}", bytes / unit as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::Severity::{self, Good, Problem, Warning};

    fn demand(connections: u64, place: Place) -> Demand {
        Demand {
            connections,
            listening: 0,
            connect_rate: 500.0,
            secured: false,
            storm: false,
            place,
            sources: 0,
            foreign_sources: Vec::new(),
            threads: 1,
            shared: false,
            walked: 0.0,
            precision: Nanos::from_micros(100),
        }
    }

    fn severity(found: Option<HostCheck>) -> Severity {
        found.unwrap().severity
    }

    #[test]
    fn a_kernel_without_fine_timeouts_makes_every_run_impossible() {
        let found =
            |major, minor| severity(kernel(&Limits { kernel: Some((major, minor)), ..Limits::default() }));
        assert_eq!([found(5, 10), found(5, 11), found(6, 1), found(4, 19)], [Problem, Good, Good, Problem]);
    }

    #[test]
    fn memory_is_of_one_end_or_of_both() {
        let limits = Limits { memory: Some(1 << 30), ..Limits::default() };
        let found = |connections, place| severity(memory(&limits, Some(&demand(connections, place))));
        // 1 GiB / 4,736 B = 226,719 and 1 GiB / 8,832 B = 121,574 connections.
        assert_eq!(found(226_719, Place::Elsewhere), Warning);
        assert_eq!(found(226_720, Place::Elsewhere), Problem);
        assert_eq!(found(121_575, Place::Loopback), Problem);
        assert_eq!(found(10_000, Place::Loopback), Good);
    }

    #[test]
    fn a_secured_connection_takes_more_memory() {
        let limits = Limits { memory: Some(1 << 30), ..Limits::default() };
        let found = |connections| {
            memory(&limits, Some(&Demand { secured: true, ..demand(connections, Place::Elsewhere) })).unwrap()
        };
        // 1 GiB / (11 + 4 KiB) = 69,905 connections.
        assert_eq!((found(69_905).severity, found(69_906).severity), (Warning, Problem));
        assert!(found(69_906).told.contains("69,906 connections over TLS"), "{}", found(69_906));
    }

    #[test]
    fn a_quota_and_a_shared_processor_are_told() {
        let limits = |quota| Limits { processors: Some(4), quota, ..Limits::default() };
        let apart = demand(1, Place::Loopback);
        let shared = Demand { shared: true, ..apart.clone() };
        assert_eq!(severity(processors(&limits(None), Some(&apart))), Good);
        assert_eq!(severity(processors(&limits(Some(1.5)), Some(&apart))), Warning);
        assert_eq!(severity(processors(&limits(Some(4.0)), Some(&apart))), Good);
        assert_eq!(severity(processors(&limits(None), Some(&shared))), Warning);
    }

    #[test]
    fn arrivals_that_each_thread_walks_are_a_warning_where_they_take_much_of_its_time() {
        let of =
            |walked, threads| arrivals(Some(&Demand { walked, threads, ..demand(10, Place::Elsewhere) }));
        assert_eq!(of(1e6, 2), None);
        assert_eq!(of(5e6, 1), None, "one thread draws its own only");
        let told = of(5e6, 4).unwrap();
        assert!(
            told.severity == Warning && told.told.contains("5,000,000 gaps") && told.told.contains("15 %"),
            "{told}"
        );
    }

    #[test]
    fn late_wake_ups_are_held_against_precision_and_validity() {
        let probe = |micros| {
            let mut wake_up = Histogram::new();
            wake_up.record_n(Nanos::from_micros(micros), 100);
            Probe { wake_up, ..Probe::default() }
        };
        let plan = demand(1, Place::Elsewhere);
        assert_eq!(severity(wake_ups(&probe(60), Some(&plan))), Good);
        let late = wake_ups(&probe(300), Some(&plan)).unwrap();
        // Three significant digits of 300 µs end at 300.03 µs.
        assert!(late.severity == Warning && late.remedy.contains("load.precision=301us"), "{late}");
        assert_eq!(severity(wake_ups(&probe(300), None)), Good);
        assert_eq!(severity(wake_ups(&probe(1_100), None)), Warning);
        let closed = Demand { precision: Nanos::ZERO, ..plan };
        assert_eq!(
            severity(wake_ups(&probe(300), Some(&closed))),
            Good,
            "nothing is due in the closed model"
        );
        assert_eq!(wake_ups(&Probe::default(), None), None, "nothing was observed");
    }

    #[test]
    fn what_slows_a_machine_is_a_warning() {
        let with = |governor: &str, clock: &str| Limits {
            governor: Some(governor.into()),
            clock_source: Some(clock.into()),
            ..Limits::default()
        };
        let (calm, slow) = (with("performance", "tsc"), with("powersave", "hpet"));
        assert_eq!([severity(governor(&calm)), severity(governor(&slow))], [Good, Warning]);
        assert_eq!([severity(clock_source(&calm)), severity(clock_source(&slow))], [Good, Warning]);
        let swapped = |memory| {
            let (memory, memory_total) = (Some(memory), Some(100));
            Limits { swapped: Some(1), memory, memory_total, ..Limits::default() }
        };
        assert_eq!([severity(swap(&swapped(10))), severity(swap(&swapped(9)))], [Good, Warning]);
        let tasks_left = |left| severity(tasks(&Limits { tasks: Some(left), ..Limits::default() }, None));
        assert_eq!([tasks_left(33), tasks_left(32)], [Good, Warning]);
        let probe = |steal, busy| Probe { steal: Some(steal), busy: Some(busy), ..Probe::default() };
        assert_eq!([severity(steal(&probe(0.01, 0.0))), severity(steal(&probe(0.02, 0.0)))], [Good, Warning]);
        let two = Limits { processors: Some(2), ..Limits::default() };
        let busy = |used| severity(busy(&probe(0.0, used), &two));
        assert_eq!([busy(0.1), busy(1.0)], [Good, Warning]);
        let refused = precedence(&Probe::default(), None);
        assert_eq!(severity(refused), Warning);
    }
}
