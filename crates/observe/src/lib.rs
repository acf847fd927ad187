//! Observers: what the platform's processes use, what the host gives our load threads, what the host is and allows.

pub mod births;
pub mod containers;
pub mod endpoints;
pub mod found;
pub mod host;
pub mod limits;
pub mod network;
pub mod outside;
pub mod pressure;
pub mod probe;
pub mod process;
pub mod sampler;
pub mod samplers;
pub mod tcp;
pub mod threads;
pub mod vigil;
