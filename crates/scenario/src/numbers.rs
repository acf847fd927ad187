//! Values of a key as numbers that can be compared and drawn.

use crate::quantity::{Quantity, Rate, Share, Size};
use plimsoll_model::Nanos;

/// Reads a quantity of one kind, in its base unit.
type Reader = fn(&str) -> Option<f64>;

/// The kinds of quantities, with their base units.
const KINDS: [(&str, Reader); 4] = [
    ("s", |text| Nanos::parse(text).ok().map(Nanos::as_secs_f64)),
    ("/s", |text| Rate::parse(text).ok().map(|rate| rate.0)),
    ("B", |text| Size::parse(text).ok().map(|size| f64::from(size.0))),
    ("", |text| Share::parse(text).ok().map(|share| share.0)),
];

/// The numbers of values that are quantities of one kind, and their unit: the one that all are written with, else the base unit
/// of their kind. `None` where one is no quantity, or one of another kind.
pub fn numbers(values: &[String]) -> Option<(Vec<f64>, &str)> {
    let alike = of_one_unit(values);
    alike.or_else(|| KINDS.iter().find_map(|(unit, read)| Some((all(values, *read)?, *unit))))
}

/// The numbers of values that have the same unit, whichever that is, or none.
fn of_one_unit(values: &[String]) -> Option<(Vec<f64>, &str)> {
    if let Some(numbers) = all(values, |value| value.trim().parse().ok()) {
        return Some((numbers, ""));
    }
    let unit = split(values.first()?)?.1;
    let is_unit = unit.chars().all(|c| !c.is_ascii_digit() && c != '-' && c != '+');
    let number = |value: &String| split(value).filter(|(_, own)| *own == unit)?.0.parse::<f64>().ok();
    let numbers: Option<Vec<f64>> = values.iter().map(number).collect();
    numbers.filter(|numbers| is_unit && are_finite(numbers)).map(|numbers| (numbers, unit))
}

/// What stands before and after the end of the number with which a value begins.
fn split(value: &str) -> Option<(&str, &str)> {
    let value = bare(value);
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    value.split_at_checked(end).map(|(number, rest)| (number, rest.trim()))
}

/// A list of one value is as that value: keys such as `load.in_flight` have lists.
fn bare(value: &str) -> &str {
    let value = value.trim();
    let inner = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.filter(|inner| !inner.contains(',')).unwrap_or(value).trim()
}

fn all(values: &[String], read: Reader) -> Option<Vec<f64>> {
    let numbers: Option<Vec<f64>> = values.iter().map(|value| read(bare(value))).collect();
    numbers.filter(|numbers| are_finite(numbers))
}

fn are_finite(numbers: &[f64]) -> bool {
    numbers.iter().all(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(values: &[&str]) -> Option<(Vec<f64>, String)> {
        let values: Vec<String> = values.iter().map(|value| (*value).into()).collect();
        numbers(&values).map(|(numbers, unit)| (numbers, unit.to_owned()))
    }

    #[test]
    fn values_keep_the_unit_that_all_have() {
        assert_eq!(told(&["0.5", "1"]), Some((vec![0.5, 1.0], String::new())));
        assert_eq!(told(&["[1]", "[ 20 ]"]), Some((vec![1.0, 20.0], String::new())));
        assert_eq!(told(&["[1, 2]", "[3]"]), None);
        assert_eq!(told(&["1e-4", "0.001"]), Some((vec![1e-4, 1e-3], String::new())));
        assert_eq!(told(&["1k", "2k"]), Some((vec![1.0, 2.0], "k".into())));
        assert_eq!(told(&["0ms", "10 ms"]), Some((vec![0.0, 10.0], "ms".into())));
    }

    #[test]
    fn quantities_of_one_kind_are_converted_to_its_base_unit() {
        assert_eq!(told(&["64", "1KiB"]), Some((vec![64.0, 1024.0], "B".into())));
        assert_eq!(told(&["500", "1k", "2k/s"]), Some((vec![500.0, 1000.0, 2000.0], "/s".into())));
        assert_eq!(told(&["5 %", "0.1"]), Some((vec![0.05, 0.1], String::new())));
        assert_eq!(told(&["1s", "10ms"]), Some((vec![1.0, 0.01], "s".into())));
        assert_eq!(told(&["1h30m", "2h30m"]), Some((vec![5400.0, 9000.0], "s".into())));
    }

    #[test]
    fn others_are_no_numbers() {
        let huge = "9".repeat(400) + "ms";
        for values in [
            &["serial"][..],
            &[""],
            &["1", "serial"],
            &["1s", "1KiB"],
            &["3.1.1", "5"],
            &["127.0.0.1", "127.0.0.2"],
            &["inf", "1"],
            &[huge.as_str(), "1ms"],
        ] {
            assert_eq!(told(values), None, "{values:?}");
        }
    }
}
