//! The folder of a platform's files. It is removed with the platform, and where Plimsoll was killed, by the next one that
//! starts a platform.

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tempfile::TempDir;

const PREFIX: &str = "plimsoll-";
/// Held for as long as the folder is used: the kernel lets go of it however its holder ends.
const LOCK: &str = ".in-use";

/// A fresh folder among the temporary files.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
    _lock: File,
}

impl Folder {
    /// Makes one, and removes those that nobody uses any more.
    ///
    /// # Errors
    /// The folder or its lock cannot be made.
    pub fn fresh() -> io::Result<Folder> {
        Folder::fresh_in(&std::env::temp_dir())
    }

    fn fresh_in(place: &Path) -> io::Result<Folder> {
        remove_unused(place);
        let folder = TempDir::with_prefix_in(PREFIX, place)?;
        // The lock has its name only when it is held, so that nobody finds it free meanwhile.
        let unnamed = folder.path().join(format!("{LOCK}.new"));
        let lock = File::create(&unnamed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&unnamed, folder.path().join(LOCK))?;
        Ok(Folder { folder, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes folders of this user whose lock nobody holds. A folder without a lock is not known to be one of ours.
fn remove_unused(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Of a link itself, not of what it leads to.
        let ours = entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == geteuid().as_raw());
        let lock = File::open(entry.path().join(LOCK)).ok().filter(|_| ours);
        if lock.is_some_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            // What cannot be removed stays for another time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_dead_are_removed_and_all_others_stay() {
        let place = TempDir::new().unwrap();
        let used = Folder::fresh_in(place.path()).unwrap();
        let make = |name: &str, files: &[&str]| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            files.iter().for_each(|file| fs::write(folder.join(file), "").unwrap());
            folder
        };
        let left = make("plimsoll-left", &[LOCK, "broker.log"]);
        let unknown = make("plimsoll-unknown", &["broker.log"]);
        let other = make("other", &[LOCK]);
        let next = Folder::fresh_in(place.path()).unwrap();
        assert!(!left.exists());
        assert!([used.path(), next.path(), &unknown, &other].iter().all(|folder| folder.exists()));
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }
}
