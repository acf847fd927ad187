//! Northbound queries of one shard: when they are due, about which device, and how long their answers took.

use crate::arrivals::{Arrivals, Process};
use crate::recorder::{Recorder, SampleSlot, Timeline};
use crate::share::{BLOCKS, Share};
use plimsoll_model::{Metric, Nanos};
use plimsoll_scenario::plan::{ArrivalsPer, NorthboundPlan, Plan};
use plimsoll_stats::distribution::random;
use std::collections::HashMap;
use std::iter::Peekable;

/// Distinguishes the random numbers of queries from those of messages.
const STREAM: u64 = 0x7175_6572_7900_0000;

/// Queries of a level.
pub struct Queries {
    arrivals: Peekable<Arrivals>,
    timeline: Timeline,
    devices: u32,
    seed: u64,
    next: u32,
    /// Due time and slot of what was asked and not answered.
    asked: HashMap<u32, (Nanos, SampleSlot)>,
}

impl Queries {
    /// The queries of a shard in a level.
    ///
    /// They are numbered from `first` on, so that a late answer to one of an earlier level is none to one of this.
    pub fn new(
        plan: &Plan,
        northbound: &NorthboundPlan,
        share: Share,
        timeline: Timeline,
        first: u32,
    ) -> Queries {
        let process = Process {
            gaps: northbound.arrivals,
            per: ArrivalsPer::Population,
            rate: northbound.rate,
            // So many askers are dealt to the threads, whoever is asked about.
            devices: BLOCKS,
            seed: plan.seed ^ STREAM,
            level: timeline.level,
        };
        let arrivals = Arrivals::new(process, share.from(0), timeline.hold_end - timeline.start);
        let (devices, seed) = (plan.devices, plan.seed ^ STREAM);
        Queries { arrivals: arrivals.peekable(), timeline, devices, seed, next: first, asked: HashMap::new() }
    }

    /// The hold ends at that time, which was not known before: nothing is due any more from then on.
    pub fn hold_ends(&mut self, at: Nanos) {
        self.timeline.hold_end = at;
    }

    /// When the next one is due; never after the last.
    pub fn next_due(&mut self) -> Nanos {
        let due = self.arrivals.peek().map_or(Nanos::MAX, |arrival| self.timeline.start + arrival.due);
        if due < self.timeline.hold_end { due } else { Nanos::MAX }
    }

    /// Takes up the next one that is due: the device that it is about, its number, and when it was due.
    pub fn take_up(&mut self, now: Nanos, recorder: &mut Recorder) -> Option<(u32, u32, Nanos)> {
        let start = self.timeline.start;
        let by = now.min(self.timeline.hold_end - Nanos(1));
        let due = start + self.arrivals.next_if(|arrival| start + arrival.due <= by)?.due;
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let slot = self.timeline.slot(due);
        recorder.counts(slot).queries += 1;
        recorder.time(slot, Metric::Lateness, now - due);
        self.asked.insert(number, (due, slot));
        let level = u64::from(self.timeline.level);
        let name = [level, (due - start).0.cast_unsigned()];
        let device = random(self.seed, &name).below(u64::from(self.devices));
        Some((device as u32, number, due))
    }

    /// Books an answer.
    pub fn answered(&mut self, number: u32, at: Nanos, recorder: &mut Recorder) {
        if let Some((due, slot)) = self.asked.remove(&number) {
            recorder.counts(slot).queries_answered += 1;
            recorder.time(slot, Metric::QueryTime, at - due);
        }
    }

    /// Books that no answer will come.
    pub fn failed(&mut self, number: u32, recorder: &mut Recorder) {
        if let Some((_, slot)) = self.asked.remove(&number) {
            recorder.counts(slot).queries_failed += 1;
        }
    }

    /// The number of the query that would be next.
    pub fn next_number(&self) -> u32 {
        self.next
    }

    /// Queries without an answer so far.
    pub fn outstanding(&self) -> usize {
        self.asked.len()
    }
}
