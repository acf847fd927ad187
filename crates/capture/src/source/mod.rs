//! Where packets come from: pcap and pcapng, from a file or a pipe, packed with gzip or zstd, whole, cut short or still being
//! written.

mod block;
mod correction;
mod followed;
mod format;

pub use block::{Block, Record};
pub use correction::Correction;
pub use format::Garbage;

use crate::tls::keys::Keys;
use block::BLOCK;
use followed::Followed;
use format::{Format, Item, Need};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Of all captures that are read side by side.
const TOGETHER: usize = 16 * BLOCK;
/// The fewest of one of many captures.
const LEAST: usize = 1 << 16;
/// How often a file that is being written is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Why a capture could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be opened or read.
    #[error("{}: {error}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It begins like no capture.
    #[error("{}: this is no capture: it begins with {start}, where pcap and pcapng have a number of their own. Both may be packed with gzip or zstd", path.display())]
    NoCapture {
        /// Which file.
        path: PathBuf,
        /// Its first bytes.
        start: String,
    },
    /// Nothing can be read off that kind of packets.
    #[error("{}: link type {link} is not known; known are Ethernet (1), Linux cooked (113, 276), raw IP (12, 101, 228, 229) and loopback (0, 108)", path.display())]
    LinkType {
        /// Which file.
        path: PathBuf,
        /// Its number among pcap's link types.
        link: u16,
    },
}

/// How a capture ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Whether its last record was cut short.
    pub cut: bool,
    /// What stands where a record should begin, and after how many bytes.
    pub garbage: Option<(u64, Garbage)>,
    /// Why reading ended before the file did, and after how many bytes, unpacked.
    pub error: Option<(u64, String)>,
}

/// A block of a capture that is being skipped.
struct Skipped {
    /// Where it begins.
    begin: u64,
    length: u32,
    /// Bytes of it that have not been read yet.
    left: usize,
}

/// A capture that is being read.
pub struct PacketSource {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    format: Format,
    /// Read, and not yet given away.
    rest: Vec<u8>,
    /// Bytes of the capture before `rest`.
    position: u64,
    /// A block whose end has not been read yet; then there is no `rest`.
    skipped: Option<Skipped>,
    /// Bytes read at once.
    piece: usize,
    /// The file, where it is one.
    file: Option<Followed>,
    follow: Option<Box<dyn Fn() -> bool + Send>>,
    /// Why nothing more can be read.
    error: Option<String>,
    keys: Option<Arc<Keys>>,
    /// How the clock of the host stood on which it was captured.
    clock: Correction,
    ending: Option<Ending>,
}

impl PacketSource {
    /// Opens a file, `-` being the standard input.
    pub fn open(path: &Path) -> Result<PacketSource, SourceError> {
        if path == Path::new("-") {
            return PacketSource::read(path, Box::new(io::stdin()));
        }
        let failed = |error| SourceError::File { path: path.to_owned(), error };
        let file = File::open(path).map_err(failed)?;
        let followed = Followed::new(path, &file).map_err(failed)?;
        let source = PacketSource::read(path, Box::new(file))?;
        Ok(PacketSource { file: Some(followed), ..source })
    }

    /// Reads from anything; the path is for messages.
    pub fn read(path: &Path, input: Box<dyn Read + Send>) -> Result<PacketSource, SourceError> {
        let broken = |error| SourceError::File { path: path.to_owned(), error };
        let mut input = input;
        let mut start = Vec::new();
        fill(&mut input, &mut start, 4).map_err(broken)?;
        let packing = start.clone();
        let whole = io::Cursor::new(std::mem::take(&mut start)).chain(input);
        let mut input: Box<dyn Read + Send> = match packing[..] {
            [0x1f, 0x8b, ..] => {
                Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(1 << 16, whole)))
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::new(whole).map_err(broken)?),
            _ => Box::new(whole),
        };
        fill(&mut input, &mut start, Format::HEAD).map_err(broken)?;
        let Some((format, head)) = Format::recognise(&start) else {
            let start: Vec<String> = start.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            let start = if start.is_empty() { "nothing".to_owned() } else { start.join(" ") };
            return Err(SourceError::NoCapture { path: path.to_owned(), start });
        };
        start.drain(..head);
        Ok(PacketSource {
            path: path.to_owned(),
            input,
            format,
            rest: start,
            position: head as u64,
            skipped: None,
            piece: BLOCK,
            file: None,
            follow: None,
            error: None,
            keys: None,
            clock: Correction::default(),
            ending: None,
        })
    }

    /// Waits for more at the end of the file, as long as that says so.
    pub fn follow(mut self, go_on: impl Fn() -> bool + Send + 'static) -> PacketSource {
        self.follow = Some(Box::new(go_on));
        self
    }

    /// Reads fewer bytes at once, as one of so many captures that are read side by side.
    pub(crate) fn among(&mut self, many: usize) {
        self.piece = (TOGETHER / many.max(1)).clamp(LEAST, BLOCK);
    }

    /// Keys of TLS that the capture carries are added to those.
    pub fn teach(mut self, keys: Arc<Keys>) -> PacketSource {
        self.keys = Some(keys);
        self
    }

    /// Puts the times of packets right.
    pub fn corrected(mut self, clock: Correction) -> PacketSource {
        self.clock = clock;
        self
    }

    /// The next stretch, in a block that was used before; `false` at the end.
    pub fn next(&mut self, block: &mut Block) -> Result<bool, SourceError> {
        block.records.clear();
        std::mem::swap(&mut block.bytes, &mut self.rest);
        self.rest.clear();
        while block.records.is_empty() {
            if self.ending.is_some() {
                return Ok(false);
            }
            let before = block.bytes.len();
            self.read_more(&mut block.bytes);
            let ended = block.bytes.len() == before;
            self.parse(block, ended)?;
        }
        Ok(true)
    }

    /// How the capture ended, once it has.
    pub fn ending(&self) -> Ending {
        self.ending.clone().unwrap_or_default()
    }

    /// Which file this is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads up to a block. An error ends the capture as its end would; what was read before it counts.
    fn read_more(&mut self, bytes: &mut Vec<u8>) {
        while self.error.is_none() {
            let before = bytes.len();
            // Asked before the last look, so that what was written until then is read.
            let over = self.follow.as_ref().and(self.file.as_mut()).and_then(Followed::ended);
            if let Err(error) = fill(&mut self.input, bytes, self.piece.max(before + self.piece / 2)) {
                // The rest of a packed file may still be written.
                let may_come = self.follow.is_some() && error.kind() == io::ErrorKind::UnexpectedEof;
                self.error = (!may_come).then(|| error.to_string());
            }
            if bytes.len() > before || !self.follow.as_ref().is_some_and(|go_on| go_on()) {
                return;
            }
            self.error = self.error.take().or(over.map(str::to_owned));
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Finds the records that are whole, and puts what is behind them aside.
    fn parse(&mut self, block: &mut Block, ended: bool) -> Result<(), SourceError> {
        let mut at = self.skip(block.bytes.len());
        loop {
            match self.format.next(&block.bytes[at..]) {
                Ok((length, item)) => {
                    match item {
                        Item::Packet(mut record) => {
                            // Of several interfaces one may be readable; where none is, that is said.
                            if !crate::link::is_known(record.link) && self.format.is_all(record.link) {
                                let path = self.path.clone();
                                return Err(SourceError::LinkType { path, link: record.link });
                            }
                            record.offset += at as u32;
                            record.at = self.clock.right(record.at);
                            block.records.push(record);
                        }
                        Item::Keys(place) => {
                            if let Some(keys) = &self.keys {
                                let log = block.bytes.get(at + place.start..at + place.end);
                                let origin = format!("{}, the key log in it", self.path.display());
                                keys.read(log.unwrap_or_default(), origin);
                            }
                        }
                        Item::Other => {}
                    }
                    let there = length.min(block.bytes.len() - at);
                    if there < length {
                        let begin = self.position + at as u64;
                        self.skipped = Some(Skipped { begin, length: length as u32, left: length - there });
                    }
                    at += there;
                }
                Err(Need::More) => {
                    if ended {
                        self.end(at, at < block.bytes.len(), None);
                    }
                    break;
                }
                Err(Need::Nothing(garbage)) => {
                    self.end(at, false, Some((self.position + at as u64, garbage)));
                    break;
                }
            }
        }
        self.position += at as u64;
        if block.records.is_empty() {
            // Only the rest is worth keeping; the caller reads on behind it.
            block.bytes.drain(..at);
        } else {
            self.rest.extend_from_slice(&block.bytes[at..]);
            block.bytes.truncate(at);
        }
        Ok(())
    }

    /// How many of so many bytes belong to what is being skipped.
    fn skip(&mut self, bytes: usize) -> usize {
        let Some(skipped) = &mut self.skipped else { return 0 };
        let here = skipped.left.min(bytes);
        skipped.left -= here;
        if skipped.left == 0 {
            self.skipped = None;
        }
        here
    }

    /// Nothing more is read: so many bytes of the last stretch were understood.
    fn end(&mut self, at: usize, cut: bool, garbage: Option<(u64, Garbage)>) {
        let unskipped = self.skipped.as_ref().map(|skipped| (skipped.begin, Garbage::Block(skipped.length)));
        let error = self.error.take().map(|error| (self.position + at as u64, error));
        let cut = cut && error.is_none();
        self.ending = Some(Ending { cut, garbage: garbage.or(unskipped), error });
    }
}

/// Reads until there are so many bytes or there is no more.
fn fill(input: &mut dyn Read, bytes: &mut Vec<u8>, length: usize) -> io::Result<()> {
    let mut have = bytes.len();
    bytes.resize(length.max(have), 0);
    let mut result = Ok(());
    while have < length {
        match input.read(&mut bytes[have..]) {
            Ok(0) => break,
            Ok(read) => have += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    bytes.truncate(have);
    result
}
