//! Workers that take the time in fact: threads that are busy for the drawn service time, and under one lock for the drawn
//! time under the lock.

use super::lock::SharedLock;
use super::{Busy, Lock, StationError};
use crate::clock::{monotonic, thread_time};
use plimsoll_model::Nanos;
use plimsoll_stats::queue::{Service, Stall};
use plimsoll_stats::system::Demand;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads behind one first-come first-served queue.
pub struct Workers {
    orders: Sender<(usize, Demand)>,
    done: Receiver<(usize, Service)>,
    /// Readable when something is done.
    pub bell: Arc<OwnedFd>,
}

impl Workers {
    /// Starts the threads; they end when this is dropped.
    ///
    /// # Errors
    /// The operating system refuses threads, or the lock's file cannot be opened.
    pub fn start(
        count: usize,
        busy: Busy,
        stall: Option<Stall>,
        epoch: Nanos,
        lock: Option<&Lock>,
    ) -> Result<Workers, StationError> {
        let (orders, inbox) = channel::<(usize, Demand)>();
        let (done_in, done) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let inbox = Arc::new(Mutex::new(inbox));
        let lock = Arc::new(SharedLock::new(lock)?);
        for number in 0..count.max(1) {
            let (inbox, done, bell) = (Arc::clone(&inbox), done_in.clone(), Arc::clone(&bell));
            let lock = Arc::clone(&lock);
            std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
                // Without it every wake-up is 50 µs late; where it is refused, the record still tells the truth.
                let _ = set_current_timer_slack(NonZeroU64::new(1));
                loop {
                    let order = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((job, Demand { work, locked })) = order else { return };
                    let mut service = serve(busy, work, stall, epoch);
                    if let Some(locked) = locked {
                        service.departure = lock.hold(|| serve(busy, locked, stall, epoch)).departure;
                    }
                    if done.send((job, service)).is_err() {
                        return;
                    }
                    // A full counter wakes the loop all the same.
                    let _ = rustix::io::write(&*bell, &1u64.to_ne_bytes());
                }
            })?;
        }
        Ok(Workers { orders, done, bell })
    }

    /// Hands over a job that needs so much.
    pub fn order(&self, job: usize, demand: Demand) {
        // The threads end only with this end of the channel.
        let _ = self.orders.send((job, demand));
    }

    /// A job that is done.
    pub fn take_done(&self) -> Option<(usize, Service)> {
        self.done.try_recv().ok()
    }

    /// Makes the bell silent again.
    pub fn silence(&self) {
        let _ = rustix::io::read(&*self.bell, &mut [0u8; 8]);
    }
}

/// Is busy until the work is done. A stall stops it as it stops a worker that is computed.
fn serve(busy: Busy, work: Nanos, stall: Option<Stall>, epoch: Nanos) -> Service {
    let begin = monotonic();
    match (busy, stall) {
        (Busy::Spin, None) => {
            // The time that others have the processor is no work.
            let end = thread_time() + work;
            while thread_time() < end {
                std::hint::spin_loop();
            }
        }
        _ => {
            let end = stall.map_or(begin + work, |stall| epoch + stall.finish(begin - epoch, work));
            while monotonic() < end {
                match busy {
                    Busy::Spin => std::hint::spin_loop(),
                    // A signal may interrupt it: then it is not over.
                    Busy::Wait => drop(clock_nanosleep_absolute(ClockId::Monotonic, &timespec(end))),
                }
            }
        }
    }
    Service { begin, departure: monotonic() }
}

fn timespec(time: Nanos) -> Timespec {
    Timespec { tv_sec: time.0 / 1_000_000_000, tv_nsec: time.0 % 1_000_000_000 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_stats::queue::ServiceTime;
    use std::time::Duration;

    const WORK: Nanos = Nanos::from_micros(100);
    const LOCKED: Nanos = Nanos::from_millis(2);

    /// Gives each of these six jobs, and looks that no two of them held the lock at once.
    fn assert_one_at_a_time(all: &[Workers]) {
        for (job, workers) in (0..6).flat_map(|job| all.iter().map(move |workers| (job, workers))) {
            workers.order(job, Demand { work: WORK, locked: Some(LOCKED) });
        }
        let done = |workers: &Workers| workers.done.recv_timeout(Duration::from_secs(10)).unwrap().1;
        let mut services: Vec<Service> =
            all.iter().flat_map(|workers| (0..6).map(move |_| done(workers))).collect();
        services.sort_by_key(|service| service.departure);
        assert!(services.iter().all(|service| service.departure - service.begin >= WORK + LOCKED));
        assert!(services.windows(2).all(|pair| pair[1].departure - pair[0].departure >= LOCKED));
    }

    #[test]
    fn threads_hold_the_lock_one_at_a_time() {
        for busy in [Busy::Spin, Busy::Wait] {
            assert_one_at_a_time(&[Workers::start(3, busy, None, monotonic(), None).unwrap()]);
        }
    }

    #[test]
    fn stations_with_one_file_have_one_lock() {
        let path = std::env::temp_dir().join(format!("plimsoll-lock-{}", std::process::id()));
        let lock = Lock { time: ServiceTime::Deterministic(LOCKED), file: Some(path.clone()) };
        let start = || Workers::start(3, Busy::Wait, None, monotonic(), Some(&lock)).unwrap();
        assert_one_at_a_time(&[start(), start()]);
        std::fs::remove_file(path).unwrap();
        let nowhere = Lock { file: Some("/nowhere/lock".into()), ..lock };
        let refused = Workers::start(1, Busy::Wait, None, monotonic(), Some(&nowhere)).err().unwrap();
        assert!(refused.to_string().contains("/nowhere/lock"), "{refused}");
    }
}
