//! The broker over sockets: with Mosquitto's clients, which share no code with it (`mosquitto`), with peers that break the
//! protocol, never read or flood (`hostile`), and its record (`record`).

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod hostile;
mod mosquitto;
mod record;
mod running;
