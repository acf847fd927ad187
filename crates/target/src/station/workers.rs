//! Workers that burn processor time: threads that spin for the drawn service time, and under one mutex for the drawn
//! time under the lock.

use crate::clock::monotonic;
use plimsoll_model::Nanos;
use plimsoll_stats::queue::{Service, Stall};
use plimsoll_stats::system::Demand;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Spinning threads behind one first-come first-served queue.
pub struct Workers {
    orders: Sender<(usize, Demand)>,
    done: Receiver<(usize, Service)>,
    /// Readable when something is done.
    pub bell: Arc<OwnedFd>,
}

impl Workers {
    /// Starts the threads; they end when this is dropped.
    pub fn start(count: usize, stall: Option<Stall>, epoch: Nanos) -> std::io::Result<Workers> {
        let (orders, inbox) = channel::<(usize, Demand)>();
        let (done_in, done) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let inbox = Arc::new(Mutex::new(inbox));
        let lock = Arc::new(Mutex::new(()));
        for number in 0..count.max(1) {
            let (inbox, done, bell) = (Arc::clone(&inbox), done_in.clone(), Arc::clone(&bell));
            let lock = Arc::clone(&lock);
            std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
                loop {
                    let order = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((job, Demand { work, locked })) = order else { return };
                    let mut service = spin(work, stall, epoch);
                    if let Some(locked) = locked {
                        let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
                        service.departure = spin(locked, stall, epoch).departure;
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

/// Burns processor time until the work is done. A stall stops it as it stops a sleeping worker.
fn spin(work: Nanos, stall: Option<Stall>, epoch: Nanos) -> Service {
    let begin = monotonic();
    let end = match stall {
        None => begin + work,
        Some(stall) => epoch + stall.finish(begin - epoch, work),
    };
    let mut now = begin;
    while now < end {
        std::hint::spin_loop();
        now = monotonic();
    }
    Service { begin, departure: now }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn threads_hold_the_lock_one_at_a_time() {
        let (work, locked) = (Nanos::from_micros(100), Nanos::from_millis(2));
        let workers = Workers::start(3, None, monotonic()).unwrap();
        for job in 0..6 {
            workers.order(job, Demand { work, locked: Some(locked) });
        }
        let done = |_| workers.done.recv_timeout(Duration::from_secs(10)).unwrap().1;
        let mut services: Vec<Service> = (0..6).map(done).collect();
        services.sort_by_key(|service| service.departure);
        assert!(services.iter().all(|service| service.departure - service.begin >= work + locked));
        assert!(services.windows(2).all(|pair| pair[1].departure - pair[0].departure >= locked));
    }
}
