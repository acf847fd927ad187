//! The abstract IoT gateway of work E: a dispatcher that gets events from devices and an event handler that works on them, each
//! serial, preemptive or cooperative.

pub mod bootup;
pub mod bounds;
pub mod calls;
pub mod configuration;
pub mod dispatcher;
pub mod gateway;
pub mod handler;
pub mod log;
pub mod push;
pub mod reactor;
pub mod received;
pub mod work;
