//! How large the contents of a population are.

use super::gathering::{Source, is_session};
use super::learned::LearnedSizes;
use plimsoll_codec::marker;
use plimsoll_stats::distribution::SizeDistribution;
use plimsoll_stats::fit::sizes;
use std::collections::BTreeSet;

/// The sizes of contents: one, a law or a list.
pub(super) fn learned_sizes(bytes: &[u32], seed: u64) -> LearnedSizes {
    let mean = bytes.iter().map(|&size| f64::from(size)).sum::<f64>() / bytes.len().max(1) as f64;
    let (min, max) = (bytes.iter().copied().min().unwrap_or(0), bytes.iter().copied().max().unwrap_or(0));
    let blank = |kind| LearnedSizes {
        kind,
        mean,
        min,
        max,
        deviation: None,
        list: Vec::new(),
        p: None,
        classes: false,
    };
    let Some(fit) = sizes(bytes, seed) else { return blank("fixed") };
    let p = fit.p;
    match fit.distribution {
        SizeDistribution::Fixed(_) => blank("fixed"),
        SizeDistribution::Uniform { .. } => LearnedSizes { p, ..blank("uniform") },
        SizeDistribution::Normal { mean, deviation, .. } => {
            LearnedSizes { mean, deviation: Some(deviation), p, ..blank("normal") }
        }
        SizeDistribution::Choice(list) => {
            let all: BTreeSet<u32> = bytes.iter().copied().collect();
            LearnedSizes { classes: all.len() > list.len(), list, ..blank("choice") }
        }
    }
}

/// The smallest content that a run can send, which holds its marker. Profiles that can say another method than POST take text.
pub(super) fn least_size(source: &Source) -> u32 {
    let text = !is_session(source.service.protocol) && source.method != "POST";
    (if text { marker::ASCII_LENGTH } else { marker::BINARY_LENGTH }) as u32
}
