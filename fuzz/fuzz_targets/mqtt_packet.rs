//! Any bytes as MQTT packets: nothing panics, and what can be read can be written and is the same when read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::mqtt::{Connect, Packet, Version, packet_length};

fuzz_target!(|bytes: &[u8]| {
    let _ = packet_length(bytes);
    let _ = Connect::decode(bytes);
    for asked in [Version::V311, Version::V5] {
        let Ok(packet) = Packet::decode(asked, bytes) else { continue };
        assert_eq!(packet_length(bytes), Ok(Some(bytes.len())));
        // CONNECT is of the version that it names.
        let version = if let Packet::Connect(connect) = &packet { connect.version } else { asked };
        let mut again = Vec::new();
        assert_eq!(packet.encode(version, &mut again), Ok(()));
        assert_eq!(Packet::decode(version, &again), Ok(packet));
    }
});
