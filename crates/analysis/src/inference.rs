//! Why times rose from one level to another (work B): the publish time with the network or with the platform, the total
//! time with retries, with retransmissions, or with both.

use crate::level::LevelSummary;
use crate::summary::TimeSummary;
use plimsoll_model::Validity;
use schemars::JsonSchema;
use serde::Serialize;

/// Below this share of the rise the network is not the reason, and above its complement it is the only one.
const SMALL: f64 = 0.1;
/// A total time rose where it is longer by more than this: it has no interval, for each level has one.
const LONGER: f64 = 0.02;

/// What a level's times say beside those of the lowest level.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Inference {
    /// The level that it is compared with: the lowest one that was measured to its end.
    pub reference: u16,
    /// Median publish time from send less that of the reference, in seconds; null where either has none.
    pub publish_rise: Option<Rise>,
    /// The same of the network's own round trip.
    pub network_rise: Option<Rise>,
    /// What the publish time rose with.
    pub publish_because: PublishCause,
    /// Of the rise of the publish time, the share that the network's round trips make; null where that cannot be said.
    pub network_share: Option<f64>,
    /// Total time over that of the reference: for equal holds, in the closed model for as many messages. Null where either
    /// has none.
    pub total_ratio: Option<f64>,
    /// What the total time rose with.
    pub total_because: TotalCause,
}

/// A median less another, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Rise {
    /// The difference.
    pub seconds: f64,
    /// Its 95 % interval; null where one of the medians has none.
    pub ci95: Option<[f64; 2]>,
}

/// What a publish time rose with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PublishCause {
    /// It did not, as far as the intervals can tell.
    NoRise,
    /// The network's round trip rose with it.
    Network,
    /// The network's round trip did not.
    Platform,
    /// The network's round trip makes a part of it.
    Both,
    /// It rose, but the network's round trip is not known, or not well enough to tell.
    Unknown,
}

/// What a total time rose with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TotalCause {
    /// It did not.
    NoRise,
    /// More messages were sent again after an answer that asks for it, or a lost connection.
    Retries,
    /// More segments or requests were sent again because no acknowledgement came.
    Retransmissions,
    /// Both.
    Both,
    /// Neither of them rose: the publish times themselves are longer.
    Neither,
}

impl Rise {
    fn of(reference: &TimeSummary, level: &TimeSummary) -> Option<Rise> {
        let (from, to) = (reference.p50?, level.p50?);
        let ends = reference.quantiles_ci95.p50.zip(level.quantiles_ci95.p50);
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

/// Compares every level with the lowest; `trips` is how often a publish goes to the platform and back.
pub(crate) fn infer(levels: &mut [LevelSummary], trips: u32) {
    // A level that measured this host says nothing of network or platform.
    let valid = |level: &LevelSummary| level.finished && level.validity == Validity::Valid;
    let measured = |level: &&LevelSummary| valid(level) && level.publish_time_from_send.n > 0;
    let lowest = levels.iter().filter(measured).min_by(|a, b| a.load().total_cmp(&b.load())).cloned();
    let Some(reference) = lowest else { return };
    for level in levels.iter_mut().filter(|level| valid(level) && level.index != reference.index) {
        level.inference = Some(compare(&reference, level, trips));
    }
}

fn compare(reference: &LevelSummary, level: &LevelSummary, trips: u32) -> Inference {
    let publish_rise = Rise::of(&reference.publish_time_from_send, &level.publish_time_from_send);
    let network_rise = Rise::of(&reference.wire.network_rtt, &level.wire.network_rtt);
    let certain = publish_rise.filter(Rise::is_certain);
    let share_of = |publish: Rise, network: f64| network * f64::from(trips) / publish.seconds;
    let share = certain.zip(network_rise).map(|(publish, network)| share_of(publish, network.seconds));
    // What the network's interval leaves open is not held against the platform.
    let shares = certain.zip(network_rise.and_then(|network| network.ci95));
    let publish_because = match (certain, shares) {
        (None, _) => PublishCause::NoRise,
        (Some(_), None) => PublishCause::Unknown,
        (_, Some((publish, [low, high]))) => match (share_of(publish, low), share_of(publish, high)) {
            (_, high) if high < SMALL => PublishCause::Platform,
            (low, _) if low > 1.0 - SMALL => PublishCause::Network,
            (low, high) if low >= SMALL && high <= 1.0 - SMALL => PublishCause::Both,
            _ => PublishCause::Unknown,
        },
    };
    let total_ratio = per_load(reference).zip(per_load(level)).map(|(from, to)| to / from);
    let more = |count: fn(&LevelSummary) -> u64| {
        let share = |level: &LevelSummary| count(level) as f64 / level.sent.max(1) as f64;
        count(level) > 0 && share(level) > share(reference)
    };
    let longer = total_ratio.is_some_and(|ratio| ratio > 1.0 + LONGER);
    let total_because = match (longer, more(|level| level.repeated), more(sent_again)) {
        (false, ..) => TotalCause::NoRise,
        (true, false, false) => TotalCause::Neither,
        (true, true, false) => TotalCause::Retries,
        (true, false, true) => TotalCause::Retransmissions,
        (true, true, true) => TotalCause::Both,
    };
    Inference {
        reference: reference.index,
        publish_rise,
        network_rise,
        publish_because,
        network_share: share,
        total_ratio,
        total_because,
    }
}

/// Requests or segments that were sent again because no acknowledgement came.
fn sent_again(level: &LevelSummary) -> u64 {
    level.retransmitted + level.wire.tcp_retransmissions.unwrap_or(0)
}

/// The total time for a second of hold, or in the closed model for a message.
fn per_load(level: &LevelSummary) -> Option<f64> {
    let of = match level.in_flight {
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
            let network = match self.network_rise {
                Some(network) if network.is_certain() => format!("rose by {}", time(network.seconds)),
                Some(_) if self.publish_because == PublishCause::Platform => "did not rise".to_owned(),
                Some(_) => "is not known well enough to compare".to_owned(),
                None => "was seen too seldom to compare".to_owned(),
            };
            let because = match self.publish_because {
                PublishCause::Network => ": it is the network",
                PublishCause::Platform => ": it is the platform",
                PublishCause::Both => ": it is both",
                PublishCause::Unknown | PublishCause::NoRise => "",
            };
            let rise = time(rise.seconds);
            told.push(format!("publish time rose by {rise}, the network's round trip {network}{because}"));
        }
        if let Some(ratio) = self.total_ratio.filter(|_| self.total_because != TotalCause::NoRise) {
            let again = |count: u64, what: &str, delay: &TimeSummary| {
                let each = delay.mean.map(|mean| format!(" after {} each", time(mean))).unwrap_or_default();
                format!("{count} {what}{each}")
            };
            let retries = again(level.repeated, "retries", &level.retry_delay);
            let retransmissions = match level.wire.tcp_retransmissions {
                Some(segments) if level.retransmitted == 0 => {
                    format!("{segments} TCP segments sent again")
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
            let like = if level.in_flight.is_some() { "as many messages" } else { "as long a hold" };
            told.push(format!("total time for {like} is {ratio:.2} times as long, {with}"));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WireSummary;

    /// A time whose median is known that well.
    fn median(p50: f64, half: f64) -> TimeSummary {
        let mut time = TimeSummary { n: 1000, p50: Some(p50), mean: Some(p50), ..TimeSummary::default() };
        time.quantiles_ci95.p50 = Some([p50 - half, p50 + half]);
        time
    }

    fn level(index: u16, publish: f64, network: Option<f64>) -> LevelSummary {
        LevelSummary {
            index,
            in_flight: Some(u32::from(index) + 1),
            finished: true,
            validity: Validity::Valid,
            acknowledged: Some(100),
            sent: 100,
            total_time: Some(100.0 * publish),
            publish_time_from_send: median(publish, 0.0001),
            wire: WireSummary {
                network_rtt: network.map(|rtt| median(rtt, 0.00002)).unwrap_or_default(),
                ..WireSummary::default()
            },
            ..LevelSummary::default()
        }
    }

    fn inferred(mut levels: Vec<LevelSummary>) -> Inference {
        infer(&mut levels, 1);
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
    fn a_level_that_measured_the_host_accuses_nobody() {
        let mut levels = vec![level(0, 0.004, Some(0.001)), level(1, 0.0091, Some(0.001))];
        levels[1].validity = Validity::HostBound;
        infer(&mut levels, 1);
        assert_eq!(levels[1].inference, None);
    }

    #[test]
    fn a_rise_within_the_intervals_is_none() {
        let mut vague = level(1, 0.0091, Some(0.001));
        vague.publish_time_from_send = median(0.0091, 0.02);
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
