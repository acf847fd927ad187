//! A level's summary from its record.

use crate::achieved::{Achieved, Side};
use crate::censored;
use crate::duplicates;
use crate::event_life::EventLife;
use crate::generator::Generator;
use crate::level::{BoxplotSummary, LevelSummary, LevelVerdict, PopulationLevel, Times};
use crate::management::ManagementSummary;
use crate::sizes::SizesSummary;
use crate::time_summary::{DifferenceSummary, TimeSummary};
use crate::validity::{self, Evidence};
use crate::wire::WireSummary;
use crate::{curve, faults, memory, processors, stall, starvation, verdict, warming};
use plimsoll_model::metric::Observations;
use plimsoll_model::record::{ComponentUsage, LevelRecord, PopulationTerms, SampleRecord, Terms};
use plimsoll_model::{Counts, Histogram, Metric, Nanos, Validity};
use plimsoll_stats::boxplot::boxplot;
use plimsoll_stats::trend::slope;
use std::collections::BTreeMap;

/// Below this share of what was due, an open level is in overload: its times grow with the length of the hold.
const STEADY: f64 = 0.99;

/// Summarises and judges a level; `components` is what was read of the platform's processes over the whole run.
pub fn summarize(record: &LevelRecord, terms: &Terms, components: &[ComponentUsage]) -> LevelSummary {
    let achievement = Achieved::of(record, terms.acknowledges());
    let overload = record.start.load.offered().is_some() && achievement.side(STEADY) == Side::Outside;
    let seen = Seen::of(record, terms, overload);
    let starved = starvation::in_hold(components, &record.start);
    let mut level = LevelSummary {
        index: record.start.index,
        load: record.start.load,
        // A level that the user cut short is closed, but before its hold was over.
        finished: record.is_whole(),
        hold: seen.hold,
        messages: record.start.messages,
        platform_memory: memory::at_end_of_hold(components, record),
        platform_cpu: processors::in_hold(components, &record.start),
        achieved_ci95: achievement.ci95,
        achieved_samples: achieved_samples(record),
        achievement,
        overload,
        backlog_slope: backlog_slope(record),
        warming: warming::of(record).map(|warming| warming.in_words()),
        held_by_others: starved.as_ref().map(|starved| starved.share),
        starved,
        populations: populations(record, terms),
        faults: faults::of(record, terms),
        curve: curve::of(record, terms),
        falling: record.start.falling,
        ..LevelSummary::default()
    };
    seen.ledger(&mut level);
    seen.traffic(&mut level);
    seen.times(&mut level);
    seen.end(&mut level);
    let why_invalid = seen.generator(&mut level);
    verdict::judge(&mut level, record, terms, why_invalid);
    faults::judge_validity(&mut level);
    name_who_robbed(&mut level, record, components);
    level
}

/// What was seen of a level.
struct Seen<'a> {
    record: &'a LevelRecord,
    terms: &'a Terms,
    samples: Vec<&'a SampleRecord>,
    counts: Counts,
    /// What was counted before the hold, where the level connects devices: most of them connect then.
    before: Counts,
    /// Length of the hold, in seconds.
    hold: f64,
    overload: bool,
}

impl<'a> Seen<'a> {
    fn of(record: &'a LevelRecord, terms: &'a Terms, overload: bool) -> Seen<'a> {
        let samples: Vec<&SampleRecord> = record.samples.iter().flatten().collect();
        let mut counts = Counts::default();
        samples.iter().for_each(|sample| counts += sample.counts);
        let connecting = record.start.load.devices().is_some();
        let before = if connecting { record.warm_up.counts } else { Counts::default() };
        Seen { record, terms, samples, counts, before, hold: record.seconds(), overload }
    }

    /// Whether the level connects devices.
    fn connects(&self) -> bool {
        self.record.start.load.devices().is_some()
    }

    fn per_second(&self, count: u64) -> Option<f64> {
        (self.hold > 0.0).then(|| count as f64 / self.hold)
    }

    /// Bytes of a message sent, of so many in all.
    fn mean_size(&self, bytes: u64) -> Option<f64> {
        (self.counts.sent > 0).then(|| bytes as f64 / self.counts.sent as f64)
    }

    fn of_samples(&self, metric: Metric) -> Vec<Histogram> {
        let of = |sample: &&SampleRecord| sample.histograms.get(&metric).cloned();
        self.samples.iter().map(|sample| of(sample).unwrap_or_else(Histogram::packed)).collect()
    }

    fn merged(&self, metric: Metric) -> Histogram {
        let mut merged = Histogram::new();
        self.of_samples(metric).iter().for_each(|histogram| merged.merge(histogram));
        merged
    }

    /// The same with what was seen before the hold, where the level connects devices.
    fn with_early(&self, metric: Metric) -> Histogram {
        let mut all = self.merged(metric);
        let early = self.record.warm_up.histograms.get(&metric).filter(|_| self.connects());
        early.into_iter().for_each(|early| all.merge(early));
        all
    }

    fn time(&self, metric: Metric) -> TimeSummary {
        let histograms = self.of_samples(metric);
        TimeSummary::of(&histograms.iter().collect::<Vec<_>>(), !self.overload)
    }

    fn boxplot(&self, metric: Metric) -> Option<BoxplotSummary> {
        boxplot(&self.merged(metric)).map(|b| BoxplotSummary {
            lower_whisker: b.lower_whisker.as_secs_f64(),
            p25: b.p25.as_secs_f64(),
            p50: b.p50.as_secs_f64(),
            p75: b.p75.as_secs_f64(),
            upper_whisker: b.upper_whisker.as_secs_f64(),
            outliers: b.outliers,
            max: b.max.as_secs_f64(),
        })
    }

    /// What became of every message.
    fn ledger(&self, level: &mut LevelSummary) {
        let Seen { counts, before, terms, .. } = self;
        let acknowledges = terms.acknowledges();
        let has_rate = !self.connects() || self.record.start.load.offered().is_some();
        level.achieved = self.per_second(counts.completed).filter(|_| has_rate);
        level.connects = counts.connects + before.connects;
        level.connect_failed = counts.connect_failed + before.connect_failed;
        level.due = counts.due;
        level.sent = counts.sent;
        level.unsent = counts.unsent;
        level.never_ready = counts.never_ready;
        level.unproved = counts.unproved;
        level.acknowledged = acknowledges.then_some(counts.acknowledged);
        level.refused = counts.refused;
        level.repeated = counts.repeated;
        level.acknowledged_again = counts.acknowledged_again;
        level.retransmitted = counts.retransmitted;
        level.expected_deliveries = counts.expected_deliveries;
        level.delivered = counts.delivered;
        level.late = counts.late;
        level.superseded = counts.superseded;
        level.lost = counts.lost();
        level.lost_acknowledged = counts.lost_acknowledged().filter(|_| acknowledges);
        level.lost_unacknowledged = level.lost_acknowledged.map(|lost| counts.lost().saturating_sub(lost));
        level.duplicated = counts.duplicated;
        level.duplicates_legal = duplicates::legal(terms);
        level.reordered = counts.reordered;
        level.foreign = counts.foreign;
        level.unknown_acks = counts.unknown_acks;
        level.retained = counts.retained;
        level.wills = counts.wills;
        level.disconnected = counts.disconnected;
        level.reconnects = counts.reconnects;
        level.queries = counts.queries;
        level.queries_answered = counts.queries_answered;
        level.queries_failed = counts.queries_failed;
    }

    /// Sizes and bytes, and what connections cost.
    fn traffic(&self, level: &mut LevelSummary) {
        let counts = &self.counts;
        let mean = self.merged(Metric::PublishTimeFromSend).mean();
        level.marshalled_size = self.mean_size(counts.content_bytes);
        level.publication_size = self.mean_size(counts.publication_bytes);
        level.goodput = level.marshalled_size.zip(mean).map(|(size, mean)| size / (mean / 1e9));
        level.delivered_bytes_per_second = self.per_second(counts.delivered_bytes);
        level.sizes = SizesSummary::of(counts, self.terms.listener);
        level.bytes_sent = counts.bytes_sent;
        level.bytes_received = counts.bytes_received;
        let mut of_connections = *counts;
        of_connections += self.before;
        level.wire = WireSummary::of(&of_connections, |metric| self.with_early(metric));
        let observed = self.record.end.as_ref().and_then(|end| end.observed);
        level.management = ManagementSummary::of(counts, |metric| self.merged(metric), observed);
    }

    /// Times, and what is told of them.
    fn times(&self, level: &mut LevelSummary) {
        level.times = Times::of(|row| match (row.metric, row.observations) {
            (Metric::ConnectTime, _) if self.connects() => {
                TimeSummary::of_independent(&self.with_early(row.metric))
            }
            (metric, Observations::Independent) => TimeSummary::of_independent(&self.merged(metric)),
            (metric, Observations::InSamples) => self.time(metric),
        });
        level.publish_minus_subscribe = DifferenceSummary::of(
            &self.merged(Metric::AcknowledgedAfterDelivery),
            &self.merged(Metric::DeliveredAfterAcknowledgement),
        );
        level.publish_boxplot = self.boxplot(Metric::PublishTime);
        level.subscribe_boxplot = self.boxplot(Metric::SubscribeTime);
        level.query_boxplot = self.boxplot(Metric::QueryTime);
        level.with_censored = censored::with_censored(self.record, self.terms);
        level.silence = stall::of(self.record).filter(|_| self.terms.acknowledges());
        level.stall = level.silence.map(|silence| silence.in_words());
    }

    /// What is known since the level's end.
    fn end(&self, level: &mut LevelSummary) {
        let end = self.record.end.as_ref();
        let clock = end.and_then(|end| end.clock);
        level.event_life = EventLife::of(level.achieved_ratio(), clock, |metric| self.time(metric));
        let Some(end) = end else { return };
        level.connected = self.connects().then_some(end.connected);
        level.clocks = end.clocks.iter().map(Into::into).collect();
        level.crossed = end.crossed.map(Into::into);
        // What was lost when the level closed may have come late.
        level.first_loss = end.first_loss.filter(|_| self.counts.lost() > 0);
        level.incident.clone_from(&end.incident);
        level.death.clone_from(&end.death);
        level.total_time = end.last_done.zip(end.first_sent).map(|(done, sent)| (done - sent).as_secs_f64());
        level.retries = retries(&end.repeated);
        if let Some(outages) = end.outages {
            level.recovery = outages.recovery().map(Nanos::as_secs_f64);
            level.clients_lost = Some(outages.lost);
            level.clients_back = Some(outages.back);
            level.clients_away_before = Some(outages.away_before);
        }
    }

    /// The generator's health, and whether the level measured the platform; why not, where it did not.
    fn generator(&self, level: &mut LevelSummary) -> Option<String> {
        let Seen { record, terms, hold, .. } = *self;
        let times = [Metric::Lateness, Metric::AtWorkWhenLate, Metric::ReceiverLag];
        let times = times.map(|metric| self.time(metric));
        let (generator, wait_per_turn) = generator(record, &self.counts, times);
        let q = validity::quantile(terms);
        let tail = |metric| self.merged(metric).quantile(q).map(Nanos::as_secs_f64);
        level.stood_still = stood_still(record, &self.counts, &self.merged(Metric::Lateness));
        let evidence = Evidence {
            hold,
            q,
            lateness: tail(Metric::Lateness),
            receiver_lag: tail(Metric::ReceiverLag),
            wait_per_turn,
            late_by_own_work: self.late_by_own_work(validity::bound(terms, hold)),
            stood_still: level.stood_still,
        };
        let (validity, why_invalid) = validity::judge(&self.counts, &generator, &evidence, terms);
        (level.generator, level.validity) = (generator, validity);
        why_invalid
    }

    /// The share of what was due that was late by more than so many seconds of the load threads' own work.
    fn late_by_own_work(&self, bound: f64) -> Option<f64> {
        let at_work = self.merged(Metric::AtWorkWhenLate);
        let late = at_work.count_above(Nanos::from_secs_f64(bound.min(1e6)));
        let due = self.counts.due + self.counts.queries;
        (at_work.count() > 0).then(|| late as f64 / due.max(1) as f64)
    }
}

/// Who held the processors of load threads is said of a component, too, if it is not what was robbed itself.
fn name_who_robbed(level: &mut LevelSummary, record: &LevelRecord, components: &[ComponentUsage]) {
    let by_host = level.verdict == LevelVerdict::Invalid && level.validity == Validity::HostBound;
    let is_robbed = level.starved.as_ref().is_some_and(|starved| starved.is_robbed());
    if by_host && !is_robbed && level.stood_still == 0.0 {
        let beside = starvation::beside_load(components, &record.start);
        if let (Some(reason), Some(beside)) = (level.reasons.first_mut(), beside) {
            *reason += &format!("; {beside}");
        }
    }
}

/// Each population by itself. The host gives its load threads what it gives all of them.
fn populations(record: &LevelRecord, terms: &Terms) -> Vec<PopulationLevel> {
    let with_devices =
        record.populations.iter().zip(&terms.populations).filter(|(_, own)| own.terms.devices > 0);
    let level = |(own, of): (&LevelRecord, &PopulationTerms)| {
        let own = LevelRecord { threads: record.threads.clone(), ..own.clone() };
        PopulationLevel {
            name: of.name.clone(),
            protocol: of.protocol.clone(),
            devices: of.terms.devices,
            first_device: of.first_device,
            at: of.at.clone(),
            figures: Box::new(summarize(&own, &of.terms, &[])),
        }
    };
    with_devices.map(level).collect()
}

/// For how long load threads stood still, in seconds: as long as the thread that watches them did, no longer than nothing was
/// completed, and no longer than something was late by, unless it was not taken up at all.
fn stood_still(record: &LevelRecord, counts: &Counts, lateness: &Histogram) -> f64 {
    let watched = record.end.as_ref().map_or(0.0, |end| end.stood_still.as_secs_f64());
    let length = record.start.sample_seconds(0);
    let is_silent = |sample: &&SampleRecord| sample.counts.completed == 0;
    let silent = record.samples.iter().flatten().filter(is_silent).count() as f64 * length;
    // A standstill that covers no whole sample leaves traces in two.
    if silent == 0.0 && watched >= 2.0 * length {
        return 0.0;
    }
    let latest = lateness.max().map_or(0.0, Nanos::as_secs_f64);
    let within = watched.min(silent + 2.0 * length);
    if counts.never_ready > 0 { within } else { within.min(latest) }
}

fn retries(repeated: &BTreeMap<u16, u64>) -> BTreeMap<String, u64> {
    let cause = |status: u16| match status {
        0 => "connection lost".to_owned(),
        1 => "no answer in time".to_owned(),
        status => status.to_string(),
    };
    repeated.iter().map(|(&status, &times)| (cause(status), times)).collect()
}

fn achieved_samples(record: &LevelRecord) -> Vec<Option<f64>> {
    let rate = |(position, sample): (usize, &Option<SampleRecord>)| {
        Some(sample.as_ref()?.counts.completed as f64 / record.start.sample_seconds(position))
    };
    record.samples.iter().enumerate().map(rate).collect()
}

fn backlog_slope(record: &LevelRecord) -> Option<f64> {
    let (mut backlog, mut seconds) = (0.0, 0.0);
    let mut points = Vec::new();
    for (position, sample) in record.samples.iter().enumerate() {
        let counts = sample.as_ref()?.counts;
        backlog += counts.due as f64 - counts.completed as f64;
        seconds += record.start.sample_seconds(position);
        points.push((seconds, backlog));
    }
    slope(&points)
}

/// The generator's health, and the mean wait of its threads for a processor, in seconds.
fn generator(
    record: &LevelRecord,
    counts: &Counts,
    [lateness, at_work_when_late, receiver_lag]: [TimeSummary; 3],
) -> (Generator, Option<f64>) {
    let readings = &record.threads;
    let wall: Nanos = readings.iter().map(|reading| reading.wall).sum();
    let share = |part: Nanos| (wall > Nanos::ZERO).then(|| part.0 as f64 / wall.0 as f64);
    let threads = readings.iter().map(|reading| usize::from(reading.thread) + 1).max().unwrap_or(0);
    // In one pass: a cluster has thousands of threads.
    let mut used = vec![(Nanos::ZERO, Nanos::ZERO); threads];
    for reading in readings {
        if let Some((wall, cpu)) = used.get_mut(usize::from(reading.thread)) {
            *wall += reading.wall;
            *cpu += reading.cpu;
        }
    }
    let share_of = |(wall, cpu): (Nanos, Nanos)| (wall > Nanos::ZERO).then(|| cpu.0 as f64 / wall.0 as f64);
    let run_delay: Nanos = readings.iter().map(|reading| reading.run_delay).sum();
    let cpu: Nanos = readings.iter().map(|reading| reading.cpu).sum();
    let turns = readings.iter().map(|reading| reading.timeslices).fold(0, u64::saturating_add);
    let generator = Generator {
        lateness,
        at_work_when_late,
        receiver_lag,
        cpu: used.into_iter().map(share_of).collect(),
        run_delay: share(run_delay),
        steal: share(readings.iter().map(|reading| reading.steal).sum()),
        cpu_per_million: (counts.sent > 0 && wall > Nanos::ZERO)
            .then(|| cpu.as_secs_f64() / counts.sent as f64 * 1e6),
    };
    (generator, (turns > 0).then(|| run_delay.as_secs_f64() / turns as f64))
}
