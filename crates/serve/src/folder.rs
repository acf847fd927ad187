//! The folder of the page: the scenarios in it, and the files that they name. The kernel resolves every path beneath the folder
//! (openat2(2), RESOLVE_BENEATH), so neither `..` nor a link leads out of it.

use plimsoll_runner::resume::fingerprint;
use plimsoll_scenario::profile::Profile;
use plimsoll_scenario::{SourceFile, read_profile};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, openat2, renameat_with, unlinkat};
use rustix::io::Errno;
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What the page keeps for itself: tokens and what runs say of themselves.
const PRIVATE: &str = ".plimsoll-serve";
/// Nobody else may look into it.
const PRIVATE_MODE: u32 = 0o700;
/// Rights of a scenario before the user's mask is taken off.
const MODE: u32 = 0o666;
/// Bytes that a scenario may have here.
pub const LARGEST: usize = 1024 * 1024;
/// MiB that a file may have which a scenario names.
const LARGEST_NAMED: u64 = 64;
/// Most scenarios that are listed.
const MOST: usize = 1000;
/// Most profiles that are listed.
const MOST_PROFILES: usize = 100;
/// Longest name of a file.
const LONGEST_NAME: usize = 100;

/// The name of a scenario's file: letters, digits, dots, underscores and hyphens, no path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName(String);

impl FileName {
    /// Takes a text for a name; `None` where it is none.
    pub fn parse(text: &str) -> Option<FileName> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let begins = text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
        let ends = [".yaml", ".yml"].iter().any(|ending| text.ends_with(ending));
        let is_name = begins && ends && text.len() <= LONGEST_NAME && text.bytes().all(is_plain);
        is_name.then(|| FileName(text.to_owned()))
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A scenario in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioFile {
    /// Its file.
    pub name: FileName,
    /// What it says of itself.
    pub about: String,
}

/// Why a scenario was not saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// It is another one than it was when the page showed it.
    #[error(
        "the file {0} has changed since this page showed it: copy your text, open the file again, and merge them"
    )]
    Changed(FileName),
    /// There is one of that name.
    #[error("there is a file {0} already: choose another name")]
    Exists(FileName),
    /// It is too large.
    #[error("a scenario has at most {} KiB here", LARGEST / 1024)]
    TooLarge,
    /// The operating system refuses.
    #[error("cannot write {name}: {cause}")]
    Write {
        /// Which.
        name: FileName,
        /// Why.
        cause: io::Error,
    },
}

/// See the module.
pub struct Folder {
    root: PathBuf,
    opened: File,
}

impl Folder {
    /// Opens it.
    ///
    /// # Errors
    /// It is no folder, or may not be read.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let root = path.canonicalize()?;
        let opened = File::open(&root)?;
        match opened.metadata()?.is_dir() {
            true => Ok(Folder { root, opened }),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder in it that the page keeps for itself, made where it is missing.
    ///
    /// # Errors
    /// It cannot be made, or belongs to somebody else.
    pub fn private(&self) -> io::Result<PathBuf> {
        let path = self.root.join(PRIVATE);
        match DirBuilder::new().mode(PRIVATE_MODE).create(&path) {
            // Tokens do not belong into anybody's history.
            Ok(()) => fs::write(path.join(".gitignore"), "*\n")?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let data = fs::symlink_metadata(&path)?;
        let is_ours = data.is_dir() && data.uid() == rustix::process::geteuid().as_raw();
        match is_ours && data.mode() & 0o077 == 0 {
            true => Ok(path),
            false => {
                let told = format!("{} is not a folder that you alone may read", path.display());
                Err(io::Error::new(io::ErrorKind::PermissionDenied, told))
            }
        }
    }

    /// The scenarios, by name.
    ///
    /// # Errors
    /// The folder cannot be read any more.
    pub fn scenarios(&self) -> io::Result<Vec<ScenarioFile>> {
        let names =
            fs::read_dir(&self.root)?.filter_map(|entry| FileName::parse(entry.ok()?.file_name().to_str()?));
        let mut names: Vec<FileName> = names.collect();
        names.sort();
        let scenario = |name: FileName| {
            let text = self.read(&name).ok()?;
            is_scenario(&text).then(|| ScenarioFile { name, about: about(&text) })
        };
        Ok(names.into_iter().filter_map(scenario).take(MOST).collect())
    }

    /// The platform profiles, by name. A file that is none is left out.
    pub fn profiles(&self) -> Vec<(FileName, Profile)> {
        let entries = fs::read_dir(&self.root).into_iter().flatten();
        let mut names: Vec<FileName> =
            entries.filter_map(|entry| FileName::parse(entry.ok()?.file_name().to_str()?)).collect();
        names.sort();
        let profile = |name: FileName| {
            let text = self.read(&name).ok().filter(|text| is_profile(text))?;
            let source = SourceFile { name: name.to_string(), text };
            Some((name, read_profile(source, &|path| self.named(path)).ok()?))
        };
        names.into_iter().filter_map(profile).take(MOST_PROFILES).collect()
    }

    /// The text of a scenario.
    ///
    /// # Errors
    /// It is missing, no file, a link, too large, or no text.
    pub fn read(&self, name: &FileName) -> io::Result<String> {
        let file = self.beneath(name.as_str(), OFlags::NOFOLLOW)?;
        text_of(file, LARGEST as u64)
    }

    /// The text of a file that a scenario names, relative to the folder, or why there is none.
    pub fn named(&self, path: &str) -> Result<String, String> {
        if Path::new(path).components().any(|part| part.as_os_str() == PRIVATE) {
            return Err("it is in the folder that the page keeps for itself".to_owned());
        }
        let file = self.beneath(path, OFlags::empty()).map_err(|error| {
            match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::XDEV | Errno::LOOP) => {
                    "it is outside the folder of the page, which reads no file there".to_owned()
                }
                _ => error.to_string(),
            }
        })?;
        text_of(file, LARGEST_NAMED << 20).map_err(|error| error.to_string())
    }

    /// Whether a path stays in the folder, where something may be made yet.
    pub fn holds(path: &Path) -> bool {
        path.components()
            .all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir))
    }

    /// Saves a scenario, all of it or nothing. `before` is the fingerprint of what the file held when it was shown; `None`
    /// for a new file.
    ///
    /// # Errors
    /// The file is another one by now, or cannot be written.
    pub fn save(&self, name: &FileName, text: &str, before: Option<&str>) -> Result<(), SaveError> {
        if text.len() > LARGEST {
            return Err(SaveError::TooLarge);
        }
        if before.is_some_and(|before| fingerprint(&self.read(name).unwrap_or_default()) != before) {
            return Err(SaveError::Changed(name.clone()));
        }
        let write = || -> io::Result<()> {
            let beside = format!(".plimsoll-{}", crate::tokens::random(8)?);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file =
                openat2(&self.opened, &beside, flags, Mode::from_raw_mode(MODE), ResolveFlags::BENEATH)?;
            let written = File::from(file).write_all(text.as_bytes());
            let flags = if before.is_some() { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
            let rename = || renameat_with(&self.opened, &beside, &self.opened, name.as_str(), flags);
            written.and_then(|()| Ok(rename()?)).inspect_err(|_| {
                let _ = unlinkat(&self.opened, &beside, AtFlags::empty());
            })
        };
        write().map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => SaveError::Exists(name.clone()),
            _ => SaveError::Write { name: name.clone(), cause },
        })
    }

    /// Opens a file for reading whose path stays beneath the folder.
    fn beneath(&self, path: &str, more: OFlags) -> io::Result<File> {
        // A pipe must not keep us waiting for its writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | more;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = File::from(openat2(&self.opened, path, flags, Mode::empty(), resolve)?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is no file")),
        }
    }
}

fn text_of(file: File, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {} KiB", most / 1024)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no UTF-8"))
}

/// Whether a YAML file is a scenario: other files in the folder may be profiles or somebody else's.
fn is_scenario(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("platform:") || line.starts_with("populations:"))
}

/// Whether a YAML file may be a platform profile.
fn is_profile(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("components:"))
}

/// What a scenario says of itself: its description, else the first sentence of the comment at its beginning.
pub fn about(text: &str) -> String {
    let described = text.lines().find_map(|line| line.strip_prefix("description:"));
    let described = described.map(|text| text.trim().trim_matches(['"', '\'']).trim_end());
    // One of several lines begins with a sign of YAML.
    if let Some(one_line) = described.filter(|text| !text.is_empty() && !text.starts_with(['|', '>'])) {
        return one_line.to_owned();
    }
    let comment = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    // A line of a comment that names a schema is for editors.
    let comment = comment.skip_while(|line| line.is_empty() || line.starts_with("yaml-language-server"));
    let comment = comment.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let end = comment
        .find(['.', '?'])
        .filter(|end| comment.get(end + 1..).is_some_and(|rest| rest.starts_with(' ') || rest.is_empty()));
    end.and_then(|end| comment.get(..=end)).unwrap_or(&comment).trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn name(text: &str) -> FileName {
        FileName::parse(text).unwrap()
    }

    #[test]
    fn a_name_is_no_path() {
        for wrong in [
            "",
            "a",
            ".yaml",
            "../a.yaml",
            "a/b.yaml",
            "/etc/a.yaml",
            "a\0.yaml",
            "a\n.yaml",
            "a b.yaml",
            "-a.yaml",
            ".a.yaml",
            "a.yaml.exe",
            "ä.yaml",
            "..yaml",
            "%2e%2e.yaml",
            &format!("{}.yaml", "a".repeat(100)),
        ] {
            assert_eq!(FileName::parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(name("City-2.v1.yml").as_str(), "City-2.v1.yml");
    }

    #[test]
    fn nothing_outside_the_folder_is_read() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.yaml"), "platform: secret").unwrap();
        let inside = outside.path().join("inside");
        fs::create_dir_all(inside.join("deep")).unwrap();
        fs::write(inside.join("own.csv"), "a,b").unwrap();
        fs::write(inside.join("deep/own.csv"), "c").unwrap();
        symlink("../secret.yaml", inside.join("link.yaml")).unwrap();
        symlink("own.csv", inside.join("inner.csv")).unwrap();
        symlink(outside.path(), inside.join("way")).unwrap();
        let folder = Folder::open(&inside).unwrap();
        let absolute = outside.path().join("secret.yaml");
        for wrong in [
            "../secret.yaml",
            "link.yaml",
            "way/secret.yaml",
            "deep/../../secret.yaml",
            "/etc/passwd",
            absolute.to_str().unwrap(),
            "/proc/self/environ",
            ".",
            "deep",
            "",
        ] {
            assert!(folder.named(wrong).is_err(), "{wrong}");
        }
        assert!(folder.named("../secret.yaml").unwrap_err().contains("outside the folder"));
        for (path, text) in [
            ("own.csv", "a,b"),
            ("./own.csv", "a,b"),
            ("deep/../own.csv", "a,b"),
            ("inner.csv", "a,b"),
            ("deep/own.csv", "c"),
        ] {
            assert_eq!(folder.named(path).as_deref(), Ok(text), "{path}");
        }
        assert!(folder.read(&name("link.yaml")).is_err(), "a link is no scenario");
        assert!(folder.scenarios().unwrap().is_empty());
        assert!(
            Folder::holds(Path::new("./a/b"))
                && !Folder::holds(Path::new("a/../b"))
                && !Folder::holds(Path::new("/a"))
        );
    }

    #[test]
    fn a_scenario_is_saved_whole_and_never_over_another_text() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        let own = name("own.yaml");
        folder.save(&own, "platform: embedded\n", None).unwrap();
        assert!(matches!(folder.save(&own, "x", None), Err(SaveError::Exists(_))));
        assert!(matches!(folder.save(&own, "x", Some(&fingerprint("other"))), Err(SaveError::Changed(_))));
        let before = fingerprint("platform: embedded\n");
        folder.save(&own, "# Mine. And more.\nplatform: mosquitto\n", Some(&before)).unwrap();
        assert_eq!(folder.scenarios().unwrap(), [ScenarioFile { name: own.clone(), about: "Mine.".into() }]);
        assert!(matches!(folder.save(&own, &"x".repeat(LARGEST + 1), None), Err(SaveError::TooLarge)));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing else is left");
        // What is written takes the place of a link, and not of what it leads to.
        let target = place.path().join("target");
        fs::write(&target, "").unwrap();
        symlink(&target, place.path().join("link.yaml")).unwrap();
        folder.save(&name("link.yaml"), "new", Some(&fingerprint(""))).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "");
    }

    #[test]
    fn the_private_folder_is_private() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        let private = folder.private().unwrap();
        assert_eq!(fs::metadata(&private).unwrap().mode() & 0o777, PRIVATE_MODE);
        assert_eq!(folder.private().unwrap(), private);
        fs::remove_dir_all(&private).unwrap();
        symlink("/tmp", &private).unwrap();
        assert!(folder.private().is_err());
    }

    #[test]
    fn what_a_scenario_is_about_is_its_first_sentence() {
        for (text, told) in [
            ("# What load? More.\nname: a", "What load?"),
            ("# One\n# sentence of v1.2 here:\n#\n#   code", "One sentence of v1.2 here"),
            ("# x.\ndescription: \"A day.\"\n", "A day."),
            ("# yaml-language-server: $schema=x\n#\n# Mine.\n", "Mine."),
            ("name: a", ""),
        ] {
            assert_eq!(about(text), told);
        }
    }
}
