//! An emulated network between a client and the platform, in user space: what either side sends arrives after a delay,
//! in order. It lets clients be near and far without rights on the host; what TCP itself does over a long way (slow
//! start, retransmission) is not emulated.

use plimsoll_model::Nanos;
use plimsoll_scenario::plan::LinkPlan;
use plimsoll_stats::distribution::Random;
use std::collections::VecDeque;

/// Bytes on their way in one direction, beyond which no more are taken.
const FULL: usize = 1024 * 1024;

/// Both directions of one client's connection.
pub struct Link {
    plan: LinkPlan,
    /// To the platform.
    pub up: Line,
    /// From the platform.
    pub down: Line,
    /// When the TCP handshake, which takes a way there and back, is over; `None` once it is.
    pub connected_at: Option<Nanos>,
}

impl Link {
    /// An empty link; `None` where the plan has no delay.
    pub fn new(plan: LinkPlan) -> Option<Box<Link>> {
        let link = Link { plan, up: Line::default(), down: Line::default(), connected_at: None };
        plan.delays().then(|| Box::new(link))
    }

    /// A delay of one way, drawn.
    pub fn draw(&self, random: &mut Random) -> Nanos {
        let jitter = self.plan.jitter.0 as f64 * (2.0 * random.fraction() - 1.0);
        (self.plan.delay + Nanos(jitter as i64)).max(Nanos::ZERO)
    }

    /// Forgets everything: the connection is no more.
    pub fn clear(&mut self) {
        self.up = Line::default();
        self.down = Line::default();
        self.connected_at = None;
    }
}

/// One direction: bytes and when they arrive.
#[derive(Default)]
pub struct Line {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    newest: Nanos,
}

/// Bytes that were sent together.
pub struct Chunk {
    /// When they arrive.
    pub arrives: Nanos,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How long they had been in our kernel before they were read, for those from the platform.
    pub lag: Option<Nanos>,
}

impl Line {
    /// Whether no more can be taken at present.
    pub fn is_full(&self) -> bool {
        self.bytes >= FULL
    }

    /// Sends bytes on their way. They do not overtake earlier ones.
    pub fn send(&mut self, bytes: &[u8], arrives: Nanos, lag: Option<Nanos>) {
        self.newest = self.newest.max(arrives);
        self.bytes += bytes.len();
        self.chunks.push_back(Chunk { arrives: self.newest, bytes: bytes.to_vec(), lag });
    }

    /// The next bytes that have arrived by then.
    pub fn arrived(&mut self, now: Nanos) -> Option<Chunk> {
        self.next().filter(|&arrives| arrives <= now)?;
        let chunk = self.chunks.pop_front()?;
        self.bytes -= chunk.bytes.len();
        Some(chunk)
    }

    /// Puts bytes back that could not be handed over.
    pub fn put_back(&mut self, chunk: Chunk) {
        self.bytes += chunk.bytes.len();
        self.chunks.push_front(chunk);
    }

    fn next(&self) -> Option<Nanos> {
        self.chunks.front().map(|chunk| chunk.arrives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_stats::distribution::random;

    fn plan(delay: i64, jitter: i64) -> LinkPlan {
        LinkPlan { delay: Nanos::from_millis(delay), jitter: Nanos::from_millis(jitter) }
    }

    #[test]
    fn bytes_arrive_in_order_whatever_the_jitter() {
        let mut line = Line::default();
        for (byte, arrives) in [(1, 30), (2, 10), (3, 40)] {
            line.send(&[byte], Nanos(arrives), None);
        }
        assert!(line.arrived(Nanos(29)).is_none());
        let arrived: Vec<(i64, u8)> = std::iter::from_fn(|| line.arrived(Nanos(39)))
            .map(|chunk| (chunk.arrives.0, chunk.bytes[0]))
            .collect();
        assert_eq!(arrived, [(30, 1), (30, 2)]);
        assert_eq!(line.next(), Some(Nanos(40)));
    }

    #[test]
    fn delays_spread_evenly_around_their_mean_and_are_never_negative() {
        let link = Link::new(plan(50, 10)).unwrap();
        let mut random = random(1, &[2]);
        let drawn: Vec<f64> = (0..10_000).map(|_| link.draw(&mut random).as_secs_f64()).collect();
        assert!(drawn.iter().all(|delay| (0.04..=0.06).contains(delay)));
        // Standard error 0.0058 / 100; five of it.
        assert!((drawn.iter().sum::<f64>() / 10_000.0 - 0.05).abs() < 3e-4);
        let short = Link::new(plan(1, 10)).unwrap();
        assert!((0..1000).all(|_| short.draw(&mut random) >= Nanos::ZERO));
        assert!(Link::new(plan(0, 0)).is_none());
    }

    #[test]
    fn a_full_line_takes_no_more() {
        let mut line = Line::default();
        line.send(&vec![0; FULL], Nanos(1), None);
        assert!(line.is_full());
        line.arrived(Nanos(1));
        assert!(!line.is_full());
    }
}
