//! HdrHistogram's layout of buckets with three significant digits. Values below a limit have a bucket each; above, buckets are twice as
//! wide with each power of two.

/// Values below this have a bucket each.
const FINE: u64 = 2048;

/// How far the values of a bucket are apart, as a power of two.
fn shift(value: u64) -> u32 {
    (value / (FINE / 2)).checked_ilog2().unwrap_or(0)
}

/// How many values a bucket has.
pub fn width(value: u64) -> u64 {
    1 << shift(value)
}

/// The lowest value of the bucket of a value.
pub fn lowest_equivalent(value: u64) -> u64 {
    value & !(width(value) - 1)
}

/// The number of the bucket of a value.
pub fn index_of(value: u64) -> u64 {
    u64::from(shift(value)) * (FINE / 2) + (value >> shift(value))
}

/// The highest value of a bucket.
pub fn highest(index: u64) -> u64 {
    let shift = (index / (FINE / 2)).saturating_sub(1);
    let lowest = (index - shift * (FINE / 2)) << shift;
    lowest + ((1 << shift) - 1)
}
