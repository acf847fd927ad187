//! What a platform's first answer means beside what it says: another version, a password that is missing, a refusal that another
//! attempt may change.

use plimsoll_codec::mqtt::{Suback, Version};

/// The packet id of the one SUBSCRIBE of a connection.
pub(super) const SUBSCRIBE_ID: u16 = 1;

/// What a CONNACK in the layout of another version means; `None` for one of ours.
pub(super) fn other_version(ours: Version, packet: &[u8]) -> Option<String> {
    match (ours, packet) {
        // MQTT 3.1.1 table 3.1: code 1 is "unacceptable protocol version", and its CONNACK ends after the code.
        (Version::V5, [0x20, 2, _, 1]) => Some(speaks_no("5", "3.1.1", "it does not accept the version")),
        (Version::V5, [0x20, 2, _, _]) => Some(speaks_no("5", "3.1.1", "it answered as MQTT 3.1.1 does")),
        // MQTT 5 section 3.2.2.2: unsupported protocol version; older ones say code 1.
        (Version::V311, [0x20, _, _, 0x84, ..] | [0x20, 2, _, 1]) => {
            Some(speaks_no("3.1.1", "5", "it does not accept the version"))
        }
        _ => None,
    }
}

/// A platform that closes the connection in place of an answer.
pub fn closed_at_once(ours: Version) -> Option<&'static str> {
    (ours == Version::V5).then_some(
        "right after CONNECT: it may be that it speaks no MQTT 5 (try `--mqtt 3.1.1`, in a scenario `mqtt: { version: 3.1.1 }`) \
         or that it takes no further connections",
    )
}

fn speaks_no(ours: &str, other: &str, why: &str) -> String {
    format!(
        "the platform speaks no MQTT {ours} ({why}): try `--mqtt {other}`, in a scenario `mqtt: {{ version: {other} }}`"
    )
}

/// What to do about a refusal.
pub(super) fn advice(version: Version, code: u8) -> &'static str {
    match (version, code) {
        (Version::V311, 4 | 5) | (Version::V5, 0x86 | 0x87 | 0x8c) => {
            ": give user and password; with an address `--username USER` and the environment variable PLIMSOLL_PASSWORD, \
             in a scenario file `mqtt: { username: USER, password: { env: NAME } }` and the environment variable NAME"
        }
        _ => "",
    }
}

/// Holds a SUBACK against our SUBSCRIBE with so many filters: an answer to another one grants nothing.
pub(super) fn answers(suback: &Suback, filters: usize) -> Result<(), String> {
    let (id, grants) = (suback.packet_id, suback.codes.len());
    if id != SUBSCRIBE_ID {
        return Err(format!(
            "the platform answered SUBSCRIBE {SUBSCRIBE_ID} with a SUBACK for {id}, so it granted nothing"
        ));
    }
    match grants == filters {
        true => Ok(()),
        false => Err(format!("the platform answered for {grants} of {filters} subscriptions")),
    }
}

/// Whether another attempt may be answered otherwise: the platform is busy, starting or out of something.
pub(super) fn may_change(version: Version, code: u8) -> bool {
    match version {
        Version::V311 => code == 3,
        Version::V5 => matches!(code, 0x80 | 0x83 | 0x88 | 0x89 | 0x97 | 0x9f),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_another_version_is_told_with_what_to_try() {
        let told = |ours, bytes: &[u8]| other_version(ours, bytes).unwrap_or_default();
        // Seen of brokers of 3.1.1 that are asked for 5, and of one that takes 5 alone.
        assert!(told(Version::V5, &[0x20, 2, 0, 1]).starts_with("the platform speaks no MQTT 5"));
        assert!(told(Version::V5, &[0x20, 2, 0, 1]).contains("try `--mqtt 3.1.1`"));
        assert!(told(Version::V5, &[0x20, 2, 0, 0]).contains("try `--mqtt 3.1.1`"));
        assert!(told(Version::V311, &[0x20, 3, 0, 0x84, 0]).contains("try `--mqtt 5`"));
        assert!(told(Version::V311, &[0x20, 2, 0, 1]).contains("try `--mqtt 5`"));
        for (ours, bytes) in [(Version::V5, &[0x20, 3, 0, 0, 0][..]), (Version::V311, &[0x20, 2, 0, 5])] {
            assert_eq!(other_version(ours, bytes), None);
        }
    }

    #[test]
    fn only_who_is_busy_is_asked_again() {
        assert!(may_change(Version::V311, 3) && may_change(Version::V5, 0x89));
        for (version, code) in
            [(Version::V311, 5), (Version::V311, 0), (Version::V5, 0x87), (Version::V5, 0x86)]
        {
            assert!(!may_change(version, code));
        }
    }
}
