//! How a marker divides its 56 bits between the number of the device and that of its message.

use crate::marker::Marker;

/// Devices that a marker can number with its usual 24 bits; 32 bits number the messages of each.
const USUAL: u32 = 1 << 24;
/// Bits of a device's number where a run has more devices. As many number the messages of each.
const MANY: u32 = 28;
/// Bits of the number of a message in the usual marker.
const USUAL_MESSAGES: u32 = 32;

/// Most devices of a run.
pub const MOST_DEVICES: u32 = (1 << MANY) - 1;

/// How the markers of a run are divided. It does not show in a marker: who reads it must know the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// 24 bits for the device, 32 for the message.
    #[default]
    Usual,
    /// 28 bits for each.
    ManyDevices,
}

impl Numbering {
    /// That of a run with so many devices.
    pub fn of(devices: u32) -> Numbering {
        if devices > USUAL { Numbering::ManyDevices } else { Numbering::Usual }
    }

    /// The marker as it is written.
    pub fn written(self, marker: Marker) -> Marker {
        match self {
            Numbering::Usual => marker,
            Numbering::ManyDevices => {
                let messages = u64::from(marker.sequence) & ((1 << MANY) - 1);
                let all = u64::from(marker.device) << MANY | messages;
                Marker { device: (all >> USUAL_MESSAGES) as u32, sequence: all as u32, ..marker }
            }
        }
    }

    /// What a marker says that was read.
    pub fn read(self, marker: Marker) -> Marker {
        match self {
            Numbering::Usual => marker,
            Numbering::ManyDevices => {
                let all = u64::from(marker.device) << USUAL_MESSAGES | u64::from(marker.sequence);
                let messages = (all & ((1 << MANY) - 1)) as u32;
                Marker { device: (all >> MANY) as u32, sequence: messages, ..marker }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn more_devices_than_24_bits_number_have_28() {
        assert_eq!([USUAL, USUAL + 1].map(Numbering::of), [Numbering::Usual, Numbering::ManyDevices]);
        let last = Marker { run: 1, device: MOST_DEVICES, sequence: MOST_DEVICES };
        let written = Numbering::ManyDevices.written(last);
        assert_eq!((written.device, written.sequence), (0xff_ffff, u32::MAX));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(run: u16, device in 0..=MOST_DEVICES, sequence in 0..1_u32 << MANY) {
            let marker = Marker { run, device, sequence };
            let many = Numbering::ManyDevices;
            let bytes = many.written(marker).to_binary();
            prop_assert_eq!(Marker::read_binary(&bytes).map(|read| many.read(read)), Some(marker));
        }
    }
}
