//! TLS opened where its keys are known: 1.2 (RFC 5246) and 1.3 (RFC 8446) with AES-GCM and ChaCha20-Poly1305. Every record is
//! authenticated before anything of it is given on, so that what is given on is what was said.

mod clear;
mod handshake;
pub mod keys;
#[cfg(test)]
pub(crate) mod sessions;
mod suite;
#[cfg(test)]
mod tests;
mod unopened;

pub use clear::{Clear, Part, Piece, What};
pub use unopened::Unopened;

use handshake::{
    CLIENT_HELLO, ClientHello, ENCRYPTED_EXTENSIONS, FINISHED, KEY_UPDATE, Messages, SERVER_HELLO,
    ServerHello,
};
use keys::{Keys, Label, Secret};
use plimsoll_model::Nanos;
use std::collections::VecDeque;
use suite::{Cipher, HEADER, Suite, Version};

/// Kinds of content.
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
/// Bytes of an alert that is not encrypted.
const CLEAR_ALERT: usize = 2;
/// The longest content of a record, of TLS 1.2 (RFC 5246 section 6.2.3), bytes.
const LONGEST: usize = (1 << 14) + 2048;
/// The shortest that an authenticated record can be.
const SHORTEST: usize = 17;

/// Room that a direction keeps for the next record, bytes.
const SPARE: usize = 512;
/// Bytes of a conversation that wait for a key which may still come.
const WAITING: usize = 64 << 10;
/// Sequence numbers that are tried behind a hole, with the keys of before and with those that follow them.
const TRIES: u64 = 256;
const TRIES_NEXT: u64 = 16;
/// Records that are tried behind a hole, and bytes in which one is looked for.
const RECORDS: u32 = 32;
const SEARCHED: usize = 256 << 10;
/// Bytes that a client may send before it has an answer.
const EARLY: usize = 1 << 20;
/// A record that says no more than that early data has ended, bytes.
const END_OF_EARLY: usize = HEADER + 4 + 1 + 16;

/// TLS of one conversation, both directions of it.
#[derive(Default)]
pub struct Opener {
    directions: [Direction; 2],
    /// Which direction is the client's, and what it began with.
    hello: Option<(usize, ClientHello)>,
    /// What the server chose, and its random.
    session: Option<(Suite, [u8; 32])>,
    /// Bytes that a client said before it had an answer, and whether the server takes them.
    early: usize,
    takes_early: bool,
    /// Whether a record was opened.
    opened: bool,
    /// Whether the capture lacks something.
    holed: bool,
    /// The direction whose next record lacks its key, and all that came since.
    awaits: Option<usize>,
    waiting: VecDeque<(usize, Nanos, Waiting)>,
    waiting_bytes: usize,
}

enum Waiting {
    Data(Vec<u8>),
    Gap(u64),
    End,
}

#[derive(Default)]
struct Direction {
    /// The beginning of a record.
    buffer: Vec<u8>,
    at: Nanos,
    messages: Messages,
    stage: Stage,
    /// Of the stage, once it was needed; in TLS 1.3 with its secret.
    cipher: Option<Cipher>,
    secret: Option<Secret>,
    hole: Option<Hole>,
}

/// How far a direction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Clear,
    /// Of TLS 1.3, the encrypted part of it.
    Handshake,
    Application,
}

/// Something is missing before what comes next.
#[derive(Default)]
struct Hole {
    /// The rest of the record that it cut, which is void.
    void: u64,
    searched: usize,
    records: u32,
}

/// Whether a key was there.
enum Progress {
    Done,
    Awaits,
}

impl Opener {
    /// The direction of the client, where it was seen.
    pub fn client(&self) -> Option<usize> {
        self.hello.map(|(client, _)| client)
    }

    /// Memory held for bytes that wait, bytes.
    pub fn kept(&self) -> usize {
        let directions = self.directions.iter();
        self.waiting_bytes + directions.map(|own| own.buffer.capacity() + own.messages.kept()).sum::<usize>()
    }

    /// Takes the next of a direction and tells what lies under it. After an error, nothing more can be opened.
    ///
    /// # Errors
    /// Why the conversation cannot be opened (any more).
    pub fn take(
        &mut self,
        direction: usize,
        at: Nanos,
        piece: Piece<'_>,
        keys: &Keys,
        clear: &mut Clear,
    ) -> Result<(), Unopened> {
        if self.awaits.is_none() {
            return self.piece(direction, at, piece, keys, clear);
        }
        self.waiting_bytes += size_of::<(usize, Nanos, Waiting)>();
        let waiting = match piece {
            Piece::Data(bytes) => {
                self.waiting_bytes += bytes.len();
                Waiting::Data(bytes.to_vec())
            }
            Piece::Gap(missing) => Waiting::Gap(missing),
            Piece::End => Waiting::End,
        };
        self.waiting.push_back((direction, at, waiting));
        self.resume(keys, clear)?;
        if self.waiting_bytes > WAITING { Err(Unopened::NoKey) } else { Ok(()) }
    }

    /// What is to blame for an error: behind a hole what cannot be opened is the hole's doing.
    pub fn blame(&self, reason: Unopened) -> Unopened {
        if self.holed && reason == Unopened::Broken { Unopened::Hole } else { reason }
    }

    /// Nothing follows: looks a last time for a key that lacked.
    ///
    /// # Errors
    /// Why the conversation was not opened.
    pub fn close(&mut self, keys: &Keys, clear: &mut Clear) -> Result<(), Unopened> {
        self.resume(keys, clear)?;
        let holes = [0, 1].map(|direction| self.tell_hole(direction, clear));
        match (self.opened, self.awaits) {
            (_, Some(_)) => Err(Unopened::NoKey),
            (true, None) if holes.contains(&true) => Err(Unopened::Hole),
            (true, None) => Ok(()),
            (false, None) => Err(Unopened::Unfinished),
        }
    }

    /// Looks again for a key that lacks; with it, what waited goes on in its order.
    fn resume(&mut self, keys: &Keys, clear: &mut Clear) -> Result<(), Unopened> {
        let Some(direction) = self.awaits.take() else { return Ok(()) };
        self.read(direction, keys, clear)?;
        while self.awaits.is_none()
            && let Some((direction, at, piece)) = self.waiting.pop_front()
        {
            self.waiting_bytes -= size_of::<(usize, Nanos, Waiting)>();
            let piece = match &piece {
                Waiting::Data(bytes) => {
                    self.waiting_bytes -= bytes.len();
                    Piece::Data(bytes)
                }
                Waiting::Gap(missing) => Piece::Gap(*missing),
                Waiting::End => Piece::End,
            };
            self.piece(direction, at, piece, keys, clear)?;
        }
        Ok(())
    }

    fn piece(
        &mut self,
        direction: usize,
        at: Nanos,
        piece: Piece<'_>,
        keys: &Keys,
        clear: &mut Clear,
    ) -> Result<(), Unopened> {
        let own = &mut self.directions[direction];
        own.at = at;
        match piece {
            Piece::Data(bytes) => {
                own.buffer.extend_from_slice(bytes);
                self.read(direction, keys, clear)
            }
            Piece::Gap(missing) => self.gap(direction, missing),
            Piece::End => {
                self.tell_hole(direction, clear);
                clear.tell(direction, at, What::End);
                Ok(())
            }
        }
    }

    /// A hole behind which nothing was opened any more: what is missing is missing under TLS, too.
    fn tell_hole(&mut self, direction: usize, clear: &mut Clear) -> bool {
        let own = &mut self.directions[direction];
        let is_there = own.hole.is_some();
        if is_there {
            // It stays, so that whoever asks why knows.
            clear.tell(direction, own.at, What::Gap);
        }
        is_there
    }

    fn gap(&mut self, direction: usize, missing: u64) -> Result<(), Unopened> {
        self.holed = true;
        if self.hello.is_none() {
            return Err(Unopened::Beginning);
        }
        if self.session.is_none() {
            return Err(Unopened::Hole);
        }
        let own = &mut self.directions[direction];
        let rest = match (&own.hole, record_length(&own.buffer)) {
            (Some(hole), _) => hole.void,
            // What is missing may lie within one record, whose end is known then.
            (None, Some(length)) => (length as u64).saturating_sub(own.buffer.len() as u64),
            (None, None) => 0,
        };
        own.buffer.clear();
        own.messages = Messages::default();
        own.hole = Some(Hole { void: rest.saturating_sub(missing), ..Hole::default() });
        Ok(())
    }

    /// Reads all records that are whole.
    fn read(&mut self, direction: usize, keys: &Keys, clear: &mut Clear) -> Result<(), Unopened> {
        let mut buffer = std::mem::take(&mut self.directions[direction].buffer);
        let mut begin = 0;
        let mut outcome = Ok(());
        while let Some(rest) = buffer.get_mut(begin..).filter(|rest| !rest.is_empty()) {
            if self.directions[direction].hole.is_some() {
                begin += self.pass(direction, rest)?;
                let Some(length) = buffer.get(begin..).and_then(record_length) else { break };
                let Some(record) = buffer.get(begin..begin + length) else { break };
                match self.try_behind_hole(direction, record, keys, clear) {
                    Ok(Some(Progress::Done)) => begin += length,
                    Ok(Some(Progress::Awaits)) => {
                        outcome = self.await_key(direction, keys);
                        break;
                    }
                    Ok(None) => begin += 1,
                    Err(reason) => return Err(reason),
                }
                continue;
            }
            if rest.len() < HEADER {
                break;
            }
            let length = record_length(rest).ok_or(self.no_record())?;
            let Some(record) = rest.get_mut(..length) else { break };
            match self.record(direction, record, keys, clear)? {
                Progress::Done => begin += length,
                Progress::Awaits => {
                    outcome = self.await_key(direction, keys);
                    break;
                }
            }
        }
        buffer.drain(..begin.min(buffer.len()));
        if buffer.is_empty() && buffer.capacity() > SPARE {
            // Most conversations wait for nothing: what they hold on to is what others lack.
            buffer = Vec::new();
        }
        self.directions[direction].buffer = buffer;
        outcome
    }

    fn no_record(&self) -> Unopened {
        if self.hello.is_none() { Unopened::Beginning } else { Unopened::Broken }
    }

    fn await_key(&mut self, direction: usize, keys: &Keys) -> Result<(), Unopened> {
        self.awaits = Some(direction);
        if keys.may_grow() { Ok(()) } else { Err(Unopened::NoKey) }
    }

    /// Reads one record.
    fn record(
        &mut self,
        direction: usize,
        record: &mut [u8],
        keys: &Keys,
        clear: &mut Clear,
    ) -> Result<Progress, Unopened> {
        let kind = record.first().copied().unwrap_or_default();
        let stage = self.directions[direction].stage;
        if stage == Stage::Clear {
            return self.clear_record(direction, kind, record).map(|()| Progress::Done);
        }
        if self.is_13() && kind != APPLICATION_DATA {
            // What middleboxes are shown, and an alert of who has no keys yet; nothing else comes in clear.
            return if kind == HANDSHAKE { Err(Unopened::Broken) } else { Ok(Progress::Done) };
        }
        let Some(cipher) = self.cipher(direction, keys) else { return Ok(Progress::Awaits) };
        let sequence = cipher.sequence;
        match cipher.open(sequence, record) {
            Some((kind, place)) => {
                cipher.sequence += 1;
                let content = record.get(place).unwrap_or_default();
                self.opened(direction, kind, content, clear)?;
                Ok(Progress::Done)
            }
            None if self.may_be_early(direction, sequence) => {
                self.skip_early(record.len())?;
                Ok(Progress::Done)
            }
            None => Err(Unopened::Broken),
        }
    }

    fn is_13(&self) -> bool {
        self.session.is_some_and(|(suite, _)| suite.version == Version::Tls13)
    }

    /// Before anything is encrypted.
    fn clear_record(&mut self, direction: usize, kind: u8, record: &[u8]) -> Result<(), Unopened> {
        let content = record.get(HEADER..).unwrap_or_default();
        match kind {
            HANDSHAKE => self.messages(direction, content),
            // A server that has waited in vain may say so, in clear.
            ALERT if content.len() == CLEAR_ALERT => Ok(()),
            _ if self.hello.is_none() => Err(Unopened::Beginning),
            CHANGE_CIPHER_SPEC if self.session.is_some() && !self.is_13() => {
                self.directions[direction].stage = Stage::Application;
                Ok(())
            }
            APPLICATION_DATA => match self.hello {
                Some((client, hello)) if client == direction && hello.early => self.skip_early(record.len()),
                // What the other side has chosen is not in the capture.
                _ => Err(Unopened::Hole),
            },
            _ => Ok(()),
        }
    }

    /// Records of a client that has sent early data are under a key of their own until the first that is not.
    fn may_be_early(&self, direction: usize, sequence: u64) -> bool {
        let offered = self.hello.is_some_and(|(client, hello)| client == direction && hello.early);
        offered && sequence == 0 && self.directions[direction].stage == Stage::Handshake
    }

    /// Counts what came early. Where the server does not take it, it is void.
    fn skip_early(&mut self, bytes: usize) -> Result<(), Unopened> {
        self.early += bytes;
        if self.early > EARLY { Err(Unopened::EarlyData) } else { self.check_early() }
    }

    /// Where the server takes what came early, it is a part of what was said, and missing.
    fn check_early(&self) -> Result<(), Unopened> {
        if self.takes_early && self.early > END_OF_EARLY { Err(Unopened::EarlyData) } else { Ok(()) }
    }

    /// Takes messages of a handshake, in clear or opened.
    fn messages(&mut self, direction: usize, mut content: &[u8]) -> Result<(), Unopened> {
        if self.hello.is_none() && self.directions[direction].messages.kept() == 0 {
            // The middle of a handshake has no end that could be waited for.
            if content.first().is_some_and(|&kind| kind != CLIENT_HELLO) {
                return Err(Unopened::Beginning);
            }
        }
        let before = self.directions[direction].stage;
        while let Some((kind, body)) = self.directions[direction].messages.next(&mut content) {
            self.message(direction, before, kind, &body)?;
        }
        Ok(())
    }

    fn message(&mut self, direction: usize, stage: Stage, kind: u8, body: &[u8]) -> Result<(), Unopened> {
        let is_13 = self.is_13();
        match kind {
            CLIENT_HELLO if stage == Stage::Clear || !is_13 => {
                let hello = ClientHello::read(body).ok_or(Unopened::Broken)?;
                // The second one, after a retry, says nothing early.
                self.hello = Some((direction, hello));
            }
            SERVER_HELLO if stage == Stage::Clear || !is_13 => self.server_hello(body)?,
            ENCRYPTED_EXTENSIONS if stage == Stage::Handshake => {
                self.takes_early = handshake::takes_early_data(body);
                self.check_early()?;
            }
            FINISHED if stage == Stage::Handshake => self.directions[direction].turn(Stage::Application),
            KEY_UPDATE if stage == Stage::Application && is_13 => {
                let (secret, cipher) = self.next_generation(direction).ok_or(Unopened::Broken)?;
                let own = &mut self.directions[direction];
                (own.secret, own.cipher) = (Some(secret), Some(cipher));
            }
            _ => {}
        }
        Ok(())
    }

    fn server_hello(&mut self, body: &[u8]) -> Result<(), Unopened> {
        let hello = ServerHello::read(body).ok_or(Unopened::Broken)?;
        if hello.retry {
            return Ok(());
        }
        let version = hello.version.ok_or(Unopened::Suite)?;
        let suite = Suite::of(version, hello.suite).ok_or(Unopened::Suite)?;
        self.session = Some((suite, hello.random));
        if version == Version::Tls13 {
            self.directions.iter_mut().for_each(|own| own.turn(Stage::Handshake));
        }
        Ok(())
    }

    /// A record was opened.
    fn opened(
        &mut self,
        direction: usize,
        kind: u8,
        content: &[u8],
        clear: &mut Clear,
    ) -> Result<(), Unopened> {
        self.opened = true;
        let own = &mut self.directions[direction];
        match kind {
            APPLICATION_DATA if !content.is_empty() => {
                let begin = clear.bytes.len();
                clear.bytes.extend_from_slice(content);
                clear.tell(direction, own.at, What::Data(begin..clear.bytes.len()));
            }
            HANDSHAKE => self.messages(direction, content)?,
            // Of TLS 1.2: a handshake within the session has ended.
            CHANGE_CIPHER_SPEC => own.turn(Stage::Application),
            _ => {}
        }
        Ok(())
    }

    /// The cipher of a direction's stage. None where its key is not known.
    fn cipher(&mut self, direction: usize, keys: &Keys) -> Option<&mut Cipher> {
        if self.directions[direction].cipher.is_none() {
            let (cipher, secret) = self.make(direction, self.directions[direction].stage, keys)?;
            let own = &mut self.directions[direction];
            (own.cipher, own.secret) = (Some(cipher), secret);
        }
        self.directions[direction].cipher.as_mut()
    }

    /// The first cipher of a stage, in TLS 1.3 with its secret.
    fn make(&self, direction: usize, stage: Stage, keys: &Keys) -> Option<(Cipher, Option<Secret>)> {
        let ((client, hello), (suite, server_random)) = (self.hello?, self.session?);
        let by_client = client == direction;
        if suite.version == Version::Tls12 {
            let master = keys.find(&hello.random, Label::Master)?;
            let [from_client, from_server] =
                suite.of_master_secret(&master, &hello.random, &server_random)?;
            return Some((if by_client { from_client } else { from_server }, None));
        }
        let label = match (stage, by_client) {
            (Stage::Application, true) => Label::ClientTraffic,
            (Stage::Application, false) => Label::ServerTraffic,
            (_, true) => Label::ClientHandshake,
            (_, false) => Label::ServerHandshake,
        };
        let secret = keys.find(&hello.random, label)?;
        Some((suite.of_traffic_secret(&secret)?, Some(secret)))
    }

    /// What a key update leads to.
    fn next_generation(&self, direction: usize) -> Option<(Secret, Cipher)> {
        let (suite, _) = self.session?;
        let next = suite.next_secret(self.directions[direction].secret.as_ref()?)?;
        let cipher = suite.of_traffic_secret(&next)?;
        Some((next, cipher))
    }

    /// Passes what lies before the next possible record behind a hole; how many bytes.
    fn pass(&mut self, direction: usize, rest: &[u8]) -> Result<usize, Unopened> {
        let is_13 = self.is_13();
        let Some(hole) = &mut self.directions[direction].hole else { return Ok(0) };
        let void = usize::try_from(hole.void).unwrap_or(usize::MAX).min(rest.len());
        hole.void -= void as u64;
        let behind = rest.get(void..).unwrap_or_default();
        // A header may begin in the last bytes.
        let begins = |at: usize| match behind.get(at..) {
            Some(head @ &[kind, 3, 3, _, _, ..]) => {
                (kind == APPLICATION_DATA || !is_13) && record_length(head).is_some()
            }
            _ => false,
        };
        let sure = behind.len().saturating_sub(HEADER - 1);
        let passed = (0..sure).find(|&at| begins(at)).unwrap_or(sure);
        hole.searched += passed;
        if hole.searched > SEARCHED { Err(Unopened::Hole) } else { Ok(void + passed) }
    }

    /// Tries what may be a record behind a hole with the sequence numbers and keys that it may have. None where it is none.
    fn try_behind_hole(
        &mut self,
        direction: usize,
        record: &[u8],
        keys: &Keys,
        clear: &mut Clear,
    ) -> Result<Option<Progress>, Unopened> {
        let stage = self.directions[direction].stage;
        if record.len() < HEADER + SHORTEST {
            return Ok(None);
        }
        let mut found = None;
        if stage != Stage::Clear {
            let Some(cipher) = self.cipher(direction, keys) else { return Ok(Some(Progress::Awaits)) };
            found = open_one(cipher, TRIES, record);
        }
        if found.is_none() {
            // The keys may have changed in the hole.
            let next = match stage {
                Stage::Clear | Stage::Handshake => self.make(direction, Stage::Application, keys),
                Stage::Application => {
                    self.next_generation(direction).map(|(secret, cipher)| (cipher, Some(secret)))
                }
            };
            match next {
                None if stage == Stage::Clear => return Ok(Some(Progress::Awaits)),
                None => {}
                Some((mut cipher, secret)) => {
                    found = open_one(&mut cipher, TRIES_NEXT, record);
                    if found.is_some() {
                        let own = &mut self.directions[direction];
                        (own.stage, own.cipher, own.secret) = (Stage::Application, Some(cipher), secret);
                    }
                }
            }
        }
        let own = &mut self.directions[direction];
        let Some((kind, content)) = found else {
            let Some(hole) = &mut own.hole else { return Ok(None) };
            hole.records += 1;
            return if hole.records > RECORDS { Err(Unopened::Hole) } else { Ok(None) };
        };
        own.hole = None;
        let at = own.at;
        // The server's word on what came early may have been in the hole.
        self.takes_early |= stage == Stage::Handshake;
        self.check_early()?;
        clear.tell(direction, at, What::Gap);
        self.opened(direction, kind, &content, clear)?;
        Ok(Some(Progress::Done))
    }
}

impl Direction {
    /// Begins a stage.
    fn turn(&mut self, stage: Stage) {
        (self.stage, self.cipher, self.secret) = (stage, None, None);
    }
}

/// Opens a record with one of the next sequence numbers: what kind of content it holds, and that.
fn open_one(cipher: &mut Cipher, tries: u64, record: &[u8]) -> Option<(u8, Vec<u8>)> {
    (cipher.sequence..cipher.sequence.saturating_add(tries)).find_map(|sequence| {
        let mut record = record.to_vec();
        let (kind, place) = cipher.open(sequence, &mut record)?;
        cipher.sequence = sequence + 1;
        Some((kind, record.get(place)?.to_vec()))
    })
}

/// The length of the record that begins with those bytes, its header included. None where they are too few, or none's.
fn record_length(bytes: &[u8]) -> Option<usize> {
    match bytes {
        &[CHANGE_CIPHER_SPEC..=APPLICATION_DATA, 3, 0..=4, high, low, ..] => {
            let length = usize::from(u16::from_be_bytes([high, low]));
            (length <= LONGEST).then_some(HEADER + length)
        }
        _ => None,
    }
}
