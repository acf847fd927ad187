//! Components that stood still: for a while they said nothing, though others waited for them, and were not waiting themselves.
//! Who only waits for another one does not stand still; where everything is silent, nobody can be told to be the cause.

use plimsoll_capture::component::{Components, Party};
use plimsoll_capture::pulse::{Beat, Pulse};
use plimsoll_model::Nanos;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Slots of silence that are a stall at least: half a second.
const LEAST: usize = 5;
/// So many times as long as its usual silence a stall is.
const UNUSUAL: usize = 4;
/// Slots in which a component must have spoken, so that its silence says something.
const SPOKEN: usize = 10;
/// The part of the usual speech of all others that goes on where the rest of the world has not stopped.
const GOES_ON: f64 = 0.3;
/// The part of a stall in which the host must be known to have been awake: what starves its components starves it, too.
const AWAKE: f64 = 0.95;
/// Stalls that are told.
const TOLD: usize = 100;

/// A while in which a component answered nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct StallSummary {
    /// When it began, to a tenth of a second: since the first packet, in a run since its beginning.
    pub from: f64,
    /// When it ended.
    pub to: f64,
    /// Who stood still; null where that is not known, since several did, or everything was silent.
    pub component: Option<String>,
    /// Who waited for it meanwhile, directly or not; where nobody can be named, all that were silent.
    pub waiting: Vec<String>,
}

impl StallSummary {
    /// In a sentence.
    pub fn told(&self) -> String {
        let list = self.waiting.join(", ");
        let when = format!("from {:.1} s to {:.1} s", self.from, self.to);
        match &self.component {
            Some(component) if list.is_empty() => format!("{when} {component} answered nothing"),
            Some(component) => format!("{when} {component} answered nothing; {list} waited"),
            None => format!("{when} nothing was answered by {list}: which of them stood still is not known"),
        }
    }
}

/// A silence of one party while others waited for it.
struct Silence {
    party: Party,
    slots: Range<usize>,
    /// It waited itself.
    waits: bool,
}

/// The stalls of a capture that begins at that time.
pub(super) fn stalls(pulse: &Pulse, components: &Components, begin: Nanos) -> Vec<StallSummary> {
    let (beats, waiting) = (pulse.beats_by_party(), pulse.waiting());
    let mut silences: Vec<Silence> = beats
        .iter()
        .filter(|(party, _)| matches!(party, Party::Component(_) | Party::Server(_)))
        .flat_map(|(party, own)| {
            let asked = sum(
                waiting.iter().filter(|((_, asked), _)| asked == party).map(|(_, track)| track),
                own.len(),
            );
            let slots = unusual(own, &asked);
            let waits = |slots: &Range<usize>| {
                let asks = waiting.iter().filter(|((asker, _), _)| asker == party);
                asks.into_iter().any(|(_, track)| share(slots, |slot| track[slot] > 0) >= 0.5)
            };
            slots
                .into_iter()
                .map(move |slots| Silence { party: *party, waits: waits(&slots), slots })
                .collect::<Vec<_>>()
        })
        .collect();
    silences.sort_by_key(|silence| (silence.slots.start, silence.party));
    let seconds = |slot: usize| (pulse.begin(slot) - begin).as_secs_f64().max(0.0);
    let summary = |group: Vec<Silence>| {
        let slots = |one: &Silence| [one.slots.start, one.slots.end];
        let first = group.iter().map(|one| slots(one)[0]).min().unwrap_or(0);
        let whole = first..group.iter().map(|one| slots(one)[1]).max().unwrap_or(first);
        let still: BTreeSet<Party> = group.iter().filter(|one| !one.waits).map(|one| one.party).collect();
        let goes_on = || others_go_on(&beats, &group, &whole) || is_awake(pulse, &whole);
        let named = still.first().filter(|_| still.len() == 1 && goes_on());
        let mut others: BTreeSet<Party> = group.iter().map(|one| one.party).collect();
        if let Some(named) = named {
            others.extend(waiters(&waiting, *named, &whole));
            others.remove(named);
        }
        let round = |slot: usize| (seconds(slot) * 10.0).round() / 10.0;
        StallSummary {
            from: round(whole.start),
            to: round(whole.end),
            component: named.map(|party| components.name(party)),
            waiting: others.iter().map(|party| components.name(party)).collect(),
        }
    };
    groups(silences).into_iter().map(summary).take(TOLD).collect()
}

/// Who waits for a party for at least half of the time, or for who does.
fn waiters(
    waiting: &BTreeMap<(Party, Party), Vec<u32>>,
    party: Party,
    slots: &Range<usize>,
) -> BTreeSet<Party> {
    let mut found = BTreeSet::from([party]);
    loop {
        let asks = waiting.iter().filter(|((_, asked), _)| found.contains(asked));
        let long = asks.filter(|(_, track)| share(slots, |slot| track[slot] > 0) >= 0.5);
        let more: Vec<Party> =
            long.map(|((asker, _), _)| *asker).filter(|asker| !found.contains(asker)).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Silences that overlap by more than half of the shorter one belong together.
fn groups(silences: Vec<Silence>) -> Vec<Vec<Silence>> {
    let mut groups: Vec<Vec<Silence>> = Vec::new();
    for silence in silences {
        let overlaps = |known: &Silence| {
            let begin = known.slots.start.max(silence.slots.start);
            let end = known.slots.end.min(silence.slots.end);
            2 * end.saturating_sub(begin) > known.slots.len().min(silence.slots.len())
        };
        match groups.iter_mut().find(|group| group.iter().any(overlaps)) {
            Some(group) => group.push(silence),
            None => groups.push(vec![silence]),
        }
    }
    groups
}

/// Whether those that are not silent themselves spoke on meanwhile, about as much as they do otherwise.
fn others_go_on(beats: &BTreeMap<Party, Vec<Beat>>, silent: &[Silence], slots: &Range<usize>) -> bool {
    let others: Vec<&Vec<Beat>> = beats
        .iter()
        .filter(|(party, _)| !silent.iter().any(|one| one.party == **party))
        .map(|(_, own)| own)
        .collect();
    let speaks = |slot: usize| others.iter().any(|own| own[slot].said > 0);
    let spoken = || (0..others.first().map_or(0, |own| own.len())).filter(|&slot| speaks(slot));
    let (Some(first), Some(last)) = (spoken().next(), spoken().next_back()) else { return false };
    let usual = share(&(first..last + 1), speaks);
    // In the first slot they may not know yet, in the last they begin again.
    let within = slots.start + 1..slots.end.saturating_sub(1).max(slots.start + 1);
    usual > 0.0 && share(&within, speaks) >= GOES_ON * usual
}

/// Whether the host itself was awake all the time, though nobody said anything.
fn is_awake(pulse: &Pulse, slots: &Range<usize>) -> bool {
    share(slots, |slot| pulse.is_awake(slot)) >= AWAKE
}

/// Stretches in which a party said nothing though somebody waited for it, much longer than it usually keeps others waiting.
fn unusual(own: &[Beat], asked: &[u32]) -> Vec<Range<usize>> {
    let spoken = own.iter().filter(|beat| beat.said > 0).count();
    // Who is told much and seldom says anything is not asked by being told.
    let told = own.windows(2).filter(|two| two[0].heard > 0);
    let answers: Vec<bool> = told.map(|two| two[0].said + two[1].said > 0).collect();
    // Its longest silence says nothing of what it usually does: it may be the stall itself, a good part of a short capture.
    let longest = answers.split(|answered| *answered).map(<[bool]>::len).max().unwrap_or(0);
    let answered = answers.iter().filter(|answered| **answered).count();
    let responds = answered > 0 && answered * 5 >= (answers.len() - longest) * 4;
    let mut silences: Vec<Range<usize>> = Vec::new();
    let mut begin = None;
    for (slot, beat) in own.iter().enumerate() {
        if beat.said > 0 {
            silences.extend(begin.take().map(|begin| begin..slot));
        } else if begin.is_none() && (asked[slot] > 0 || responds && beat.heard > 0) {
            begin = Some(slot);
        }
    }
    // What nobody waits for any more at the end of the capture is no silence.
    let last = asked.iter().zip(own).rposition(|(&asked, beat)| asked > 0 || beat.heard > 0);
    silences.extend(begin.zip(last).map(|(begin, last)| begin..last + 1));
    let mut lengths: Vec<usize> = silences.iter().map(Range::len).collect();
    lengths.sort_unstable();
    let usual = if lengths.len() > 1 { lengths[(lengths.len() - 1) / 2] } else { 0 };
    let long = |slots: &Range<usize>| slots.len() >= LEAST.max(UNUSUAL * usual);
    let wanted = |slots: &Range<usize>| share(slots, |slot| asked[slot] > 0 || own[slot].heard > 0) >= 0.5;
    silences.retain(|slots| spoken >= SPOKEN && long(slots) && wanted(slots));
    silences
}

fn sum<'a>(tracks: impl Iterator<Item = &'a Vec<u32>>, length: usize) -> Vec<u32> {
    tracks.fold(vec![0; length], |mut sums, track| {
        sums.iter_mut().zip(track).for_each(|(sum, more)| *sum += more);
        sums
    })
}

fn share(slots: &Range<usize>, is: impl Fn(usize) -> bool) -> f64 {
    let count = slots.clone().filter(|&slot| is(slot)).count();
    count as f64 / slots.len().max(1) as f64
}

#[cfg(test)]
pub(super) mod tests;
