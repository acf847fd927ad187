//! The combination of steps that costs least and is enough, where more of anything never makes it less: branch and bound.
//!
//! Each axis rises in price and in what it brings. So an axis has a lowest step that can be enough at all: the one that is, with all of
//! each other axis. What the steps that are still open cost at least bounds a combination from below, and what costs as much as the best
//! one so far is left out.

/// Combinations that are looked at, at most.
const MOST: usize = 50_000;

/// What costs least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Least {
    /// The step of each axis.
    pub steps: Vec<usize>,
    /// Combinations that were looked at.
    pub looked_at: usize,
    /// Whether every other combination costs as much, or is not enough; false where the search ended before it knew that.
    pub is_certain: bool,
}

/// The combination that costs least of those that are enough; `None` where not even all of everything is. `prices` has those of each
/// axis, which rise from step to step; an axis has a step at least.
pub fn least(prices: &[Vec<f64>], is_enough: impl FnMut(&[usize]) -> bool) -> Option<Least> {
    // Without its last open axis, whose steps are the cheapest, a search has the fewest branches.
    let mut order: Vec<usize> = (0..prices.len()).collect();
    let first_rise = |axis: usize| match prices.get(axis).map(Vec::as_slice) {
        Some([first, second, ..]) => second - first,
        _ => f64::INFINITY,
    };
    order.sort_by(|one, other| first_rise(*other).total_cmp(&first_rise(*one)));
    let at = prices.iter().map(|steps| steps.len().saturating_sub(1)).collect();
    let mut search = Search { prices, order, is_enough, at, best: None, looked_at: 0 };
    if prices.is_empty() {
        return search.is_enough_now().then(|| Least { steps: Vec::new(), looked_at: 1, is_certain: true });
    }
    search.explore(0, 0.0);
    let (_, steps) = search.best?;
    Some(Least { steps, looked_at: search.looked_at, is_certain: search.looked_at <= MOST })
}

struct Search<'a, F> {
    prices: &'a [Vec<f64>],
    /// In which order axes are decided.
    order: Vec<usize>,
    is_enough: F,
    /// The step of each axis; those that are not decided yet are at their last one.
    at: Vec<usize>,
    best: Option<(f64, Vec<usize>)>,
    looked_at: usize,
}

impl<F: FnMut(&[usize]) -> bool> Search<'_, F> {
    fn price(&self, axis: usize, step: usize) -> f64 {
        self.prices.get(axis).and_then(|steps| steps.get(step)).copied().unwrap_or(f64::INFINITY)
    }

    fn last(&self, axis: usize) -> usize {
        self.prices.get(axis).map_or(0, |steps| steps.len().saturating_sub(1))
    }

    fn set(&mut self, axis: usize, step: usize) {
        if let Some(at) = self.at.get_mut(axis) {
            *at = step;
        }
    }

    fn is_enough_now(&mut self) -> bool {
        self.looked_at += 1;
        (self.is_enough)(&self.at)
    }

    /// The lowest step of an axis that is enough, while the others stay where they are; `None` where none is.
    fn lowest(&mut self, axis: usize) -> Option<usize> {
        let (before, last) = (self.at.get(axis).copied()?, self.last(axis));
        self.set(axis, last);
        let mut found = None;
        if self.is_enough_now() {
            let (mut low, mut high) = (0, last);
            while low < high {
                let middle = low + (high - low) / 2;
                self.set(axis, middle);
                if self.is_enough_now() { high = middle } else { low = middle + 1 }
            }
            found = Some(low);
        }
        self.set(axis, before);
        found
    }

    /// What the axes from that place on cost at least, each with all of the others that are open; `None` where that is not enough.
    fn rest(&mut self, place: usize) -> Option<f64> {
        let open: Vec<usize> = self.order.iter().skip(place).copied().collect();
        let mut sum = 0.0;
        for axis in open {
            let step = self.lowest(axis)?;
            sum += self.price(axis, step);
        }
        Some(sum)
    }

    fn is_no_better(&self, price: f64) -> bool {
        self.best.as_ref().is_some_and(|(best, _)| price >= *best)
    }

    /// Decides the axis at that place and those after it; those before it cost `price`.
    fn explore(&mut self, place: usize, price: f64) {
        let Some(axis) = self.order.get(place).copied() else { return };
        let Some(first) = self.lowest(axis) else { return };
        if place + 1 == self.order.len() {
            let whole = price + self.price(axis, first);
            if !self.is_no_better(whole) {
                let mut steps = self.at.clone();
                if let Some(step) = steps.get_mut(axis) {
                    *step = first;
                }
                self.best = Some((whole, steps));
            }
            return;
        }
        // The rest costs least beside all of this axis.
        let Some(cheapest_rest) = self.rest(place + 1) else { return };
        let last = self.last(axis);
        for step in first..=last {
            let own = price + self.price(axis, step);
            if self.is_no_better(own + cheapest_rest) || self.looked_at > MOST {
                break;
            }
            self.set(axis, step);
            match self.rest(place + 1) {
                Some(rest) if !self.is_no_better(own + rest) => self.explore(place + 1, own),
                _ => {}
            }
        }
        self.set(axis, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_stats::distribution::random;

    /// Every combination, tried one by one.
    fn by_trying(prices: &[Vec<f64>], mut is_enough: impl FnMut(&[usize]) -> bool) -> Option<f64> {
        let mut all: Vec<Vec<usize>> = vec![Vec::new()];
        for steps in prices {
            let with = |known: &Vec<usize>, step| known.iter().copied().chain([step]).collect();
            all = all.iter().flat_map(|known| (0..steps.len()).map(move |step| with(known, step))).collect();
        }
        let price =
            |chosen: &Vec<usize>| chosen.iter().zip(prices).map(|(step, own)| own[*step]).sum::<f64>();
        all.into_iter().filter(|chosen| is_enough(chosen)).map(|chosen| price(&chosen)).reduce(f64::min)
    }

    #[test]
    fn it_is_the_one_that_trying_all_of_them_finds() {
        let mut random = random(5, &[]);
        for case in 0..200 {
            let axes = 1 + case % 3;
            let prices: Vec<Vec<f64>> = (0..axes)
                .map(|_| {
                    let (own, base) = (random.fraction() * 10.0, random.fraction() * 5.0);
                    (0..8).map(|step| base + own * f64::from(step)).collect()
                })
                .collect();
            let worth: Vec<f64> = (0..axes).map(|_| 0.1 + random.fraction()).collect();
            let wanted = random.fraction() * 1.2;
            // Each axis alone is a bound, and what all lack together as well: as utilisations and waits are.
            let is_enough = |chosen: &[usize]| {
                let lacks = chosen.iter().zip(&worth).map(|(step, worth)| worth / (1.0 + *step as f64));
                lacks.sum::<f64>() <= wanted
            };
            let expected = by_trying(&prices, is_enough);
            let found = least(&prices, is_enough);
            let price = found
                .as_ref()
                .map(|own| own.steps.iter().zip(&prices).map(|(step, own)| own[*step]).sum::<f64>());
            match (price, expected) {
                (Some(price), Some(expected)) => {
                    assert!((price - expected).abs() < 1e-9, "{case}: {found:?}")
                }
                (found, expected) => assert_eq!(found, expected, "{case}"),
            }
            assert!(found.is_none_or(|own| own.is_certain));
        }
    }

    #[test]
    fn long_axes_take_few_looks() {
        let of = |price: f64| (1..=10_000).map(|count| price * f64::from(count)).collect::<Vec<f64>>();
        let prices: Vec<Vec<f64>> = vec![of(100.0), of(7.0), of(1.0)];
        let is_enough = |chosen: &[usize]| {
            let [store, front, broker] = [0, 1, 2].map(|axis| 1.0 + chosen[axis] as f64);
            let used = [40.0 / store, 20.0 / front, 10.0 / broker];
            used.iter().all(|used| *used < 1.0)
                && used.iter().map(|used| 1.0 / (1.0 - used)).sum::<f64>() <= 12.0
        };
        let found = least(&prices, is_enough).unwrap();
        assert!(found.is_certain && found.looked_at < 20_000, "{found:?}");
        assert!(is_enough(&found.steps));
        // No single step less is enough.
        for axis in 0..3 {
            let mut less = found.steps.clone();
            less[axis] -= 1;
            assert!(!is_enough(&less), "{found:?} {axis}");
        }
    }

    #[test]
    fn what_all_of_everything_does_not_reach_is_nothing_and_no_axis_is_as_it_is() {
        assert_eq!(least(&[vec![1.0, 2.0]], |_| false), None);
        let alone = least(&[], |_| true).unwrap();
        assert!(alone.steps.is_empty() && alone.is_certain);
    }
}
