//! A file to capture into belongs to one capture at a time, and what an earlier one has left there is kept unless its owner
//! gives it up: a capture cannot be made again.

use super::CapturingError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Passwords travel in what is captured: its owner alone reads it.
const MODE: u32 = 0o600;

/// Held for as long as the capture goes on: the kernel lets go of it however its holder ends.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    _lock: Option<File>,
    /// Whether the file was not there before.
    made: bool,
}

impl Claim {
    /// Claims that file, and removes what an earlier ring has left where that may be written over.
    ///
    /// # Errors
    /// Another capture goes on there, there are packets that are to be kept, or nothing can be written there.
    pub fn take(file: &Path, ring: &[PathBuf], replace: bool) -> Result<Claim, CapturingError> {
        let failed = |cause| CapturingError::Unwritable { file: file.to_owned(), cause };
        if fs::metadata(file).is_ok_and(|data| !data.is_file()) {
            // A pipe or a device keeps nothing.
            return Ok(Claim { path: file.to_owned(), _lock: None, made: false });
        }
        let made = OpenOptions::new().write(true).create_new(true).mode(MODE).open(file);
        let (lock, made) = match made {
            Ok(lock) => (lock, true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                (OpenOptions::new().write(true).open(file).map_err(failed)?, false)
            }
            Err(error) => return Err(failed(error)),
        };
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| CapturingError::Busy { file: file.to_owned() })?;
        let claim = Claim { path: file.to_owned(), _lock: Some(lock), made };
        let is_full = |path: &Path| fs::metadata(path).is_ok_and(|data| data.len() > 0);
        let kept = ring.iter().map(PathBuf::as_path).chain([file]).find(|path| is_full(path));
        if let Some(kept) = kept.filter(|_| !replace) {
            return Err(CapturingError::Exists { file: kept.to_owned() });
        }
        ring.iter().try_for_each(fs::remove_file).map_err(failed)?;
        Ok(claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The files of a ring have other names, and a tool that refused to begin has written nothing.
        if self.made && fs::metadata(&self.path).is_ok_and(|data| data.len() == 0) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_file_is_claimed_once_and_packets_in_it_are_kept() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("c.pcap");
        let take = |ring: &[PathBuf], replace| Claim::take(&file, ring, replace);
        let first = take(&[], false).unwrap();
        for replace in [false, true] {
            assert!(matches!(take(&[], replace), Err(CapturingError::Busy { .. })));
        }
        drop(first);
        assert!(!file.exists(), "nothing was captured");
        fs::write(&file, "packets").unwrap();
        assert!(matches!(take(&[], false), Err(CapturingError::Exists { .. })));
        drop(take(&[], true).unwrap());
        assert!(file.exists());
        fs::remove_file(&file).unwrap();
        let ring = [folder.path().join("c.pcap0")];
        fs::write(&ring[0], "packets").unwrap();
        assert!(matches!(take(&ring, false), Err(CapturingError::Exists { .. })));
        drop(take(&ring, true).unwrap());
        assert!(!ring[0].exists() && !file.exists());
    }

    #[test]
    fn what_keeps_nothing_needs_no_claim() {
        drop(Claim::take(Path::new("/dev/null"), &[], false).unwrap());
        assert!(Path::new("/dev/null").exists());
    }
}
