//! What a worker needs to make ready for a run: what the plan is made of, and which load threads it has.

use crate::frame::ProcessId;
use plimsoll_load::engine::Part;
use plimsoll_load::layout::{Layout, Stand};
use plimsoll_model::RunId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a worker needs to make ready for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The run.
    pub run: String,
    /// The coordinator's version of Plimsoll.
    pub version: String,
    /// What the plan is made of.
    pub source: Source,
    /// A digest of the plan that the coordinator made of it.
    pub digest: String,
    /// Of each population, what each worker has.
    #[serde(with = "runs")]
    pub stands: Vec<Vec<Stand>>,
    /// The workers, in their order; none where nobody receives, so that workers have nothing to say to each other.
    pub peers: Vec<Peer>,
    /// The place of the worker among them.
    pub place: usize,
}

/// All that a plan is made of, so that a worker need not read a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The arguments of the command line that say what the load is, the scenario or the address first.
    pub arguments: Vec<String>,
    /// The text of the scenario; `None` of an address.
    pub scenario: Option<String>,
    /// The files that it names, by the path that it names them by.
    pub files: BTreeMap<String, String>,
    /// The environment variables that it names.
    pub variables: BTreeMap<String, String>,
}

/// A worker as another one knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// The process.
    pub process: ProcessId,
    /// Whether both read one clock.
    pub shares_clock: bool,
}

/// Load threads that a run may have at all workers: more than anybody has processors for.
const MOST_THREADS: u64 = 1_000_000;
/// Workers that a run may have.
const MOST_WORKERS: usize = 100_000;

impl Prepare {
    /// Whether the load threads fit a plan of so many populations, so that a layout can be made of them.
    pub fn is_sound(&self, populations: usize) -> bool {
        let workers = self.stands.first().map_or(0, Vec::len);
        let of = |stand: &Stand| {
            [stand.devices, stand.subscribers, stand.queriers].map(u64::from).into_iter().sum::<u64>()
        };
        let all = self.stands.iter().flatten().fold(0_u64, |all, stand| all.saturating_add(of(stand)));
        let are_whole = self.stands.iter().all(|stands| stands.len() == workers);
        let are_known = self.peers.is_empty() || self.peers.len() == workers;
        self.stands.len() == populations
            && are_whole
            && are_known
            && self.place < workers
            && all <= MOST_THREADS
    }

    /// Which load threads the worker has; only of what is sound.
    pub fn part(&self) -> Part {
        Part { layout: Arc::new(Layout::new(self.stands.clone())), process: self.place }
    }

    /// The run.
    pub fn run_id(&self) -> Option<RunId> {
        RunId::parse(&self.run)
    }
}

/// Stands of a population one after the other. Most are equal, so each is written once with how often it comes: all workers are sent
/// those of all workers.
mod runs {
    use super::MOST_WORKERS;
    use plimsoll_load::layout::Stand;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(stands: &[Vec<Stand>], serializer: S) -> Result<S::Ok, S::Error> {
        let of = |stands: &Vec<Stand>| {
            let equal = stands.chunk_by(|one, other| one == other);
            equal.filter_map(|run| run.first().map(|stand| (run.len(), *stand))).collect()
        };
        stands.iter().map(of).collect::<Vec<Vec<(usize, Stand)>>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<Stand>>, D::Error> {
        let written = Vec::<Vec<(usize, Stand)>>::deserialize(deserializer)?;
        let of = |runs: &Vec<(usize, Stand)>| {
            let count = runs.iter().try_fold(0_usize, |all, (count, _)| all.checked_add(*count));
            if count.is_none_or(|count| count > MOST_WORKERS) {
                return Err(Error::custom("more workers than a run can have"));
            }
            Ok(runs.iter().flat_map(|(count, stand)| std::iter::repeat_n(*stand, *count)).collect())
        };
        written.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Prepare {
        Prepare {
            run: RunId::from_bits(99).to_string(),
            version: "1".into(),
            source: Source::default(),
            digest: "d".into(),
            stands: vec![vec![Stand::of_all(2), Stand { devices: 1, subscribers: 0, queriers: 3 }]],
            peers: vec![Peer { process: ProcessId(3), shares_clock: true }],
            place: 0,
        }
    }

    #[test]
    fn load_threads_that_do_not_fit_are_not_sound() {
        let prepare = some();
        let stands = prepare.stands.clone();
        let with = |stands, place| Prepare { stands, place, ..prepare.clone() };
        assert!(!with(stands.clone(), 0).is_sound(1), "of one worker there are two stands");
        let fitting = vec![stands[0][..1].to_vec()];
        assert!(with(fitting.clone(), 0).is_sound(1));
        assert!(!with(fitting.clone(), 1).is_sound(1) && !with(fitting, 0).is_sound(2));
        let many = vec![vec![Stand::of_all(u32::MAX)]];
        assert!(!with(many, 0).is_sound(1));
        let alone = Prepare { peers: Vec::new(), ..with(stands.clone(), 1) };
        assert!(alone.is_sound(1), "where nobody receives, workers need not know each other");
    }

    #[test]
    fn what_a_worker_is_sent_hardly_grows_with_the_number_of_others() {
        let of = |workers: usize| {
            let stands = vec![vec![Stand::of_all(2); workers]];
            Prepare { stands, peers: Vec::new(), place: workers - 1, ..some() }
        };
        let written = |prepare: &Prepare| serde_json::to_vec(prepare).unwrap();
        assert!(written(&of(20_000)).len() < written(&of(2)).len() + 20);
        for prepare in [some(), of(3)] {
            assert_eq!(serde_json::from_slice::<Prepare>(&written(&prepare)).unwrap(), prepare);
        }
        let text = String::from_utf8(written(&of(3))).unwrap();
        let many = text.replace("[[3,", "[[99999999999,");
        assert!(many != text && serde_json::from_str::<Prepare>(&many).is_err(), "{many}");
    }
}
