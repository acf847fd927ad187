//! A driver without a network and a clock without time: deliveries and acknowledgements come when a queueing model
//! says so. It makes the whole pipeline deterministic and shows what the engine itself costs.

use crate::driver::{Client, Driver, Event, Traffic};
use plimsoll_codec::marker::Marker;
use plimsoll_model::Nanos;
use plimsoll_stats::queue::Queue;
use std::collections::BTreeMap;

/// A platform in simulated time: a queue, whose departures are acknowledgements and deliveries.
pub struct NullDriver {
    now: std::cell::Cell<Nanos>,
    run_tag: u16,
    queue: Queue,
    subscribers: u32,
    /// By time, then in the order of their causes.
    pending: BTreeMap<(Nanos, u64), Event>,
    caused: u64,
    traffic: Traffic,
}

impl NullDriver {
    /// A platform that serves each message as the queue says, then delivers it to every subscriber and acknowledges it.
    /// What finds the queue full is neither.
    pub fn new(run_tag: u16, queue: Queue, subscribers: u32) -> NullDriver {
        NullDriver {
            now: std::cell::Cell::new(Nanos::ZERO),
            run_tag,
            queue,
            subscribers,
            pending: BTreeMap::new(),
            caused: 0,
            traffic: Traffic::default(),
        }
    }

    fn happens(&mut self, at: Nanos, event: Event) {
        self.pending.insert((at, self.caused), event);
        self.caused += 1;
    }
}

const CONTENT: u32 = 10;

impl Driver for NullDriver {
    fn now(&self) -> Nanos {
        self.now.get()
    }

    /// None: time only passes while the queue serves.
    fn processor_time(&self) -> Nanos {
        Nanos::ZERO
    }

    fn connect(&mut self, client: Client) -> bool {
        let ready = Event::Ready { client, took: Nanos::ZERO, again: false };
        self.happens(self.now.get(), ready);
        true
    }

    fn release(&mut self, _: Client) -> bool {
        true
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        let now = self.now.get();
        self.happens(now, Event::Sent { device, sequence, at: now, content: CONTENT, packet: CONTENT });
        self.traffic.sent += u64::from(CONTENT);
        let Some(service) = self.queue.arrive(now) else { return };
        let at = service.departure;
        let marker = Some(Marker { run: self.run_tag, device, sequence });
        for subscriber in 0..self.subscribers {
            let lag = Some(Nanos::ZERO);
            let received = Event::Received {
                subscriber,
                marker,
                at,
                lag,
                retained: false,
                content: CONTENT,
                partition: 0,
            };
            self.happens(at, received);
        }
        self.happens(at, Event::Acknowledged { device, sequence, at });
    }

    fn withdraw(&mut self, _: &mut Vec<Event>) {}

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        let next = self.pending.keys().next().map_or(until, |(at, _)| *at).min(until);
        self.now.set(self.now.get().max(next));
        while let Some(first) = self.pending.first_entry() {
            if first.key().0 > self.now.get() {
                break;
            }
            events.push(first.remove());
        }
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    fn disconnect(&mut self) {}
}
