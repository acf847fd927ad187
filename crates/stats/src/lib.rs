//! Statistics that no crate has, and the distributions that arrivals and sizes are drawn from. Pure: no I/O, no
//! clock, every random number from a seed that the caller gives.

pub mod distribution;
pub mod normal;
