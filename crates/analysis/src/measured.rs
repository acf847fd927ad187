//! A level's summary from its record.

use crate::achieved::{Achieved, Side};
use crate::duplicates;
use crate::event_life::EventLife;
use crate::generator::Generator;
use crate::level::{BoxplotSummary, LevelSummary, LevelVerdict, PopulationLevel, Times};
use crate::missing;
use crate::sizes::SizesSummary;
use crate::time_summary::{DifferenceSummary, TimeSummary};
use crate::validity::{self, Evidence};
use crate::wire::WireSummary;
use crate::{memory, processors, stall, starvation, verdict, warming};
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
    let samples: Vec<&SampleRecord> = record.samples.iter().flatten().collect();
    let counts = samples.iter().fold(Counts::default(), |mut sum, sample| {
        sum += sample.counts;
        sum
    });
    let connecting = record.start.load.devices().is_some();
    // Most devices connect before the hold.
    let before = if connecting { record.warm_up.counts } else { Counts::default() };
    let hold = record.seconds();
    let per_second = |count: u64| (hold > 0.0).then(|| count as f64 / hold);
    let acknowledges = terms.acknowledges();
    let achievement = Achieved::of(record, acknowledges);
    let overload = record.start.load.offered().is_some() && achievement.side(STEADY) == Side::Outside;
    let time = |metric| {
        let histograms = of_samples(&samples, metric);
        TimeSummary::of(&histograms.iter().collect::<Vec<_>>(), !overload)
    };
    let merged = |metric| {
        let mut merged = Histogram::new();
        of_samples(&samples, metric).iter().for_each(|histogram| merged.merge(histogram));
        merged
    };
    // Where a level connects devices, most do so before the hold.
    let with_early = |metric| {
        let mut all = merged(metric);
        let early = record.warm_up.histograms.get(&metric).filter(|_| connecting);
        early.into_iter().for_each(|early| all.merge(early));
        all
    };
    let times = Times::of(|row| match (row.metric, row.observations) {
        (Metric::ConnectTime, _) if connecting => TimeSummary::of_independent(&with_early(row.metric)),
        (metric, Observations::Independent) => TimeSummary::of_independent(&merged(metric)),
        (metric, Observations::InSamples) => time(metric),
    });
    let mut of_connections = counts;
    of_connections += before;
    let box_of = |metric| {
        boxplot(&merged(metric)).map(|b| BoxplotSummary {
            lower_whisker: b.lower_whisker.as_secs_f64(),
            p25: b.p25.as_secs_f64(),
            p50: b.p50.as_secs_f64(),
            p75: b.p75.as_secs_f64(),
            upper_whisker: b.upper_whisker.as_secs_f64(),
            outliers: b.outliers,
            max: b.max.as_secs_f64(),
        })
    };
    let (generator, wait_per_turn) =
        generator(record, &counts, time(Metric::Lateness), time(Metric::ReceiverLag));
    let q = validity::quantile(terms);
    let tail = |metric| merged(metric).quantile(q).map(Nanos::as_secs_f64);
    let (lateness, receiver_lag) = (tail(Metric::Lateness), tail(Metric::ReceiverLag));
    let stood_still = stood_still(record, &counts, &merged(Metric::Lateness));
    let at_work_when_late = at_work_when_late(record, validity::bound(terms, hold));
    let evidence =
        Evidence { hold, q, lateness, receiver_lag, wait_per_turn, at_work_when_late, stood_still };
    let (validity, why_invalid) = validity::judge(&counts, &generator, &evidence, terms);
    let end = record.end.as_ref();
    let silence = stall::of(record).filter(|_| acknowledges);
    let mean_size = |bytes: u64| (counts.sent > 0).then(|| bytes as f64 / counts.sent as f64);
    let outages = end.and_then(|end| end.outages);
    let publish_from_send = merged(Metric::PublishTimeFromSend);
    let lost_acknowledged = counts.lost_acknowledged().filter(|_| acknowledges);
    let mut summary = LevelSummary {
        index: record.start.index,
        load: record.start.load,
        connected: end.map(|end| end.connected).filter(|_| connecting),
        connects: counts.connects + before.connects,
        connect_failed: counts.connect_failed + before.connect_failed,
        platform_memory: memory::at_end_of_hold(components, record),
        platform_cpu: processors::in_hold(components, &record.start),
        achieved: per_second(counts.completed)
            .filter(|_| !connecting || record.start.load.offered().is_some()),
        achieved_ci95: achievement.ci95,
        verdict: LevelVerdict::Unfinished,
        reasons: Vec::new(),
        validity,
        // A level that the user cut short is closed, but before its hold was over.
        finished: record.is_whole(),
        hold,
        messages: record.start.messages,
        due: counts.due,
        sent: counts.sent,
        unsent: counts.unsent,
        never_ready: counts.never_ready,
        unproved: counts.unproved,
        acknowledged: acknowledges.then_some(counts.acknowledged),
        refused: counts.refused,
        repeated: counts.repeated,
        retransmitted: counts.retransmitted,
        expected_deliveries: counts.expected_deliveries,
        delivered: counts.delivered,
        late: counts.late,
        superseded: counts.superseded,
        lost: counts.lost(),
        lost_acknowledged,
        lost_unacknowledged: lost_acknowledged.map(|lost| counts.lost().saturating_sub(lost)),
        duplicated: counts.duplicated,
        duplicates_legal: duplicates::legal(terms),
        reordered: counts.reordered,
        foreign: counts.foreign,
        unknown_acks: counts.unknown_acks,
        retained: counts.retained,
        wills: counts.wills,
        disconnected: counts.disconnected,
        reconnects: counts.reconnects,
        // What was lost when the level closed may have come late.
        first_loss: end.and_then(|end| end.first_loss).filter(|_| counts.lost() > 0),
        incident: end.and_then(|end| end.incident.clone()),
        death: end.and_then(|end| end.death.clone()),
        stood_still,
        held_by_others: None,
        stall: silence.map(|silence| silence.in_words()),
        silence,
        warming: warming::of(record).map(|warming| warming.in_words()),
        times,
        queries: counts.queries,
        queries_answered: counts.queries_answered,
        queries_failed: counts.queries_failed,
        publish_minus_subscribe: DifferenceSummary::of(
            &merged(Metric::AcknowledgedAfterDelivery),
            &merged(Metric::DeliveredAfterAcknowledgement),
        ),
        total_time: end.and_then(|end| Some((end.last_done? - end.first_sent?).as_secs_f64())),
        goodput: publish_from_send
            .mean()
            .and_then(|mean| Some(mean_size(counts.content_bytes)? / (mean / 1e9))),
        delivered_bytes_per_second: per_second(counts.delivered_bytes),
        marshalled_size: mean_size(counts.content_bytes),
        publication_size: mean_size(counts.publication_bytes),
        sizes: SizesSummary::of(&counts, terms.listener),
        bytes_sent: counts.bytes_sent,
        bytes_received: counts.bytes_received,
        overload,
        backlog_slope: backlog_slope(record),
        wire: WireSummary::of(&of_connections, with_early),
        retries: end.map(|end| retries(&end.repeated)).unwrap_or_default(),
        event_life: None,
        inference: None,
        blame: None,
        recovery: outages.and_then(|outages| outages.recovery()).map(Nanos::as_secs_f64),
        clients_lost: outages.map(|outages| outages.lost),
        clients_back: outages.map(|outages| outages.back),
        clients_away_before: outages.map(|outages| outages.away_before),
        generator,
        publish_boxplot: box_of(Metric::PublishTime),
        subscribe_boxplot: box_of(Metric::SubscribeTime),
        query_boxplot: box_of(Metric::QueryTime),
        achieved_samples: achieved_samples(record),
        with_missing: missing::with_missing(record, terms),
        achievement,
        starved: starvation::in_hold(components, &record.start),
        is_worth_again: false,
        populations: populations(record, terms),
    };
    summary.held_by_others = summary.starved.as_ref().map(|starved| starved.share);
    summary.event_life = EventLife::of(summary.achieved_ratio(), end.and_then(|end| end.clock), time);
    verdict::judge(&mut summary, record, terms, why_invalid);
    let by_host = summary.verdict == LevelVerdict::Invalid && summary.validity == Validity::HostBound;
    // Who held the processors of load threads is said of a component, too, if it is not what was robbed itself.
    let is_robbed = summary.starved.as_ref().is_some_and(|starved| starved.is_robbed());
    if by_host && !is_robbed && summary.stood_still == 0.0 {
        let beside = starvation::beside_load(components, &record.start);
        if let (Some(reason), Some(beside)) = (summary.reasons.first_mut(), beside) {
            *reason += &format!("; {beside}");
        }
    }
    summary
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
            figures: Box::new(summarize(&own, &of.terms, &[])),
        }
    };
    with_devices.map(level).collect()
}

/// Processor that the busiest load thread used in the samples in which operations or readings were later than the bound, each
/// by how many were; 1 for a whole one. `None` where none was, or no thread was read.
fn at_work_when_late(record: &LevelRecord, bound: f64) -> Option<f64> {
    let bound = Nanos::from_secs_f64(bound.min(1e6));
    let (mut weight, mut sum) = (0.0, 0.0);
    for (position, sample) in (0u16..).zip(&record.samples) {
        let Some(sample) = sample else { continue };
        let late = |metric| sample.histograms.get(&metric).map_or(0, |times| times.count_above(bound));
        let late = (late(Metric::Lateness) + late(Metric::ReceiverLag)) as f64;
        // A reading that came after a hiccup covers the samples before it, too.
        let reading = record.threads.iter().filter(|reading| reading.sample >= position);
        let next = reading.clone().map(|reading| reading.sample).min();
        let used = reading.filter(|reading| Some(reading.sample) == next && reading.wall > Nanos::ZERO);
        let Some(busiest) = used.map(|reading| reading.cpu.0 as f64 / reading.wall.0 as f64).reduce(f64::max)
        else {
            continue;
        };
        (weight, sum) = (weight + late, sum + late * busiest);
    }
    (weight > 0.0).then(|| sum / weight)
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
    let cause = |status: u16| if status == 0 { "connection lost".into() } else { status.to_string() };
    repeated.iter().map(|(&status, &times)| (cause(status), times)).collect()
}

fn of_samples(samples: &[&SampleRecord], metric: Metric) -> Vec<Histogram> {
    samples
        .iter()
        .map(|sample| sample.histograms.get(&metric).cloned().unwrap_or_else(Histogram::packed))
        .collect()
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
    lateness: TimeSummary,
    receiver_lag: TimeSummary,
) -> (Generator, Option<f64>) {
    let readings = &record.threads;
    let wall: Nanos = readings.iter().map(|reading| reading.wall).sum();
    let share = |part: Nanos| (wall > Nanos::ZERO).then(|| part.0 as f64 / wall.0 as f64);
    let threads = readings.iter().map(|reading| reading.thread + 1).max().unwrap_or(0);
    let of_thread = |thread: u16| {
        let own = readings.iter().filter(move |reading| reading.thread == thread);
        let wall: Nanos = own.clone().map(|reading| reading.wall).sum();
        let cpu: Nanos = own.map(|reading| reading.cpu).sum();
        (wall > Nanos::ZERO).then(|| cpu.0 as f64 / wall.0 as f64)
    };
    let run_delay: Nanos = readings.iter().map(|reading| reading.run_delay).sum();
    let cpu: Nanos = readings.iter().map(|reading| reading.cpu).sum();
    let turns = readings.iter().map(|reading| reading.timeslices).fold(0, u64::saturating_add);
    let generator = Generator {
        lateness,
        receiver_lag,
        cpu: (0..threads).map(of_thread).collect(),
        run_delay: share(run_delay),
        steal: share(readings.iter().map(|reading| reading.steal).sum()),
        cpu_per_million: (counts.sent > 0 && wall > Nanos::ZERO)
            .then(|| cpu.as_secs_f64() / counts.sent as f64 * 1e6),
    };
    (generator, (turns > 0).then(|| run_delay.as_secs_f64() / turns as f64))
}
