//! Why times rose from one level to another (work B): the publish or the subscribe time with the network, with what it lost, or
//! with the platform; the total time with retries, with retransmissions, or with both.
//!
//! A cause is named only where the others are excluded. The network's round trip says nothing where the platform is on this
//! host, nor where it rose by more than it can have added, nor where the connections under load saw nothing of it. What is
//! compared is the quantile that missed; where none did, the median.

use crate::level::{Inference, LevelSummary, PublishCause, Rise, TotalCause};
use crate::objective::{self, Standing};
use crate::time_summary::TimeSummary;
use plimsoll_model::objective::{Objective, Objectives, Subject};
use plimsoll_model::text::grouped;
use plimsoll_model::{Metric, Validity};

/// Below this share of a time or of its rise the network is not the reason, and above its complement it is the only one.
pub(crate) const SMALL: f64 = 0.1;
/// Of the messages that a tail quantile leaves out, the share that must have been sent again for that to be the reason.
const OF_THE_SLOW: f64 = 0.5;
/// A total time rose where it is longer by more than this: it has no interval, for each level has one.
const LONGER: f64 = 0.02;

impl Rise {
    fn of(reference: &TimeSummary, level: &TimeSummary, q: f64) -> Option<Rise> {
        let ((from, from_ci95), (to, to_ci95)) = (reference.quantile(q), level.quantile(q));
        let (from, to) = (from?, to?);
        let ends = from_ci95.zip(to_ci95);
        // Two independent estimates: their errors add as squares.
        let ci95 = ends.map(|([from_low, from_high], [to_low, to_high])| {
            let seconds = to - from;
            [seconds - (to - to_low).hypot(from_high - from), seconds + (to_high - to).hypot(from - from_low)]
        });
        Some(Rise { seconds: to - from, ci95 })
    }

    /// Whether it is above zero beyond doubt.
    fn is_certain(&self) -> bool {
        self.ci95.is_some_and(|[low, _]| low > 0.0)
    }
}

/// What a comparison must know beside the levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'a> {
    /// How often a publish goes to the platform and back.
    pub trips: u32,
    /// Whether the platform is on this host.
    pub local: bool,
    /// What the levels are to meet.
    pub objectives: &'a Objectives,
}

/// Compares every higher level with the lowest.
pub(crate) fn infer(levels: &mut [LevelSummary], setting: Setting<'_>) {
    // A level that measured this host says nothing of network or platform.
    let valid = |level: &LevelSummary| {
        let robbed = level.starved.as_ref().is_some_and(|starved| starved.is_robbed());
        level.finished && level.validity == Validity::Valid && !robbed
    };
    let timed = |level: &LevelSummary| {
        level.times[Metric::PublishTimeFromSend].n + level.times[Metric::SubscribeTimeFromSend].n > 0
    };
    let measured = |level: &&LevelSummary| valid(level) && timed(level);
    let lowest =
        levels.iter().filter(measured).min_by(|a, b| a.load.amount().total_cmp(&b.load.amount())).cloned();
    let Some(reference) = lowest else { return };
    let least = reference.load.amount();
    let above = |level: &&mut LevelSummary| valid(level) && level.load.amount() > least;
    for level in levels.iter_mut().filter(above) {
        level.inference = Some(compare(&reference, level, setting));
    }
}

/// The time and the quantile that are compared, and the objective that says so: the first that is not met, else the median of what
/// there is.
fn compared<'a>(
    level: &LevelSummary,
    objectives: &'a Objectives,
) -> (&'static str, f64, Option<&'a Objective>) {
    let open = objectives.level.iter().find_map(|objective| {
        let Subject::Quantile(metric, q) = objective.subject else { return None };
        let time = match metric {
            Metric::PublishTime | Metric::PublishTimeFromSend => "publish",
            Metric::SubscribeTime | Metric::SubscribeTimeFromSend => "subscribe",
            _ => return None,
        };
        (objective::judge(objective, level) != Standing::Met).then_some((time, q, Some(objective)))
    });
    let there = if level.times[Metric::PublishTimeFromSend].n > 0 { "publish" } else { "subscribe" };
    open.unwrap_or((there, 0.5, None))
}

fn compare(reference: &LevelSummary, level: &LevelSummary, setting: Setting<'_>) -> Inference {
    let (time, quantile, objective) = compared(level, setting.objectives);
    let of = |level: &LevelSummary| {
        let level = objective.map_or(level, |objective| level.about(objective));
        match time {
            "publish" => level.times[Metric::PublishTimeFromSend].clone(),
            _ => level.times[Metric::SubscribeTimeFromSend].clone(),
        }
    };
    let (before, now) = (of(reference), of(level));
    let rise = Rise::of(&before, &now, quantile);
    let network_rise = Rise::of(&reference.wire.network_rtt, &level.wire.network_rtt, 0.5);
    let certain = rise.filter(Rise::is_certain);
    let trips = f64::from(setting.trips);
    let share_of = |publish: f64, network: f64| network * trips / publish;
    let both = certain.zip(network_rise).filter(|_| !setting.local);
    let share = both.map(|(publish, network)| share_of(publish.seconds, network.seconds));
    let interval = both.and_then(|(publish, network)| {
        let ([low, high], [least, most]) = (publish.ci95?, network.ci95?);
        // The publish time's rise is above zero beyond doubt; the ends of the network's may have any sign.
        let ends = [share_of(low, least), share_of(high, least), share_of(low, most), share_of(high, most)];
        Some([ends.into_iter().fold(f64::MAX, f64::min), ends.into_iter().fold(f64::MIN, f64::max)])
    });
    let more =
        |count: fn(&LevelSummary) -> u64| share_of_sent(level, count) - share_of_sent(reference, count);
    let (lost, again) = (more(tcp_retransmissions), more(sent_again));
    let slow = 1.0 - quantile;
    let publish_because = match (certain, interval) {
        // What a tail rose with is not known by its median.
        (None, _) if rise.is_none() && quantile > 0.5 => PublishCause::Unknown,
        (None, _) => PublishCause::NoRise,
        (Some(_), _) if setting.local => PublishCause::Platform,
        // Half of all messages are not sent again; of a tail nearly each one may have been. A CoAP request is sent again where
        // its acknowledgement was late as well, which says nothing of the network.
        (Some(_), _) if quantile > 0.5 && lost >= slow * OF_THE_SLOW => PublishCause::Retransmissions,
        (Some(_), _) if quantile > 0.5 && again > slow * SMALL => PublishCause::Unknown,
        (Some(_), None) => PublishCause::Unknown,
        // No part can be more than the whole: the probe's way is another one. The probe is no more precise than the share.
        (_, Some([low, _])) if low > 1.0 + SMALL => PublishCause::Unknown,
        (_, Some([_, high])) if high < SMALL => PublishCause::Platform,
        (_, Some([low, _])) if low >= SMALL && !is_seen_by_connections(reference, level, network_rise) => {
            PublishCause::Unknown
        }
        (_, Some([low, _])) if low > 1.0 - SMALL => PublishCause::Network,
        (_, Some([low, high])) if low >= SMALL && high <= 1.0 - SMALL => PublishCause::Both,
        _ => PublishCause::Unknown,
    };
    let total_ratio = per_load(reference).zip(per_load(level)).map(|(from, to)| to / from);
    let rose = |count: fn(&LevelSummary) -> u64| count(level) > 0 && more(count) > 0.0;
    let longer = total_ratio.is_some_and(|ratio| ratio > 1.0 + LONGER);
    let total_because = match (longer, rose(|level| level.repeated), rose(sent_again)) {
        (false, ..) => TotalCause::NoRise,
        (true, false, false) => TotalCause::Neither,
        (true, true, false) => TotalCause::Retries,
        (true, false, true) => TotalCause::Retransmissions,
        (true, true, true) => TotalCause::Both,
    };
    Inference {
        reference: reference.index,
        time,
        quantile,
        publish_rise: rise,
        network_rise,
        publish_because,
        network_share: share,
        network_share_ci95: interval,
        total_ratio,
        total_because,
    }
}

/// So many of something for each message.
fn share_of_sent(level: &LevelSummary, count: fn(&LevelSummary) -> u64) -> f64 {
    count(level) as f64 / level.sent.max(1) as f64
}

/// Whether the connections under load saw the network's round trip rise, too, as far as they tell: their least round trips
/// have nothing of a platform in them that acknowledges late.
fn is_seen_by_connections(reference: &LevelSummary, level: &LevelSummary, network: Option<Rise>) -> bool {
    let rise = Rise::of(&reference.wire.tcp_rtt, &level.wire.tcp_rtt, 0.5);
    match (rise, network) {
        (Some(connections), Some(network)) => connections.seconds >= network.seconds / 2.0,
        _ => true,
    }
}

/// Requests or segments that were sent again because no acknowledgement came.
pub(crate) fn sent_again(level: &LevelSummary) -> u64 {
    level.retransmitted + tcp_retransmissions(level)
}

/// Segments of them, which the kernel sends again.
fn tcp_retransmissions(level: &LevelSummary) -> u64 {
    level.wire.tcp_retransmissions.unwrap_or(0)
}

/// The total time for a second of hold, or in the closed model for a message.
fn per_load(level: &LevelSummary) -> Option<f64> {
    let of = match level.load.in_flight() {
        Some(_) => level.acknowledged.unwrap_or(level.sent) as f64,
        None => level.hold,
    };
    level.total_time.filter(|_| of > 0.0).map(|total| total / of)
}

impl Inference {
    /// In words, for people; `time` writes seconds. Empty where nothing rose.
    pub fn in_words(&self, level: &LevelSummary, time: impl Fn(f64) -> String) -> Vec<String> {
        let mut told = Vec::new();
        if let Some(rise) = self.publish_rise.filter(|_| self.publish_because != PublishCause::NoRise) {
            let what = match self.quantile {
                0.5 => format!("the median {} time", self.time),
                q => format!("{} time p{}", self.time, (q * 1e5).round() / 1e3),
            };
            let rose = format!("{what} rose by {}", time(rise.seconds));
            let network = match self.network_rise {
                Some(network) if network.is_certain() => {
                    format!("the network's round trip rose by {}", time(network.seconds))
                }
                Some(_) if self.publish_because == PublishCause::Platform => {
                    "the network's round trip did not rise".to_owned()
                }
                Some(_) => "the network's round trip is not known well enough to compare".to_owned(),
                None => "the network's round trip was not measured".to_owned(),
            };
            told.push(match self.publish_because {
                PublishCause::Network => {
                    format!(
                        "{rose}, {network}: the cause lies in the network, or in the host that answers connections \
                         there"
                    )
                }
                PublishCause::Platform if self.network_rise.is_none() => {
                    format!("{rose}, and the platform is on this host: it is the platform")
                }
                PublishCause::Platform => format!("{rose}, {network}: it is the platform"),
                PublishCause::Both => format!("{rose}, {network}: it is both"),
                PublishCause::Retransmissions => {
                    let again = grouped(tcp_retransmissions(level) as f64);
                    format!("{rose}, and {again} segments were sent again: the network lost packets")
                }
                PublishCause::Unknown | PublishCause::NoRise => {
                    format!("{rose}, {network}: the cause is not known")
                }
            });
        }
        if let Some(ratio) = self.total_ratio.filter(|_| self.total_because != TotalCause::NoRise) {
            let again = |count: u64, what: &str, delay: &TimeSummary| {
                let each = delay.mean.map(|mean| format!(" after {} each", time(mean))).unwrap_or_default();
                format!("{} {what}{each}", grouped(count as f64))
            };
            let retries = again(level.repeated, "retries", &level.times[Metric::RetryDelay]);
            let retransmissions = match level.wire.tcp_retransmissions {
                Some(segments) if level.retransmitted == 0 => {
                    format!("{} TCP segments sent again", grouped(segments as f64))
                }
                _ => again(level.retransmitted, "retransmissions", &level.wire.retransmission_delay),
            };
            let with = match self.total_because {
                TotalCause::Retries => format!("with {retries}"),
                TotalCause::Retransmissions => format!("with {retransmissions}"),
                TotalCause::Both => format!("with {retries} and {retransmissions}"),
                TotalCause::Neither | TotalCause::NoRise => {
                    "without more retries or retransmissions: each publish takes longer".to_owned()
                }
            };
            let like = if level.load.in_flight().is_some() { "as many messages" } else { "as long a hold" };
            told.push(format!("total time for {like} is {ratio:.2} times as long, {with}"));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WireSummary;
    use plimsoll_model::Load;

    const NONE: Objectives = Objectives { level: Vec::new(), load_line: None };
    const REMOTE: Setting<'static> = Setting { trips: 1, local: false, objectives: &NONE };

    /// A time whose median is known that well.
    fn median(p50: f64, half: f64) -> TimeSummary {
        let mut time = TimeSummary { n: 1000, p50: Some(p50), mean: Some(p50), ..TimeSummary::default() };
        time.quantiles_ci95.p50 = Some([p50 - half, p50 + half]);
        time
    }

    fn level(index: u16, publish: f64, network: Option<f64>) -> LevelSummary {
        LevelSummary {
            index,
            load: Load::InFlight(u32::from(index) + 1),
            finished: true,
            validity: Validity::Valid,
            acknowledged: Some(100),
            sent: 100,
            total_time: Some(100.0 * publish),
            times: [(Metric::PublishTimeFromSend, median(publish, 0.0001))].into(),
            wire: WireSummary {
                network_rtt: network.map(|rtt| median(rtt, 0.00002)).unwrap_or_default(),
                ..WireSummary::default()
            },
            ..LevelSummary::default()
        }
    }

    fn inferred(mut levels: Vec<LevelSummary>) -> Inference {
        infer(&mut levels, REMOTE);
        assert_eq!(levels[0].inference, None, "the lowest is what others are compared with");
        levels.pop().and_then(|level| level.inference).unwrap()
    }

    #[test]
    fn the_publish_time_rises_with_the_network_the_platform_or_both() {
        let cases = [
            (0.0041, Some(0.001), PublishCause::NoRise),
            (0.0091, Some(0.001), PublishCause::Platform),
            (0.0091, Some(0.006), PublishCause::Network),
            (0.0091, Some(0.003), PublishCause::Both),
            // The probe wakes up later than a load thread.
            (0.1031, Some(0.1012), PublishCause::Network),
            (0.0091, Some(0.0521), PublishCause::Unknown),
            (0.0091, None, PublishCause::Unknown),
        ];
        let mut vague = level(1, 0.0091, None);
        vague.wire.network_rtt = median(0.001, 0.004);
        let inference = inferred(vec![level(0, 0.004, Some(0.001)), vague]);
        assert_eq!(inference.publish_because, PublishCause::Unknown, "the network may be the reason");
        for (publish, network, expected) in cases {
            let inference = inferred(vec![level(0, 0.004, Some(0.001)), level(1, publish, network)]);
            assert_eq!(inference.publish_because, expected, "{publish} {network:?}");
        }
    }

    #[test]
    fn on_this_host_there_is_no_network_to_blame() {
        let mut levels = vec![level(0, 0.004, Some(0.001)), level(1, 0.0091, Some(0.006))];
        infer(&mut levels, Setting { local: true, ..REMOTE });
        let inference = levels[1].inference.clone().unwrap();
        assert_eq!((inference.publish_because, inference.network_share), (PublishCause::Platform, None));
    }

    #[test]
    fn a_round_trip_that_the_connections_under_load_did_not_see_explains_nothing() {
        let mut levels = vec![level(0, 0.004, Some(0.001)), level(1, 0.0091, Some(0.006))];
        for level in &mut levels {
            level.wire.tcp_rtt = median(0.0011, 0.0001);
        }
        infer(&mut levels, REMOTE);
        assert_eq!(levels[1].inference.as_ref().unwrap().publish_because, PublishCause::Unknown);
    }

    #[test]
    fn the_quantile_that_missed_is_compared_and_lost_packets_are_found_in_it() {
        use plimsoll_model::objective::{Comparison, Objective};
        let subject = Subject::Quantile(Metric::PublishTime, 0.99);
        let objectives = Objectives {
            level: vec![Objective { population: None, subject, comparison: Comparison::Below, bound: 0.05 }],
            load_line: None,
        };
        let tail = |mut level: LevelSummary, p99: f64, again: u64| {
            for metric in [Metric::PublishTime, Metric::PublishTimeFromSend] {
                let time = &mut level.times[metric];
                (time.p99, time.quantiles_ci95.p99) = (Some(p99), Some([p99 * 0.9, p99 * 1.1]));
            }
            (level.sent, level.wire.tcp_retransmissions) = (1000, Some(again));
            level
        };
        let levels = |again| {
            vec![
                tail(level(0, 0.004, Some(0.001)), 0.009, 0),
                tail(level(1, 0.004, Some(0.001)), 0.125, again),
            ]
        };
        let because = |mut levels: Vec<LevelSummary>, local| {
            infer(&mut levels, Setting { objectives: &objectives, local, ..REMOTE });
            let inference = levels[1].inference.clone().unwrap();
            assert_eq!((inference.time, inference.quantile), ("publish", 0.99));
            inference.publish_because
        };
        assert_eq!(because(levels(12), false), PublishCause::Retransmissions);
        assert_eq!(because(levels(3), false), PublishCause::Unknown);
        assert_eq!(because(levels(0), false), PublishCause::Platform);
        assert_eq!(because(levels(12), true), PublishCause::Platform, "there is no network to this host");
        // A request of CoAP is sent again where its acknowledgement was late, whoever was the reason.
        let mut repeated = levels(0);
        repeated[1].retransmitted = 12;
        assert_eq!(because(repeated, false), PublishCause::Unknown);
        // The median rose with the network; of the tail that missed nothing is known.
        let mut few = levels(0);
        few[1].times[Metric::PublishTimeFromSend] = median(0.009, 0.0001);
        few[1].wire.network_rtt = median(0.006, 0.00002);
        assert_eq!(because(few, false), PublishCause::Unknown);
    }

    #[test]
    fn a_level_that_measured_the_host_accuses_nobody() {
        let mut levels = vec![level(0, 0.004, Some(0.001)), level(1, 0.0091, Some(0.001))];
        levels[1].validity = Validity::HostBound;
        infer(&mut levels, REMOTE);
        assert_eq!(levels[1].inference, None);
    }

    #[test]
    fn a_rise_within_the_intervals_is_none() {
        let mut vague = level(1, 0.0091, Some(0.001));
        vague.times[Metric::PublishTimeFromSend] = median(0.0091, 0.02);
        let inference = inferred(vec![level(0, 0.004, Some(0.001)), vague]);
        assert_eq!(inference.publish_because, PublishCause::NoRise);
        assert_eq!(inference.publish_rise.map(|rise| rise.ci95.is_some()), Some(true));
    }

    #[test]
    fn the_total_time_rises_with_retries_retransmissions_or_both() {
        let cases = [
            (0, 0, TotalCause::Neither),
            (3, 0, TotalCause::Retries),
            (0, 2, TotalCause::Retransmissions),
            (3, 2, TotalCause::Both),
        ];
        for (repeated, retransmitted, expected) in cases {
            let mut slow = level(1, 0.008, Some(0.001));
            (slow.repeated, slow.retransmitted) = (repeated, retransmitted);
            let inference = inferred(vec![level(0, 0.004, Some(0.001)), slow.clone()]);
            assert_eq!(inference.total_because, expected);
            let told = inference.in_words(&slow, |seconds| format!("{seconds:.3} s"));
            assert_eq!(told.len(), 2, "{told:?}");
            assert_eq!(told[1].contains("3 retries"), repeated > 0, "{told:?}");
            assert_eq!(told[1].contains("2 retransmissions"), retransmitted > 0, "{told:?}");
        }
    }

    #[test]
    fn what_the_lowest_level_had_as_well_is_no_reason() {
        let mut first = level(0, 0.004, Some(0.001));
        let mut slow = level(1, 0.008, Some(0.001));
        (first.repeated, slow.repeated) = (3, 3);
        assert_eq!(inferred(vec![first, slow]).total_because, TotalCause::Neither);
    }

    #[test]
    fn where_nothing_rose_nothing_is_told() {
        let same = level(1, 0.004, Some(0.001));
        let inference = inferred(vec![level(0, 0.004, Some(0.001)), same.clone()]);
        assert!(inference.in_words(&same, |seconds| seconds.to_string()).is_empty());
        assert_eq!(inference.total_because, TotalCause::NoRise);
    }
}
