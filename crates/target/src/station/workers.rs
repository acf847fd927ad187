//! Workers that burn processor time: threads that spin for the drawn service time.

use crate::clock::monotonic;
use plimsoll_model::Nanos;
use plimsoll_stats::queue::{Service, Stall};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Spinning threads behind one first-come first-served queue.
pub struct Workers {
    orders: Sender<(usize, Nanos)>,
    done: Receiver<(usize, Service)>,
    /// Readable when something is done.
    pub bell: Arc<OwnedFd>,
}

impl Workers {
    /// Starts the threads; they end when this is dropped.
    pub fn start(count: usize, stall: Option<Stall>, epoch: Nanos) -> std::io::Result<Workers> {
        let (orders, inbox) = channel::<(usize, Nanos)>();
        let (done_in, done) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let inbox = Arc::new(Mutex::new(inbox));
        for number in 0..count.max(1) {
            let (inbox, done, bell) = (Arc::clone(&inbox), done_in.clone(), Arc::clone(&bell));
            std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
                loop {
                    let order = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((job, work)) = order else { return };
                    let service = spin(work, stall, epoch);
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

    /// Hands over a job of so much work.
    pub fn order(&self, job: usize, work: Nanos) {
        // The threads end only with this end of the channel.
        let _ = self.orders.send((job, work));
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
