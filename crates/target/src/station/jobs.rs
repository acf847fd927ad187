//! Messages on their way through a station, and the order of each connection's messages.

use super::faults::Fault;
use super::session::Message;
use plimsoll_codec::marker::Marker;
use plimsoll_model::Nanos;
use plimsoll_stats::queue::Service;
use std::net::SocketAddr;
use std::sync::Arc;

/// A message on its way through the station.
pub struct Job {
    pub message: Arc<Message>,
    pub connection: u64,
    /// Who sent it, where there is no connection.
    pub from: Option<SocketAddr>,
    /// Its number within its connection.
    pub number: u64,
    pub marker: Option<Marker>,
    pub arrival: Nanos,
    /// Once it has departed.
    pub service: Option<Service>,
    pub fault: Fault,
}

/// Messages by their slot.
#[derive(Default)]
pub struct Jobs {
    slots: Vec<Option<Job>>,
    vacant: Vec<usize>,
    bytes: usize,
}

/// The order of one connection's messages.
#[derive(Default)]
pub struct Publisher {
    pub arrived: u64,
    /// One more than the highest number delivered.
    pub highest: u64,
    pub held: Option<(usize, Nanos)>,
}

impl Jobs {
    /// Bytes of all that are here.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn put(&mut self, job: Job) -> usize {
        self.bytes += job.message.payload.len() + job.message.topic.len() + size_of::<Job>();
        match self.vacant.pop() {
            Some(slot) => {
                if let Some(place) = self.slots.get_mut(slot) {
                    *place = Some(job);
                }
                slot
            }
            None => {
                self.slots.push(Some(job));
                self.slots.len() - 1
            }
        }
    }

    pub fn take(&mut self, slot: usize) -> Option<Job> {
        let job = self.slots.get_mut(slot)?.take()?;
        self.bytes -= job.message.payload.len() + job.message.topic.len() + size_of::<Job>();
        self.vacant.push(slot);
        Some(job)
    }

    pub fn get(&mut self, slot: usize) -> Option<&mut Job> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// All that are left.
    pub fn into_left(self) -> impl Iterator<Item = Job> {
        self.slots.into_iter().flatten()
    }
}
