//! Packets as bytes and bytes as packets. No I/O; no input makes this crate panic.

pub mod amqp;
pub mod amqp1;
pub mod cbor;
pub mod coap;
pub mod credentials;
pub mod dtls;
pub mod exposition;
pub mod hiding;
pub mod http;
pub mod kafka;
pub mod levels;
pub mod lwm2m;
pub mod marker;
pub mod mongodb;
pub mod mqtt;
pub mod nats;
pub mod numbering;
pub mod openmetrics;
pub mod packing;
pub mod socket_io;
pub mod stranger;
pub mod websocket;
