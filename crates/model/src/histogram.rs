//! A histogram of spans of time.

use crate::Nanos;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use std::fmt;

/// Longest span told apart from longer ones: one hour. Longer spans count as one hour.
const HIGHEST: u64 = 3_600_000_000_000;

/// An HdrHistogram of non-negative spans with three significant digits, from 1 ns to one hour.
/// Histograms merge exactly; percentiles are never averaged.
#[derive(Clone)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

/// Bytes that are no histogram (a damaged run store).
#[derive(Debug, thiserror::Error)]
#[error("not an HdrHistogram in V2 deflate encoding: {0}")]
pub struct NotAHistogram(String);

impl Histogram {
    /// An empty histogram, which grows with what it sees.
    pub fn new() -> Histogram {
        // Three significant digits are within 0..=5, the only thing that this call checks.
        #[allow(clippy::expect_used)]
        let mut histogram = hdrhistogram::Histogram::new(3).expect("3 significant digits are allowed");
        histogram.auto(true);
        Histogram(histogram)
    }

    /// Counts one span. A negative span counts as zero, one beyond an hour as an hour.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        self.record_n(span, 1);
    }

    /// Counts `count` equal spans.
    pub fn record_n(&mut self, span: Nanos, count: u64) {
        let value = (span.0.max(0) as u64).min(HIGHEST);
        // An auto-resizing histogram takes every value up to HIGHEST; only memory exhaustion could refuse it.
        let _ = self.0.record_n(value, count);
    }

    /// Adds every observation of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        let _ = self.0.add(&other.0);
    }

    /// Forgets everything but keeps the memory.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// How many observations there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mean in nanoseconds, `None` when empty.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.0.mean())
    }

    /// The largest observation, `None` when empty.
    pub fn max(&self) -> Option<Nanos> {
        (!self.is_empty()).then(|| Nanos(self.0.max() as i64))
    }

    /// The smallest observation, `None` when empty.
    pub fn min(&self) -> Option<Nanos> {
        (!self.is_empty()).then(|| Nanos(self.0.min() as i64))
    }

    /// The value at or below which the fraction `q` of the observations lies, `None` when empty.
    /// Whether there are enough observations for `q` is the caller's question.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        (!self.is_empty()).then(|| Nanos(self.0.value_at_quantile(q) as i64))
    }

    /// The non-empty buckets in rising order: the highest value that each stands for (ns) and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
    }

    /// The bytes kept in the run store: HdrHistogram's V2 format, deflated.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Writing to a Vec cannot fail, and every histogram of ours is within the format's limits.
        let _ = V2DeflateSerializer::new().serialize(&self.0, &mut bytes);
        bytes
    }

    /// Reads what `encode` wrote.
    pub fn decode(mut bytes: &[u8]) -> Result<Histogram, NotAHistogram> {
        let mut histogram: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes).map_err(|error| NotAHistogram(error.to_string()))?;
        histogram.auto(true);
        Ok(Histogram(histogram))
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Histogram) -> bool {
        self.0 == other.0
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Histogram {{ count: {}, p50: {:?}, max: {:?} }}",
            self.count(),
            self.quantile(0.5),
            self.max()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_encoding_and_merges_exactly() {
        let mut left = Histogram::new();
        let mut right = Histogram::new();
        for micros in 1..=1000 {
            left.record(Nanos(micros * 1000));
            right.record(Nanos(micros * 1_000_000));
        }
        let mut merged = Histogram::decode(&left.encode()).unwrap();
        assert_eq!(merged, left);
        merged.merge(&right);
        assert_eq!(merged.count(), 2000);
        assert_eq!(merged.buckets().map(|(_, count)| count).sum::<u64>(), 2000);
    }

    #[test]
    fn takes_any_span() {
        let mut histogram = Histogram::new();
        histogram.record(Nanos(-5));
        histogram.record(Nanos::MAX);
        assert_eq!(histogram.min(), Some(Nanos(0)));
        assert!(histogram.max().unwrap() >= Nanos(HIGHEST as i64));
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        assert!(Histogram::decode(b"nonsense").is_err());
    }
}
