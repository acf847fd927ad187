//! A folder that can be full: a small file system in memory (tmpfs(5)) in place of a component's folder, which nobody but the
//! component and its guard see. It goes with them, because the kernel forgets it with the last process that has it (mount_namespaces(7)).

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, mount_move};
use rustix::thread::UnshareFlags;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Where the file system is put before it stands in place of the folder.
const STAGED: &str = ".small";
/// The file that fills it.
const FILLER: &str = ".full";
/// What is written at once to fill it, and then ever less.
const PIECES: [usize; 3] = [1 << 20, 4096, 1];

/// Gives this process a file system of so many bytes in place of a folder, with the files that are there, and goes there. This
/// process must have one thread.
///
/// # Errors
/// Only root may do that; the files have no room in it.
pub(crate) fn take(folder: &Path, size: u64) -> io::Result<()> {
    let failed = |what: &str, cause: io::Error| {
        let help = match cause.kind() {
            io::ErrorKind::PermissionDenied => "; run Plimsoll as root",
            io::ErrorKind::StorageFull => "; give the fault a larger `size`",
            _ => "",
        };
        io::Error::new(cause.kind(), format!("cannot {what} {}: {cause}{help}", folder.display()))
    };
    #[expect(
        deprecated,
        reason = "the safe form: of its flags, this one shares no memory and no files with other threads"
    )]
    let alone = rustix::thread::unshare(UnshareFlags::NEWNS);
    let alone = alone
        .and_then(|()| mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC));
    alone.map_err(|error| failed("see mounts alone for", error.into()))?;
    let place = fs::metadata(folder)?;
    let staged = folder.join(STAGED);
    fs::DirBuilder::new().mode(0o700).create(&staged)?;
    let options =
        format!("size={size},mode={:o},uid={},gid={}", place.mode() & 0o7777, place.uid(), place.gid());
    let options = std::ffi::CString::new(options).unwrap_or_default();
    let mounted =
        mount("plimsoll", &staged, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(&*options));
    mounted.map_err(|error| failed("mount a file system at", error.into()))?;
    copy(folder, &staged).map_err(|error| failed("keep the files of", error))?;
    mount_move(&staged, folder).map_err(|error| failed("mount a file system at", error.into()))?;
    std::env::set_current_dir(folder)
}

/// Copies files and folders with their owners. Sockets and the like stay where they are.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
        if entry.file_name() == STAGED {
            continue;
        }
        let found = fs::symlink_metadata(&source)?;
        if kind.is_dir() {
            fs::DirBuilder::new().mode(0o700).create(&target)?;
            copy(&source, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
            continue;
        } else {
            continue;
        }
        chown(&target, Some(found.uid()), Some(found.gid()))?;
        fs::set_permissions(&target, fs::Permissions::from_mode(found.mode() & 0o7777))?;
    }
    Ok(())
}

/// A file that leaves no room in a folder, until this is dropped.
#[derive(Debug)]
pub(crate) struct Filler(PathBuf);

impl Filler {
    /// Fills the file system of a folder.
    ///
    /// # Errors
    /// The file cannot be made, or writing fails for another reason than that there is no room.
    pub fn fill(folder: &Path) -> io::Result<Filler> {
        let path = folder.join(FILLER);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let filler = Filler(path);
        let zeros = vec![0; PIECES[0]];
        for piece in PIECES {
            let bytes = zeros.get(..piece).unwrap_or_default();
            loop {
                match file.write(bytes) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(filler)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        // A process that is just being started may hold the file open (fork(2)): what it holds is empty then. And if neither can
        // be done: the file system goes with its processes anyway.
        let _ = fs::File::create(&self.0);
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 20;

    /// Another thread has file systems of its own, as another process has.
    fn in_small_folder(work: impl FnOnce(&Path) + Send + 'static) {
        let dir = tempfile::TempDir::new().unwrap();
        let folder = dir.path().join("own");
        fs::create_dir_all(folder.join("below")).unwrap();
        fs::write(folder.join("below/file"), "kept").unwrap();
        let path = folder.clone();
        let taken = std::thread::spawn(move || take(&path, SIZE).inspect(|()| work(&path))).join().unwrap();
        match rustix::process::geteuid().is_root() {
            true => taken.unwrap(),
            false => assert!(taken.unwrap_err().to_string().contains("run Plimsoll as root")),
        }
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.contains(&FILLER.into()), "nobody else sees it: {names:?}");
    }

    #[test]
    fn a_folder_keeps_its_files_is_full_and_has_room_again() {
        in_small_folder(|folder| {
            assert_eq!(fs::read_to_string(folder.join("below/file")).unwrap(), "kept");
            assert_eq!(std::env::current_dir().unwrap(), folder);
            let filler = Filler::fill(folder).unwrap();
            let refused = fs::write(folder.join("more"), [0; 8192]).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
            let held_by_another = fs::File::open(folder.join(FILLER)).unwrap();
            drop(filler);
            fs::write(folder.join("more"), [0; 8192]).unwrap();
            drop(held_by_another);
        });
    }
}
