//! Who spoke when, and who waited for whom, in slots of a tenth of a second: what shows a component that stands still. Each
//! thread has its own; they are merged.

use crate::component::Party;
use crate::observations::{Exchange, Notice};
use crate::request::Asking;
use plimsoll_model::Nanos;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// How long a slot is.
pub const SLOT: Nanos = Nanos::from_millis(100);
/// Slots that are told apart: an hour. What is later is not looked at.
const SLOTS: usize = 36_000;
/// Parties, and pairs of them, that are told apart; of the others nothing is known.
const PARTIES: usize = 64;
const PAIRS: usize = 128;

/// A number for each slot since the first.
#[derive(Clone, Debug, Default)]
struct Track(Vec<i32>);

impl Track {
    fn add(&mut self, slot: usize, number: i32) {
        if self.0.len() <= slot {
            self.0.resize(slot + 1, 0);
        }
        self.0[slot] = self.0[slot].saturating_add(number);
    }

    fn merge(&mut self, other: &Track, later: usize) {
        for (slot, &number) in other.0.iter().enumerate().filter(|(_, number)| **number != 0) {
            if slot + later < SLOTS {
                self.add(slot + later, number);
            }
        }
    }
}

/// What was seen of one party.
#[derive(Clone, Debug, Default)]
struct Beats {
    said: Track,
    heard: Track,
}

/// All that was said.
#[derive(Clone, Debug, Default)]
pub struct Pulse {
    /// The first slot since 1970, of whichever was seen first.
    first: Option<i64>,
    parties: FxHashMap<Party, Beats>,
    /// Who asks whom: requests made less requests answered.
    waits: FxHashMap<(Party, Party), Track>,
    /// The same of all requests, those that may wait for something new included, each until its answer is there as a whole.
    under_way: FxHashMap<(Party, Party), Track>,
    /// When the host that has the capture is known to have been awake.
    awake: Track,
}

/// What is seen of a party in one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// Messages that it sent, and connections that it opened.
    pub said: u32,
    /// Messages that it was sent, answers apart.
    pub heard: u32,
}

impl Pulse {
    /// Before the first that was seen, a conversation may have begun that is told only at its end.
    const BEFORE: i64 = 600;

    /// An exchange is over. What was never answered tells nothing of how long anybody waited.
    pub fn exchange(&mut self, exchange: &Exchange, [asker, asked]: [Party; 2]) {
        let begin = exchange.request.last;
        self.said(begin, asker, Some(asked));
        if let Some(interim) = exchange.interim {
            self.said(interim, asked, None);
        }
        let Some(response) = exchange.response else { return };
        self.said(response.first, asked, None);
        let slots = [begin, response.first, response.last].map(|at| self.slot(at));
        let [Some(begin), Some(answered), Some(end)] = slots else { return };
        if exchange.asking == Asking::Now {
            count(&mut self.waits, (asker, asked), begin..answered);
        }
        count(&mut self.under_way, (asker, asked), begin..end);
    }

    /// A message that is neither request nor response.
    pub fn notice(&mut self, notice: &Notice, [from, to]: [Party; 2]) {
        self.said(notice.span.first, from, Some(to));
    }

    /// A party opened a connection: it does something, whatever it says.
    pub fn opened(&mut self, at: Nanos, party: Party) {
        self.said(at, party, None);
    }

    /// The host of all components is known to have been awake, whatever they said.
    pub fn awake(&mut self, at: Nanos) {
        if let Some(slot) = self.slot(at) {
            self.awake.add(slot, 1);
        }
    }

    /// Whether it is known to have been awake in that slot.
    pub fn is_awake(&self, slot: usize) -> bool {
        self.awake.0.get(slot).is_some_and(|&times| times > 0)
    }

    /// Somebody spoke, and asked or told somebody something new.
    fn said(&mut self, at: Nanos, from: Party, told: Option<Party>) {
        let Some(slot) = self.slot(at) else { return };
        if let Some(beats) = self.beats(from) {
            beats.said.add(slot, 1);
        }
        if let Some(beats) = told.and_then(|told| self.beats(told)) {
            beats.heard.add(slot, 1);
        }
    }

    fn beats(&mut self, party: Party) -> Option<&mut Beats> {
        let full = self.parties.len() >= PARTIES && !self.parties.contains_key(&party);
        (!full).then(|| self.parties.entry(party).or_default())
    }

    fn slot(&mut self, at: Nanos) -> Option<usize> {
        let slot = at.0.div_euclid(SLOT.0);
        let first = *self.first.get_or_insert(slot - Pulse::BEFORE);
        usize::try_from(slot - first).ok().filter(|&slot| slot < SLOTS)
    }

    /// Adds another's.
    pub fn merge(&mut self, mut other: Pulse) {
        let (Some(one), Some(two)) = (self.first, other.first) else {
            if self.first.is_none() {
                *self = other;
            }
            return;
        };
        if two < one {
            std::mem::swap(self, &mut other);
        }
        let later = usize::try_from((one - two).abs()).unwrap_or(SLOTS);
        for (party, beats) in &other.parties {
            if let Some(own) = self.beats(*party) {
                own.said.merge(&beats.said, later);
                own.heard.merge(&beats.heard, later);
            }
        }
        self.awake.merge(&other.awake, later);
        for (all, others) in [(&mut self.waits, &other.waits), (&mut self.under_way, &other.under_way)] {
            for (pair, track) in others {
                if all.len() < PAIRS || all.contains_key(pair) {
                    all.entry(*pair).or_default().merge(track, later);
                }
            }
        }
    }

    /// When the slot of that number begins, since 1970.
    pub fn begin(&self, slot: usize) -> Nanos {
        Nanos((self.first.unwrap_or_default() + slot as i64) * SLOT.0)
    }

    /// What each party said and was told, slot by slot, all as long.
    pub fn beats_by_party(&self) -> BTreeMap<Party, Vec<Beat>> {
        let length = self.length();
        let at = |track: &Track, slot: usize| track.0.get(slot).copied().unwrap_or(0).max(0) as u32;
        let beat = |beats: &Beats, slot| Beat { said: at(&beats.said, slot), heard: at(&beats.heard, slot) };
        let of = |beats: &Beats| (0..length).map(|slot| beat(beats, slot)).collect();
        self.parties.iter().map(|(party, beats)| (*party, of(beats))).collect()
    }

    /// Who waits for whom: how many requests wait at the beginning of each slot.
    pub fn waiting(&self) -> BTreeMap<(Party, Party), Vec<u32>> {
        self.sums(&self.waits)
    }

    /// How many requests of all kinds are under way at the beginning of each slot.
    pub fn under_way(&self) -> BTreeMap<(Party, Party), Vec<u32>> {
        self.sums(&self.under_way)
    }

    fn sums(&self, tracks: &FxHashMap<(Party, Party), Track>) -> BTreeMap<(Party, Party), Vec<u32>> {
        let length = self.length();
        let of = |track: &Track| {
            let mut sum = 0_i32;
            let mut before = |slot: usize| {
                let waiting = sum.max(0) as u32;
                sum = sum.saturating_add(track.0.get(slot).copied().unwrap_or(0));
                waiting
            };
            (0..length).map(&mut before).collect()
        };
        tracks.iter().map(|(pair, track)| (*pair, of(track))).collect()
    }

    /// Whether there were so few pairs that none was left out.
    pub fn tells_all_pairs(&self) -> bool {
        self.waits.len() < PAIRS
    }

    /// The same of requests of all kinds.
    pub fn tells_all_under_way(&self) -> bool {
        self.under_way.len() < PAIRS
    }

    /// How many slots there are.
    pub fn length(&self) -> usize {
        let beats = self.parties.values().flat_map(|beats| [beats.said.0.len(), beats.heard.0.len()]);
        let under_way = self.waits.values().chain(self.under_way.values()).map(|track| track.0.len());
        beats.chain(under_way).max().unwrap_or(0)
    }
}

/// A request of one party at another was under way in some slots; nothing of one that began and ended in the same.
fn count(all: &mut FxHashMap<(Party, Party), Track>, pair: (Party, Party), slots: Range<usize>) {
    if slots.start < slots.end && (all.len() < PAIRS || all.contains_key(&pair)) {
        let track = all.entry(pair).or_default();
        track.add(slots.start, 1);
        track.add(slots.end, -1);
    }
}
