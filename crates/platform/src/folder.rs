//! The folder of a platform's files. A process of its own (`plimsoll guard folder`) makes it and removes it when nobody uses it
//! any more, so that none stays however Plimsoll ends. Where that process was killed as well, the next one that makes such a
//! folder removes it.

use crate::control_group;
use crate::guarding::{await_close, take_name};
use crate::strays::end_strays;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::Builder;

const PREFIX: &str = "plimsoll-";
/// Held, shared, by all who use the folder: the kernel lets go of it however they end.
const LOCK: &str = ".in-use";
/// How long the making of a folder may take. It takes some milliseconds, and longer where a folder of the dead is removed.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long its keeper may take to remove it and to end.
const ENDING: Duration = Duration::from_secs(10);
/// How long the keeper tries to remove it.
const REMOVAL: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
/// What ends the path that the keeper of a folder tells.
const END: u8 = 0;
/// Rights of a folder: nobody else may read in it, and others may pass through it where a component is another user's.
const OURS: u32 = 0o700;
const PASSABLE: u32 = 0o711;

/// A fresh folder among the temporary files, which nobody else may read. It is removed when this is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    keeper: Child,
    /// That it is closed tells the keeper that the folder is not used any more.
    line: Option<UnixStream>,
}

impl Folder {
    /// Makes one, and removes those that nobody uses any more. `program` is this program.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn fresh(program: &Path) -> io::Result<Folder> {
        let (line, other) = UnixStream::pair()?;
        let mut call = Command::new(program);
        // Whoever reads our output must not wait for it.
        call.args(["guard", "folder"]).stdin(OwnedFd::from(other)).stdout(Stdio::null());
        let keeper = call.process_group(0).spawn()?;
        // It holds the other end.
        drop(call);
        line.set_read_timeout(Some(PATIENCE))?;
        let mut told = Vec::new();
        let read = BufReader::new(&line).read_until(END, &mut told);
        let mut folder = Folder { path: PathBuf::new(), keeper, line: Some(line) };
        read?;
        if told.pop() != Some(END) {
            folder.close();
            return Err(io::Error::other("its keeper has ended"));
        }
        folder.path = PathBuf::from(std::ffi::OsString::from_vec(told));
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets others pass through it to files that are theirs.
    ///
    /// # Errors
    /// The operating system refuses, or a folder above lets nobody pass.
    pub fn let_pass(&self) -> io::Result<()> {
        fs::set_permissions(&self.path, Permissions::from_mode(PASSABLE))?;
        for folder in self.path.ancestors().skip(1) {
            if fs::metadata(folder)?.mode() & 0o001 == 0 {
                let told = "other users cannot pass through";
                let help = "a component runs as one; set TMPDIR to a folder that lets them pass";
                return Err(io::Error::other(format!("{told} {}: {help}", folder.display())));
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        self.line = None;
        let begin = Instant::now();
        while matches!(self.keeper.try_wait(), Ok(None)) && begin.elapsed() < ENDING {
            thread::sleep(PAUSE);
        }
        // One that somebody has stopped leaves the folder to the next one, as one that was killed does.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.close();
    }
}

/// Makes a folder, says on standard input where, and removes it when standard input is closed and nobody uses it any more.
///
/// # Errors
/// The folder or its lock cannot be made.
pub fn keep() -> io::Result<()> {
    take_name();
    let (path, lock) = make(&std::env::temp_dir())?;
    let told = [path.as_os_str().as_bytes(), &[END]].concat();
    let line = io::stdin();
    // Where nobody listens any more, the line is closed as well.
    let _ = rustix::io::write(&line, &told);
    await_close(line);
    // Guards of components hold it until all that those have started is dead.
    flock(&lock, FlockOperation::LockExclusive)?;
    end_strays(&path);
    remove(&path);
    Ok(())
}

/// Holds the folder until what is returned is dropped.
///
/// # Errors
/// It is gone.
pub(crate) fn stay_in(folder: &Path) -> io::Result<File> {
    let lock = File::open(folder.join(LOCK))?;
    flock(&lock, FlockOperation::LockShared)?;
    Ok(lock)
}

/// Makes a file that only its owner may read.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // A link that another component has put there may lead anywhere.
    options.create(true).write(true).truncate(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options.open(path)?.write_all(text.as_bytes())
}

/// Makes a file that only its owner may read, or opens it to add to it.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Makes a folder, with all above it that are missing, in which nobody else may read: logs and captures say what others are not to know.
///
/// # Errors
/// The operating system refuses.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(OURS).create(folder)
}

/// A fresh folder in that place, and its lock.
fn make(place: &Path) -> io::Result<(PathBuf, File)> {
    remove_unused(place);
    let folder = Builder::new().prefix(PREFIX).permissions(Permissions::from_mode(OURS)).tempdir_in(place)?;
    // The lock has its name only when it is held, so that nobody finds it free meanwhile.
    let unnamed = folder.path().join(format!("{LOCK}.new"));
    let lock = private(&unnamed)?;
    flock(&lock, FlockOperation::NonBlockingLockShared)?;
    fs::rename(&unnamed, folder.path().join(LOCK))?;
    Ok((folder.keep(), lock))
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
        // Nobody else's is opened, and no link or pipe that waits.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let path = entry.path().join(LOCK);
        let lock = ours.then(|| open(&path, flags, Mode::empty()).ok()).flatten();
        if lock.is_some_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            // Plimsoll was killed, and could not end what its components had started.
            end_strays(&entry.path());
            // What cannot be removed stays for another time.
            let _ = remove_all(&entry.path());
        }
    }
}

/// Removes a folder, in which what is just being killed may still write.
fn remove(folder: &Path) {
    let begin = Instant::now();
    while remove_all(folder).is_err() && folder.exists() && begin.elapsed() < REMOVAL {
        thread::sleep(PAUSE);
    }
}

/// Removes a folder, its lock last: by that one the next run knows what could not be removed.
fn remove_all(folder: &Path) -> io::Result<()> {
    control_group::remove_of(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != LOCK {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Uid;
    use tempfile::TempDir;

    const NOBODY: u32 = 65534;

    #[test]
    fn folders_of_the_dead_are_removed_and_all_others_stay() {
        let place = TempDir::new().unwrap();
        let (used, _lock) = make(place.path()).unwrap();
        let plant = |name: &str, files: &[&str]| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            files.iter().for_each(|file| fs::write(folder.join(file), "").unwrap());
            folder
        };
        let left = plant("plimsoll-left", &[LOCK, "broker.log"]);
        let unknown = plant("plimsoll-unknown", &["broker.log"]);
        let other = plant("other", &[LOCK]);
        let (next, _next_lock) = make(place.path()).unwrap();
        assert!(!left.exists());
        assert!([&used, &next, &unknown, &other].iter().all(|folder| folder.exists()));
        assert_eq!(fs::metadata(&used).unwrap().mode() & 0o777, OURS);
        assert_eq!(fs::metadata(used.join(LOCK)).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_folder_that_cannot_be_removed_keeps_its_lock_and_goes_another_time() {
        let place = TempDir::new().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
        let folder = place.path().join("plimsoll-left");
        let closed = folder.join("closed");
        // As another user where the tests run as root, whom no right stops. The change is the thread's alone.
        thread::scope(|scope| {
            scope.spawn(|| {
                if geteuid().is_root() {
                    rustix::thread::set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
                }
                fs::create_dir_all(&closed).unwrap();
                for file in [folder.join(LOCK), folder.join("broker.log"), closed.join("file")] {
                    fs::write(file, "").unwrap();
                }
                fs::set_permissions(&closed, Permissions::from_mode(0o555)).unwrap();
                remove_unused(place.path());
                assert!(folder.join(LOCK).exists() && closed.join("file").exists());
                fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
                remove_unused(place.path());
                assert!(!folder.exists());
            });
        });
    }

    #[test]
    fn what_a_killed_run_has_left_running_ends_with_its_folder_and_not_before() {
        let place = TempDir::new().unwrap();
        let (used, _lock) = make(place.path()).unwrap();
        let mark = |folder: &Path| {
            let child = Command::new("sleep").arg("60").env(crate::strays::MARK, folder).spawn().unwrap();
            // Its environment is there a moment after its number.
            while fs::read(format!("/proc/{}/environ", child.id())).unwrap().is_empty() {
                std::thread::yield_now();
            }
            child
        };
        let mut kept = mark(&used);
        let left = place.path().join("plimsoll-left");
        fs::create_dir(&left).unwrap();
        File::create(left.join(LOCK)).unwrap();
        let mut stray = mark(&left);
        make(place.path()).unwrap();
        // Neither `sleep` ends by itself so soon.
        let ended = stray.try_wait().unwrap().is_some();
        let goes_on = kept.try_wait().unwrap().is_none();
        for child in [&mut kept, &mut stray] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!((ended, goes_on), (true, true));
        assert!(!left.exists() && used.exists());
    }
}
