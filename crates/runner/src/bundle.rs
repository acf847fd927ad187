//! Bundles: one file with all that it takes to repeat a run (docs/decisions/0041-bundles.md). It is a tar archive packed with gzip: a
//! folder of texts, and their digests in a file that `sha256sum -c` reads. It is read into memory and never onto a disk, so that no
//! name in it leads anywhere. What it unpacks to is bounded.

mod attaching;

pub use attaching::{Named, Sources, key_and_value, named};

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use plimsoll_model::record::RunRecord;
use plimsoll_model::text::harmless;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Component, Path};
use tar::{Archive, EntryType, Header};

/// The first bytes of a bundle, with which no scenario begins (RFC 1952).
pub const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The file with the digests of all others.
pub const DIGESTS: &str = "SHA256SUMS";
/// The scenario, the profile, and where it is said which run it is.
const SCENARIO: &str = "scenario.yaml";
const PROFILE: &str = "profile.yaml";
const PROVENANCE: &str = "provenance.json";
const SUMMARY: &str = "summary.json";
/// Files of a bundle, bytes of one of them, and bytes of all, at most.
const FILES: usize = 1_000;
const LARGEST: u64 = 64 << 20;
const ALL: u64 = 256 << 20;
/// Digits of a digest.
const DIGITS: usize = 64;
/// Letters of a name or a date that are shown.
const SHOWN: usize = 60;

/// What a bundle has.
#[derive(Clone, Debug)]
pub struct Bundle {
    files: BTreeMap<String, String>,
    /// The id of the run.
    pub run: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The version of Plimsoll that measured it.
    pub plimsoll: String,
}

/// Why a file is no bundle, or none that is used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It is no archive, or is cut.
    #[error("it is no bundle, or a part of it is missing: {0}")]
    Archive(#[from] io::Error),
    /// An entry that no bundle has.
    #[error("it is no bundle of Plimsoll: its entry `{0}` {1}")]
    Entry(String, &'static str),
    /// It stands for more than it may.
    #[error("it unpacks to more than {} files, or to more than {} MiB", FILES, ALL >> 20)]
    TooLarge,
    /// A file that each bundle has is missing.
    #[error("it has no `{0}`: it is no bundle, or one of an earlier version, which `tar xzf` unpacks")]
    Missing(&'static str),
    /// A file is another one than when the bundle was made.
    #[error(
        "its file `{0}` is not the one of which `{digests}` has the digest: unpack it with `tar xzf` to run what was changed",
        digests = DIGESTS
    )]
    Changed(String),
    /// A file that says which run it is does not.
    #[error("its file `{0}` does not say which run it is")]
    Nameless(&'static str),
}

impl Bundle {
    /// Reads a bundle.
    ///
    /// # Errors
    /// It is none, it is damaged, or it holds what no bundle holds.
    pub fn open(packed: impl Read) -> Result<Bundle, BundleError> {
        // A little more than may be, so that a bomb is told from the end of an archive.
        let unpacked = GzDecoder::new(packed).take(ALL + (1 << 20));
        let mut archive = Archive::new(unpacked);
        let mut files = BTreeMap::new();
        let (mut folder, mut all) = (None, 0_u64);
        for entry in archive.entries()? {
            let mut entry = entry?;
            let shown = harmless(&String::from_utf8_lossy(&entry.path_bytes()));
            let wrong = |why| BundleError::Entry(shown.chars().take(SHOWN).collect(), why);
            match entry.header().entry_type() {
                EntryType::Regular => {}
                // Who packs a folder again has it.
                EntryType::Directory => continue,
                _ => return Err(wrong("is no file")),
            }
            let size = entry.size();
            all = all.saturating_add(size);
            if files.len() >= FILES || size > LARGEST || all > ALL {
                return Err(BundleError::TooLarge);
            }
            let path = entry.path()?.into_owned();
            let (own, name) =
                name_of(&path).ok_or_else(|| wrong("does not lie in the folder of the bundle"))?;
            if folder.get_or_insert_with(|| own.clone()) != &own {
                return Err(wrong("lies in another folder than the others"));
            }
            let mut text = String::new();
            let read = (&mut entry).take(LARGEST).read_to_string(&mut text);
            match read {
                Ok(read) if read as u64 == size => {}
                Ok(_) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(wrong("is no text")),
                Err(error) => return Err(error.into()),
            }
            if files.insert(name, text).is_some() {
                return Err(wrong("is there twice"));
            }
        }
        check_digests(&files)?;
        let run = word(&files, SUMMARY, "run")?;
        let (started, plimsoll) =
            (word(&files, PROVENANCE, "started")?, word(&files, PROVENANCE, "plimsoll")?);
        let bundle = Bundle { files, run, started, plimsoll };
        if bundle.file(SCENARIO).is_none() {
            return Err(BundleError::Missing(SCENARIO));
        }
        Ok(bundle)
    }

    /// The scenario as it was resolved.
    pub fn scenario(&self) -> &str {
        self.file(SCENARIO).unwrap_or_default()
    }

    /// The profile with which the run was made; empty where it had none.
    pub fn profile(&self) -> &str {
        self.file(PROFILE).unwrap_or_default()
    }

    /// A file by the path by which the scenario names it.
    pub fn file(&self, path: &str) -> Option<&str> {
        let inner = inner(Path::new(path))?;
        self.files.get(&inner).map(String::as_str)
    }

    /// Which run a run of it repeats, for people; `version` is that of this program.
    pub fn repeats(&self, version: &str) -> String {
        let Bundle { run, started, plimsoll, .. } = self;
        let mut told = format!("repeats run {run} of {started} out of a bundle");
        if plimsoll != version {
            told += &format!("; that was measured by Plimsoll {plimsoll}, and this is {version}");
        }
        told
    }
}

/// Packs texts with their names into a bundle, in a folder of that name. Equal runs give equal bytes: times are that of the run, in
/// seconds since 1970, and owners are nobody's.
///
/// # Errors
/// A name is too long.
pub fn pack<'a>(
    files: impl Iterator<Item = (&'a str, &'a str)>,
    folder: &str,
    begun: u64,
) -> io::Result<Vec<u8>> {
    let packing = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(packing);
    let mut digests = String::new();
    let mut append = |name: &str, text: &str| {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(begun);
        header.set_entry_type(EntryType::Regular);
        archive.append_data(&mut header, format!("{folder}/{name}"), text.as_bytes())
    };
    for (name, text) in files {
        append(name, text)?;
        digests += &format!("{}  {name}\n", digest_of(text));
    }
    append(DIGESTS, &digests)?;
    let mut packing = archive.into_inner()?;
    packing.flush()?;
    packing.finish()
}

/// When a run began, in seconds since 1970, for [`pack`].
pub fn begun(record: &RunRecord) -> u64 {
    let stamp: Option<jiff::Timestamp> = record.provenance.started.parse().ok();
    stamp.and_then(|stamp| u64::try_from(stamp.as_second()).ok()).unwrap_or(0)
}

/// A path within a folder, as its plain names; `None` where it leads out of it.
pub fn inner(path: &Path) -> Option<String> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_str()?),
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => return None,
        }
    }
    (!names.is_empty()).then(|| names.join("/"))
}

/// The folder of an entry and its name there.
fn name_of(path: &Path) -> Option<(String, String)> {
    let inner = inner(path)?;
    let (folder, name) = inner.split_once('/')?;
    Some((folder.to_owned(), name.to_owned()))
}

/// SHA-256 in hexadecimal digits.
fn digest_of(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Each file is the one of which the digests are, and none is missing.
fn check_digests(files: &BTreeMap<String, String>) -> Result<(), BundleError> {
    let digests = files.get(DIGESTS).ok_or(BundleError::Missing(DIGESTS))?;
    let changed = |name: &str| BundleError::Changed(harmless(name).chars().take(SHOWN).collect());
    let mut listed = BTreeMap::new();
    for line in digests.lines() {
        let (digest, name) = line.split_at_checked(DIGITS).ok_or_else(|| changed(DIGESTS))?;
        let name = name.strip_prefix("  ").ok_or_else(|| changed(DIGESTS))?;
        listed.insert(name, digest);
    }
    for (name, text) in files.iter().filter(|(name, _)| *name != DIGESTS) {
        match listed.remove(name.as_str()) {
            Some(digest) if digest == digest_of(text) => {}
            _ => return Err(changed(name)),
        }
    }
    listed.keys().next().map_or(Ok(()), |name| Err(changed(name)))
}

/// A word of a JSON file, for people.
fn word(files: &BTreeMap<String, String>, file: &'static str, key: &str) -> Result<String, BundleError> {
    let text = files.get(file).ok_or(BundleError::Missing(file))?;
    let value: Value = serde_json::from_str(text).map_err(|_| BundleError::Nameless(file))?;
    let word = value.get(key).and_then(Value::as_str).ok_or(BundleError::Nameless(file))?;
    Ok(harmless(word).chars().take(SHOWN).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = "paper-1";

    fn files() -> Vec<(&'static str, String)> {
        vec![
            ("scenario.yaml", "name: paper\n".into()),
            ("summary.json", "{ \"run\": \"6057ra10\" }".into()),
            ("provenance.json", "{ \"started\": \"2026-11-30T01:44:29Z\", \"plimsoll\": \"0.2.0\" }".into()),
            ("feeds/rows.csv", "v\n1\n".into()),
        ]
    }

    fn packed(files: &[(&str, String)]) -> Vec<u8> {
        pack(files.iter().map(|(name, text)| (*name, text.as_str())), FOLDER, 5).unwrap()
    }

    /// An archive of such entries, packed as a bundle is.
    fn archive(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
        let mut packing = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
        for (kind, name, content) in entries {
            let mut header = Header::new_gnu();
            // The crate refuses names that lead out of a folder, as `tar` would write them.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_cksum();
            packing.write_all(header.as_bytes()).unwrap();
            packing.write_all(content).unwrap();
            packing.write_all(&vec![0; content.len().next_multiple_of(512) - content.len()]).unwrap();
        }
        packing.write_all(&[0; 1_024]).unwrap();
        packing.finish().unwrap()
    }

    fn refused(packed: &[u8]) -> String {
        Bundle::open(packed).unwrap_err().to_string()
    }

    #[test]
    fn a_bundle_is_read_as_it_was_packed() {
        let packed = packed(&files());
        assert_eq!(packed[..2], MAGIC);
        let bundle = Bundle::open(packed.as_slice()).unwrap();
        assert_eq!((bundle.scenario(), bundle.profile()), ("name: paper\n", ""));
        for path in ["feeds/rows.csv", "./feeds/rows.csv", "feeds/./rows.csv"] {
            assert_eq!(bundle.file(path), Some("v\n1\n"), "{path}");
        }
        for path in ["../feeds/rows.csv", "/feeds/rows.csv", "rows.csv", "", "."] {
            assert_eq!(bundle.file(path), None, "{path}");
        }
        assert_eq!(bundle.repeats("0.2.0"), "repeats run 6057ra10 of 2026-11-30T01:44:29Z out of a bundle");
        assert!(bundle.repeats("0.3.0").ends_with("measured by Plimsoll 0.2.0, and this is 0.3.0"));
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        assert_eq!(packed(&files()), packed(&files()));
    }

    #[test]
    fn what_was_changed_is_refused() {
        for place in 0..4 {
            let mut changed = files();
            let digests = digests_of(&changed);
            changed[place].1.push(' ');
            changed.push((DIGESTS, digests));
            let name = changed[place].0;
            assert!(refused(&raw(&changed)).contains(&format!("its file `{name}` is not the one")), "{name}");
        }
        let with = |digests: String| {
            let mut files = files();
            files.push((DIGESTS, digests));
            refused(&raw(&files))
        };
        let good = digests_of(&files());
        assert!(with(format!("{good}{}  more\n", "0".repeat(64))).contains("`more`"));
        assert!(with("nonsense\n".into()).contains(DIGESTS));
        assert!(
            with(good.lines().skip(1).map(|line| format!("{line}\n")).collect()).contains("scenario.yaml")
        );
        assert!(refused(&raw(&files())).contains("it has no `SHA256SUMS`"));
    }

    fn digests_of(files: &[(&str, String)]) -> String {
        files.iter().map(|(name, text)| format!("{}  {name}\n", digest_of(text))).collect()
    }

    /// The same without digests of its own.
    fn raw(files: &[(&str, String)]) -> Vec<u8> {
        let names: Vec<String> = files.iter().map(|(name, _)| format!("{FOLDER}/{name}")).collect();
        let entries: Vec<_> = files
            .iter()
            .zip(&names)
            .map(|((_, text), name)| (EntryType::Regular, name.as_str(), text.as_bytes()))
            .collect();
        archive(&entries)
    }

    #[test]
    fn hostile_archives_are_refused() {
        const A: &[u8] = b"a";
        const EMPTY: &[u8] = b"";
        const NO_TEXT: &[u8] = b"\xff\xfe";
        let file = EntryType::Regular;
        for (entries, why) in [
            (vec![(file, "../x", A)], "does not lie in the folder"),
            (vec![(file, "/etc/passwd", A)], "does not lie in the folder"),
            (vec![(file, "a/../../x", A)], "does not lie in the folder"),
            (vec![(file, "alone", A)], "does not lie in the folder"),
            (vec![(file, "a/x", A), (file, "b/x", A)], "lies in another folder"),
            (vec![(file, "a/x", A), (file, "a/./x", A)], "is there twice"),
            (vec![(file, "a/x", NO_TEXT)], "is no text"),
            (vec![(EntryType::Symlink, "a/x", EMPTY)], "is no file"),
            (vec![(EntryType::Link, "a/x", EMPTY)], "is no file"),
            (vec![(EntryType::Fifo, "a/x", EMPTY)], "is no file"),
            (vec![(EntryType::Char, "a/x", EMPTY)], "is no file"),
            (vec![(EntryType::Directory, "a/", EMPTY)], "it has no `SHA256SUMS`"),
            (vec![], "it has no `SHA256SUMS`"),
        ] {
            let told = refused(&archive(&entries));
            assert!(told.contains(why), "{why}: {told}");
        }
        for nothing in [&b""[..], b"\x1f\x8b", b"name: a scenario\n", &packed(&files())[..100]] {
            assert!(refused(nothing).contains("it is no bundle, or a part of it is missing"), "{nothing:?}");
        }
    }

    /// A small file that stands for a huge one, and thousands of files.
    #[test]
    fn bombs_are_refused() {
        let zeros = vec![0; 65 << 20];
        assert!(refused(&archive(&[(EntryType::Regular, "a/x", zeros.as_slice())])).contains("more than"));
        let names: Vec<String> = (0..1_001).map(|number| format!("a/{number}")).collect();
        let many: Vec<_> = names.iter().map(|name| (EntryType::Regular, name.as_str(), &b""[..])).collect();
        assert!(refused(&archive(&many)).contains("more than 1000 files"));
        // A header that promises more than is there.
        let mut header = Header::new_gnu();
        header.as_mut_bytes()[..3].copy_from_slice(b"a/x");
        header.set_entry_type(EntryType::Regular);
        header.set_size(1 << 60);
        header.set_cksum();
        let mut packing = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
        packing.write_all(header.as_bytes()).unwrap();
        assert!(refused(&packing.finish().unwrap()).contains("more than"));
    }

    /// Bytes changed anywhere: an error, or the same files.
    #[test]
    fn damage_never_passes() {
        let good = packed(&files());
        for place in 0..good.len() {
            for bit in [0x01, 0x80] {
                let mut bad = good.clone();
                bad[place] ^= bit;
                if let Ok(bundle) = Bundle::open(bad.as_slice()) {
                    assert_eq!(bundle.scenario(), "name: paper\n", "byte {place}");
                    assert_eq!(bundle.file("feeds/rows.csv"), Some("v\n1\n"), "byte {place}");
                }
            }
        }
    }
}
