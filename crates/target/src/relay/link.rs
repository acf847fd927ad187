//! When bytes get to the other side of a network. Pure: the caller says when they were sent.

use plimsoll_model::Nanos;
use plimsoll_stats::distribution::{Random, random};

/// Names the stream of random numbers that jitter is drawn from, in each direction.
const JITTER_STREAM: u64 = 0x6a69_7474_6572_0000;
const BITS: i128 = 8;
const SECOND: i128 = 1_000_000_000;

/// Names the stream of random numbers that losses are drawn from, in each direction.
const LOSS_STREAM: u64 = 0x6c6f_7373_6573_0000;

/// What a way through a network is like. The default is immediate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Network {
    /// How long everything takes, each way.
    pub delay: Nanos,
    /// How much longer it takes at most: drawn uniformly from zero on for what is read at once.
    pub jitter: Nanos,
    /// Bits a second of each way, which all connections share; `None` for any number.
    pub rate: Option<u64>,
    /// Share of the datagrams and of the segments of TCP that get lost.
    pub loss: f64,
}

/// What a fault makes of a way for a time. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disturbance {
    /// By how much everything takes longer.
    pub delay: Nanos,
    /// What is added to that at most.
    pub jitter: Nanos,
    /// Bits a second in place of those of the network, where that has more.
    pub rate: Option<u64>,
    /// Share of the datagrams that get lost beside those that the network loses.
    pub loss: f64,
}

/// One direction of a network, which all connections share.
#[derive(Clone, Debug)]
pub struct Link {
    network: Network,
    /// By how much everything takes longer that is sent from now on.
    longer: Nanos,
    /// What a fault adds from now on.
    disturbance: Disturbance,
    /// When what was sent so far has left the sender.
    free: Nanos,
    random: Random,
    losses: Random,
}

impl Link {
    /// Nothing was sent on it yet. `direction` tells the links of a relay apart.
    pub fn new(network: Network, seed: u64, direction: u64) -> Link {
        Link {
            network,
            longer: Nanos::ZERO,
            disturbance: Disturbance::default(),
            free: Nanos::ZERO,
            random: random(seed, &[JITTER_STREAM, direction]),
            losses: random(seed, &[LOSS_STREAM, direction]),
        }
    }

    /// Whether it loses the next datagram.
    pub fn loses(&mut self) -> bool {
        let kept = (1.0 - self.network.loss) * (1.0 - self.disturbance.loss);
        kept < 1.0 && self.losses.fraction() >= kept
    }

    /// What is sent from now on is disturbed so, and not as before.
    pub fn disturb(&mut self, disturbance: Disturbance) {
        self.disturbance = disturbance;
    }

    /// What is sent from now on takes longer by that than by its network.
    pub fn delay_by(&mut self, longer: Nanos) {
        self.longer = longer;
    }

    /// Nothing of what was sent is on it any more.
    pub fn clear(&mut self) {
        self.free = Nanos::ZERO;
    }

    /// When bytes get there that are sent at `now`, no earlier than others before them: they wait until the link is free, leave
    /// it at its rate, and are delayed.
    pub fn arrival(&mut self, now: Nanos, bytes: usize) -> Nanos {
        let left = match self.network.rate.into_iter().chain(self.disturbance.rate).min() {
            None => now,
            Some(rate) => {
                let time = bytes as i128 * BITS * SECOND / i128::from(rate.max(1));
                let time = Nanos(i64::try_from(time).unwrap_or(i64::MAX));
                self.free = Nanos(self.free.max(now).0.saturating_add(time.0));
                self.free
            }
        };
        let jitter = match self.network.jitter.0.saturating_add(self.disturbance.jitter.0) {
            jitter @ 1.. => self.random.below(jitter.unsigned_abs().saturating_add(1)).cast_signed(),
            _ => 0,
        };
        let delay = self.network.delay.0.saturating_add(self.longer.0);
        let delay = delay.saturating_add(self.disturbance.delay.0);
        Nanos(left.0.saturating_add(delay).saturating_add(jitter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Nanos = Nanos(1_000_000);

    #[test]
    fn a_link_delays_and_is_as_fast_as_its_rate() {
        let mut link = Link::new(Network { delay: MILLI, ..Network::default() }, 1, 0);
        assert_eq!(link.arrival(Nanos::ZERO, 1 << 20), MILLI);
        // 8 Mbit/s are 1,000 bytes in a millisecond.
        let mut link = Link::new(Network { delay: MILLI, rate: Some(8_000_000), ..Network::default() }, 1, 0);
        assert_eq!(link.arrival(Nanos::ZERO, 1000), MILLI * 2);
        assert_eq!(link.arrival(Nanos::ZERO, 2000), MILLI * 4, "behind the first");
        assert_eq!(link.arrival(MILLI * 10, 1000), MILLI * 12, "the link was free");
    }

    #[test]
    fn a_link_loses_the_share_that_it_is_told() {
        let mut link = Link::new(Network { loss: 0.1, ..Network::default() }, 1, 0);
        let lost = (0..10_000).filter(|_| link.loses()).count();
        // The standard error of a share of 10 % in 10,000 is 0.3 %.
        assert!((880..=1120).contains(&lost), "{lost}");
        assert!(!Link::new(Network::default(), 1, 0).loses());
    }

    #[test]
    fn a_disturbed_link_is_slower_and_loses_more_until_it_is_over() {
        let mut link = Link::new(Network { delay: MILLI, ..Network::default() }, 1, 0);
        link.disturb(Disturbance {
            delay: MILLI * 5,
            rate: Some(8_000_000),
            loss: 1.0,
            ..Disturbance::default()
        });
        assert_eq!(link.arrival(Nanos::ZERO, 1000), MILLI * 7);
        assert!(link.loses());
        link.disturb(Disturbance::default());
        assert_eq!(link.arrival(MILLI * 10, 1000), MILLI * 11);
        assert!(!link.loses());
    }

    #[test]
    fn jitter_is_drawn_up_to_its_bound_and_by_the_seed() {
        let network = Network { jitter: MILLI, ..Network::default() };
        let draw = |seed, direction| {
            let mut link = Link::new(network, seed, direction);
            (0..1000).map(|_| link.arrival(Nanos::ZERO, 1).0).collect::<Vec<_>>()
        };
        let drawn = draw(1, 0);
        assert!(drawn.iter().all(|&time| (0..=MILLI.0).contains(&time)));
        let mean = drawn.iter().sum::<i64>() as f64 / 1000.0;
        // The standard error of the mean of 1,000 uniform draws is 0.0091 of their range.
        assert!((mean / MILLI.0 as f64 - 0.5).abs() < 4.0 * 0.0091, "{mean}");
        assert_eq!(drawn, draw(1, 0));
        assert!(drawn != draw(2, 0) && drawn != draw(1, 1));
    }
}
