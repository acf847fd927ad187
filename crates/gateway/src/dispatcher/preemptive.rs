//! The preemptive dispatcher: a thread for each device, or for each socket where those are fewer.

use super::polling::Polling;
use super::{connections, shares};
use crate::configuration::Model;
use crate::handler::{Apart, Event, Pool, Shared};
use crate::reactor::{self, ReactorError};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What all threads share.
pub(super) enum Handler {
    /// One event at a time, whoever has it.
    Serial(Mutex<()>),
    Preemptive(Pool),
    Cooperative(Apart),
}

pub(super) fn run(shared: &Arc<Shared>, devices: &[SocketAddr]) -> Result<(), ReactorError> {
    let configuration = &shared.configuration;
    let handler = Handler::of(shared)?;
    thread::scope(|scope| {
        for own in shares(devices.len(), connections(configuration, devices.len())) {
            let handler = &handler;
            let thread = thread::Builder::new().name("dispatcher".into());
            thread.spawn_scoped(scope, move || dispatch(shared, devices, &own, handler)).inspect_err(
                |_| {
                    // The others must not run on without this one.
                    shared.stop.store(true, std::sync::atomic::Ordering::Relaxed);
                },
            )?;
        }
        Ok(())
    })
}

fn dispatch(shared: &Shared, devices: &[SocketAddr], own: &[usize], handler: &Handler) {
    own.iter().for_each(|&device| shared.own(device));
    let mut polling = Polling::new(shared, devices, own, 1);
    while !shared.ends() {
        match polling.next() {
            Some(event) => handler.handle(shared, event),
            None => polling.rest(),
        }
    }
}

impl Handler {
    /// As the configuration says.
    pub fn of(shared: &Arc<Shared>) -> Result<Handler, ReactorError> {
        let configuration = &shared.configuration;
        Ok(match configuration.event_handler {
            Model::Serial => Handler::Serial(Mutex::default()),
            Model::Preemptive => Handler::Preemptive(Pool::new(shared)?),
            Model::Cooperative => {
                let (kind, threads) = (configuration.event_loop, configuration.pool_size);
                Handler::Cooperative(Apart::start(shared, move || reactor::make(kind, threads))?)
            }
        })
    }

    pub fn handle(&self, shared: &Shared, event: Event) {
        match self {
            Handler::Serial(turn) => {
                let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                shared.handle(&event);
            }
            Handler::Preemptive(pool) => pool.handle(event),
            Handler::Cooperative(apart) => apart.handle(shared, event),
        }
    }
}
