//! For how much of a phase a component waited for others: whose messages wait because somebody else is slow cannot be told by
//! where they wait.

use plimsoll_capture::component::{Components, Party};
use plimsoll_capture::phases::Phases;
use plimsoll_capture::pulse::Pulse;
use std::collections::BTreeMap;

/// Looks at a phase that there must be, so that a share of them says something.
const FEWEST: usize = 20;

/// The share of a phase in which each component had a request of its own under way; none where that cannot be told. The
/// requests under way are counted ten times a second.
pub(super) fn asking(
    pulse: &Pulse,
    phases: &Phases,
    number: u16,
    components: &Components,
) -> BTreeMap<String, f64> {
    let (Some(phase), Some(next)) = (phases.get(number), phases.get(number.saturating_add(1))) else {
        return BTreeMap::new();
    };
    if !pulse.tells_all_pairs() {
        return BTreeMap::new();
    }
    let waiting = pulse.waiting();
    let beats = pulse.beats_by_party();
    let length = beats.values().next().map_or(0, Vec::len);
    let within: Vec<usize> =
        (0..length).filter(|&slot| (phase.begin..next.begin).contains(&pulse.begin(slot))).collect();
    if within.len() < FEWEST {
        return BTreeMap::new();
    }
    let share = |party: &Party| {
        let asks = |slot: usize| {
            waiting
                .iter()
                .any(|((asker, _), track)| asker == party && track.get(slot).is_some_and(|&count| count > 0))
        };
        within.iter().filter(|&&slot| asks(slot)).count() as f64 / within.len() as f64
    };
    beats.keys().map(|party| (components.name(party), share(party))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dissection::stalls::tests::{call, components};
    use plimsoll_capture::phases::Phase;
    use plimsoll_capture::request::Asking;
    use plimsoll_model::Nanos;

    #[test]
    fn who_waits_for_another_one_is_told_apart_from_who_is_slow_itself() {
        let mut pulse = Pulse::default();
        // The agent keeps each message for 80 ms and asks the context broker for 4.
        for number in 0..200 {
            let at = 0.0371 + f64::from(number) * 0.1003;
            call(&mut pulse, 0, 1, at, Some(at + 0.084), Asking::Now);
            call(&mut pulse, 1, 2, at + 0.08, Some(at + 0.084), Asking::Now);
        }
        let phase = |begin: i64, name: &str| Phase {
            begin: Nanos::from_secs(begin),
            name: name.into(),
            measured: true,
        };
        let phases = Phases::new(vec![phase(2, "level 1"), phase(18, "drain")]);
        let told = asking(&pulse, &phases, 1, &components());
        assert!(told["plimsoll"] > 0.7 && told["agent"] < 0.1 && told["context"] == 0.0, "{told:?}");
        assert!(asking(&pulse, &phases, 2, &components()).is_empty(), "a phase without an end");
    }
}
