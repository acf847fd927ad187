//! What proves that messages have arrived which are neither acknowledged nor delivered to anybody: an answer that the
//! platform gives on their connection to something sent after them. A kernel takes bytes also for a platform that reads
//! none.

use crate::share::Share;

/// Messages of each device of a shard that nothing has proved yet.
#[derive(Debug)]
pub struct Unproved {
    share: Share,
    /// How many, and the last of them.
    devices: Vec<(u64, u32)>,
    /// How many there are over all devices.
    count: u64,
}

impl Unproved {
    /// Of so many devices of a share.
    pub fn new(share: Share, devices: usize) -> Unproved {
        Unproved { share, devices: vec![(0, 0); devices], count: 0 }
    }

    /// A message was handed to the kernel.
    pub fn sent(&mut self, device: u32, sequence: u32) {
        if let Some(own) = self.devices.get_mut(self.share.slot(device) as usize) {
            *own = (own.0 + 1, sequence);
            self.count += 1;
        }
    }

    /// All messages of the device up to that one have arrived.
    pub fn arrived(&mut self, device: u32, through: u32) {
        if let Some(own) = self.devices.get_mut(self.share.slot(device) as usize)
            && through >= own.1
        {
            self.count -= std::mem::take(&mut own.0);
        }
    }

    /// The devices with such messages.
    pub fn devices(&self) -> impl Iterator<Item = u32> {
        let numbers = (0..).zip(&self.devices).filter(|(_, (count, _))| *count > 0);
        numbers.map(|(index, _): (u32, _)| self.share.number(index))
    }

    /// How many messages there are, over all devices.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.devices.fill((0, 0));
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_proves_what_was_sent_before_its_question() {
        let mut unproved = Unproved::new(Share { index: 1, of: 2, first: 0 }, 3);
        unproved.sent(1, 0);
        unproved.sent(5, 7);
        unproved.sent(5, 8);
        assert_eq!((unproved.count(), unproved.devices().collect::<Vec<_>>()), (3, vec![1, 5]));
        unproved.arrived(5, 7);
        assert_eq!(unproved.count(), 3, "one more was sent after the question");
        unproved.arrived(5, 8);
        assert_eq!(unproved.devices().collect::<Vec<_>>(), [1]);
        unproved.clear();
        assert_eq!(unproved.count(), 0);
    }
}
