//! Secrets of TLS sessions, by the random of their ClientHello: from key logs of the form that NSS writes where `SSLKEYLOGFILE`
//! says (draft-ietf-tls-keylogfile), which may grow meanwhile, from captures that carry one, and from clients of our own.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Sessions whose secrets are kept; beyond, the oldest are forgotten.
const SESSIONS: usize = 1 << 17;
/// The longest line that is believed, bytes.
const LINE: usize = 4096;
/// Lines that are named of those that cannot be read.
const NAMED: usize = 5;
/// Bytes read at once.
const BLOCK: usize = 1 << 16;
/// How often a key log that is being written is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A secret: 48 bytes of TLS 1.2, as many as its hash has of TLS 1.3.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    bytes: [u8; Secret::LONGEST],
    length: u8,
}

impl Secret {
    /// Bytes of the longest.
    pub const LONGEST: usize = 48;

    /// None of another length than secrets have.
    pub fn new(secret: &[u8]) -> Option<Secret> {
        if secret.len() != 32 && secret.len() != 48 {
            return None;
        }
        let mut bytes = [0; Secret::LONGEST];
        bytes.get_mut(..secret.len())?.copy_from_slice(secret);
        Some(Secret { bytes, length: secret.len() as u8 })
    }

    /// The secret itself.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// Says nothing of the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a secret of {} bytes", self.length)
    }
}

/// What a secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The master secret of TLS 1.2.
    Master,
    /// Of the client's handshake.
    ClientHandshake,
    /// Of the server's handshake.
    ServerHandshake,
    /// Of what the client says after its handshake.
    ClientTraffic,
    /// Of what the server says after its handshake.
    ServerTraffic,
}

impl Label {
    fn parse(text: &str) -> Option<Label> {
        Some(match text {
            "CLIENT_RANDOM" => Label::Master,
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Label::ClientHandshake,
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => Label::ServerHandshake,
            "CLIENT_TRAFFIC_SECRET_0" => Label::ClientTraffic,
            "SERVER_TRAFFIC_SECRET_0" => Label::ServerTraffic,
            _ => return None,
        })
    }
}

/// Why a key log could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: the key log cannot be read: {error}", path.display())]
pub struct KeyLogError {
    path: PathBuf,
    error: io::Error,
}

/// All secrets that are known, for all threads.
#[derive(Default)]
pub struct Keys {
    known: RwLock<Known>,
    followed: Mutex<Followed>,
    grows: bool,
}

#[derive(Default)]
struct Known {
    sessions: HashMap<[u8; 32], Vec<(Label, Secret)>>,
    /// Those of `sessions`, the oldest first.
    order: VecDeque<[u8; 32]>,
    forgotten: u64,
    malformed: u64,
    notes: Vec<String>,
}

/// Key logs that may grow.
#[derive(Default)]
struct Followed {
    logs: Vec<KeyLog>,
    looked: Option<Instant>,
}

/// Says nothing of the secrets.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("grows", &self.grows).finish_non_exhaustive()
    }
}

impl Keys {
    /// Those of key logs. Where they are to be `followed`, they are read again whenever a secret is missing.
    ///
    /// # Errors
    /// A file that cannot be opened or read.
    pub fn of_files(paths: &[PathBuf], followed: bool) -> Result<Keys, KeyLogError> {
        let keys = Keys { grows: followed && !paths.is_empty(), ..Keys::default() };
        for path in paths {
            let failed = |error| KeyLogError { path: path.clone(), error };
            let mut log = KeyLog::open(path).map_err(failed)?;
            log.read(&keys.known).map_err(failed)?;
            if followed {
                locked(&keys.followed).logs.push(log);
            } else {
                log.lines.end(&keys.known);
            }
        }
        Ok(keys)
    }

    /// Takes a secret as a key log has it: label, random of the ClientHello, secret. What opens nothing here is passed over.
    pub fn learn(&self, label: &str, random: &[u8], secret: &[u8]) {
        if let (Some(label), Ok(random), Some(secret)) =
            (Label::parse(label), random.try_into(), Secret::new(secret))
        {
            write(&self.known).learn(label, random, secret);
        }
    }

    /// Takes a whole key log; `origin` is for messages.
    pub fn read(&self, log: &[u8], origin: String) {
        let mut lines = Lines::new(origin);
        lines.take(log, &self.known);
        lines.end(&self.known);
    }

    /// The secret of a session, by the random of its ClientHello.
    pub fn find(&self, random: &[u8; 32], label: Label) -> Option<Secret> {
        self.known(random, label).or_else(|| {
            self.look_again();
            self.known(random, label)
        })
    }

    /// Whether a secret that is missing may still come.
    pub fn may_grow(&self) -> bool {
        self.grows
    }

    /// What is to be said of them: lines that could not be read, sessions that were forgotten.
    pub fn notes(&self) -> Vec<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut notes = known.notes.clone();
        let unnamed = known.malformed.saturating_sub(NAMED as u64);
        if unnamed > 0 {
            notes.push(format!("{unnamed} more lines of key logs could not be read"));
        }
        if known.forgotten > 0 {
            notes.push(format!(
                "the keys of {} TLS sessions were forgotten: those of the latest {SESSIONS} are kept",
                known.forgotten
            ));
        }
        notes
    }

    fn known(&self, random: &[u8; 32], label: Label) -> Option<Secret> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let secrets = known.sessions.get(random)?;
        secrets.iter().find(|(known, _)| *known == label).map(|(_, secret)| secret.clone())
    }

    fn look_again(&self) {
        if !self.grows {
            return;
        }
        let mut followed = locked(&self.followed);
        if followed.looked.is_some_and(|looked| looked.elapsed() < LOOK_AGAIN) {
            return;
        }
        followed.looked = Some(Instant::now());
        for log in &mut followed.logs {
            if let Err(error) = log.read(&self.known) {
                let note = format!("{}: reading the key log went wrong: {error}", log.lines.origin);
                write(&self.known).complain(note);
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(known: &RwLock<Known>) -> std::sync::RwLockWriteGuard<'_, Known> {
    known.write().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    fn learn(&mut self, label: Label, random: [u8; 32], secret: Secret) {
        if !self.sessions.contains_key(&random) {
            if self.order.len() >= SESSIONS
                && let Some(oldest) = self.order.pop_front()
            {
                self.sessions.remove(&oldest);
                self.forgotten += 1;
            }
            self.order.push_back(random);
        }
        let secrets = self.sessions.entry(random).or_default();
        match secrets.iter_mut().find(|(known, _)| *known == label) {
            Some((_, known)) => *known = secret,
            None => secrets.push((label, secret)),
        }
    }

    fn complain(&mut self, note: String) {
        self.malformed += 1;
        if self.notes.len() < NAMED {
            self.notes.push(note);
        }
    }
}

/// A key log on its way in.
struct KeyLog {
    file: File,
    lines: Lines,
}

impl KeyLog {
    fn open(path: &Path) -> io::Result<KeyLog> {
        Ok(KeyLog { file: File::open(path)?, lines: Lines::new(path.display().to_string()) })
    }

    /// Reads what there is more of it.
    fn read(&mut self, known: &RwLock<Known>) -> io::Result<()> {
        let mut block = vec![0; BLOCK];
        loop {
            match self.file.read(&mut block) {
                Ok(0) => return Ok(()),
                Ok(length) => self.lines.take(block.get(..length).unwrap_or_default(), known),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Lines that come in pieces.
struct Lines {
    origin: String,
    number: u64,
    /// The beginning of a line whose end is not there yet.
    rest: Vec<u8>,
}

impl Lines {
    fn new(origin: String) -> Lines {
        Lines { origin, number: 0, rest: Vec::new() }
    }

    fn take(&mut self, bytes: &[u8], known: &RwLock<Known>) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            // Of a line that is too long, so much is kept that it is seen to be.
            let room = (LINE + 1).saturating_sub(self.rest.len());
            self.rest.extend_from_slice(piece.get(..room).unwrap_or(piece));
            if piece.ends_with(b"\n") {
                self.line(known);
            }
        }
    }

    /// The last line may lack its end.
    fn end(&mut self, known: &RwLock<Known>) {
        if !self.rest.is_empty() {
            self.line(known);
        }
    }

    fn line(&mut self, known: &RwLock<Known>) {
        self.number += 1;
        let line = std::mem::take(&mut self.rest);
        match read_line(&line) {
            Ok(Some((label, random, secret))) => write(known).learn(label, random, secret),
            Ok(None) => {}
            Err(reason) => {
                let (origin, number) = (&self.origin, self.number);
                write(known).complain(format!("{origin}, line {number}: {reason}; the line is passed over"));
            }
        }
    }
}

/// A secret, what it is for, and the random of its session.
type Entry = (Label, [u8; 32], Secret);

/// One line: a secret, nothing that is of use here, or what is wrong with it.
fn read_line(line: &[u8]) -> Result<Option<Entry>, &'static str> {
    if line.len() > LINE {
        return Err("it is too long for a line of a key log");
    }
    let line = std::str::from_utf8(line).map_err(|_| "it is no text")?.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let mut words = line.split_ascii_whitespace();
    let (Some(label), Some(random), Some(secret), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("it is not a label, a random and a secret");
    };
    let Some(label) = Label::parse(label) else {
        let alike =
            label.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        return if alike { Ok(None) } else { Err("it does not begin with a label") };
    };
    let random = hexadecimal(random)
        .and_then(|random| random.try_into().ok())
        .ok_or("its random is not 32 bytes in hexadecimal")?;
    let fits = |secret: &Secret| label != Label::Master || secret.bytes().len() == 48;
    let secret = hexadecimal(secret)
        .and_then(|secret| Secret::new(&secret))
        .filter(fits)
        .ok_or("its secret is not as many bytes in hexadecimal as such a secret has")?;
    Ok(Some((label, random, secret)))
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |two: &[u8]| match two {
        &[high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn line(label: &str, random: u8, secret: usize) -> String {
        format!("{label} {} {}\n", format!("{random:02x}").repeat(32), "aB".repeat(secret))
    }

    #[test]
    fn secrets_are_found_by_random_and_label_and_odd_lines_are_told() {
        let log = [
            "# made by hand\r\n\n".to_owned(),
            line("CLIENT_RANDOM", 1, 48),
            line("CLIENT_TRAFFIC_SECRET_0", 2, 32).replace('\n', "\r\n"),
            line("EXPORTER_SECRET", 2, 32),
            line("CLIENT_RANDOM", 3, 32),
            "CLIENT_RANDOM 12 34\n".to_owned(),
            "-----BEGIN PRIVATE KEY-----\n".to_owned(),
            format!("{}\n", "x".repeat(10_000)),
            line("SERVER_TRAFFIC_SECRET_0", 2, 48).trim_end().to_owned(),
        ];
        let keys = Keys::default();
        keys.read(log.concat().as_bytes(), "keys.log".into());
        let length = |random: u8, label| keys.find(&[random; 32], label).map(|found| found.bytes().len());
        assert_eq!(length(1, Label::Master), Some(48));
        assert_eq!(length(2, Label::ClientTraffic), Some(32));
        assert_eq!(length(2, Label::ServerTraffic), Some(48), "the last line has no end");
        assert_eq!((length(3, Label::Master), length(2, Label::Master)), (None, None));
        let notes = keys.notes();
        let lines: Vec<&str> = notes.iter().map(|note| note.split(':').next().unwrap()).collect();
        assert_eq!(
            lines,
            ["keys.log, line 6", "keys.log, line 7", "keys.log, line 8", "keys.log, line 9"],
            "{notes:?}"
        );
        assert!(!format!("{keys:?} {:?}", keys.find(&[1; 32], Label::Master)).contains("ab"));
    }

    #[test]
    fn a_log_that_grows_is_read_again_when_a_secret_is_missing() {
        let path = std::env::temp_dir().join(format!("plimsoll-keys-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        let keys = Keys::of_files(std::slice::from_ref(&path), true).unwrap();
        let whole = line("CLIENT_RANDOM", 7, 48);
        let (one, other) = whole.split_at(50);
        file.write_all(one.as_bytes()).unwrap();
        let find = || {
            std::thread::sleep(LOOK_AGAIN);
            keys.find(&[7; 32], Label::Master)
        };
        assert!(find().is_none() && keys.may_grow());
        file.write_all(other.as_bytes()).unwrap();
        assert!(find().is_some() && keys.notes().is_empty());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let keys = Keys::default();
        let random = |number: usize| {
            let mut random = [0; 32];
            random[..8].copy_from_slice(&number.to_be_bytes());
            random
        };
        for number in 0..SESSIONS + 10 {
            keys.learn("CLIENT_RANDOM", &random(number), &[1; 48]);
        }
        assert!(keys.find(&random(9), Label::Master).is_none());
        assert!(keys.find(&random(10), Label::Master).is_some());
        assert_eq!(keys.notes().len(), 1);
    }
}
