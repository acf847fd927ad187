//! A histogram of spans of time.

mod encoding;
mod layout;
mod packed;
mod spread;

use crate::Nanos;
use layout::{lowest_equivalent, width};
use packed::Packed;
use spread::Spread;
use std::fmt;

/// Longest span told apart from longer ones: one hour. Longer spans count as one hour.
const HIGHEST: u64 = 3_600_000_000_000;

/// An HdrHistogram of non-negative spans with three significant digits, from 1 ns to one hour.
/// Histograms merge exactly; percentiles are never averaged.
///
/// One that is made to record has a counter for each bucket, in up to 280 KB. One that is read back, or begins as
/// [`Histogram::packed`], has two to four bytes for each bucket that occurs. Both say the same.
#[derive(Clone)]
pub struct Histogram(Form);

#[derive(Clone)]
enum Form {
    Spread(Spread),
    Packed(Packed),
}

/// Bytes that are no histogram (a damaged run store).
#[derive(Debug, thiserror::Error)]
#[error("not an HdrHistogram in V2 deflate encoding: {0}")]
pub struct NotAHistogram(String);

impl Histogram {
    /// An empty histogram to record in, which grows with what it sees.
    pub fn new() -> Histogram {
        Histogram(Form::Spread(Spread::default()))
    }

    /// An empty histogram in little memory, to merge others into.
    pub fn packed() -> Histogram {
        Histogram(Form::Packed(Packed::default()))
    }

    /// Counts one span. A negative span counts as zero, one beyond an hour as an hour.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        self.record_n(span, 1);
    }

    /// Counts `count` equal spans.
    pub fn record_n(&mut self, span: Nanos, count: u64) {
        let value = (span.0.max(0) as u64).min(HIGHEST);
        match &mut self.0 {
            Form::Spread(spread) => spread.add(value, count),
            Form::Packed(packed) => packed.add(std::iter::once((value, count))),
        }
    }

    /// Adds every observation of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        match &mut self.0 {
            Form::Spread(spread) => other.buckets().for_each(|(value, count)| spread.add(value, count)),
            Form::Packed(packed) => packed.add(other.buckets()),
        }
    }

    /// Forgets everything but keeps the memory.
    pub fn reset(&mut self) {
        match &mut self.0 {
            Form::Spread(spread) => spread.reset(),
            Form::Packed(packed) => *packed = Packed::default(),
        }
    }

    /// How many observations there are.
    pub fn count(&self) -> u64 {
        match &self.0 {
            Form::Spread(spread) => spread.total(),
            Form::Packed(packed) => packed.total(),
        }
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The mean of the middles of the buckets in nanoseconds, `None` when empty.
    pub fn mean(&self) -> Option<f64> {
        let total = self.count() as f64;
        let part = |(value, count)| {
            let middle = lowest_equivalent(value) + width(value) / 2;
            middle as f64 * count as f64 / total
        };
        (!self.is_empty()).then(|| self.buckets().map(part).sum())
    }

    /// The largest observation, `None` when empty.
    pub fn max(&self) -> Option<Nanos> {
        let max = match &self.0 {
            Form::Spread(spread) => spread.max(),
            Form::Packed(packed) => packed.buckets().last().map(|(value, _)| value),
        };
        max.map(|max| Nanos(max as i64))
    }

    /// The smallest observation, `None` when empty.
    pub fn min(&self) -> Option<Nanos> {
        self.buckets().next().map(|(value, _)| Nanos(lowest_equivalent(value) as i64))
    }

    /// The value at or below which the fraction `q` of the observations lies, `None` when empty.
    /// Whether there are enough observations for `q` is the caller's question.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        if q == 0.0 {
            return self.min();
        }
        let wanted = ((q.min(1.0) * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0u64;
        let mut reached = self.buckets().skip_while(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen < wanted
        });
        // Of more observations than can be counted, the last ones are not reached.
        reached.next().map(|(value, _)| Nanos(value as i64)).or_else(|| self.max())
    }

    /// Observations longer than that, as far as buckets tell them apart.
    pub fn count_above(&self, span: Nanos) -> u64 {
        let limit = span.0.max(0) as u64;
        self.buckets().filter(|(value, _)| *value > limit).map(|(_, count)| count).sum()
    }

    /// The non-empty buckets in rising order: the highest value that each stands for (ns) and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (spread, packed) = match &self.0 {
            Form::Spread(spread) => (Some(spread), None),
            Form::Packed(packed) => (None, Some(packed)),
        };
        let spread = spread.into_iter().flat_map(Spread::buckets);
        spread.chain(packed.into_iter().flat_map(Packed::buckets))
    }

    /// The bytes kept in the run store: HdrHistogram's V2 format, compressed.
    pub fn encode(&self) -> Vec<u8> {
        encoding::encode(self.buckets())
    }

    /// Reads what `encode` wrote, and what any other implementation writes of such a histogram.
    pub fn decode(bytes: &[u8]) -> Result<Histogram, NotAHistogram> {
        let buckets = encoding::decode(bytes).map_err(NotAHistogram)?;
        Ok(Histogram(Form::Packed(Packed::of(buckets.into_iter()))))
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Histogram) -> bool {
        self.count() == other.count() && self.buckets().eq(other.buckets())
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

    /// Spans over all magnitudes, those at the edges of buckets included.
    fn spans() -> impl Iterator<Item = (Nanos, u64)> {
        let powers = (0..42).flat_map(|power| [-1, 0, 1].map(|beside| (1 << power) + beside));
        let others = (0..5000).map(|number: i64| number * number * number * 17);
        powers.chain(others).zip((1..).step_by(7)).map(|(span, count)| (Nanos(span), count % 300 + 1))
    }

    #[test]
    fn packed_tells_the_same_as_spread_out() {
        let mut spread = Histogram::new();
        spans().for_each(|(span, count)| spread.record_n(span, count));
        let packed = Histogram::decode(&spread.encode()).unwrap();
        assert!(matches!((&spread.0, &packed.0), (Form::Spread(_), Form::Packed(_))));
        assert_eq!(packed, spread);
        assert!(packed.buckets().eq(spread.buckets()));
        assert_eq!(
            (packed.count(), packed.min(), packed.max()),
            (spread.count(), spread.min(), spread.max())
        );
        let (mean, expected) = (packed.mean().unwrap(), spread.mean().unwrap());
        assert!((mean / expected - 1.0).abs() < 1e-12, "{mean} and {expected}");
        for q in (0..=1000).map(|thousandth| f64::from(thousandth) / 1000.0) {
            assert_eq!(packed.quantile(q), spread.quantile(q), "{q}");
        }
        assert_eq!(packed.encode(), spread.encode());
        let Form::Packed(packed) = Histogram::packed().0 else { panic!("an empty one is packed") };
        assert_eq!((packed.total(), packed.buckets().count()), (0, 0));
    }

    #[test]
    fn every_form_merges_with_every_other() {
        let half = |odd: bool, mut into: Histogram| {
            let some = spans().enumerate().filter(|(number, _)| (number % 2 == 1) == odd);
            some.for_each(|(_, (span, count))| into.record_n(span, count));
            into
        };
        let mut whole = Histogram::new();
        spans().for_each(|(span, count)| whole.record_n(span, count));
        for left in [Histogram::new(), Histogram::packed()] {
            for right in [Histogram::new(), Histogram::packed()] {
                let mut merged = half(false, left.clone());
                merged.merge(&half(true, right));
                assert_eq!(merged, whole);
            }
        }
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        assert!(Histogram::decode(b"nonsense").is_err());
    }
}
