//! Where the values of a sequence change for good.
//!
//! The statistic is that of Pettitt ("A non-parametric approach to the change-point problem", Applied Statistics 28, 1979): of all
//! divisions in two, the one in which the ranks of both sides differ most. Its chance is that of a permutation test: how many of some random
//! orders of the same values differ as much. The two sides are searched again.

use crate::distribution::{Random, random};

/// Random orders of the values.
const ORDERS: usize = 1_999;
/// Seeds them: equal values give equal answers.
const SEED: u64 = 0x70ed;

/// The places at which changes begin, in order: each is the first of other values than before. `chance` bounds the probability that a part
/// of equally distributed values in any order has a change.
pub fn change_points(values: &[f64], chance: f64) -> Vec<usize> {
    let mut found = Vec::new();
    search(values, 0, chance, &mut found);
    found.sort_unstable();
    found
}

fn search(values: &[f64], first: usize, chance: f64, found: &mut Vec<usize>) {
    let Some(at) = change(values, chance) else { return };
    let (before, after) = values.split_at(at);
    found.push(first + at);
    search(before, first, chance, found);
    search(after, first + at, chance, found);
}

/// The division of values that differs most, if a random order seldom differs as much.
fn change(values: &[f64], chance: f64) -> Option<usize> {
    let mut ranks = ranks(values);
    let (at, observed) = division(&ranks)?;
    let mut random = random(SEED, &[values.len() as u64]);
    let mut as_much = 0;
    for _ in 0..ORDERS {
        shuffle(&mut ranks, &mut random);
        as_much += usize::from(division(&ranks).is_some_and(|(_, statistic)| statistic >= observed));
    }
    let share = (as_much + 1) as f64 / (ORDERS + 1) as f64;
    (share <= chance).then_some(at)
}

/// Twice the rank of each value; equal values share theirs.
fn ranks(values: &[f64]) -> Vec<i64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        (2 * below + equal + 1) as i64
    };
    values.iter().map(rank).collect()
}

/// The first place of the second part of the division that differs most, and by how much; `None` of fewer than two.
fn division(ranks: &[i64]) -> Option<(usize, i64)> {
    let mean = ranks.len() as i64 + 1;
    let mut sum = 0;
    let divisions = ranks.iter().enumerate().take(ranks.len().saturating_sub(1)).map(|(at, rank)| {
        sum += rank - mean;
        (at + 1, i64::abs(sum))
    });
    // The first of equal ones.
    divisions.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

fn shuffle(ranks: &mut [i64], random: &mut Random) {
    for last in (1..ranks.len()).rev() {
        ranks.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_where_it_is() {
        let step = |at: usize, count: usize| -> Vec<f64> {
            (0..count).map(|place| if place < at { 100.0 } else { 80.0 } + (place % 3) as f64).collect()
        };
        assert_eq!(change_points(&step(6, 12), 0.01), [6]);
        assert_eq!(change_points(&step(12, 20), 0.01), [12]);
        let two: Vec<f64> =
            step(8, 16).into_iter().chain((0..8).map(|place| 120.0 + f64::from(place % 2))).collect();
        assert_eq!(change_points(&two, 0.01), [8, 16]);
    }

    #[test]
    fn few_or_equal_values_have_no_change() {
        for values in [&[][..], &[1.0], &[1.0, 2.0], &[1.0, 1.0, 5.0, 5.0], &[3.0; 40]] {
            assert_eq!(change_points(values, 0.01), [0; 0], "{values:?}");
        }
    }

    /// Of 400 sequences without a change, about one in a hundred has one: not more than an exact binomial test at 1 % allows. Of those with
    /// a step of three standard deviations, at least 85 % have it, within a place or two.
    #[test]
    fn chance_seldom_makes_a_change_and_a_step_is_seldom_missed() {
        let mut random = random(11, &[1]);
        let mut noise = |count: usize| -> Vec<f64> { (0..count).map(|_| random.normal()).collect() };
        let alarms = (0..400).filter(|_| !change_points(&noise(20), 0.01).is_empty()).count();
        assert!(alarms <= 10, "{alarms} of 400");
        let found = (0..200).filter(|_| {
            let mut values = noise(20);
            values.iter_mut().skip(12).for_each(|value| *value += 3.0);
            change_points(&values, 0.01).iter().any(|at| at.abs_diff(12) <= 2)
        });
        let found = found.count();
        assert!(found >= 170, "{found} of 200");
    }
}
