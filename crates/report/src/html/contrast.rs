//! Whether the colours of the style sheet can be read, in light and dark.

use super::STYLE;
use std::collections::BTreeMap;

/// The tones of the style sheet in one of its colour schemes.
fn tones(scheme: &str) -> BTreeMap<&str, [f64; 3]> {
    let tone = |line: &'static str| {
        let (name, value) = line.trim().strip_prefix("--")?.split_once(": #")?;
        let channel =
            |at: usize| u8::from_str_radix(value.get(at..at + 2)?, 16).ok().map(|c| f64::from(c) / 255.0);
        Some((name, [channel(0)?, channel(2)?, channel(4)?]))
    };
    let (light, rest) = STYLE.split_once("@media screen and (prefers-color-scheme: dark)").unwrap();
    let (dark, _) = rest.split_once("\n}\n").unwrap();
    if scheme == "light" { light } else { dark }.lines().filter_map(tone).collect()
}

/// The contrast of two colours (WCAG 2.2).
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let linear = |c: f64| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
    let luminance = |[r, g, b]: [f64; 3]| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    let (a, b) = (luminance(one) + 0.05, luminance(other) + 0.05);
    a.max(b) / a.min(b)
}

#[test]
fn every_text_has_a_contrast_of_at_least_four_and_a_half() {
    let text = ["ink", "ink-2", "ink-3", "dim", "accent", "c0", "c1", "c2", "c3", "c4", "c5", "cn"];
    let verdicts = ["met", "missed", "undecided", "invalid", "unfinished"];
    for (scheme, shade) in [("light", 0.11), ("dark", 0.18)] {
        let tones = tones(scheme);
        for name in text.iter().chain(&verdicts) {
            for ground in ["card", "page"] {
                let found = contrast(tones[name], tones[ground]);
                assert!(found >= 4.5, "{scheme}: {name} on {ground} {found:.2}");
            }
        }
        for name in verdicts {
            let (tone, card) = (tones[name], tones["card"]);
            let chip = [0, 1, 2].map(|at| tone[at] * shade + card[at] * (1.0 - shade));
            assert!(contrast(tone, chip) >= 4.5, "{scheme}: a chip of {name}");
        }
        for curve in 0..8 {
            let found = contrast(tones[format!("r{curve}").as_str()], tones["card"]);
            assert!(found >= 3.0, "{scheme}: curve {curve} {found:.2}");
        }
    }
}
