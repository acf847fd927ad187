//! Keys of our own clients' TLS sessions while a run is captured, so that their part of the capture can be read. Nobody logs
//! any otherwise.

use plimsoll_capture::tls::keys::Keys;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Takes keys in memory and, where the captures are kept, in a key log beside them that nobody else may read.
#[derive(Debug)]
pub struct TlsKeys {
    keys: Arc<Keys>,
    log: Option<(PathBuf, Mutex<Log>)>,
}

/// Made with the first key.
#[derive(Debug, Default)]
struct Log {
    file: Option<File>,
    failed: Option<String>,
}

impl TlsKeys {
    /// Kept in that file, or in memory alone.
    pub fn new(log: Option<PathBuf>) -> TlsKeys {
        TlsKeys { keys: Arc::default(), log: log.map(|path| (path, Mutex::default())) }
    }

    /// Those that are known so far.
    pub fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys)
    }

    /// What is to be told of the key log, where there is one.
    pub fn note(&self) -> Option<String> {
        let (path, log) = self.log.as_ref()?;
        let log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let path = path.display();
        match (&log.failed, &log.file) {
            (Some(error), _) => Some(format!("{path}: keys of TLS sessions could not be written: {error}")),
            (None, Some(_)) => Some(format!(
                "{path} has the keys of this run's TLS sessions, for plimsoll dissect --keys: who has it can read the captures"
            )),
            (None, None) => None,
        }
    }
}

impl Log {
    fn write(&mut self, path: &PathBuf, line: &str) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?),
        };
        file.write_all(line.as_bytes())
    }
}

impl rustls::KeyLog for TlsKeys {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        self.keys.learn(label, random, secret);
        let Some((path, log)) = &self.log else { return };
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{label} {} {}\n", hexadecimal(random), hexadecimal(secret));
        if log.failed.is_none()
            && let Err(error) = log.write(path, &line)
        {
            log.failed = Some(error.to_string());
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::KeyLog;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_kept_is_a_key_log_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.log");
        let ours = TlsKeys::new(Some(path.clone()));
        assert!(ours.note().is_none() && !path.exists());
        ours.log("CLIENT_RANDOM", &[7; 32], &[8; 48]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = Keys::of_files(&[path], false).unwrap();
        let label = plimsoll_capture::tls::keys::Label::Master;
        assert!(read.notes().is_empty() && read.find(&[7; 32], label) == ours.keys().find(&[7; 32], label));
        assert!(read.find(&[7; 32], label).is_some() && ours.note().unwrap().contains("keys.log"));
    }
}
