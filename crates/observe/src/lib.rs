//! Observers: what the platform's processes use, what the host gives our load threads, what the host is.

pub mod host;
pub mod process;
pub mod tcp;
pub mod threads;
