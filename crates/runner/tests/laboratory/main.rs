//! The judgement of runs against platforms, hosts and networks whose truth is known: everything from the scenario to the
//! summary, in simulated time. Each kind of fault is run with many seeds and strengths; nobody may be blamed who was not to
//! blame, and who was must be named nearly always.
//!
//! `PLIMSOLL_SEEDS` says how many seeds each kind has (2 by default); the acceptance run has 200.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod changes;
mod commands;
mod coverage;
mod experiments;
mod faults;
mod kinds;
mod laws;
mod load_shapes;
mod plans;
mod soaks;
mod stopping;
