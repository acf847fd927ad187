//! The program as its users meet it: whole runs against real, scripted and hostile brokers, and every command.
//!
//! Runs load the machine, so they never overlap ([`harness`]). A broker that is missing on this machine fails its
//! tests.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod any_service;
mod audit;
mod bad_days;
mod bad_input;
mod coap;
mod coaps;
mod commands;
mod connections;
mod coordinated_omission;
mod doctor;
mod earlier_stores;
mod endings;
mod examples;
mod exporters;
mod exports;
mod first_use;
mod fiware_shape;
mod gateway;
mod gateway_bad_days;
mod gateway_push;
mod harm;
mod harness;
mod http_service;
mod init;
mod iota_json;
mod libcoap;
mod live;
mod long_run;
mod models;
mod mosquitto;
mod namespaces;
mod ngsi;
mod observing;
mod onem2m;
mod own_certificates;
mod peers;
mod planted_faults;
mod populations;
mod probe;
mod quota;
mod real_blame;
mod real_brokers;
mod real_series;
mod relay;
mod roles;
mod schedule;
mod scripted_broker;
mod search;
mod sessions;
mod sizes;
mod state;
mod storm;
mod summary_schema;
mod sweep;
mod tcp_door;
mod texts;
mod threads;
mod tls;
mod token_service;
mod tokens;
mod truth;
mod websocket;
mod websocket_door;
mod whose_limit;
mod wire;
mod wire_bad_days;
mod wire_cause;
mod wire_markers;
mod wire_oracle;
mod wire_tls;
