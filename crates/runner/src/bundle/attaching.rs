//! The files that a stored scenario names, for a bundle of its run: each with a name of its own there, as far as it is found and may be
//! given away.

use super::{Bundle, inner};
use crate::resume::fingerprint;
use plimsoll_model::record::RunRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What keys and certificates begin with (RFC 7468).
const PEM: &str = "-----BEGIN ";
/// Words beside which a secret may stand in a text.
const SECRETIVE: [&str; 6] = ["password", "passwd", "secret", "authorization", "api_key", "apikey"];

/// What a bundle has from outside the run store.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The scenario, which names the files below.
    pub scenario: String,
    /// The files, by their names in the bundle: profiles, feeds, curves, traces, prices.
    pub files: Vec<(String, String)>,
    /// What is missing, or should be looked at before the bundle is given away; for people.
    pub notes: Vec<String>,
}

/// Where the files are.
pub struct Sources<'a> {
    /// The bundle out of which the run was made, where it was.
    pub origin: Option<Bundle>,
    /// Reads a file by the path by which the scenario names it.
    pub read: &'a dyn Fn(&str) -> Option<String>,
    /// Names that no file may have, since each bundle has such files.
    pub taken: &'a [&'a str],
}

/// The scenario of a run with the files that it names. A line of the stored scenario has one key, since Plimsoll wrote it.
pub fn named(record: &RunRecord, sources: Sources<'_>) -> Named {
    let mut attaching = Attaching::of(record, sources);
    let mut before = String::new();
    let mut scenario = String::new();
    let mut private = BTreeSet::new();
    for line in record.scenario.lines() {
        let (key, value) = key_and_value(line);
        let is_private = is_private(&key, &before) && !value.is_empty();
        if is_private {
            attaching.named.notes.push(format!(
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
    Named { scenario, ..attaching.named }
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

/// Keys of files that are keys, certificates, or the user's own to bring along.
fn is_private(key: &str, above: &str) -> bool {
    matches!(
        (above, key),
        ("tls", "ca" | "certificate" | "key" | "subscriber_certificate" | "subscriber_key")
    ) || matches!((above, key), ("compose", "file"))
}

/// The key of a line and its value without quotes; both empty where there is none.
pub fn key_and_value(line: &str) -> (String, String) {
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
    sources: Sources<'a>,
    named: Named,
    /// What files are called in the bundle, by what the scenario calls them; `None` for those that were not found.
    names: BTreeMap<String, Option<String>>,
    /// Folders outside that of the scenario, in the order in which they are met.
    outside: Vec<PathBuf>,
    /// Whether the scenario names a file as its profile.
    has_profile: bool,
}

impl<'a> Attaching<'a> {
    fn of(record: &'a RunRecord, sources: Sources<'a>) -> Attaching<'a> {
        Attaching {
            record,
            sources,
            named: Named::default(),
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
                    self.named.files.push((name.clone(), text));
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
        let own = self.sources.origin.as_ref().and_then(|origin| origin.file(path)).map(str::to_owned);
        let found = own.or_else(|| (self.sources.read)(path));
        let then = self.record.provenance.inputs.get(path);
        let is_first_profile = is_profile("profile", path) && !std::mem::replace(&mut self.has_profile, true);
        if is_first_profile && found.as_ref().is_none_or(|text| Some(&fingerprint(text)) != then) {
            return Some(self.record.provenance.profile.clone());
        }
        let notes = &mut self.named.notes;
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
        if let Some(name) = inner(Path::new(path)).filter(|name| !self.sources.taken.contains(&name.as_str()))
        {
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
            self.named.notes.push(format!(
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
        let read = |_: &str| None;
        let sources = Sources { origin: None, read: &read, taken: &["levels.csv"] };
        let mut attaching = Attaching::of(&record, sources);
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
