//! Spans of time by their length, in little memory: a histogram whose buckets are fine, and there only where something lies.

use plimsoll_model::Nanos;

/// Spans that are kept one by one before they go to their pages.
const FEW: usize = 256;
/// Buckets of a page: all those of one power of two.
const PAGE: usize = 256;

/// Spans of time, each within 0.2 % of what it was. The few of a rare message cost two bytes each, the many of a frequent one
/// 1 KiB for each power of two that they reach.
#[derive(Clone, Debug, Default)]
pub struct Times {
    few: Vec<u16>,
    pages: Vec<Option<Box<[u32; PAGE]>>>,
}

impl Times {
    /// Bits of a span that are kept below its highest one.
    const DETAIL: u32 = PAGE.ilog2();

    /// Counts a span; a negative one, of a clock that was set, as none.
    pub fn record(&mut self, span: Nanos) {
        self.few.push(bucket(span));
        if self.few.len() > FEW {
            self.spread();
        }
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Times) {
        self.few.extend_from_slice(&other.few);
        if self.few.len() > FEW {
            self.spread();
        }
        for (number, page) in other.pages.iter().enumerate() {
            let Some(page) = page else { continue };
            let sums = self.page(number);
            sums.iter_mut().zip(page.iter()).for_each(|(sum, &count)| *sum = sum.saturating_add(count));
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        let paged: u64 =
            self.pages.iter().flatten().flat_map(|page| page.iter()).copied().map(u64::from).sum();
        self.few.len() as u64 + paged
    }

    /// All spans in rising order, each as the middle of its bucket, and how often it was counted.
    pub fn sorted(&self) -> Vec<(Nanos, u64)> {
        if self.pages.is_empty() {
            let mut few = self.few.clone();
            few.sort_unstable();
            let same = few.chunk_by(|one, next| one == next);
            return same.map(|same| (middle(same[0]), same.len() as u64)).collect();
        }
        let mut all = self.clone();
        all.spread();
        let pages = all.pages.iter().enumerate().filter_map(|(number, page)| Some((number, page.as_ref()?)));
        let buckets = pages.flat_map(|(number, page)| {
            page.iter().enumerate().map(move |(at, &count)| ((number * PAGE + at) as u16, u64::from(count)))
        });
        buckets.filter(|(_, count)| *count > 0).map(|(bucket, count)| (middle(bucket), count)).collect()
    }

    /// Their sum, seconds.
    pub fn sum(&self) -> f64 {
        self.sorted().iter().map(|(span, count)| span.as_secs_f64() * *count as f64).sum()
    }

    /// Many at once, since pages are far apart in memory.
    fn spread(&mut self) {
        let mut few = std::mem::take(&mut self.few);
        for &bucket in &few {
            let count = &mut self.page(usize::from(bucket) / PAGE)[usize::from(bucket) % PAGE];
            *count = count.saturating_add(1);
        }
        few.clear();
        self.few = few;
    }

    fn page(&mut self, number: usize) -> &mut [u32; PAGE] {
        if self.pages.len() <= number {
            self.pages.resize(number + 1, None);
        }
        self.pages[number].get_or_insert_with(|| Box::new([0; PAGE]))
    }
}

/// Spans below two pages have buckets of their own; of longer ones, the [DETAIL](Times::DETAIL) highest bits but the first, which
/// is always set, follow the number of bits that were cut off.
fn bucket(span: Nanos) -> u16 {
    let value = span.0.max(0) as u64;
    let cut = (64 - value.leading_zeros()).saturating_sub(Times::DETAIL + 1);
    (cut as u64 * PAGE as u64 + (value >> cut)) as u16
}

fn middle(bucket: u16) -> Nanos {
    let cut = (u64::from(bucket) / PAGE as u64).saturating_sub(1);
    let kept = u64::from(bucket) - cut * PAGE as u64;
    Nanos(i64::try_from((kept << cut) + ((1_u64 << cut) >> 1)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_two_thousandths() {
        let spans = [0_i64, 1, 255, 256, 511, 512, 999, 1023, 1024, 123_456_789, 59_000_000_000, i64::MAX];
        // As few, and as pages.
        for copies in [1, FEW as u64 + 1] {
            let mut times = Times::default();
            for _ in 0..copies {
                spans.iter().for_each(|&span| times.record(Nanos(span)));
            }
            times.record(Nanos(-5));
            let sorted = times.sorted();
            assert_eq!((times.count(), sorted.len()), (spans.len() as u64 * copies + 1, spans.len()));
            for ((found, count), span) in sorted.iter().zip(spans) {
                assert!((found.0 - span).abs() as f64 <= 1.0 + 0.002 * span as f64, "{found:?} for {span}");
                assert_eq!(*count, copies + u64::from(span == 0));
            }
        }
    }

    #[test]
    fn their_sum_is_that_of_the_spans() {
        let mut times = Times::default();
        [123_456_789, 59_000_000_000].iter().for_each(|&span| times.record(Nanos(span)));
        assert!((times.sum() - 59.123_457).abs() < 0.12, "{}", times.sum());
    }

    #[test]
    fn merged_in_any_form_they_are_as_recorded_in_one() {
        let spans = |count: i64| (0..count).map(|at| Nanos(at * at * 1_000));
        for (some, more) in [(0, 5), (5, 0), (100, 100), (200, 200), (1000, 3), (3, 1000), (1000, 1000)] {
            let (mut one, mut other, mut all) = (Times::default(), Times::default(), Times::default());
            spans(some).for_each(|span| one.record(span));
            spans(more).for_each(|span| other.record(span));
            spans(some).chain(spans(more)).for_each(|span| all.record(span));
            one.merge(&other);
            assert_eq!(one.sorted(), all.sorted(), "{some} and {more}");
        }
    }
}
