//! Which load thread owns a device, over all populations of a run.

use crate::layout::Layout;
use plimsoll_scenario::plan::Plan;
use std::sync::Arc;

/// The load threads of all populations: those of the first come first.
#[derive(Clone, Debug)]
pub struct Owners {
    layout: Arc<Layout>,
    /// The first device of each population, and how many it has; in rising order.
    populations: Vec<(u32, u32)>,
}

impl Owners {
    /// Of a run with such load threads.
    pub fn new(plan: &Plan, layout: &Arc<Layout>) -> Owners {
        let populations = plan.populations().map(|plan| (plan.population.first_device, plan.devices));
        Owners { layout: Arc::clone(layout), populations: populations.collect() }
    }

    /// The number of the load thread that owns a device; `None` for a device that the run has not got.
    pub fn shard(&self, device: u32) -> Option<u32> {
        let holds = |&(_, (first, devices)): &(usize, &(u32, u32))| device.wrapping_sub(*first) < *devices;
        let (population, (first, _)) = self.populations.iter().enumerate().find(holds)?;
        self.layout.owner(population, device - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_one_owner_in_its_population() {
        let layout = Arc::new(Layout::of_one_process(4, 2));
        let owners = Owners { layout, populations: vec![(0, 3), (3, 1), (4, 2000), (0, 0)] };
        let shards = [0, 1, 2, 3, 4, 5, 1027, 1028].map(|device| owners.shard(device));
        assert_eq!(shards, [0, 1, 0, 2, 4, 5, 5, 4].map(Some));
        assert_eq!([2004, u32::MAX].map(|device| owners.shard(device)), [None, None]);
    }
}
