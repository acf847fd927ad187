//! Processor time, memory and descriptors of a component: its process and all descendants.

pub(crate) mod reading;

use plimsoll_model::Nanos;
use plimsoll_model::record::ComponentUsage;
use procfs::ProcError;
use procfs::process::{Process, Stat};
use reading::Reading;

/// Attempts at a reading that nothing interrupts.
const ATTEMPTS: usize = 3;

/// Reads one component again and again.
#[derive(Debug)]
pub struct ProcessSampler {
    component: String,
    last: Option<Reading>,
}

impl ProcessSampler {
    /// Watches the processes of the component of that name.
    pub fn new(component: String) -> ProcessSampler {
        ProcessSampler { component, last: None }
    }

    /// What the component, whose processes were just found, used since the last reading. `None` at the first call, when its
    /// processes are gone, and where this thread was kept from its processor while it read: a reading that fails is a gap,
    /// never a zero, and the next one covers that time, too.
    pub fn sample(&mut self, now: Nanos, family: &[(Process, Stat)]) -> Option<ComponentUsage> {
        let called = reading::monotonic();
        if family.is_empty() {
            self.last = None;
            return None;
        }
        let reading = (0..ATTEMPTS).map(|_| Reading::take(family)).find(Reading::is_prompt)?;
        let Some(last) = self.last.as_ref() else {
            self.last = Some(reading);
            return None;
        };
        let usage = reading.since(last);
        let at = now + (reading.cpu_bracket.after - called);
        self.last = Some(reading);
        let usage = usage?;
        let page = procfs::page_size();
        Some(ComponentUsage {
            component: self.component.clone(),
            at,
            window: usage.window,
            cpu: usage.cpu,
            busiest_thread: usage.busiest_thread,
            run_delay: usage.run_delay,
            held_by_others: None,
            processors: None,
            processor_list: None,
            throttled: Nanos::ZERO,
            holder: None,
            beside_load: false,
            stopped: family.iter().all(|(_, stat)| matches!(stat.state, 'T' | 't')),
            rss: family.iter().map(|(_, stat)| stat.rss * page).sum(),
            descriptors: family.iter().map(|(process, _)| descriptors_of(process)).sum(),
        })
    }
}

/// The open descriptors of a process, none of one that has ended since it was found; `None` where they may not be read.
fn descriptors_of(process: &Process) -> Option<u64> {
    match process.fd_count() {
        Ok(count) => Some(count as u64),
        Err(ProcError::NotFound(_)) => Some(0),
        Err(_) => None,
    }
}

/// This process, in a form by which [`is_alive`] knows it: the boot of the host, its number, and when it began in clock
/// ticks, since numbers come again. `None` where that cannot be read.
pub fn own_identity() -> Option<String> {
    identity(&Process::myself().ok()?)
}

/// The same of another process, by its number; `None` where there is none, or it has ended.
pub fn identity_of(process: u32) -> Option<String> {
    identity(&Process::new(i32::try_from(process).ok()?).ok()?)
}

/// The number of a process that has that identity.
pub fn number_in(identity: &str) -> Option<i32> {
    identity.split('/').nth(1).and_then(|number| number.parse().ok())
}

/// Whether that process runs on this host, as far as can be seen from here: one in another container cannot.
pub fn is_alive(process: &str) -> bool {
    let found = number_in(process).and_then(|number| Process::new(number).ok());
    found.and_then(|found| identity(&found)).is_some_and(|found| found == process)
}

fn identity(process: &Process) -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = process.stat().ok().filter(|stat| stat.state != 'Z')?;
    Some(format!("{}/{}/{}", boot.trim(), stat.pid, stat.starttime))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::family;

    /// A sampler of a process and its descendants.
    struct OfRoot(ProcessSampler, i32);

    impl OfRoot {
        fn new(component: String, root: i32) -> OfRoot {
            OfRoot(ProcessSampler::new(component), root)
        }

        fn sample(&mut self, now: Nanos) -> Option<ComponentUsage> {
            self.0.sample(now, &family(self.1))
        }
    }

    /// The next reading that nothing interrupts.
    fn again(sampler: &mut OfRoot) -> ComponentUsage {
        (0..100).find_map(|_| sampler.sample(reading::monotonic())).unwrap()
    }

    /// What the caller says of the time moves the stamp only: a caller that was kept away for long has not seen a component
    /// use more than there was.
    #[test]
    fn the_window_is_that_of_the_reading_and_not_of_the_caller() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut sampler = OfRoot::new("busy".into(), child.id() as i32);
        sampler.sample(Nanos(0));
        std::thread::sleep(std::time::Duration::from_millis(200));
        let usage = (0..100).find_map(|_| sampler.sample(Nanos(1))).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(usage.window >= Nanos::from_millis(200), "{usage:?}");
        assert!(usage.cpu <= usage.window, "{usage:?}");
        assert!(usage.cpu > Nanos::from_millis(10), "{usage:?}");
    }

    /// Threads that end between two readings take their time along in no clock but that of the process.
    #[test]
    fn threads_that_ended_meanwhile_are_counted() {
        let mut child = std::process::Command::new("python3")
            .args([
                "-c",
                "import sys,threading,time\n\
                 def work():\n  end = time.thread_time() + 0.05\n  while time.thread_time() < end: pass\n\
                 sys.stdin.readline()\n\
                 for _ in range(6): t = threading.Thread(target=work); t.start(); t.join()\n\
                 print('done', flush=True)\nsys.stdin.readline()",
            ])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut sampler = OfRoot::new("threads".into(), child.id() as i32);
        sampler.sample(Nanos(0));
        std::io::Write::write_all(&mut input, b"\n").unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut String::new()).unwrap();
        let usage = again(&mut sampler);
        drop(input);
        child.wait().unwrap();
        assert!(usage.cpu >= Nanos::from_millis(290), "{usage:?}");
        assert!(usage.cpu <= usage.window * 2, "one thread at a time: {usage:?}");
    }

    #[test]
    fn a_busy_process_shows_its_processor_time_memory_and_descriptors() {
        let mut sampler = OfRoot::new("self".into(), std::process::id() as i32);
        assert_eq!(sampler.sample(Nanos(0)), None);
        crate::spinning::spin(Nanos::from_millis(20));
        let usage = again(&mut sampler);
        assert!(usage.cpu >= Nanos::from_millis(19), "{usage:?}");
        assert!(usage.rss > 100_000 && usage.descriptors.is_some_and(|count| count >= 3), "{usage:?}");
    }

    #[test]
    fn a_process_that_has_ended_meanwhile_has_no_descriptors() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::new(child.id() as i32).unwrap();
        assert!(descriptors_of(&process).is_some_and(|count| count >= 3));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(descriptors_of(&process), Some(0));
    }

    #[test]
    fn more_busy_threads_than_processors_are_seen_waiting() {
        let mut sampler = OfRoot::new("self".into(), std::process::id() as i32);
        sampler.sample(Nanos(0));
        let threads = std::thread::available_parallelism().unwrap().get() * 2;
        let usage = std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let begin = std::time::Instant::now();
                    while begin.elapsed().as_millis() < 300 {}
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(250));
            again(&mut sampler)
        });
        // Each of twice as many threads as processors waits half of the time; a tenth of that is seen at least.
        let least = Nanos::from_millis(250 * threads as i64 / 20);
        assert!(usage.run_delay.is_some_and(|waited| waited > least), "{usage:?}");
    }

    #[test]
    fn a_process_that_is_stopped_is_told_and_one_that_sleeps_is_not() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut sampler = OfRoot::new("still".into(), child.id() as i32);
        sampler.sample(Nanos(0));
        assert!(!again(&mut sampler).stopped);
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
        assert!((0..100).any(|_| again(&mut sampler).stopped), "a signal arrives");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_is_known_while_it_lives_and_not_by_its_number_alone() {
        let own = own_identity().unwrap();
        assert!(is_alive(&own));
        assert!(!is_alive(&format!("{own}1")) && !is_alive("") && !is_alive("boot/1/2"));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let its = identity_of(child.id()).unwrap();
        assert!(is_alive(&its));
        assert_eq!(number_in(&its), Some(child.id() as i32));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(&its));
    }

    #[test]
    fn a_process_that_is_gone_is_a_gap() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let mut sampler = OfRoot::new("gone".into(), child.id() as i32);
        sampler.sample(Nanos(0));
        child.wait().unwrap();
        assert_eq!(sampler.sample(Nanos(1)), None);
    }
}
