//! The times of messages as they were captured or given, which a level plays again at any speed.

use crate::Nanos;

/// Digits that a rate has for people.
const DIGITS: i32 = 6;
/// The longest trace: a year.
const LONGEST: Nanos = Nanos::from_secs(365 * 86_400);

/// When the messages of a population come, and from which device. When it is over, it begins again.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrivalTrace {
    /// From the beginning of the trace, in order.
    times: Vec<Nanos>,
    /// The device of each message, from zero; empty where the trace does not say.
    devices: Vec<u32>,
    /// How many devices it has; zero where it does not say.
    device_count: u32,
    length: Nanos,
}

impl ArrivalTrace {
    /// A trace of that length with messages at those times, each with its device where the trace has them. `None` where there is no
    /// message, they are not in order, one lies outside the length, or devices are not one for each message.
    pub fn new(times: Vec<Nanos>, devices: Vec<u32>, length: Nanos) -> Option<ArrivalTrace> {
        let (first, last) = (*times.first()?, *times.last()?);
        let fits = first >= Nanos::ZERO && last < length && times.is_sorted();
        let has_devices = devices.is_empty() || devices.len() == times.len();
        let device_count = devices.iter().max().map_or(0, |most| most.saturating_add(1));
        (fits && has_devices).then_some(ArrivalTrace { times, devices, device_count, length })
    }

    /// How long a trace of so many messages lasts whose first and last one are so far apart: behind the last message there is a mean
    /// gap before it begins again. `None` where that is longer than a year, or where there is no gap.
    pub fn length_of(span: Nanos, messages: usize) -> Option<Nanos> {
        let (span, gaps) = (i128::from(span.0), messages.saturating_sub(1) as i128);
        let length = (span * (gaps + 1)).checked_div(gaps)?.max(span + 1);
        (span > 0 && length <= i128::from(LONGEST.0)).then_some(Nanos(length as i64))
    }

    /// How long it lasts, from its beginning until it begins again.
    pub fn length(&self) -> Nanos {
        self.length
    }

    /// When each message comes, from the beginning of the trace.
    pub fn times(&self) -> &[Nanos] {
        &self.times
    }

    /// The device of a message by its place, from zero; `None` where the trace does not say.
    pub fn device(&self, place: usize) -> Option<u32> {
        self.devices.get(place).copied()
    }

    /// How many devices send; `None` where the trace does not say.
    pub fn devices(&self) -> Option<u32> {
        (self.device_count > 0).then_some(self.device_count)
    }

    /// Messages per second, to the digits of [`readable`]. A level of that rate plays the trace as fast as it was taken.
    pub fn rate(&self) -> f64 {
        readable(self.times.len() as f64 / self.length.as_secs_f64())
    }
}

/// A rate to six digits, so that people can read and write it.
pub fn readable(rate: f64) -> f64 {
    if !rate.is_finite() || rate <= 0.0 {
        return rate;
    }
    let decimals = (DIGITS - 1 - rate.log10().floor() as i32).clamp(0, 15) as usize;
    format!("{rate:.decimals$}").parse().unwrap_or(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: fn(i64) -> Nanos = Nanos::from_secs;

    #[test]
    fn a_trace_is_in_order_and_lasts_until_behind_its_last_message() {
        let trace = |times: &[i64], devices: &[u32], length| {
            ArrivalTrace::new(times.iter().map(|at| SECOND(*at)).collect(), devices.to_vec(), SECOND(length))
        };
        let whole = trace(&[0, 1, 1, 3], &[0, 1, 0, 2], 4).unwrap();
        assert_eq!((whole.rate(), whole.devices(), whole.device(3)), (1.0, Some(3), Some(2)));
        let nameless = trace(&[0, 2], &[], 6).unwrap();
        assert_eq!((nameless.rate(), nameless.devices(), nameless.device(0)), (0.333333, None, None));
        for wrong in [
            trace(&[], &[], 1),
            trace(&[2, 1], &[], 5),
            trace(&[0, 5], &[], 5),
            trace(&[-1, 5], &[], 9),
            trace(&[0, 1], &[0], 9),
        ] {
            assert_eq!(wrong, None);
        }
    }

    #[test]
    fn rates_have_six_digits() {
        for (rate, told) in
            [(1.0 / 3.0, 0.333333), (1234.56789, 1234.57), (98_765_432.1, 98_765_432.0), (0.0, 0.0)]
        {
            assert_eq!(readable(rate), told);
        }
    }
}
