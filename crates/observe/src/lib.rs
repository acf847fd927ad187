//! Observers: what the platform's processes use, what the host gives our load threads, what the host is and allows.

pub mod cgroup;
pub mod connection_tracer;
pub mod containers;
pub mod endpoints;
pub mod energy;
pub mod family;
pub mod found;
pub mod host;
pub mod host_use;
pub mod limits;
pub mod network;
pub mod outside;
pub mod pressure;
pub mod probe;
pub mod process;
pub mod process_use;
mod processor_times;
mod rates;
pub mod sampler;
pub mod samplers;
mod schedstat;
mod sock_diag;
pub mod sockets;
#[cfg(test)]
mod spinning;
pub mod tcp;
pub mod thread_names;
pub mod threads;
pub mod vigil;
