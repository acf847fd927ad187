//! Numbers, times, sizes and long texts for people: on 80 columns, with or without colour.

use plimsoll_model::Nanos;
use plimsoll_model::text::grouped;

/// Columns that a text may take.
pub const WIDTH: usize = 80;

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// ANSI colours.
    On,
    /// Plain text.
    Off,
}

/// What a coloured word says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tint {
    /// Good.
    Green,
    /// Bad.
    Red,
    /// Neither.
    Yellow,
}

/// A word in a colour.
pub(crate) fn paint(text: &str, tint: Tint, colour: Colour) -> String {
    let code = match tint {
        Tint::Green => 32,
        Tint::Red => 31,
        Tint::Yellow => 33,
    };
    match colour {
        Colour::On => format!("\x1b[1;{code}m{text}\x1b[0m"),
        Colour::Off => text.to_owned(),
    }
}

/// A time in seconds, for people; `-` where it does not exist.
pub fn time(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_owned(), |seconds| Nanos::from_secs_f64(seconds).to_string())
}

/// A rate: with thousands set apart, and with decimals where it is small.
pub fn rate(number: f64) -> String {
    if number >= 100.0 || number.fract() == 0.0 { count(number) } else { format!("{number:.2}") }
}

/// A number with two decimals; zero has no sign.
pub(crate) fn hundredths(number: f64) -> String {
    format!("{:.2}", (number * 100.0).round() / 100.0 + 0.0)
}

/// A whole number with thousands set apart.
pub fn count(number: f64) -> String {
    grouped(number.round_ties_even())
}

/// A text with a capital at its beginning.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A share in percent with two digits, never rounded up to all of it.
pub fn floor_percent(share: f64) -> f64 {
    (share * 1e4 + 1e-6).floor() / 100.0
}

/// A size for people.
pub fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (bytes.max(1.0).log2() / 10.0).floor().min(4.0) as usize;
    let value = bytes / 1024f64.powi(power as i32);
    let unit = units.get(power).copied().unwrap_or("B");
    if power == 0 { format!("{} {unit}", count(value)) } else { format!("{value:.1} {unit}") }
}

/// Words on lines of the terminal's width, each line with an indent.
pub fn wrapped(text: &str, indent: &str) -> Vec<String> {
    hanging(indent, text, indent)
}

/// The same behind what the first line begins with.
pub(crate) fn hanging(first: &str, text: &str, indent: &str) -> Vec<String> {
    broken(first, text, indent, WIDTH)
}

/// The same on lines of another width.
pub(crate) fn broken(first: &str, text: &str, indent: &str, width: usize) -> Vec<String> {
    let mut lines = vec![first.to_owned()];
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let fits = lines.last().is_some_and(|line| line.chars().count() + 1 + word.chars().count() <= width);
        match lines.last_mut() {
            Some(line) if is_empty => line.push_str(word),
            Some(line) if fits => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
        is_empty = false;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!((hundredths(-0.004), hundredths(-0.006)), ("0.00".into(), "-0.01".into()));
        assert_eq!([0.0, 999.0, 1000.0, 1_234_567.0].map(count), ["0", "999", "1,000", "1,234,567"]);
        let sizes = [10.0, 1020.0, 2048.0, 3.5 * 1024.0 * 1024.0].map(bytes);
        assert_eq!(sizes, ["10 B", "1,020 B", "2.0 KiB", "3.5 MiB"]);
        assert_eq!(floor_percent(0.99999), 99.99);
    }

    #[test]
    fn long_texts_are_wrapped_and_indented() {
        let lines = wrapped(&"word ".repeat(40), "  ");
        assert!(lines.len() > 2 && lines.iter().all(|line| line.len() <= WIDTH && line.starts_with("  ")));
    }
}
