//! Arrivals at the times of a trace. The hold of a level begins with the beginning of the trace, and the warm-up before it has the
//! trace's end. A level of another rate plays the same trace faster or slower.
//!
//! Where the trace says which device sends, a population of so many times its devices has so many copies of it. Each is shifted by an
//! equal part of the trace, so that the copies of a device do not send together. Otherwise devices take turns.

use crate::arrivals::Arrival;
use crate::share::Share;
use plimsoll_model::{ArrivalTrace, DeviceId, Nanos};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// A level in which a trace is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Playing {
    /// Operations per second over the whole population; positive.
    pub rate: f64,
    /// Devices of the whole population.
    pub devices: u32,
    /// When the hold begins, from the beginning of the warm-up.
    pub hold_start: Nanos,
    /// When the hold ends.
    pub hold_end: Nanos,
}

/// The arrivals of one share of a population up to the end of a hold, in the order of due times.
pub struct Replay {
    trace: Arc<ArrivalTrace>,
    playing: Playing,
    /// The part of a population that begins at zero.
    share: Share,
    /// The population's first number.
    first: u32,
    /// Nanoseconds of the level for each of the trace.
    stretch: f64,
    tracks: Vec<Track>,
    /// The next arrival of each copy, as its time and place.
    next: BinaryHeap<Reverse<(i64, u32)>>,
}

/// A copy of the trace, and how far it was played.
struct Track {
    /// Nanoseconds of the trace by which it comes later than the first copy.
    shift: f64,
    /// The device of the population that is its first one.
    first_device: u32,
    /// How often the trace was over, from the beginning of the hold; negative within the warm-up.
    round: i64,
    /// The next message, by its place in the trace.
    place: usize,
}

impl Replay {
    /// The arrivals from the beginning of the warm-up on.
    pub fn new(trace: Arc<ArrivalTrace>, playing: Playing, share: Share) -> Replay {
        let (share, first) = (share.from(0), share.first);
        // Without devices of its own, a trace is that of the whole population.
        let of_copy = trace.devices().unwrap_or(playing.devices).max(1);
        let count = playing.devices / of_copy;
        let speed = playing.rate / (f64::from(count.max(1)) * trace.rate());
        let stretch = 1.0 / speed;
        let owns_any = |first_device: &u32| {
            (*first_device..first_device.saturating_add(of_copy)).any(|device| share.owns(device))
        };
        let copies = (0..count).map(|copy| (copy, copy * of_copy)).filter(|(_, first)| owns_any(first));
        let length = trace.length().0 as f64;
        let tracks: Vec<Track> = copies
            .map(|(copy, first_device)| Track {
                shift: length * f64::from(copy) / f64::from(count),
                first_device,
                round: 0,
                place: 0,
            })
            .collect();
        let mut replay = Replay { trace, playing, share, first, stretch, tracks, next: BinaryHeap::new() };
        if !stretch.is_finite() || stretch <= 0.0 {
            return replay;
        }
        for track in 0..replay.tracks.len() {
            replay.begin(track);
            replay.queue(track);
        }
        replay
    }

    /// Puts a copy at its first message that is not due before the warm-up.
    fn begin(&mut self, track: usize) {
        let (trace, stretch, hold_start) = (&self.trace, self.stretch, self.playing.hold_start);
        let Some(own) = self.tracks.get_mut(track) else { return };
        let length = trace.length().0 as f64;
        // What the trace shows when the warm-up begins.
        let shown = -(hold_start.0 as f64 / stretch) - own.shift;
        own.round = (shown / length).floor() as i64;
        let within = shown - own.round as f64 * length;
        // A message earlier than that, where rounding could have passed it over.
        let earlier = trace.times().partition_point(|at| (at.0 as f64) < within).saturating_sub(1);
        own.place = earlier;
        while self.due(track) < Nanos::ZERO || !self.is_owned(track) {
            if self.due(track) >= self.playing.hold_end {
                return;
            }
            self.step(track);
        }
    }

    /// When the next message of a copy is due.
    fn due(&self, track: usize) -> Nanos {
        let Some((own, at)) =
            self.tracks.get(track).and_then(|own| Some((own, self.trace.times().get(own.place)?)))
        else {
            return Nanos::MAX;
        };
        let length = self.trace.length().0 as f64;
        let shown = own.round as f64 * length + at.0 as f64 + own.shift;
        self.playing.hold_start + Nanos((shown * self.stretch).round() as i64)
    }

    /// Whose the next message of a copy is.
    fn device(&self, track: usize) -> u32 {
        let Some(own) = self.tracks.get(track) else { return 0 };
        if let Some(device) = self.trace.device(own.place) {
            return own.first_device + device;
        }
        let messages = self.trace.times().len() as i64;
        let number = own.round * messages + own.place as i64;
        number.rem_euclid(i64::from(self.playing.devices.max(1))) as u32
    }

    fn is_owned(&self, track: usize) -> bool {
        self.share.owns(self.device(track))
    }

    /// Goes on to the next message of a copy.
    fn step(&mut self, track: usize) {
        let messages = self.trace.times().len();
        let Some(own) = self.tracks.get_mut(track) else { return };
        own.place += 1;
        if own.place >= messages {
            (own.place, own.round) = (0, own.round + 1);
        }
    }

    /// Has the message wait at which a copy is, where that is due before the end.
    fn queue(&mut self, track: usize) {
        let due = self.due(track);
        if due < self.playing.hold_end {
            self.next.push(Reverse((due.0, track as u32)));
        }
    }
}

impl Iterator for Replay {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let Reverse((due, track)) = self.next.pop()?;
        let track = track as usize;
        let device = DeviceId(self.first + self.device(track));
        self.step(track);
        while !self.is_owned(track) && self.due(track) < self.playing.hold_end {
            self.step(track);
        }
        self.queue(track);
        Some(Arrival { due: Nanos(due), device })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: fn(i64) -> Nanos = Nanos::from_millis;

    /// Four messages in a second of the trace; the last two come together.
    fn trace(devices: &[u32]) -> Arc<ArrivalTrace> {
        let times = [0, 100, 700, 700].map(MILLI).to_vec();
        Arc::new(ArrivalTrace::new(times, devices.to_vec(), MILLI(1_000)).unwrap())
    }

    fn playing(rate: f64, devices: u32) -> Playing {
        Playing { rate, devices, hold_start: MILLI(500), hold_end: MILLI(2_500) }
    }

    /// Milliseconds with devices.
    fn shown(replay: Replay) -> Vec<(i64, u32)> {
        replay.map(|arrival| (arrival.due.0 / 1_000_000, arrival.device.0)).collect()
    }

    #[test]
    fn the_hold_begins_with_the_trace_and_the_warm_up_has_its_end() {
        let own = Replay::new(trace(&[0, 1, 0, 1]), playing(4.0, 2), Share::WHOLE);
        let expected = [
            (200, 0),
            (200, 1),
            (500, 0),
            (600, 1),
            (1200, 0),
            (1200, 1),
            (1500, 0),
            (1600, 1),
            (2200, 0),
            (2200, 1),
        ];
        assert_eq!(shown(own), expected);
        // Twice as fast, in turn through three devices: the fourth message before the hold is that of device 2.
        let fast = shown(Replay::new(trace(&[]), playing(8.0, 3), Share::WHOLE));
        assert_eq!(fast[..5], [(0, 2), (50, 0), (350, 1), (350, 2), (500, 0)]);
        assert_eq!(fast.len(), 20);
    }

    /// Each device sends as often as in the trace, and not together with its twin.
    #[test]
    fn copies_are_shifted_by_equal_parts() {
        let copies = shown(Replay::new(trace(&[0, 1, 0, 1]), playing(8.0, 4), Share::WHOLE));
        let of = |device: u32| -> Vec<i64> {
            copies.iter().filter(|(_, own)| *own == device).map(|(at, _)| *at).collect()
        };
        assert_eq!(of(0), [200, 500, 1200, 1500, 2200]);
        assert_eq!(of(2), [0, 700, 1000, 1700, 2000]);
        assert_eq!((of(1).len(), of(3).len()), (5, 5));
    }

    #[test]
    fn any_number_of_threads_sees_the_same_due_times() {
        for (devices, population) in
            [(&[][..], 1), (&[], 7), (&[], 5_000), (&[0, 1, 0, 1], 2), (&[0, 1, 2, 0], 3_000)]
        {
            for rate in [0.5, 4.0, 977.0] {
                let playing = playing(rate, population);
                let mut whole: Vec<_> =
                    Replay::new(trace(devices), playing, Share { first: 9, ..Share::WHOLE }).collect();
                assert!(whole.is_sorted_by_key(|arrival| arrival.due));
                whole.sort();
                for of in [2, 3, 8, 64] {
                    let shares = (0..of).map(|index| Share { index, of, first: 9 });
                    let mut parts: Vec<_> =
                        shares.flat_map(|share| Replay::new(trace(devices), playing, share)).collect();
                    parts.sort();
                    assert_eq!(parts, whole, "{population} devices at {rate}/s on {of} threads");
                }
            }
        }
    }

    #[test]
    fn at_its_own_rate_a_trace_is_played_as_it_was_taken() {
        let times: Vec<Nanos> = (0..1_000).map(|number| Nanos(number * number * 7_919)).collect();
        let length = times[999] + Nanos(1_234_567);
        let trace = Arc::new(ArrivalTrace::new(times.clone(), Vec::new(), length).unwrap());
        let (hold_start, hold_end) = (MILLI(250), MILLI(250) + length);
        let playing = Playing { rate: trace.rate(), devices: 10, hold_start, hold_end };
        let due: Vec<Nanos> = Replay::new(trace, playing, Share::WHOLE)
            .map(|arrival| arrival.due)
            .filter(|due| *due >= hold_start)
            .collect();
        let expected: Vec<Nanos> = times.iter().map(|at| hold_start + *at).collect();
        assert_eq!(due, expected);
    }

    #[test]
    fn nothing_is_played_at_no_rate_or_for_no_device() {
        for (rate, devices) in [(0.0, 2), (f64::NAN, 2), (4.0, 0), (4.0, 1)] {
            let replay = Replay::new(trace(&[0, 1, 0, 1]), playing(rate, devices), Share::WHOLE);
            assert!(shown(replay).is_empty(), "{rate}/s of {devices}");
        }
    }
}
