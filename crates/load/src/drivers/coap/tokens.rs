//! Tokens of devices' requests: they name the place of an exchange, and its turn: the number of the request there.

/// What the bytes of a token count to that tell the requests of a place apart.
pub const TURNS: u32 = 1 << 24;
/// An answer to a request of so many turns ago is a late or doubled one of ours; what is further away is somebody
/// else's.
const OUR_TURNS: u32 = 1 << 16;
/// Bytes of a token: three for the place of the exchange, three for its turn.
pub const TOKEN: usize = 6;

/// The token of a request.
pub fn token(place: u32, turn: u32) -> [u8; TOKEN] {
    let ([_, a, b, c], [_, d, e, f]) = (place.to_be_bytes(), turn.to_be_bytes());
    [a, b, c, d, e, f]
}

/// The place and the turn that a token names; `None` for one that is not ours.
pub fn named(token: &[u8]) -> Option<(u32, u32)> {
    let &[a, b, c, d, e, f] = token else { return None };
    Some((u32::from_be_bytes([0, a, b, c]), u32::from_be_bytes([0, d, e, f])))
}

/// The turn of a place after that one.
pub fn next(turn: u32) -> u32 {
    (turn + 1) % TURNS
}

/// Of when the exchange is that an answer's token names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// It is under way.
    Now,
    /// It has come to its end.
    Past,
    /// It never was.
    Foreign,
}

/// Of when a turn is, at a place that is at turn `now`. `is_under_way` says whether the exchange of that turn goes on over
/// the connection that the answer came from.
pub fn age(turn: u32, now: u32, is_under_way: bool) -> Age {
    match now.wrapping_sub(turn) % TURNS {
        0 if is_under_way => Age::Now,
        1..=OUR_TURNS => Age::Past,
        _ => Age::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_exchange_and_those_of_before_are_known() {
        assert_eq!(named(&token(0x1_02_03, 0xff_ff_fe)), Some((0x1_02_03, 0xff_ff_fe)));
        assert_eq!(named(b"short"), None);
        let turn = TURNS - 1;
        assert_eq!(age(turn, turn, true), Age::Now);
        assert_eq!(age(turn, turn, false), Age::Foreign, "what was never written has no answer");
        assert_eq!(age(turn, next(turn), true), Age::Past);
        assert_eq!(age(turn, OUR_TURNS, true), Age::Foreign);
    }
}
