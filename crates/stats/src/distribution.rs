//! The distributions of inter-arrival times and message sizes, with their parameters.

/// How the gaps between arrivals vary around their mean. Every variant has mean 1 and is scaled by the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InterArrival {
    /// No variation.
    Constant,
    /// Exponential: a Poisson process.
    Exponential,
    /// Uniform on `[1 - spread, 1 + spread]`, `0 <= spread <= 1`.
    Uniform {
        /// Half width, as a fraction of the mean.
        spread: f64,
    },
    /// Normal, truncated to positive values and rescaled so that the mean stays 1.
    Normal {
        /// Standard deviation divided by mean, before truncation; positive.
        cv: f64,
    },
    /// Gamma with that shape: 1 is exponential, larger is more regular, smaller burstier.
    Gamma {
        /// The shape parameter, positive.
        shape: f64,
    },
}

/// How content sizes vary, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeDistribution {
    /// Always the same.
    Fixed(u32),
    /// Uniform over whole bytes, both ends included.
    Uniform {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// Normal, rounded and clamped to the bounds.
    Normal {
        /// Mean before clamping.
        mean: f64,
        /// Standard deviation before clamping.
        deviation: f64,
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// One of a list, each with a positive weight.
    Choice(Vec<(u32, f64)>),
}
