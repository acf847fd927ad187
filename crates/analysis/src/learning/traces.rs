//! The exact times of messages: of populations whose arrivals follow no law that a scenario knows, or of all.

use super::learned::{LearnedPopulation, LearnedTrace};
use plimsoll_model::arrival_trace::readable;
use plimsoll_model::{ArrivalTrace, Nanos};

/// Of which populations the times are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traces {
    /// Of none.
    #[default]
    Never,
    /// Of those whose gaps no law fits.
    Unexplained,
    /// Of all.
    All,
}

impl Traces {
    /// Whether a population has one.
    pub(super) fn has(self, population: &LearnedPopulation) -> bool {
        match self {
            Traces::Never => false,
            Traces::Unexplained => population.arrivals.tested && !population.arrivals.fits,
            Traces::All => true,
        }
    }
}

/// A message of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceRow {
    /// From the first message of all traces.
    pub at: Nanos,
    /// The population, by its place among those that were learned.
    pub population: usize,
    /// The device, from zero, by its number within its population.
    pub device: u32,
}

/// Puts the times of populations into one trace, in which they keep their distances, and says so to each of them. None where there are
/// no two times, or more than a year between them.
pub(super) fn traced(
    times: Vec<Vec<(Nanos, u32)>>,
    populations: &mut [LearnedPopulation],
    wanted: Traces,
) -> Vec<TraceRow> {
    let mut rows: Vec<TraceRow> = Vec::new();
    for ((place, population), times) in populations.iter().enumerate().zip(times) {
        if wanted.has(population) {
            rows.extend(times.into_iter().map(|(at, device)| TraceRow { at, population: place, device }));
        }
    }
    rows.sort_unstable();
    let (Some(first), Some(last)) = (rows.first().copied(), rows.last().copied()) else { return rows };
    let Some(length) = ArrivalTrace::length_of(last.at - first.at, rows.len()) else { return Vec::new() };
    for (place, population) in populations.iter_mut().enumerate() {
        let messages = rows.iter().filter(|row| row.population == place).count() as u64;
        if messages > 0 {
            let rate = readable(messages as f64 / length.as_secs_f64());
            population.trace = Some(LearnedTrace { messages, length: length.as_secs_f64(), rate });
        }
    }
    rows.iter_mut().for_each(|row| row.at = row.at - first.at);
    rows
}
