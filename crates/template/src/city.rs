//! The city: streets of Porto and how fast traffic is on them in each hour. Made up, but as a city's own data would be;
//! computed row by row, so that any number of hours needs no memory.
//!
//! The use case and the shape of its message are those of work B (see `docs/metrics.md`): the average speed of each of
//! 19,884 street segments, hourly.

use crate::template::Columns;
use plimsoll_stats::distribution::random;

/// Names of the columns, in their order.
pub const COLUMNS: [&str; 6] =
    ["last_hour_average", "weekly_average", "combined_average", "edge_id", "lon", "lat"];
/// Street segments of the use case.
pub const SEGMENTS: u32 = 19_884;
/// Most segments of a city.
pub const MOST_SEGMENTS: u32 = 1_000_000;

/// Decimals of speeds and of coordinates, as in the use case.
const SPEED_DECIMALS: u32 = 6;
const PLACE_DECIMALS: u32 = 15;
/// Most characters of a value: a sign, two digits, a point and decimals.
const LONGEST: usize = 4 + PLACE_DECIMALS as usize;
/// The box around Porto and its neighbours, in degrees: west to east, south to north.
const LON: (f64, f64) = (-8.80, -8.40);
const LAT: (f64, f64) = (41.00, 41.55);
/// The middle of the town, and how far most of its streets are from there, in degrees.
const CENTRE: (f64, f64) = (-8.61, 41.16);
const SPREAD: f64 = 0.04;
/// Share of the segments that are streets of the town; the others lie anywhere in the box.
const IN_TOWN: f64 = 0.7;
/// Edge ids have nine digits.
const FIRST_ID: u32 = 100_000_000;
const IDS: u32 = 900_000_000;
/// The share of the free-flow speed that is left on a full street of a working day, by hour.
const WORKDAY: [f64; 24] = [
    1.00, 1.00, 1.00, 1.00, 1.00, 0.98, 0.90, 0.70, 0.55, 0.65, 0.76, 0.78, 0.74, 0.74, 0.77, 0.74, 0.65,
    0.54, 0.52, 0.64, 0.79, 0.88, 0.94, 0.98,
];
/// How much of a working day's slowness a weekend has.
const WEEKEND: f64 = 0.4;
const HOURS_OF_WEEK: u64 = 168;
/// Standard deviation of an hour's average around the usual one, and of the usual one around the law, as shares.
const HOURLY: f64 = 0.10;
const WEEKLY: f64 = 0.03;
/// Slowest average, in m/s: a jam.
const SLOWEST: f64 = 0.5;
/// Distinguishes the random numbers of cities from others.
const STREAM: u64 = 0x6369_7479_0000_0000;

/// A city. The same seed and number of segments give the same one.
#[derive(Clone, Debug)]
pub struct City {
    segments: Vec<Segment>,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    edge_id: u32,
    /// Degrees in units of the last decimal.
    lon: i64,
    lat: i64,
    /// Speed on the empty street, in m/s.
    free_flow: f64,
    /// How much of the law's slowness it shows, from 0 to 1.
    fullness: f64,
}

impl City {
    /// A city of so many segments, one at least.
    pub fn new(segments: u32, seed: u64) -> City {
        let count = segments.clamp(1, MOST_SEGMENTS);
        let step = IDS / count;
        let segments = (0..count).map(|number| {
            let mut numbers = random(seed, &[STREAM, u64::from(number)]);
            let mut within = |low: f64, high: f64| low + (high - low) * unit(numbers.bits());
            let edge_id = FIRST_ID + number * step + within(0.0, f64::from(step)) as u32;
            let (free_flow, fullness) = (within(0.0, 1.0), within(0.3, 1.0));
            // Most streets are slow, few are fast: 30 to 110 km/h.
            let free_flow = 8.3 + 22.2 * free_flow.powi(3);
            let anywhere = (within(LON.0, LON.1), within(LAT.0, LAT.1));
            let (lon, lat) = match within(0.0, 1.0) < IN_TOWN {
                true => (CENTRE.0 + SPREAD * numbers.normal(), CENTRE.1 + SPREAD * numbers.normal()),
                false => anywhere,
            };
            let inside = |value: f64, (low, high): (f64, f64), instead: f64| {
                if (low..high).contains(&value) { value } else { instead }
            };
            let lon = units(inside(lon, LON, anywhere.0), PLACE_DECIMALS);
            let lat = units(inside(lat, LAT, anywhere.1), PLACE_DECIMALS);
            Segment { edge_id, lon, lat, free_flow, fullness }
        });
        City { segments: segments.collect(), seed }
    }

    /// How many segments it has.
    pub fn segments(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Appends the value of a column for a segment in an hour. Hour 0 is the first after midnight of a Monday.
    pub fn write(&self, column: usize, segment: u32, hour: u64, out: &mut Vec<u8>) {
        let Some(street) = self.segments.get(segment as usize) else { return };
        let (value, decimals) = match column {
            0 => (units(self.last_hour(street, segment, hour), SPEED_DECIMALS), SPEED_DECIMALS),
            1 => (units(self.weekly(street, segment, hour), SPEED_DECIMALS), SPEED_DECIMALS),
            2 => {
                let both = self.last_hour(street, segment, hour) + self.weekly(street, segment, hour);
                (units(both / 2.0, SPEED_DECIMALS), SPEED_DECIMALS)
            }
            3 => (i64::from(street.edge_id), 0),
            4 => (street.lon, PLACE_DECIMALS),
            5 => (street.lat, PLACE_DECIMALS),
            _ => return,
        };
        fixed(value, decimals, out);
    }

    /// The average of the hour, in m/s.
    fn last_hour(&self, street: &Segment, segment: u32, hour: u64) -> f64 {
        let usual = self.weekly(street, segment, hour);
        let chance = deviation(&[self.seed, u64::from(segment), hour + HOURS_OF_WEEK]);
        (usual * (1.0 + HOURLY * chance)).max(SLOWEST)
    }

    /// The usual average of this hour of the week, in m/s.
    fn weekly(&self, street: &Segment, segment: u32, hour: u64) -> f64 {
        let of_week = hour % HOURS_OF_WEEK;
        let law = WORKDAY.get((of_week % 24) as usize).copied().unwrap_or(1.0);
        let slowness = (1.0 - law) * street.fullness * if of_week >= 120 { WEEKEND } else { 1.0 };
        let chance = deviation(&[self.seed, u64::from(segment), of_week]);
        (street.free_flow * (1.0 - slowness) * (1.0 + WEEKLY * chance)).max(SLOWEST)
    }
}

/// A city's rows as so many devices say them: one row a message, all segments of the first hour, then those of the next.
#[derive(Debug)]
pub struct Rows {
    /// The city.
    pub city: City,
    /// Devices that take rows in turn.
    pub devices: u32,
    /// The number of the first of them.
    pub first_device: u32,
}

impl Columns for Rows {
    fn write(&self, column: usize, device: u32, sequence: u32, out: &mut Vec<u8>) {
        let own = device.saturating_sub(self.first_device);
        let message = u64::from(sequence) * u64::from(self.devices) + u64::from(own);
        let segments = u64::from(self.city.segments().max(1));
        self.city.write(column, (message % segments) as u32, message / segments, out);
    }

    fn longest(&self, _: usize) -> usize {
        LONGEST
    }
}

/// A number from 0 to 1, 1 excluded, from random bits.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number of about the standard normal distribution, always the same for the same key: the sum of four uniform ones.
/// It is drawn for each value of a row, so it must be cheap.
fn deviation(key: &[u64; 3]) -> f64 {
    // The finaliser of SplitMix64 (Steele, Lea, Flood 2014) after each part of the key.
    let bits = key.iter().fold(0, |bits: u64, part| {
        let mixed = (bits ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    });
    let part = |shift: u32| f64::from((bits >> shift) as u16) / f64::from(u16::MAX);
    // The sum of four has mean 2 and variance 4 / 12.
    (part(0) + part(16) + part(32) + part(48) - 2.0) * 3.0_f64.sqrt()
}

/// A value in units of its last decimal.
fn units(value: f64, decimals: u32) -> i64 {
    (value * 10_f64.powi(decimals as i32)).round() as i64
}

/// Appends a number given in units of its last decimal.
fn fixed(value: i64, decimals: u32, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let mut digits = [b'0'; LONGEST + 2];
    let (mut rest, mut count) = (value.unsigned_abs(), 0);
    let least = decimals as usize + 1;
    for place in digits.iter_mut().rev() {
        if rest == 0 && count >= least {
            break;
        }
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
    }
    let written = digits.get(digits.len() - count..).unwrap_or_default();
    let (whole, fraction) = written.split_at(count.saturating_sub(decimals as usize));
    out.extend_from_slice(whole);
    if !fraction.is_empty() {
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The message of work B.
    const SAMPLE: &str = r#"{"last_hour_average":8.942157,"weekly_average":9.942157,"combined_average":7.942157,"edge_id":146212295,"lon":-8.449180921568626,"lat":41.51657045098038}"#;

    fn text(city: &City, column: usize, segment: u32, hour: u64) -> String {
        let mut out = Vec::new();
        city.write(column, segment, hour, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn mean_speed(city: &City, hour: u64) -> f64 {
        let sum: f64 =
            (0..city.segments()).map(|segment| text(city, 0, segment, hour).parse::<f64>().unwrap()).sum();
        sum / f64::from(city.segments())
    }

    #[test]
    fn a_row_has_the_shape_of_the_use_case() {
        let city = City::new(SEGMENTS, 1);
        let members: Vec<String> = COLUMNS
            .iter()
            .enumerate()
            .map(|(column, name)| format!("\"{name}\":{}", text(&city, column, 7, 8)))
            .collect();
        let message = format!("{{{}}}", members.join(","));
        let shape = |text: &str| -> Vec<(String, bool, usize)> {
            let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
            let members = object.iter().map(|(name, value)| {
                let whole = value.to_string().split('.').next().unwrap_or_default().len();
                (name.clone(), value.is_f64(), if name == "edge_id" { whole } else { 0 })
            });
            members.collect()
        };
        assert_eq!(shape(&message), shape(SAMPLE));
        // Two characters more or less: speeds of one or two digits, a coordinate's last zeros.
        assert!(message.len().abs_diff(SAMPLE.len()) <= 4, "{message}");
    }

    #[test]
    fn segments_lie_in_their_box_and_have_ids_of_their_own() {
        let city = City::new(SEGMENTS, 3);
        let ids: HashSet<String> = (0..SEGMENTS).map(|segment| text(&city, 3, segment, 0)).collect();
        assert_eq!(ids.len(), SEGMENTS as usize);
        assert!(ids.iter().all(|id| id.len() == 9));
        for segment in 0..SEGMENTS {
            let place = |column| text(&city, column, segment, 5).parse::<f64>().unwrap();
            assert!((LON.0..LON.1).contains(&place(4)) && (LAT.0..LAT.1).contains(&place(5)), "{segment}");
        }
        assert_eq!(text(&city, 4, 9, 0), text(&city, 4, 9, 1000));
    }

    #[test]
    fn rush_hours_are_slow_and_weekends_faster() {
        let city = City::new(2000, 1);
        let [night, morning, noon, evening] = [3, 8, 11, 18].map(|hour| mean_speed(&city, hour));
        assert!(morning < noon && evening < noon && noon < night, "{night} {morning} {noon} {evening}");
        // Saturday.
        assert!(mean_speed(&city, 5 * 24 + 8) > morning);
        assert!((5.0..20.0).contains(&night), "{night}");
        for hour in 0..200 {
            let [last, usual, both] =
                [0, 1, 2].map(|column| text(&city, column, 4, hour).parse::<f64>().unwrap());
            assert!((both - (last + usual) / 2.0).abs() < 2e-6 && last >= SLOWEST, "{last} {usual} {both}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_city() {
        let row = |city: &City| (0..6).map(|column| text(city, column, 5, 77)).collect::<Vec<_>>();
        assert_eq!(row(&City::new(100, 1)), row(&City::new(100, 1)));
        assert_ne!(row(&City::new(100, 1)), row(&City::new(100, 2)));
        assert_eq!(text(&City::new(100, 1), 0, 100, 0), "");
    }

    #[test]
    fn with_as_many_devices_as_segments_each_device_is_a_segment() {
        let city = City::new(50, 1);
        let rows = Rows { city: city.clone(), first_device: 0, devices: 50 };
        let mut out = Vec::new();
        rows.write(0, 7, 3, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text(&city, 0, 7, 3));
        // Fewer devices share the rows of an hour among them.
        let rows = Rows { city: city.clone(), first_device: 0, devices: 20 };
        let mut out = Vec::new();
        rows.write(3, 9, 3, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text(&city, 3, 19, 1));
    }

    #[test]
    fn numbers_are_written_with_all_their_decimals() {
        for (value, decimals, expected) in [
            (0, 0, "0"),
            (0, 3, "0.000"),
            (-5, 3, "-0.005"),
            (1_234_567, 6, "1.234567"),
            (-8_449_180_921_568_626, 15, "-8.449180921568626"),
            (i64::MIN, 15, "-9223.372036854775808"),
        ] {
            let mut out = Vec::new();
            fixed(value, decimals, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
