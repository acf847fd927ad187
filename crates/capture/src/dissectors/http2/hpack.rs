//! HPACK (RFC 7541), as much as tells requests and responses apart. Of the fields that do not, the dynamic table keeps the
//! sizes.

use super::huffman;
use crate::action::{LONGEST, name as name_of};
use plimsoll_model::wire::Label;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of the dynamic table, as the standard counts them, until something else is agreed on.
const AGREED: usize = 4096;
/// The largest table that is believed.
const LARGEST: usize = 1 << 20;
/// What an entry weighs beside its texts.
const ENTRY: usize = 32;

/// Fields that concern us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Method,
    Path,
    Status,
    GrpcStatus,
    ContentType,
    Other,
}

/// Lengths of the names in the static table (appendix A), from index 1.
static NAMES: [u8; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13,
    12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3,
    16,
];

/// The value of a field: its beginning, of a path that of the last part. And all of a path, where that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Value {
    pub label: Label,
    pub path: Option<Arc<str>>,
}

/// The paths of the static table.
fn fixed_path(index: usize) -> Option<&'static str> {
    match index {
        4 => Some("/"),
        5 => Some("/index.html"),
        _ => None,
    }
}

/// Name and value in the static table.
fn fixed(index: usize) -> (Name, &'static str) {
    match index {
        2 => (Name::Method, "GET"),
        3 => (Name::Method, "POST"),
        4 | 5 => (Name::Path, ""),
        8 => (Name::Status, "200"),
        9 => (Name::Status, "204"),
        10 => (Name::Status, "206"),
        11 => (Name::Status, "304"),
        12 => (Name::Status, "400"),
        13 => (Name::Status, "404"),
        14 => (Name::Status, "500"),
        31 => (Name::ContentType, ""),
        _ => (Name::Other, ""),
    }
}

#[derive(Clone)]
struct Entry {
    name: Name,
    name_length: usize,
    value: Value,
    size: usize,
}

/// What one side's fields refer to.
pub(super) struct Table {
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    limit: usize,
    /// Nothing of it was missed.
    pub complete: bool,
    /// Whole paths are kept, and not their last parts alone.
    pub keeps_paths: bool,
}

impl Default for Table {
    fn default() -> Table {
        Table { entries: VecDeque::new(), size: 0, limit: AGREED, complete: false, keeps_paths: false }
    }
}

impl Table {
    /// Gives each field that concerns us to `each`.
    pub fn read(&mut self, mut block: &[u8], each: &mut dyn FnMut(Name, Value)) -> Result<(), &'static str> {
        while let Some(&first) = block.first() {
            if first & 0x80 != 0 {
                let index = integer(&mut block, 7)?;
                match self.entry(index)? {
                    Some(entry) if entry.name != Name::Other => each(entry.name, entry.value),
                    _ => {}
                }
            } else if first & 0xe0 == 0x20 {
                let limit = integer(&mut block, 5)?;
                if limit > LARGEST {
                    return Err("a table of fields that is too large");
                }
                self.limit = limit;
                self.shrink();
            } else {
                let indexed = first & 0x40 != 0;
                self.literal(&mut block, indexed, each)?;
            }
        }
        Ok(())
    }

    /// A field with its value, and perhaps its name, written out.
    fn literal(
        &mut self,
        block: &mut &[u8],
        indexed: bool,
        each: &mut dyn FnMut(Name, Value),
    ) -> Result<(), &'static str> {
        let index = integer(block, if indexed { 6 } else { 4 })?;
        let (name, name_length) = match index {
            0 => {
                let (text, length) = string(block, true, Path::None)?;
                (named(&text.label, length), length)
            }
            index => self.entry(index)?.map_or((Name::Other, ENTRY), |entry| (entry.name, entry.name_length)),
        };
        let wanted = name != Name::Other;
        let path = match (name, self.keeps_paths) {
            (Name::Path, true) => Path::Whole,
            (Name::Path, false) => Path::Last,
            _ => Path::None,
        };
        let (value, length) = string(block, wanted || indexed, path)?;
        if wanted {
            each(name, value.clone());
        }
        if indexed {
            let size = name_length + length + ENTRY;
            self.entries.push_front(Entry { name, name_length, value, size });
            self.size += size;
            self.shrink();
        }
        Ok(())
    }

    /// Fields were missed.
    pub fn forget(&mut self) {
        self.entries.clear();
        (self.size, self.complete) = (0, false);
    }

    /// What an index refers to; `None` where that was missed.
    fn entry(&self, index: usize) -> Result<Option<Entry>, &'static str> {
        if index == 0 {
            return Err("a field without a name");
        }
        if let Some(&length) = NAMES.get(index - 1) {
            let (name, label) = fixed(index);
            let path = fixed_path(index).filter(|_| self.keeps_paths).map(Arc::from);
            let value = Value { label: label.into(), path };
            return Ok(Some(Entry { name, name_length: length.into(), value, size: 0 }));
        }
        match self.entries.get(index - 1 - NAMES.len()) {
            Some(entry) => Ok(Some(entry.clone())),
            None if self.complete => Err("a field that is not in the table"),
            None => Ok(None),
        }
    }

    fn shrink(&mut self) {
        while self.size > self.limit {
            let Some(oldest) = self.entries.pop_back() else { break };
            self.size -= oldest.size;
        }
    }
}

fn named(text: &Label, length: usize) -> Name {
    match (text.as_str(), length) {
        (":method", 7) => Name::Method,
        (":path", 5) => Name::Path,
        (":status", 7) => Name::Status,
        ("grpc-status", 11) => Name::GrpcStatus,
        ("content-type", 12) => Name::ContentType,
        _ => Name::Other,
    }
}

/// A number that begins in the lower bits of a byte (section 5.1).
fn integer(block: &mut &[u8], bits: u32) -> Result<usize, &'static str> {
    let cut = "a block of fields that is cut";
    let (&first, mut rest) = block.split_first().ok_or(cut)?;
    let most = (1_usize << bits) - 1;
    let mut value = usize::from(first) & most;
    if value == most {
        for place in 0.. {
            let (&byte, behind) = rest.split_first().ok_or(cut)?;
            rest = behind;
            if place > 3 {
                return Err("a number in a field that is too large");
            }
            value += usize::from(byte & 127) << (7 * place);
            if byte & 128 == 0 {
                break;
            }
        }
    }
    *block = rest;
    Ok(value)
}

/// What is kept of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Path {
    /// It is none: the beginning.
    #[default]
    None,
    /// The last part.
    Last,
    /// That, and all of it.
    Whole,
}

/// A text (section 5.2), and its length. Where it is not `read`, the length is that on the wire.
fn string(block: &mut &[u8], read: bool, path: Path) -> Result<(Value, usize), &'static str> {
    let packed = block.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer(block, 7)?;
    let text = block.get(..length).ok_or("a text that is longer than its block")?;
    *block = &block[length..];
    if !read {
        return Ok((Value::default(), length));
    }
    let mut begin = Begin { path, ..Begin::default() };
    if packed {
        huffman::decode(text, |byte| begin.push(byte)).ok_or("a text that is not coded as it must be")?;
    } else {
        text.iter().for_each(|&byte| begin.push(byte));
    }
    let label = Label::from_bytes(&begin.text[..begin.kept]);
    let path = (path == Path::Whole).then(|| name_of(&begin.whole).into());
    Ok((Value { label, path }, begin.length))
}

/// Keeps the beginning of a text, or of the last part of a path.
#[derive(Default)]
struct Begin {
    text: [u8; Label::LENGTH],
    kept: usize,
    length: usize,
    path: Path,
    /// Behind a path's question mark.
    query: bool,
    /// All of a path, where that is asked for.
    whole: Vec<u8>,
}

impl Begin {
    fn push(&mut self, byte: u8) {
        self.length += 1;
        if self.path == Path::Whole && self.whole.len() < LONGEST {
            self.whole.push(byte);
        }
        if self.path != Path::None {
            self.query |= byte == b'?';
            if self.query {
                return;
            }
            if byte == b'/' {
                self.kept = 0;
                return;
            }
        }
        if let Some(place) = self.text.get_mut(self.kept) {
            *place = byte;
            self.kept += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(table: &mut Table, hex: &str) -> Result<Vec<(Name, String)>, &'static str> {
        let hex: String = hex.split_whitespace().collect();
        let block: Vec<u8> =
            (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
        let mut found = Vec::new();
        table.read(&block, &mut |name, value| found.push((name, value.label.to_string()))).map(|()| found)
    }

    /// RFC 7541, appendix C.6: responses with Huffman's code and a table of 256 bytes, from which entries fall.
    #[test]
    fn responses_of_the_standard_are_read() {
        let mut table = Table { limit: 256, complete: true, ..Table::default() };
        let first = "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
        assert_eq!(fields(&mut table, first), Ok(vec![(Name::Status, "302".into())]));
        assert_eq!((table.size, table.entries.len()), (222, 4));
        assert_eq!(fields(&mut table, "4883 640e ffc1 c0bf"), Ok(vec![(Name::Status, "307".into())]));
        assert_eq!((table.size, table.entries.len()), (222, 4));
        let third = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07";
        assert_eq!(fields(&mut table, third), Ok(vec![(Name::Status, "200".into())]));
        assert_eq!((table.size, table.entries.len()), (215, 3));
    }

    #[test]
    fn of_a_path_the_last_part_is_kept() {
        let mut table = Table::default();
        // /pkg.Svc/Call?x=/y
        let path = "44 12 2f706b672e5376632f43616c6c3f783d2f79";
        assert_eq!(fields(&mut table, path), Ok(vec![(Name::Path, "Call".into())]));
        assert_eq!(fields(&mut table, "be"), Ok(vec![(Name::Path, "Call".into())]));
    }

    #[test]
    fn all_of_a_path_is_kept_where_that_is_asked_for() {
        let mut table = Table { keeps_paths: true, ..Table::default() };
        let mut paths = |block: &[u8]| {
            let mut found = Vec::new();
            table.read(block, &mut |_, value| found.extend(value.path.map(|path| path.to_string()))).unwrap();
            found
        };
        assert_eq!(paths(b"\x44\x08/in/7?k="), ["/in/7?k="]);
        assert_eq!(paths(b"\x44\x09/in/7?k=1"), ["/in/7?k=1"]);
        // Out of the dynamic table, the newest first, and out of the static one.
        assert_eq!(paths(b"\xbe\xbf\x84\x85"), ["/in/7?k=1", "/in/7?k=", "/", "/index.html"]);
        assert_eq!(paths(b"\x83\x88"), Vec::<String>::new());
    }

    #[test]
    fn what_was_missed_is_unknown_and_what_is_wrong_refused() {
        assert_eq!(fields(&mut Table::default(), "be"), Ok(vec![]));
        let complete = || Table { complete: true, ..Table::default() };
        assert!(fields(&mut complete(), "be").is_err());
        for bad in ["80", "3fffffff7f", "ffffffffffff", "4105", "41", "008566"] {
            assert!(fields(&mut complete(), bad).is_err(), "{bad}");
        }
    }
}
