//! `plimsoll bundle`: one file with all that it takes to repeat a run, its figures and its text.

use super::load_options::read_named;
use super::outputs;
use super::stored::StoredRun;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::{complain, file, say};
use clap::Args;
use plimsoll_model::record::RunRecord;
use plimsoll_report::bundle::{Attached, BundledFile, OWN, files, folder};
use plimsoll_runner::bundle::{Bundle as Opened, inner, pack};
use plimsoll_runner::resume::fingerprint;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Rights of a bundle: it may hold what only its owner may see.
const RIGHTS: u32 = 0o600;
/// What keys and certificates begin with (RFC 7468).
const PEM: &str = "-----BEGIN ";
/// Words beside which a secret may stand in a text.
const SECRETIVE: [&str; 6] = ["password", "passwd", "secret", "authorization", "api_key", "apikey"];

/// Writes one file that reproduces a stored run, its figures and its methods text
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll bundle last
  plimsoll bundle mqtt-baseline --out paper.tar.gz
  plimsoll run paper.tar.gz

The file has the scenario, its profile, and the files that it names, such as
feeds, curves and traces. It has the summary, the report, and tables of the
figures. It has the seed, versions, facts about the host, a text on methods for
a paper, digests of all files, and instructions. It is a tar archive packed with
gzip, and only its owner may read it. Secrets of the scenario are left out. If a
profile or feed has words such as `password`, a note says so: look at it before
you give the file away.")]
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
        let named = files.iter().map(|file| (file.name.as_str(), file.text.as_str()));
        let packed =
            pack(named, &folder, begun(&record)).map_err(|error| Failure::unwritable(&out, &error))?;
        outputs::write_private(&out, &packed, RIGHTS)?;
        for note in &attached.notes {
            complain(note);
        }
        say(&format!("bundle: {} ({} files)\n", out.display(), files.len()));
        Ok(exit_code::MET)
    }
}

/// When the run began, seconds since 1970.
fn begun(record: &RunRecord) -> u64 {
    let stamp: Option<jiff::Timestamp> = record.provenance.started.parse().ok();
    stamp.and_then(|stamp| u64::try_from(stamp.as_second()).ok()).unwrap_or(0)
}

/// The scenario with the files that it names, as far as they are there and may be given away. A line of the stored scenario has one
/// key, since Plimsoll wrote it.
fn attached(record: &RunRecord) -> Attached {
    let mut attaching = Attaching::of(record);
    let mut before = String::new();
    let mut scenario = String::new();
    let mut private = BTreeSet::new();
    for line in record.scenario.lines() {
        let (key, value) = key_and_value(line);
        let is_private = is_private(&key, &before) && !value.is_empty();
        if is_private {
            attaching.attached.notes.push(format!(
                "the scenario names `{value}` ({before}.{key}), which is not in the bundle: put it where the scenario is"
            ));
            private.insert(value.clone());
        }
        let written = match names_input(&key, &before, &value, record) && !is_private {
            true => attaching.attach(&value),
            false => None,
        };
        scenario += &match written {
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
    // What a profile names stands in no line of the scenario.
    for path in record.provenance.inputs.keys().filter(|path| !private.contains(*path)) {
        attaching.attach(path);
    }
    if !attaching.has_profile {
        attaching.note_secrets("the profile", &record.provenance.profile);
    }
    Attached { scenario, ..attaching.attached }
}

/// Whether a line names a file that the run has read. Runs of earlier versions do not say what they read.
fn names_input(key: &str, above: &str, value: &str, record: &RunRecord) -> bool {
    let of_file = key == "file" && matches!(above, "feed" | "curve" | "trace" | "prices");
    let may_be = matches!(key, "file" | "profile" | "by");
    of_file || is_profile(key, value) || may_be && record.provenance.inputs.contains_key(value)
}

fn is_profile(key: &str, value: &str) -> bool {
    key == "profile" && (value.contains('/') || value.ends_with(".yaml"))
}

/// The bundle out of which a run was made, where it was.
fn origin(record: &RunRecord) -> Option<Opened> {
    let named = |argument: &&String| argument.ends_with(".gz") && Path::new(argument.as_str()).is_file();
    let file = File::open(record.provenance.command.iter().find(named)?).ok()?;
    Opened::open(BufReader::new(file)).ok()
}

/// Where the files of a scenario may be: in the folder of its file, as the command line named it, or here.
pub(super) fn places(record: &RunRecord) -> Vec<PathBuf> {
    let scenario = record.provenance.command.iter().find(|argument| argument.ends_with(".yaml"));
    let folder = scenario.and_then(|scenario| Path::new(scenario).parent().map(Path::to_owned));
    folder.into_iter().chain([PathBuf::from(".")]).collect()
}

/// Keys of files that are keys, certificates, or the user's own to bring along.
fn is_private(key: &str, above: &str) -> bool {
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

/// Brings the files of a scenario into a bundle. Those in the scenario's folder keep their names, so that the scenario of the bundle is
/// the one that was run.
struct Attaching<'a> {
    record: &'a RunRecord,
    places: Vec<PathBuf>,
    origin: Option<Opened>,
    attached: Attached,
    /// What files are called in the bundle, by what the scenario calls them; `None` for those that were not found.
    names: BTreeMap<String, Option<String>>,
    /// Folders outside that of the scenario, in the order in which they are met.
    outside: Vec<PathBuf>,
    /// Whether the scenario names a file as its profile.
    has_profile: bool,
}

impl Attaching<'_> {
    fn of(record: &RunRecord) -> Attaching<'_> {
        Attaching {
            record,
            places: places(record),
            origin: origin(record),
            attached: Attached::default(),
            names: BTreeMap::new(),
            outside: Vec::new(),
            has_profile: false,
        }
    }

    /// Brings a file along; what the scenario calls it then, where that is another name.
    fn attach(&mut self, path: &str) -> Option<String> {
        let name = match self.names.get(path) {
            Some(known) => known.clone(),
            None => {
                // Keys and certificates are their owner's to bring along.
                let text = self.text(path).filter(|text| !text.contains(PEM));
                let name = text.map(|text| {
                    self.note_secrets(path, &text);
                    let name = self.name(path);
                    self.attached.files.push(BundledFile { name: name.clone(), text });
                    name
                });
                self.names.insert(path.to_owned(), name.clone());
                name
            }
        }?;
        (inner(Path::new(path)).as_ref() != Some(&name)).then(|| format!("./{name}"))
    }

    /// What a file holds. The profile is as it was for the run, also where its file is another one now.
    fn text(&mut self, path: &str) -> Option<String> {
        let own = self.origin.as_ref().and_then(|origin| origin.file(path)).map(str::to_owned);
        let found = own.or_else(|| self.places.iter().find_map(|place| read_named(&place.join(path)).ok()));
        let then = self.record.provenance.inputs.get(path);
        let is_first_profile = is_profile("profile", path) && !std::mem::replace(&mut self.has_profile, true);
        if is_first_profile && found.as_ref().is_none_or(|text| Some(&fingerprint(text)) != then) {
            return Some(self.record.provenance.profile.clone());
        }
        let notes = &mut self.attached.notes;
        match (&found, then) {
            (None, _) => notes.push(format!(
                "the scenario names `{path}`, which was not found: put it where the scenario is"
            )),
            (Some(text), Some(then)) if fingerprint(text) != *then => notes.push(format!(
                "`{path}` is another file than the run has read: it was {then}, and is {} now",
                fingerprint(text)
            )),
            (Some(_), _) => {}
        }
        found
    }

    /// What a file is called in the bundle.
    fn name(&mut self, path: &str) -> String {
        if let Some(name) = inner(Path::new(path)).filter(|name| !OWN.contains(&name.as_str())) {
            return name;
        }
        let folder = Path::new(path).parent().map(Path::to_owned).unwrap_or_default();
        let place = self.outside.iter().position(|known| *known == folder).unwrap_or_else(|| {
            self.outside.push(folder);
            self.outside.len() - 1
        });
        let own = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        format!("files/{}/{}", place + 1, own.unwrap_or_default())
    }

    /// Notes a text that may hold a secret.
    fn note_secrets(&mut self, name: &str, text: &str) {
        let lower = text.to_lowercase();
        if let Some(word) = SECRETIVE.iter().find(|word| lower.contains(**word)) {
            self.attached.notes.push(format!(
                "{name} has the word `{word}`: see whether a secret stands there before you give the bundle away"
            ));
        }
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
    fn files_in_the_folder_keep_their_names_and_others_get_one() {
        let record = RunRecord::default();
        let mut attaching = Attaching::of(&record);
        for (path, name) in [
            ("rows.csv", "rows.csv"),
            ("./data/rows.csv", "data/rows.csv"),
            ("../rows.csv", "files/1/rows.csv"),
            ("/home/me/own.yaml", "files/2/own.yaml"),
            ("/home/me/broker.conf", "files/2/broker.conf"),
            ("levels.csv", "files/3/levels.csv"),
        ] {
            assert_eq!(attaching.name(path), name);
        }
    }

    #[test]
    fn lines_that_name_files_are_known() {
        let mut record = RunRecord::default();
        record.provenance.inputs.insert("plain.yaml".into(), "x".into());
        for (key, above, value, names) in [
            ("file", "trace", "day.csv", true),
            ("file", "curve", "day.csv", true),
            ("profile", "platform", "./own.yaml", true),
            ("profile", "platform", "embedded", false),
            ("by", "balancers", "plain.yaml", true),
            ("name", "", "plain.yaml", false),
            ("file", "compose", "compose.yaml", false),
        ] {
            assert_eq!(names_input(key, above, value, &record), names, "{above}.{key}: {value}");
        }
    }
}
