//! Values of RESP2 and RESP3 as they arrive, in constant memory: of a value only its kind, its size and its first words are
//! kept (Redis serialization protocol specification).

use memchr::memchr;
use plimsoll_model::wire::Label;

/// The longest line that is waited for, bytes: Redis allows commands in one line of that size.
const LINE: usize = 1 << 16;
/// Values within values.
const DEPTH: usize = 64;
/// The longest string, bytes: what a server can be set to at most.
const STRING: u64 = 1 << 32;
/// The most elements of one value.
const ELEMENTS: u64 = 1 << 31;
/// First elements of an array of which the text is kept.
const WORDS: usize = 3;

/// How far a reader came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// A whole value ends after so many bytes.
    Whole(usize),
    /// So many bytes, more than none, are a part of a value.
    Part(usize),
    /// So many bytes are needed.
    Need(usize),
    /// So many bytes are a string's content.
    Pass(u64),
    /// This is no value.
    Malformed(&'static str),
}

/// Reads one value after the other.
#[derive(Default)]
pub(super) struct Reader {
    open: Vec<Open>,
    place: Place,
    /// The value's first byte: its kind.
    pub kind: u8,
    /// Its elements (a map's keys and values count each), `None` for a null.
    pub size: Option<u64>,
    /// The text of the value, or of its first elements, as far as a label holds it.
    pub words: [Label; WORDS],
}

/// An array, or the like, of which elements are still to come.
struct Open {
    left: u64,
    /// An attribute stands before a value and is none (RESP3).
    attribute: bool,
}

#[derive(Default)]
enum Place {
    #[default]
    Value,
    /// So much of a string is still to come.
    Content(u64),
    /// The line end behind a string.
    End,
}

impl Reader {
    /// Reads what a server says.
    pub fn reply(&mut self, bytes: &[u8]) -> Progress {
        self.read(bytes, false)
    }

    /// Reads what a client says: an array of strings, or a line.
    pub fn command(&mut self, bytes: &[u8]) -> Progress {
        if self.open.is_empty() && matches!(self.place, Place::Value) && bytes.first() != Some(&b'*') {
            return self.inline(bytes);
        }
        self.read(bytes, true)
    }

    /// Forgets what was half read.
    pub fn reset(&mut self) {
        self.open.clear();
        self.place = Place::Value;
    }

    fn read(&mut self, bytes: &[u8], command: bool) -> Progress {
        let mut at = 0;
        // What is complete so far, or else how much is needed.
        let part = |at: usize, need: usize| if at > 0 { Progress::Part(at) } else { Progress::Need(need) };
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let whole = match self.place {
                Place::Content(left) if (rest.len() as u64) < left => {
                    if at > 0 {
                        return Progress::Part(at);
                    }
                    self.place = Place::End;
                    return Progress::Pass(left);
                }
                Place::Content(left) => {
                    at += left as usize;
                    self.place = Place::End;
                    false
                }
                Place::End => {
                    let Some(end) = rest.get(..2) else { return part(at, 2) };
                    if end != b"\r\n" {
                        return Progress::Malformed("a string that does not end where its length says");
                    }
                    at += 2;
                    self.place = Place::Value;
                    self.close()
                }
                Place::Value => {
                    let Some(line) = memchr(b'\n', rest) else {
                        if rest.len() > LINE {
                            return Progress::Malformed("a line without an end");
                        }
                        return part(at, rest.len() + 1);
                    };
                    let (&[kind, ref text @ .., b'\r'], after) = (&rest[..line], &rest[line + 1..]) else {
                        return Progress::Malformed("a line that does not end in CRLF");
                    };
                    if command && kind != if self.open.is_empty() { b'*' } else { b'$' } {
                        return Progress::Malformed("a command that is not an array of strings");
                    }
                    match self.value(kind, text, after) {
                        Ok(Some(whole)) => {
                            at += line + 1;
                            whole
                        }
                        Ok(None) => return part(at, rest.len() + 1),
                        Err(reason) => return Progress::Malformed(reason),
                    }
                }
            };
            if whole {
                return Progress::Whole(at);
            }
        }
    }

    /// Takes the line with which a value begins. Whether the outermost value is complete with it; `None` if more of what is
    /// behind it is needed.
    fn value(&mut self, kind: u8, text: &[u8], after: &[u8]) -> Result<Option<bool>, &'static str> {
        let outermost = self.open.is_empty();
        match kind {
            b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => {
                self.keep(kind, None, text);
                Ok(Some(self.close()))
            }
            b'$' | b'=' | b'!' => {
                let length = length(text)?;
                if length.is_some_and(|length| length > STRING) {
                    return Err("a string longer than any server takes");
                }
                let shown = length.unwrap_or(0).min(Label::LENGTH as u64) as usize;
                if (outermost || self.word().is_some()) && after.len() < shown {
                    return Ok(None);
                }
                self.keep(kind, length, after.get(..shown).unwrap_or_default());
                Ok(Some(match length {
                    Some(length) => {
                        self.place = Place::Content(length);
                        false
                    }
                    None => self.close(),
                }))
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let size = length(text)?;
                if size.is_some_and(|size| size > ELEMENTS) {
                    return Err("more elements than any server takes");
                }
                let attribute = kind == b'|';
                let size = size.map(|size| if matches!(kind, b'%' | b'|') { size * 2 } else { size });
                if !attribute {
                    self.keep(kind, size, &[]);
                }
                match size {
                    Some(left @ 1..) => {
                        if self.open.len() == DEPTH {
                            return Err("values nested too deeply");
                        }
                        self.open.push(Open { left, attribute });
                        Ok(Some(false))
                    }
                    _ if attribute => Ok(Some(false)),
                    _ => Ok(Some(self.close())),
                }
            }
            _ => Err("a value of no known kind"),
        }
    }

    /// Which of the words comes next.
    fn word(&self) -> Option<usize> {
        match &self.open[..] {
            [Open { left, attribute: false }] => {
                Some(self.size?.saturating_sub(*left) as usize).filter(|&word| word < WORDS)
            }
            _ => None,
        }
    }

    /// Keeps what is asked for later.
    fn keep(&mut self, kind: u8, size: Option<u64>, text: &[u8]) {
        if self.open.is_empty() {
            (self.kind, self.size) = (kind, size);
            self.words = [Label::from_bytes(text), Label::default(), Label::default()];
        } else if let Some(word) = self.word() {
            self.words[word] = Label::from_bytes(text);
        }
    }

    /// A value is complete: whether the outermost one is.
    fn close(&mut self) -> bool {
        while let Some(last) = self.open.last_mut() {
            last.left -= 1;
            if last.left > 0 {
                return false;
            }
            let attribute = last.attribute;
            self.open.pop();
            if attribute {
                return false;
            }
        }
        true
    }

    /// A command as one types it.
    fn inline(&mut self, bytes: &[u8]) -> Progress {
        let Some(line) = memchr(b'\n', bytes) else {
            return if bytes.len() > LINE {
                Progress::Malformed("a line without an end")
            } else {
                Progress::Need(bytes.len() + 1)
            };
        };
        let text = &bytes[..line];
        if text.iter().any(|&byte| byte < b' ' && !matches!(byte, b'\r' | b'\t')) {
            return Progress::Malformed("a command that is neither an array nor a line");
        }
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        self.kind = b'*';
        self.words = std::array::from_fn(|_| Label::from_bytes(words.next().unwrap_or_default()));
        let kept = self.words.iter().filter(|word| !word.as_str().is_empty()).count();
        self.size = Some((kept + words.count()) as u64);
        Progress::Whole(line + 1)
    }
}

/// A length or a number of elements, `None` for a null.
fn length(text: &[u8]) -> Result<Option<u64>, &'static str> {
    match text {
        b"-1" => Ok(None),
        [] => Err("a length without digits"),
        [b'?'] => Err("a streamed value, which no server sends"),
        _ if text.len() > 12 => Err("a length of too many digits"),
        _ => text
            .iter()
            .try_fold(0_u64, |value, digit| {
                digit.is_ascii_digit().then(|| value * 10 + u64::from(digit - b'0'))
            })
            .map(Some)
            .ok_or("a length that is no number"),
    }
}
