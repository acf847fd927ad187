//! How the quota of a component is kept: by control groups where this host lets us make them, else as far as affinity and limits of
//! processes go.

use crate::control_group;
use crate::occupier::all_processors;
use plimsoll_scenario::plan::QuotaPlan;
use std::io;
use std::path::Path;

/// What keeps a component to its quota.
#[derive(Debug)]
pub(crate) struct Keeping {
    /// What control groups keep.
    pub quota: QuotaPlan,
    /// Processors that it is bound to; empty for any.
    pub processors: Vec<usize>,
    /// Bytes of data that each of its processes may have.
    pub data: Option<u64>,
    /// How it is kept, and what is not, for people; `None` without a quota.
    pub in_words: Option<String>,
}

impl Keeping {
    /// That of a component of the platform with that folder, which may run on those processors; none stands for all.
    ///
    /// # Errors
    /// The kernel has control groups, and refuses such a quota.
    pub fn of(platform: &Path, quota: QuotaPlan, processors: &[usize]) -> io::Result<Keeping> {
        let by_groups = |in_words: Option<&str>| Keeping {
            quota,
            processors: processors.to_vec(),
            data: None,
            in_words: in_words.map(str::to_owned),
        };
        if quota == QuotaPlan::default() {
            return Ok(by_groups(None));
        }
        match control_group::try_out(platform, quota) {
            Ok(()) => Ok(by_groups(Some("kept by control groups"))),
            Err(refused) if refused.kind() == io::ErrorKind::InvalidInput => Err(refused),
            Err(missing) => {
                let all = if processors.is_empty() { all_processors() } else { processors.to_vec() };
                Ok(Keeping::without_groups(quota, all, &missing))
            }
        }
    }

    /// The same of a component whose processor time is to be squeezed, and which has no quota of it: one that limits nothing and
    /// can be cut. `None` where it has one, and where control groups cannot have such a one.
    pub fn squeezable(platform: &Path, quota: QuotaPlan, processors: &[usize]) -> Option<Keeping> {
        let count = if processors.is_empty() { all_processors().len() } else { processors.len() };
        let whole = QuotaPlan { processors: Some(count as f64), ..quota };
        let can = quota.processors.is_none() && control_group::try_out(platform, whole).is_ok();
        can.then(|| Keeping { quota: whole, processors: processors.to_vec(), data: None, in_words: None })
    }

    fn without_groups(quota: QuotaPlan, mut processors: Vec<usize>, missing: &io::Error) -> Keeping {
        let mut parts = Vec::new();
        if let Some(most) = quota.processors {
            let available = processors.len();
            processors.truncate((most.ceil() as usize).max(1));
            let bound = match processors.len() {
                1 => "bound to 1 processor".to_owned(),
                count => format!("bound to {count} processors"),
            };
            let is_kept = most.fract() == 0.0 && most <= available as f64;
            parts.push(if is_kept { bound } else { format!("its share of time is not kept, it is {bound}") });
        }
        if quota.memory.is_some() {
            parts.push("each of its processes has no more data than that".to_owned());
        }
        let in_words = format!("without control groups: {} ({missing})", parts.join("; "));
        Keeping { quota: QuotaPlan::default(), processors, data: quota.memory, in_words: Some(in_words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_kept_without_control_groups_is_said() {
        let missing = io::Error::other("they cannot be made");
        let of = |processors: Option<f64>, memory: Option<u64>| {
            let quota = QuotaPlan { processors, memory, period: None };
            Keeping::without_groups(quota, vec![1, 3, 5], &missing)
        };
        let whole = of(Some(2.0), None);
        let said = "without control groups: bound to 2 processors (they cannot be made)";
        assert_eq!((whole.processors, whole.in_words.as_deref()), (vec![1, 3], Some(said)));
        assert_eq!(whole.quota, QuotaPlan::default());
        let part = of(Some(0.5), Some(1 << 20));
        let said = "without control groups: its share of time is not kept, it is bound to 1 processor; each of its processes \
                    has no more data than that (they cannot be made)";
        assert_eq!(
            (part.processors, part.data, part.in_words.as_deref()),
            (vec![1], Some(1 << 20), Some(said))
        );
        assert!(of(Some(8.0), None).in_words.unwrap().contains("not kept, it is bound to 3 processors"));
    }

    #[test]
    fn without_a_quota_nothing_is_said() {
        let keeping = Keeping::of(Path::new("/nowhere"), QuotaPlan::default(), &[2]).unwrap();
        assert_eq!((keeping.processors, keeping.in_words), (vec![2], None));
    }
}
