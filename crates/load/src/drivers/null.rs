//! A driver without a network and a clock without time: deliveries and acknowledgements come after a fixed service
//! time from a single server. It makes the whole pipeline deterministic and shows what the engine itself costs.

use crate::driver::{Client, Driver, Event, Traffic};
use plimsoll_codec::marker::Marker;
use plimsoll_model::Nanos;
use std::collections::VecDeque;

/// A platform of one server with a first-come first-served queue, in simulated time.
pub struct NullDriver {
    now: std::cell::Cell<Nanos>,
    run_tag: u16,
    service: Nanos,
    subscribers: u32,
    free_at: Nanos,
    pending: VecDeque<(Nanos, Event)>,
    traffic: Traffic,
}

impl NullDriver {
    /// A platform that serves each message for `service` and then delivers it to every subscriber.
    pub fn new(run_tag: u16, service: Nanos, subscribers: u32) -> NullDriver {
        NullDriver {
            now: std::cell::Cell::new(Nanos::ZERO),
            run_tag,
            service,
            subscribers,
            free_at: Nanos::ZERO,
            pending: VecDeque::new(),
            traffic: Traffic::default(),
        }
    }
}

const CONTENT: u32 = 10;

impl Driver for NullDriver {
    fn now(&self) -> Nanos {
        self.now.get()
    }

    fn connect(&mut self, client: Client) -> bool {
        let ready = Event::Ready { client, took: Nanos::ZERO, again: false };
        self.pending.push_front((self.now.get(), ready));
        true
    }

    fn release(&mut self, _: Client) -> bool {
        true
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        let now = self.now.get();
        let sent = Event::Sent { device, sequence, at: now, content: CONTENT, packet: CONTENT };
        let first_later = self.pending.iter().position(|(at, _)| *at > now).unwrap_or(self.pending.len());
        self.pending.insert(first_later, (now, sent));
        let at = self.free_at.max(now) + self.service;
        self.free_at = at;
        let marker = Some(Marker { run: self.run_tag, device, sequence });
        for subscriber in 0..self.subscribers {
            let lag = Some(Nanos::ZERO);
            let received = Event::Received { subscriber, marker, at, lag, retained: false, content: CONTENT };
            self.pending.push_back((at, received));
        }
        self.pending.push_back((at, Event::Acknowledged { device, sequence, at }));
        self.traffic.sent += u64::from(CONTENT);
    }

    fn withdraw(&mut self, _: &mut Vec<Event>) {}

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        let next = self.pending.front().map_or(until, |(at, _)| *at).min(until);
        self.now.set(self.now.get().max(next));
        while self.pending.front().is_some_and(|(at, _)| *at <= self.now.get()) {
            events.extend(self.pending.pop_front().map(|(_, event)| event));
        }
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    fn disconnect(&mut self) {}
}
