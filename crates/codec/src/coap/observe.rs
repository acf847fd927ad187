//! The order of notifications (RFC 7641 section 3.4).

/// Numbers of notifications have 24 bits.
const NUMBERS: u32 = 1 << 24;
/// After so many seconds any number is newer than any before.
pub const FRESH_SECONDS: i64 = 128;

/// Whether a notification is newer than the one before, by their numbers and by the seconds between their arrivals.
pub fn is_newer(number: u32, before: u32, seconds: i64) -> bool {
    let ahead = number.wrapping_sub(before) % NUMBERS;
    seconds > FRESH_SECONDS || (ahead > 0 && ahead < NUMBERS / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_round_and_age() {
        assert!(is_newer(5, 4, 0));
        assert!(!is_newer(4, 5, 0));
        assert!(!is_newer(5, 5, 0));
        assert!(is_newer(0, NUMBERS - 1, 0));
        assert!(!is_newer(NUMBERS - 1, 0, 0));
        assert!(is_newer(1, 5, 129));
    }
}
