//! Statistics that no crate has, and the distributions that arrivals and sizes are drawn from. Pure: no I/O, no
//! clock, every random number from a seed that the caller gives.

pub mod batches;
pub mod boxplot;
pub mod change_point;
pub mod clock_offset;
pub mod distribution;
pub mod fit;
pub mod mean;
pub mod proportion;
pub mod quantile;
pub mod queue;
pub mod regression;
pub mod scaling;
pub mod student;
pub mod system;
pub mod trend;

/// A two-sided 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}
