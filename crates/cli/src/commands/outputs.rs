//! The files that a command is to write: none may be another one of them, what it reads, or somebody's runs or scenario; and
//! each is there whole or not at all.

use crate::failure::Failure;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// The run store's option, which tells by itself where it cannot be written, and what to do.
const STORE: &str = "--store";
/// How SQLite's files begin (its file format, section 1.3).
const DATABASE: &[u8] = b"SQLite format 3\0";
/// As many links as the kernel follows (path_resolution(7)).
const LINKS: usize = 40;
/// Rights of a new file before the user's mask is taken off.
const NEW: u32 = 0o666;

/// Refuses outputs that would overwrite each other, the store, a file that is read, any run store or any scenario, and those
/// that could not be written.
pub fn check(
    store: Option<&Path>,
    read: &[PathBuf],
    outputs: &[(&str, Option<&Path>)],
) -> Result<(), Failure> {
    let mut known: Vec<(&str, PathBuf)> = Vec::new();
    known.extend(read.iter().filter_map(|file| Some(("a file that is read", whole(file).ok()?))));
    for &(name, path) in [(STORE, store)].iter().chain(outputs) {
        let Some(path) = path else { continue };
        let whole = match whole(path) {
            Ok(whole) => whole,
            Err(_) if name == STORE => continue,
            Err(error) => return Err(Failure::unwritable(path, &error)),
        };
        if let Some((other, _)) = known.iter().find(|(_, known)| *known == whole) {
            let path = path.display();
            return Err(Failure::Usage(format!("{name} and {other} are the same file: {path}")));
        }
        if let Some(store) = store.filter(|store| name != STORE && belongs_to(&whole, store)) {
            let told = format!("{name} {} is a part of the run store {}", path.display(), store.display());
            return Err(Failure::Usage(told));
        }
        if name != STORE {
            refuse_what_is_precious(name, &whole)?;
            try_out(&whole).map_err(|error| Failure::unwritable(path, &error))?;
        }
        known.push((name, whole));
    }
    Ok(())
}

/// Writes a file, all of it or nothing.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    Output::create(path)
        .and_then(|mut output| output.file().write_all(text.as_bytes()).and_then(|()| output.finish()))
        .map_err(|error| Failure::unwritable(path, &error))
}

/// Writes a file with those rights, all of it or nothing.
pub fn write_private(path: &Path, bytes: &[u8], rights: u32) -> Result<(), Failure> {
    let written = || {
        let mut output = Output::create(path)?;
        let file = output.file();
        // A pipe or a device has the rights that it has.
        if file.metadata()?.is_file() {
            file.set_permissions(Permissions::from_mode(rights))?;
        }
        file.write_all(bytes)?;
        output.finish()
    };
    written().map_err(|error| Failure::unwritable(path, &error))
}

/// A file that has its name only when it is whole. Pipes, devices, and files in folders in which nothing can be made, are
/// written as they are.
pub enum Output {
    /// Without a name until it gets that one: whoever is killed leaves nothing.
    Nameless(File, PathBuf),
    /// Beside its final place, where the file system has only files with names.
    Beside(NamedTempFile, PathBuf),
    /// As it is.
    Direct(File),
}

impl Output {
    /// Begins to write.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path) -> io::Result<Output> {
        let whole = whole(path)?;
        let there = fs::metadata(&whole).ok();
        if there.as_ref().is_some_and(|data| !data.is_file()) {
            return Output::create_open(path);
        }
        let mut output = match Output::new(whole) {
            Err(_) if there.is_some() => return Output::create_open(path),
            output => output?,
        };
        if let Some(data) = there {
            let file = output.file();
            // Where it may not be given to its owner it is ours.
            let _ = fchown(&*file, Some(data.uid()), Some(data.gid()));
            file.set_permissions(data.permissions())?;
        }
        Ok(output)
    }

    /// A new file that will have that name.
    fn new(path: PathBuf) -> io::Result<Output> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        Ok(match nameless(folder) {
            Ok(file) => Output::Nameless(file, path),
            // The error would name the file that has a name for a moment.
            Err(_) => match named().tempfile_in(folder) {
                Ok(file) => Output::Beside(file, path),
                Err(error) => {
                    let code = error.get_ref().and_then(|inner| inner.source()).and_then(|cause| {
                        cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error)
                    });
                    let code = error.raw_os_error().or(code);
                    return Err(code.map_or_else(|| error.kind().into(), io::Error::from_raw_os_error));
                }
            },
        })
    }

    /// Begins to write a file that has its name at once, for those who read it meanwhile.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create_open(path: &Path) -> io::Result<Output> {
        File::create(path).map(Output::Direct)
    }

    /// Where to write.
    pub fn file(&mut self) -> &mut File {
        match self {
            Output::Beside(file, _) => file.as_file_mut(),
            Output::Nameless(file, _) | Output::Direct(file) => file,
        }
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Output::Nameless(file, path) => {
                // A link takes nobody's place, and a file with a name does.
                let folder = path.parent().unwrap_or(Path::new("/"));
                let link =
                    |name: &Path| Ok(linkat(CWD, by_descriptor(&file), CWD, name, AtFlags::SYMLINK_FOLLOW)?);
                let linked = named().make_in(folder, link)?;
                linked.persist(path).map_err(|error| error.error)
            }
            Output::Beside(file, path) => file.persist(path).map(drop).map_err(|error| error.error),
            Output::Direct(_) => Ok(()),
        }
    }
}

/// A file without a name in a folder, which can be given one.
fn nameless(folder: &Path) -> io::Result<File> {
    let file = File::from(open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::from(NEW))?);
    // Without the file system `proc` it would never get one.
    fs::metadata(by_descriptor(&file)).map(|_| file)
}

/// Where an open file is found that has no name (open(2), O_TMPFILE).
fn by_descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// How files are called that have their final name in a moment.
fn named() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".plimsoll-").permissions(Permissions::from_mode(NEW));
    builder
}

/// Finds out whether a file can be written, without a change to it.
fn try_out(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(data) if data.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // A pipe would wait for its reader.
        Ok(data) if !data.is_file() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
        Err(_) => Output::new(path.to_owned()).map(drop),
    }
}

/// Whether a file is one that SQLite keeps beside a store.
fn belongs_to(path: &Path, store: &Path) -> bool {
    let Ok(store) = whole(store) else { return false };
    ["-wal", "-shm", "-journal"].iter().any(|ending| {
        let mut name = store.as_os_str().to_owned();
        name.push(ending);
        path.as_os_str() == name
    })
}

/// Nobody wants runs or a scenario to become a report.
fn refuse_what_is_precious(name: &str, path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if ["yaml", "yml"].contains(&ending) {
        let told = format!("{name} {shown} has the name of a scenario: choose another name");
        return Err(Failure::Usage(told));
    }
    let mut first = Vec::new();
    let is_file = fs::metadata(path).is_ok_and(|data| data.is_file());
    let opened = is_file.then(|| File::open(path).ok()).flatten();
    let read = opened.map(|file| file.take(DATABASE.len() as u64).read_to_end(&mut first));
    if matches!(read, Some(Ok(_))) && first == DATABASE {
        return Err(Failure::Usage(format!(
            "{name} {shown} is a database, as run stores are: choose another name"
        )));
    }
    Ok(())
}

/// The file that a path leads to, whether it is there already or not.
fn whole(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if let Ok(found) = path.canonicalize() {
            return Ok(found);
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
        match fs::read_link(&path) {
            // To where nothing is yet, such as a store that is not begun.
            Ok(target) => path = folder.join(target),
            Err(_) => return Ok(folder.join(path.file_name().unwrap_or_default())),
        }
    }
    Err(io::ErrorKind::InvalidFilename.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_whole_or_as_it_was_and_links_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("out.json"), folder.path().join("link"));
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        let mut output = Output::create(&link).unwrap();
        output.file().write_all(b"half").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "before");
        let is_nameless = matches!(output, Output::Nameless(..));
        let shown = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(shown, if is_nameless { 2 } else { 3 }, "what is killed now leaves what is shown");
        drop(output);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
        write(&link, "after").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        write(&folder.path().join("new.json"), "new").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("new.json")).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn runs_scenarios_and_folders_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("other.db"), b"SQLite format 3\0 and more").unwrap();
        fs::write(path("mine.yaml"), "name: mine").unwrap();
        let refused = |output: PathBuf| {
            let read = path("mine.yaml");
            let told = check(Some(&path("runs.db")), &[read], &[("--json", Some(&output))]);
            told.map_err(|failure| failure.to_string()).unwrap_err()
        };
        assert!(refused(path("other.db")).contains("is a database"));
        assert!(refused(path("mine.yaml")).contains("same file"));
        assert!(refused(path("other.yaml")).contains("name of a scenario"));
        assert!(refused(path("runs.db")).contains("same file"));
        symlink("runs.db", path("first")).unwrap();
        symlink(path("first"), path("link")).unwrap();
        assert!(refused(path("link")).contains("same file"), "a link to what is not there yet");
        assert!(refused(folder.path().to_owned()).contains("directory"));
        assert!(refused(path("none/out.json")).contains("No such file"));
        assert!(check(Some(&path("runs.db")), &[], &[("--json", Some(&path("out.json")))]).is_ok());
        assert!(!path("out.json").exists());
    }
}
