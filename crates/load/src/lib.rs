//! The load engine: arrivals become operations, operations become outcomes, outcomes become counts and histograms.
//!
//! Main flow: [`engine::Engine`] starts one [`shard::Shard`] a load thread. A shard takes up what the
//! [`arrivals`] say is due, hands it to its [`driver::Driver`], and books the driver's events in its
//! [`ledger::Ledger`], whose [`recorder::Recorder`] emits sample parts. Shards share nothing but channels and
//! [`mailbox`]es.
//!
//! Deliberately absent: knowledge of files, stores, reports and platforms.

pub mod arrivals;
pub mod clients;
pub mod clock;
pub mod closed_loop;
pub mod content;
pub mod contract;
pub mod driver;
pub mod drivers;
pub mod engine;
pub mod freshness;
pub mod layout;
pub mod ledger;
pub mod mailbox;
mod notification;
mod outages;
pub mod owners;
pub mod partly_open;
mod proof;
pub mod queries;
pub mod recorder;
pub mod refusal;
pub mod replay;
pub mod roles;
pub mod run_context;
pub mod shard;
pub mod share;
pub mod sources;
pub mod throttle;
mod time_change;
pub mod tls_refusal;
pub mod topology;
