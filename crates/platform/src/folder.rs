//! The folder of a platform's files. It is removed with the platform, and where Plimsoll was killed, by the next one that
//! starts a platform.

use crate::ending::end_strays;
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
            // Plimsoll was killed, and could not end what its components had started.
            end_strays(&entry.path());
            // What cannot be removed stays for another time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

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

    #[test]
    fn what_a_killed_run_has_left_running_ends_with_its_folder_and_not_before() {
        let place = TempDir::new().unwrap();
        let used = Folder::fresh_in(place.path()).unwrap();
        let mark = |folder: &Path| {
            let child = Command::new("sleep").arg("60").env(crate::ending::MARK, folder).spawn().unwrap();
            // Its environment is there a moment after its number.
            while fs::read(format!("/proc/{}/environ", child.id())).unwrap().is_empty() {
                std::thread::yield_now();
            }
            child
        };
        let mut kept = mark(used.path());
        let left = place.path().join("plimsoll-left");
        fs::create_dir(&left).unwrap();
        File::create(left.join(LOCK)).unwrap();
        let mut stray = mark(&left);
        drop(Folder::fresh_in(place.path()).unwrap());
        // Neither `sleep` ends by itself so soon.
        let ended = stray.try_wait().unwrap().is_some();
        let goes_on = kept.try_wait().unwrap().is_none();
        for child in [&mut kept, &mut stray] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!((ended, goes_on), (true, true));
        assert!(!left.exists() && used.path().exists());
    }
}
