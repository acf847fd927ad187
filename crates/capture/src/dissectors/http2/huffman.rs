//! The Huffman code of HPACK (RFC 7541, section 5.2 and appendix B). It is canonical: codes of one length are consecutive, in
//! the order of their symbols, so that the lengths are all there is to it.

/// Symbols, the end of the text included.
const SYMBOLS: usize = 257;
/// Longest code, bits.
const LONGEST: usize = 30;
/// Codes that are found at one look, bits.
const SHORT: usize = 8;

/// Length of each symbol's code, bits.
#[rustfmt::skip]
static LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// What follows from the lengths.
struct Code {
    /// The first code of each length, how many there are, and the place of their symbols among `symbols`.
    first: [u32; LONGEST + 1],
    count: [u32; LONGEST + 1],
    place: [u16; LONGEST + 1],
    /// In the order of their codes.
    symbols: [u16; SYMBOLS],
    /// Symbol and length by the next eight bits; length 0 where the code is longer.
    short: [(u8, u8); 1 << SHORT],
}

static CODE: Code = build();

const fn build() -> Code {
    let mut code = Code {
        first: [0; LONGEST + 1],
        count: [0; LONGEST + 1],
        place: [0; LONGEST + 1],
        symbols: [0; SYMBOLS],
        short: [(0, 0); 1 << SHORT],
    };
    let (mut next, mut place, mut length) = (0_u32, 0, 1);
    while length <= LONGEST {
        next <<= 1;
        code.first[length] = next;
        code.place[length] = place as u16;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                if length <= SHORT {
                    let mut entry = (next as usize) << (SHORT - length);
                    let end = (next as usize + 1) << (SHORT - length);
                    while entry < end {
                        code.short[entry] = (symbol as u8, length as u8);
                        entry += 1;
                    }
                }
                code.symbols[place] = symbol as u16;
                code.count[length] += 1;
                place += 1;
                next += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    code
}

/// Gives each byte of the text to `each`. `None` where the bytes are no such text.
pub(super) fn decode(bytes: &[u8], mut each: impl FnMut(u8)) -> Option<()> {
    let (mut bits, mut held) = (0_u64, 0_usize);
    let mut rest = bytes.iter();
    loop {
        while held <= 56 {
            let Some(&byte) = rest.next() else { break };
            bits = bits << 8 | u64::from(byte);
            held += 8;
        }
        // The next bits at the lower end, ones behind the last.
        let peek = |length: usize| {
            let bits = if held >= length { bits >> (held - length) } else { !(!bits << (length - held)) };
            bits as u32 & ((1 << length) - 1)
        };
        let (symbol, length) = CODE.short[peek(SHORT) as usize];
        if length > 0 && usize::from(length) <= held {
            each(symbol);
            held -= usize::from(length);
            continue;
        }
        if held < SHORT {
            // What is left are fewer than eight ones, the beginning of the end's code.
            return (peek(SHORT) == 0xff).then_some(());
        }
        let mut length = SHORT + 1;
        loop {
            if length > held.min(LONGEST) {
                return None;
            }
            let above = peek(length).wrapping_sub(CODE.first[length]);
            if above < CODE.count[length] {
                // The symbol of the end is no part of a text.
                each(u8::try_from(CODE.symbols[usize::from(CODE.place[length]) + above as usize]).ok()?);
                held -= length;
                break;
            }
            length += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        decode(bytes, |byte| text.push(byte)).map(|()| text)
    }

    /// Examples of RFC 7541, appendix C.
    #[test]
    fn texts_of_the_standard_are_read() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
        };
        for (packed, plain) in [
            ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
            ("a8eb10649cbf", "no-cache"),
            ("25a849e95ba97d7f", "custom-key"),
            ("25a849e95bb8e8b4bf", "custom-value"),
            ("6402", "302"),
            ("9d29ad171863c78f0b97c8e9ae82ae43d3", "https://www.example.com"),
            ("640eff", "307"),
        ] {
            assert_eq!(text(&hex(packed)).as_deref(), Some(plain.as_bytes()), "{plain}");
        }
    }

    #[test]
    fn the_code_is_complete() {
        let all: u64 = LENGTHS.iter().map(|&length| 1 << (LONGEST - usize::from(length))).sum();
        assert_eq!(all, 1 << LONGEST);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        // A zero behind the last symbol, eight ones, the end's own code.
        for bad in [&[0x00_u8, 0x00][..], &[0x1f, 0xff, 0xff], &[0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(text(bad), None, "{bad:x?}");
        }
        assert_eq!(text(&[]), Some(Vec::new()));
    }
}
