//! The components of the platform that stand at a worker: starts, samples and stops them, in a thread of its own, since a start may take
//! minutes and the links go on meanwhile.

use super::Input;
use crate::sampling::{Observed, Sampling};
use plimsoll_load::clock::Clock;
use plimsoll_model::Nanos;
use plimsoll_model::record::{ComponentUsage, DeathRecord, Gauge};
use plimsoll_platform::{Death, Options, Site};
use plimsoll_scenario::plan::Plan;
use plimsoll_workers::message::{Message, Report, Reserve, StartComponent};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two looks at what the components do.
const LOOK: Duration = Duration::from_millis(200);

/// What there is of the components now, for those who must know it at once.
pub type Seen = Arc<Mutex<Here>>;

/// The components that run here.
#[derive(Debug, Default)]
pub struct Here {
    /// Their first processes, with their names.
    pub processes: Vec<(String, i32)>,
    /// The files that take what they say, with their names.
    pub logs: Vec<(String, PathBuf)>,
}

/// See the module. Dropped, it stops them.
pub struct Components {
    orders: Option<Sender<Order>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What is to be done.
enum Order {
    /// Start one.
    Start(StartComponent),
    /// The run's clock runs, beside load threads on these processors.
    Observe(Clock, Vec<Option<usize>>),
}

/// Where what is said goes, and for which run.
pub struct Said {
    pub input: Sender<Input>,
    pub run: u64,
    pub seen: Seen,
}

impl Said {
    /// A worker that is ending wants to hear nothing.
    fn say(&self, message: Message) {
        let _ = self.input.send(Input::Said(self.run, Box::new(message)));
    }
}

impl Components {
    /// Finds ports for components, and says where they will listen.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn host(
        plan: Arc<Plan>,
        reserve: Reserve,
        (program, listen): (PathBuf, IpAddr),
        said: Said,
    ) -> std::io::Result<Components> {
        let (orders, queue) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let options = Options {
            program,
            processors: Vec::new(),
            logs: None,
            mqtt5: reserve.mqtt5,
            stop: Arc::clone(&stop),
        };
        let work = move || match Site::of(&plan.platform, &reserve.components, listen, &options) {
            Ok(site) => {
                said.say(Message::Reserved(Ok(site.addresses())));
                serve(site, &queue, &said);
            }
            Err(error) => said.say(Message::Reserved(Err(error.to_string()))),
        };
        let thread = std::thread::Builder::new().name("components".into()).spawn(work)?;
        Ok(Components { orders: Some(orders), stop, thread: Some(thread) })
    }

    /// Starts one of them; that it is healthy, or not, is said later.
    pub fn start(&self, start: StartComponent) {
        self.order(Order::Start(start));
    }

    /// Samples them from now on, on this clock.
    pub fn observe(&self, clock: Clock, load: Vec<Option<usize>>) {
        self.order(Order::Observe(clock, load));
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // One that could not find ports has said so and ended.
            let _ = orders.send(order);
        }
    }
}

impl Drop for Components {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut site: Site, queue: &Receiver<Order>, said: &Said) {
    let mut sampling: Option<(Sampling, Clock)> = None;
    loop {
        match queue.recv_timeout(LOOK) {
            Ok(Order::Start(StartComponent { component, known })) => {
                let started = site.start(&component, &known).map_err(|error| error.to_string());
                said.say(Message::Started(started));
            }
            Ok(Order::Observe(clock, load)) => {
                let begun = Sampling::begin(site.processes(), load, site.listens_at(), clock.now());
                sampling = begun.map(|sampling| (sampling, clock));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let processes = site.processes();
        let names: Vec<String> = processes.iter().map(|(name, _)| name.clone()).collect();
        *said.seen.lock().unwrap_or_else(PoisonError::into_inner) = Here { processes, logs: site.logs() };
        let observed = sampling.as_ref().map(|(sampling, _)| sampling.take()).unwrap_or_default();
        reports(observed, &names).into_iter().for_each(|report| said.say(Message::Report(report)));
        if let Some(Death { component, status, last_words }) = site.take_death() {
            let at = sampling.as_ref().map_or(Nanos::ZERO, |(_, clock)| clock.now());
            said.say(Message::Report(Report::Died(DeathRecord { component, status, at, last_words })));
        }
    }
}

/// What is said of these components. What was seen of the host would be taken for the coordinator's.
fn reports(observed: Vec<Observed>, components: &[String]) -> Vec<Report> {
    let mut gauges: Vec<Gauge> = Vec::new();
    let mut reports = Vec::new();
    for observed in observed {
        match observed {
            // Processors of different hosts have the same numbers.
            Observed::Component(usage) => {
                reports.push(Report::Used(ComponentUsage { processor_list: None, ..usage }));
            }
            Observed::Gauge(gauge) if components.contains(&gauge.subject) => gauges.push(gauge),
            Observed::Gauge(_) | Observed::Note(_) => {}
        }
    }
    if !gauges.is_empty() {
        reports.push(Report::Saw(gauges));
    }
    reports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_of_the_host_is_not_said_of_components() {
        let gauge = |subject: &str| Gauge {
            at: Nanos(1),
            sampler: "process".into(),
            subject: subject.into(),
            quantity: "threads".into(),
            unit: "1".into(),
            value: 2.0,
        };
        let usage = ComponentUsage { processor_list: Some("0-3".into()), ..ComponentUsage::default() };
        let observed = vec![
            Observed::Gauge(gauge("host")),
            Observed::Component(usage),
            Observed::Gauge(gauge("broker")),
            Observed::Note("n".into()),
        ];
        let reports = reports(observed, &["broker".to_owned()]);
        assert_eq!(reports, [Report::Used(ComponentUsage::default()), Report::Saw(vec![gauge("broker")])]);
        let moved = reports[1].clone().moved(Nanos(-5));
        assert!(matches!(moved, Report::Saw(gauges) if gauges[0].at == Nanos(-4)));
    }
}
