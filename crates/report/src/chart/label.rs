//! Texts of a drawing: how wide they are about, and what fits.

/// About the width of a character of a label, at the larger size that narrow pages have.
const CHARACTER: f64 = 7.6;

/// About how wide a label is.
pub fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// A label of at most so many characters, shortened at its end.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['\u{2026}']).collect()
}

/// Of labels centred at places from left to right, those that do not run into the one before.
pub fn apart<'a, T>(labels: impl Iterator<Item = (f64, &'a str, T)>) -> Vec<(f64, &'a str, T)> {
    let mut end = f64::NEG_INFINITY;
    let mut kept = Vec::new();
    for (middle, text, other) in labels {
        let half = width(text) / 2.0;
        if middle - half > end {
            end = middle + half + 8.0;
            kept.push((middle, text, other));
        }
    }
    kept
}
