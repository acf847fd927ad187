//! For how much of a phase a component waited for others, and for how much it was occupied itself: whose messages wait because somebody
//! else is slow cannot be told by where they wait.

use plimsoll_capture::component::{Components, Party};
use plimsoll_capture::phases::Phases;
use plimsoll_capture::pulse::Pulse;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Looks at a phase that there must be, so that a share of them says something.
const FEWEST: usize = 20;

/// Who was occupied by itself in a phase, of components that ask others or are asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct Occupation {
    /// Which.
    pub component: String,
    /// How often it was looked who waits for whom, ten times a second.
    pub looks: u64,
    /// Looks at which it had no request under way at somebody else, and somebody had one at it; of one that nobody ever asks, all at which it
    /// had none, whether it worked or had nothing to do. Requests that may wait for something new count, too.
    pub itself: u64,
    /// Whom it asked.
    pub asks: Vec<String>,
}

/// The looks at a phase that has an end, by their slots; `None` where there are too few.
fn looks(pulse: &Pulse, phases: &Phases, number: u16) -> Option<Vec<usize>> {
    let (phase, next) = (phases.get(number)?, phases.get(number.saturating_add(1))?);
    let within = |&slot: &usize| (phase.begin..next.begin).contains(&pulse.begin(slot));
    let slots: Vec<usize> = (0..pulse.length()).filter(within).collect();
    (slots.len() >= FEWEST).then_some(slots)
}

/// The share of a phase in which each component had a request of its own under way; none where that cannot be told. The
/// requests under way are counted ten times a second.
pub(super) fn asking(
    pulse: &Pulse,
    phases: &Phases,
    number: u16,
    components: &Components,
) -> BTreeMap<String, f64> {
    let slots = looks(pulse, phases, number).filter(|_| pulse.tells_all_pairs());
    let Some(slots) = slots else { return BTreeMap::new() };
    let waiting = pulse.waiting();
    let share = |party: &Party| {
        let asks =
            |slot: usize| waiting.iter().any(|((asker, _), track)| asker == party && is_at(track, slot));
        slots.iter().filter(|&&slot| asks(slot)).count() as f64 / slots.len() as f64
    };
    pulse.beats_by_party().keys().map(|party| (components.name(party), share(party))).collect()
}

/// Who was occupied by itself in a phase; none where that cannot be told.
pub(super) fn occupations(
    pulse: &Pulse,
    phases: &Phases,
    number: u16,
    components: &Components,
) -> Vec<Occupation> {
    let slots = looks(pulse, phases, number).filter(|_| pulse.tells_all_under_way());
    let Some(slots) = slots else { return Vec::new() };
    let under_way = pulse.under_way();
    let is_within = |track: &Vec<u32>| slots.iter().any(|&slot| is_at(track, slot));
    let pairs: Vec<_> = under_way.iter().filter(|(_, track)| is_within(track)).collect();
    let of_party = |party: &Party| {
        let asks: Vec<_> = pairs.iter().filter(|((asker, _), _)| asker == party).collect();
        let asked: Vec<_> = pairs.iter().filter(|((_, asked), _)| asked == party).collect();
        let is_occupied = |slot: usize| {
            let is_asked = asked.is_empty() || asked.iter().any(|(_, track)| is_at(track, slot));
            is_asked && !asks.iter().any(|(_, track)| is_at(track, slot))
        };
        let names: BTreeSet<String> = asks.iter().map(|((_, asked), _)| components.name(asked)).collect();
        Occupation {
            component: components.name(party),
            looks: slots.len() as u64,
            itself: slots.iter().filter(|&&slot| is_occupied(slot)).count() as u64,
            asks: names.into_iter().collect(),
        }
    };
    let parties: BTreeSet<Party> = pairs.iter().flat_map(|((asker, asked), _)| [*asker, *asked]).collect();
    parties.iter().map(of_party).collect()
}

/// Whether a request is under way at a look.
fn is_at(track: &[u32], slot: usize) -> bool {
    track.get(slot).is_some_and(|&count| count > 0)
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

    /// The phase from 2 to 18 s of a capture in which that happens each 83.7 ms, as the looks see it.
    fn seen(happens: impl Fn(&mut Pulse, f64)) -> Vec<Occupation> {
        let mut pulse = Pulse::default();
        (0..240).for_each(|number| happens(&mut pulse, 0.0371 + f64::from(number) * 0.0837));
        let phase =
            |begin: i64| Phase { begin: Nanos::from_secs(begin), name: String::new(), measured: true };
        let phases = Phases::new(vec![phase(2), phase(18)]);
        assert!(occupations(&pulse, &phases, 2, &components()).is_empty(), "a phase without an end");
        occupations(&pulse, &phases, 1, &components())
    }

    fn share(occupied: &[Occupation], name: &str) -> f64 {
        let own = occupied.iter().find(|own| own.component == name).unwrap();
        own.itself as f64 / own.looks as f64
    }

    #[test]
    fn who_is_occupied_itself_is_told_apart_from_whom_it_calls() {
        // The agent keeps each message for 60 ms and asks the context broker for 12.
        let occupied = seen(|pulse, at| {
            call(pulse, 0, 1, at, Some(at + 0.072), Asking::Now);
            call(pulse, 1, 2, at + 0.06, Some(at + 0.072), Asking::Now);
        });
        assert!((share(&occupied, "agent") - 60.0 / 83.7).abs() < 0.1, "{occupied:?}");
        assert!((share(&occupied, "context") - 12.0 / 83.7).abs() < 0.1, "{occupied:?}");
        assert!(share(&occupied, "plimsoll") < 0.3, "{occupied:?}");
        let agent = occupied.iter().find(|own| own.component == "agent").unwrap();
        assert_eq!(agent.asks, ["context"]);
    }

    #[test]
    fn who_waits_for_the_next_message_of_a_queue_is_not_occupied() {
        let occupied = seen(|pulse, at| call(pulse, 1, 2, at, Some(at + 0.06), Asking::Next));
        assert!((share(&occupied, "agent") - 23.7 / 83.7).abs() < 0.1, "{occupied:?}");
        assert!((share(&occupied, "context") - 60.0 / 83.7).abs() < 0.1, "{occupied:?}");
    }
}
