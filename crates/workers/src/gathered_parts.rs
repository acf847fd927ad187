//! What many load threads or workers saw of the same samples, added up before it is handed on: a cluster has thousands of them, and
//! each part would have to be merged, stored and read back by itself.

use plimsoll_model::record::SamplePart;
use plimsoll_model::{Histogram, LevelIndex};
use std::collections::BTreeMap;

/// See the module. Parts are of one sample if population, level and sample are the same.
#[derive(Debug, Default)]
pub struct GatheredParts(BTreeMap<(u16, LevelIndex, Option<u16>), SamplePart>);

impl GatheredParts {
    /// Adds a part.
    pub fn add(&mut self, part: SamplePart) {
        let SamplePart { population, level, sample, counts, histograms } = part;
        let empty = || SamplePart { population, level, sample, ..SamplePart::default() };
        let sum = self.0.entry((population, level, sample)).or_insert_with(empty);
        sum.counts += counts;
        for (metric, histogram) in histograms {
            let own = sum.histograms.iter_mut().find(|(own, _)| *own == metric);
            match own {
                Some((_, own)) => own.merge(&histogram),
                None => {
                    // One with a counter for each bucket: to add to it takes no longer for what is in it already.
                    let mut own = Histogram::new();
                    own.merge(&histogram);
                    sum.histograms.push((metric, own));
                }
            }
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sums, of which nothing is kept. They take little memory from then on, since thousands of them may wait.
    pub fn take(&mut self) -> impl Iterator<Item = SamplePart> + use<> {
        std::mem::take(&mut self.0).into_values().map(|mut sum| {
            for (_, histogram) in &mut sum.histograms {
                let mut packed = Histogram::packed();
                packed.merge(histogram);
                *histogram = packed;
            }
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::{Counts, Metric, Nanos};

    fn part(sample: u16, times: &[i64]) -> SamplePart {
        let mut histogram = Histogram::new();
        times.iter().for_each(|time| histogram.record(Nanos(*time)));
        let counts = Counts { sent: times.len() as u64, ..Counts::default() };
        let histograms = vec![(Metric::PublishTime, histogram)];
        SamplePart { sample: Some(sample), counts, histograms, ..SamplePart::default() }
    }

    #[test]
    fn parts_of_one_sample_are_one_and_those_of_others_are_not() {
        let mut gathered = GatheredParts::default();
        assert!(gathered.is_empty());
        for (sample, times) in [(0, vec![5, 7]), (1, vec![9]), (0, vec![7])] {
            gathered.add(part(sample, &times));
        }
        let sums: Vec<SamplePart> = gathered.take().collect();
        assert_eq!(sums, [part(0, &[5, 7, 7]), part(1, &[9])]);
        assert!(gathered.is_empty());
    }
}
