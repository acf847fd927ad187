//! `plimsoll bundle`: one file with all that it takes to repeat a run, its figures and its text.

use super::load_options::read_named;
use super::outputs;
use super::stored::StoredRun;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::{complain, file, say};
use clap::Args;
use flate2::Compression;
use flate2::GzBuilder;
use plimsoll_model::record::RunRecord;
use plimsoll_report::bundle::{Attached, BundledFile, files, folder};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Rights of a bundle: it may hold what only its owner may see.
const RIGHTS: u32 = 0o600;
/// Words beside which a secret may stand in a text.
const SECRETIVE: [&str; 6] = ["password", "passwd", "secret", "authorization", "api_key", "apikey"];

/// Writes one file that reproduces a stored run, its figures and its methods text
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll bundle last
  plimsoll bundle mqtt-baseline --out paper.tar.gz

The file has the scenario, its profile and its feeds. It has the summary, the
report, and tables of the figures. It has the seed, versions, facts about the
host, a text on methods for a paper, and instructions. It is a tar archive
packed with gzip, and only its owner may read it. Secrets of the scenario are
left out. If a profile or feed has words such as `password`, a note says so:
look at it before you give the file away.")]
pub struct Bundle {
    #[command(flatten)]
    run: StoredRun,
    /// The file to write [default: NAME-RUN.tar.gz]
    #[arg(short, long, value_name = "FILE.tar.gz", value_parser = file())]
    out: Option<PathBuf>,
}

impl Bundle {
    pub fn perform(self) -> Result<u8, Failure> {
        let record = self.run.read()?;
        if record.goes_on {
            return Err(Failure::Usage("the run still goes on: make its bundle when it has ended".into()));
        }
        let folder = folder(&record);
        let out = self.out.clone().unwrap_or_else(|| format!("{folder}.tar.gz").into());
        outputs::check(Some(self.run.store()), &[], &[("--out", Some(&out))])?;
        let summary = plimsoll_analysis::summarize(&record);
        let attached = attached(&record);
        let files = files(&record, &summary, &self.run.series(&record)?, &attached);
        let packed =
            packed(&files, &folder, begun(&record)).map_err(|error| Failure::unwritable(&out, &error))?;
        outputs::write_private(&out, &packed, RIGHTS)?;
        for note in &attached.notes {
            complain(note);
        }
        say(&format!("bundle: {} ({} files)\n", out.display(), files.len()));
        Ok(exit_code::MET)
    }
}

/// The archive. Equal runs give equal bytes: times are that of the run, and owners are nobody's.
fn packed(files: &[BundledFile], folder: &str, begun: u64) -> io::Result<Vec<u8>> {
    let packing = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(packing);
    for file in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(file.text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(begun);
        header.set_entry_type(tar::EntryType::Regular);
        archive.append_data(&mut header, format!("{folder}/{}", file.name), file.text.as_bytes())?;
    }
    let mut packing = archive.into_inner()?;
    packing.flush()?;
    packing.finish()
}

/// When the run began, seconds since 1970.
fn begun(record: &RunRecord) -> u64 {
    let stamp: Option<jiff::Timestamp> = record.provenance.started.parse().ok();
    stamp.and_then(|stamp| u64::try_from(stamp.as_second()).ok()).unwrap_or(0)
}

/// The scenario with the files that it names, as far as they are there and may be given away. A line of the stored scenario has one
/// key, since Plimsoll wrote it.
fn attached(record: &RunRecord) -> Attached {
    let mut attached = Attached::default();
    let places = places(record);
    let mut before = String::new();
    let mut first_profile = true;
    for line in record.scenario.lines() {
        let (key, value) = key_and_value(line);
        let is_feed = key == "file" && before == "feed";
        let is_profile = key == "profile" && (value.contains('/') || value.ends_with(".yaml"));
        let written = if is_profile && std::mem::take(&mut first_profile) {
            note_secrets(&mut attached, &value, &record.provenance.profile);
            Some("./profile.yaml".to_owned())
        } else if is_feed || is_profile {
            attach(&mut attached, &value, if is_feed { "feeds" } else { "profiles" }, &places)
        } else {
            if is_file(&key, &before) && !value.is_empty() {
                attached.notes.push(format!(
                    "the scenario names `{value}` ({before}.{key}), which is not in the bundle: put it where the scenario is"
                ));
            }
            None
        };
        attached.scenario += &match written {
            Some(name) => {
                let name = serde_json::Value::from(name);
                format!("{}{name}\n", &line[..line.len() - raw_value(line).len()])
            }
            None => format!("{line}\n"),
        };
        if value.is_empty() {
            before = key;
        }
    }
    if first_profile {
        note_secrets(&mut attached, "the profile", &record.provenance.profile);
    }
    attached
}

/// Where the files of a scenario may be: in the folder of its file, as the command line named it, or here.
pub(super) fn places(record: &RunRecord) -> Vec<PathBuf> {
    let scenario = record.provenance.command.iter().find(|argument| argument.ends_with(".yaml"));
    let folder = scenario.and_then(|scenario| Path::new(scenario).parent().map(Path::to_owned));
    folder.into_iter().chain([PathBuf::from(".")]).collect()
}

/// Keys of files that are keys, certificates, or the user's own to bring along.
fn is_file(key: &str, above: &str) -> bool {
    matches!(
        (above, key),
        ("tls", "ca" | "certificate" | "key" | "subscriber_certificate" | "subscriber_key")
    ) || matches!((above, key), ("compose", "file"))
}

/// The key of a line and its value without quotes; both empty where there is none.
pub(super) fn key_and_value(line: &str) -> (String, String) {
    let plain = line.trim_start().trim_start_matches("- ");
    let Some((key, value)) = plain.split_once(':') else { return (String::new(), String::new()) };
    let value = value.trim();
    let text = match value.starts_with('"') {
        true => serde_json::from_str(value).unwrap_or_else(|_| value.to_owned()),
        false => value.to_owned(),
    };
    (key.to_owned(), text)
}

/// The value of a line as it stands there.
fn raw_value(line: &str) -> &str {
    line.split_once(':').map_or("", |(_, value)| value.trim())
}

/// Reads a file of the scenario into that folder; what the scenario calls it then.
fn attach(attached: &mut Attached, path: &str, folder: &str, places: &[PathBuf]) -> Option<String> {
    let found = places.iter().find_map(|place| read_named(&place.join(path)).ok());
    let Some(text) = found else {
        attached
            .notes
            .push(format!("the scenario names `{path}`, which was not found: put it where the scenario is"));
        return None;
    };
    note_secrets(attached, path, &text);
    let own = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned())?;
    let mut name = format!("{folder}/{own}");
    // Two files of one name stand beside each other.
    let number = attached.files.iter().filter(|file| file.name.ends_with(&own)).count();
    if let Some(same) = attached.files.iter().find(|file| file.name == name) {
        if same.text == text {
            return Some(format!("./{name}"));
        }
        name = format!("{folder}/{number}-{own}");
    }
    attached.files.push(BundledFile { name: name.clone(), text });
    Some(format!("./{name}"))
}

/// Notes a text that may hold a secret.
fn note_secrets(attached: &mut Attached, name: &str, text: &str) {
    let lower = text.to_lowercase();
    if let Some(word) = SECRETIVE.iter().find(|word| lower.contains(**word)) {
        attached.notes.push(format!(
            "{name} has the word `{word}`: see whether a secret stands there before you give the bundle away"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_key_and_a_value() {
        for (line, key, value) in [
            ("  profile: ./own.yaml", "profile", "./own.yaml"),
            ("    - file: \"a b.csv\"", "file", "a b.csv"),
            ("feed:", "feed", ""),
            ("- 5", "", ""),
        ] {
            assert_eq!(key_and_value(line), (key.to_owned(), value.to_owned()));
        }
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let files = [BundledFile { name: "README.md".into(), text: "x".repeat(1_000) }];
        let once = packed(&files, "run-1", 5).unwrap();
        assert_eq!(once, packed(&files, "run-1", 5).unwrap());
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(once.as_slice()));
        let names: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["run-1/README.md"]);
    }
}
