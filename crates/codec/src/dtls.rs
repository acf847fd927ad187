//! Records of DTLS (RFC 6347 section 4.1): where each begins, and which belong to a handshake. Nothing is decrypted here.

/// Bytes before what a record carries.
const HEADER: usize = 13;
/// The longest record, with what encryption adds (RFC 5246 section 6.2.3), in bytes.
const LARGEST_RECORD: usize = HEADER + (1 << 14) + 2048;
/// Room for the longest message of a handshake, in bytes: libraries keep some thirty records at a time.
pub const LARGEST_HANDSHAKE_MESSAGE: usize = 32 * LARGEST_RECORD;
/// What records of a handshake begin with (RFC 5246 section 6.2.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
/// Encrypted records of a handshake that are looked at: fewer than libraries keep, and more than it needs.
const MOST_ENCRYPTED: usize = 16;

/// The records of a datagram; what is none is the last one.
pub fn records(mut datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = match datagram {
            [] => return None,
            [_, _, _, _, _, _, _, _, _, _, _, high, low, ..] => {
                HEADER + usize::from(u16::from_be_bytes([*high, *low]))
            }
            _ => datagram.len(),
        };
        let (record, rest) = datagram.split_at_checked(length).unwrap_or((datagram, &[]));
        datagram = rest;
        Some(record)
    })
}

/// What came in a handshake so far. A library may put a datagram away as a whole when it knows its first record, give up on records
/// of an earlier session, and not survive an encrypted one that comes twice. So each record is looked at by itself.
#[derive(Debug, Default)]
pub struct HandshakeRecords {
    /// Whether the other side has said that it encrypts from now on.
    may_be_encrypted: bool,
    /// Sequence numbers of encrypted records.
    encrypted: Vec<[u8; 6]>,
}

impl HandshakeRecords {
    /// Whether a record that has come may belong to the handshake. What is encrypted is a part of it once: its last message, after the
    /// one that says so. All else is of an earlier session, or came twice.
    pub fn take(&mut self, record: &[u8]) -> bool {
        let &[kind, _, _, first, second, ref rest @ ..] = record else { return true };
        if (first, second) == (0, 0) {
            self.may_be_encrypted |= kind == CHANGE_CIPHER_SPEC;
            return true;
        }
        let Some((sequence, _)) = rest.split_first_chunk::<6>() else { return false };
        let is_new = self.may_be_encrypted
            && kind == HANDSHAKE
            && self.encrypted.len() < MOST_ENCRYPTED
            && !self.encrypted.contains(sequence);
        if is_new {
            self.encrypted.push(*sequence);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_is_handed_on_as_it_is() {
        let of = |datagram: &'static [u8]| records(datagram).collect::<Vec<_>>();
        assert_eq!(of(b""), Vec::<&[u8]>::new());
        assert_eq!(of(b"short"), [b"short"]);
        assert_eq!(of(&[22; 40]), [[22; 40]]);
    }

    #[test]
    fn a_datagram_is_divided_where_its_records_say() {
        let record =
            |length: u8| [vec![22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, length], vec![7; length.into()]];
        let (one, other) = (record(3).concat(), record(0).concat());
        let datagram = [one.clone(), other.clone()].concat();
        assert_eq!(records(&datagram).collect::<Vec<_>>(), [one, other]);
    }

    #[test]
    fn what_is_encrypted_belongs_to_a_handshake_once_and_when_that_was_said() {
        let record = |kind: u8, epoch: u8, sequence: u8| {
            [kind, 254, 253, 0, epoch, 0, 0, 0, 0, 0, sequence, 0, 1, 7].to_vec()
        };
        let mut known = HandshakeRecords::default();
        assert!(known.take(&record(HANDSHAKE, 0, 1)) && known.take(&record(HANDSHAKE, 0, 1)));
        assert!(!known.take(&record(HANDSHAKE, 1, 0)), "of an earlier session");
        assert!(known.take(&record(CHANGE_CIPHER_SPEC, 0, 2)));
        assert!(known.take(&record(HANDSHAKE, 1, 0)) && !known.take(&record(HANDSHAKE, 1, 0)));
        assert!(!known.take(&record(21, 1, 1)) && !known.take(&record(23, 1, 2)));
        assert!(
            (1..200).filter(|sequence| known.take(&record(HANDSHAKE, 1, *sequence))).count() < MOST_ENCRYPTED
        );
        assert!(known.take(b"") && !known.take(&[22, 254, 253, 0, 1, 9]));
    }
}
