//! The serial dispatcher: one thread asks one device after the other.

use super::connections;
use super::polling::Polling;
use crate::configuration::Model;
use crate::handler::{Cooperative, Pool, Shared};
use crate::reactor::{self, Happened, ReactorError};
use std::net::SocketAddr;
use std::sync::Arc;

pub(super) fn run(shared: &Arc<Shared>, devices: &[SocketAddr]) -> Result<(), ReactorError> {
    let numbers: Vec<usize> = (0..devices.len()).collect();
    numbers.iter().for_each(|&device| shared.own(device));
    let sockets = connections(&shared.configuration, devices.len());
    let mut polling = Polling::new(shared, devices, &numbers, sockets);
    match shared.configuration.event_handler {
        Model::Serial => {
            while !shared.ends() {
                match polling.next() {
                    Some(event) => shared.handle(&event),
                    None => polling.rest(),
                }
            }
        }
        Model::Preemptive => {
            let pool = Pool::new(shared)?;
            while !shared.ends() {
                match polling.next() {
                    Some(event) => pool.handle(event),
                    None => polling.rest(),
                }
            }
        }
        // CPU work is done on this thread, files are written meanwhile; what is written is seen between two devices.
        Model::Cooperative => {
            let mut reactor = reactor::make(shared.configuration.event_loop, shared.configuration.pool_size)?;
            let mut handler = Cooperative::default();
            let mut happened = Vec::new();
            while !shared.ends() || !handler.is_idle() {
                match polling.next() {
                    Some(event) => handler.handle(shared, &mut *reactor, event),
                    None if handler.is_idle() => polling.rest(),
                    None => {}
                }
                if !handler.is_idle() {
                    reactor.turn(polling.is_blocked, &mut happened);
                }
                for one in happened.drain(..) {
                    if let Happened::Written(number, result) = one {
                        handler.written(shared, number, &result);
                    }
                }
            }
        }
    }
    Ok(())
}
