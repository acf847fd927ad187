//! The pause before a client connects again: longer after each failure, and at random, so that many who were lost together do not
//! come back together.

use plimsoll_model::Nanos;
use plimsoll_stats::distribution::Random;

/// One client's pause.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pause: Nanos,
}

impl Backoff {
    /// Before any failure.
    pub fn new((first, _): (Nanos, Nanos)) -> Backoff {
        Backoff { pause: first }
    }

    /// The next pause: half of what it is to be, and up to half more at random. The one after it is twice as long, up to the longest.
    pub fn next(&mut self, (_, longest): (Nanos, Nanos), random: &mut Random) -> Nanos {
        let pause = Nanos::from_secs_f64(self.pause.as_secs_f64() * (0.5 + 0.5 * random.fraction()));
        self.pause = (self.pause * 2).min(longest);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_stats::distribution::random;

    #[test]
    fn pauses_double_up_to_the_longest_and_differ_by_chance() {
        let pauses = (Nanos::from_secs(1), Nanos::from_secs(4));
        let (mut backoff, mut random) = (Backoff::new(pauses), random(1, &[]));
        for most in [1.0, 2.0, 4.0, 4.0] {
            let pause = backoff.next(pauses, &mut random).as_secs_f64();
            assert!((most / 2.0..=most).contains(&pause), "{pause} of {most}");
        }
    }
}
