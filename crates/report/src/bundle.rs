//! The files of a bundle: what a reader needs to repeat a run, its figures and its text. Those from outside the run store are given.

use crate::methods::methods;
use crate::series::Occurrence;
use crate::{csv, html, json};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::record::{Provenance, RunRecord};
use std::fmt::Write;

/// What stands in the place of a secret in a stored scenario (`codec::credentials`).
pub const HIDDEN: &str = "***";
/// Files that each bundle has, which no file of a scenario may be called.
pub const OWN: [&str; 11] = [
    "README.md",
    "scenario.yaml",
    "methods.md",
    "summary.json",
    "report.html",
    "provenance.json",
    "levels.csv",
    "samples.csv",
    "components.csv",
    "profile.yaml",
    "SHA256SUMS",
];

/// A file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundledFile {
    /// Its path in the bundle.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// What a bundle has from outside the run store.
#[derive(Clone, Debug, Default)]
pub struct Attached {
    /// The scenario, which names the files below.
    pub scenario: String,
    /// What the scenario names: profiles, feeds, curves, traces, prices.
    pub files: Vec<BundledFile>,
    /// What is missing, or should be looked at before the bundle is given away; for people.
    pub notes: Vec<String>,
}

/// All files, in their order.
pub fn files(
    record: &RunRecord,
    summary: &Summary,
    series: &[Occurrence],
    attached: &Attached,
) -> Vec<BundledFile> {
    let file = |name: &str, text: String| BundledFile { name: name.to_owned(), text };
    let mut files = vec![
        file("README.md", readme(record, attached)),
        file("scenario.yaml", attached.scenario.clone()),
        file("methods.md", methods(record, summary)),
        file("summary.json", json::render(summary)),
        file("report.html", html::render_in_series(record, summary, series)),
        file("provenance.json", provenance(&record.provenance)),
        file("levels.csv", csv::levels(summary)),
        file("samples.csv", csv::samples(record)),
        file("components.csv", csv::components(record)),
    ];
    if !record.provenance.profile.is_empty() {
        files.push(file("profile.yaml", record.provenance.profile.clone()));
    }
    files.extend(attached.files.iter().cloned());
    files
}

/// Versions, seed, host, platform and placement.
fn provenance(provenance: &Provenance) -> String {
    // The process says nothing that anybody could use elsewhere.
    let known = Provenance { process: None, profile: String::new(), ..provenance.clone() };
    // A record holds nothing that JSON cannot.
    let mut text = serde_json::to_string_pretty(&known).unwrap_or_default();
    text.push('\n');
    text
}

fn readme(record: &RunRecord, attached: &Attached) -> String {
    let Provenance { plimsoll, seed, started, platform, .. } = &record.provenance;
    let mut out = format!(
        "# {}: run {} of {started}\n\nMade by `plimsoll bundle`.\n\n## Reproduce the run\n\n",
        record.name, record.id
    );
    let _ = write!(
        out,
        "Install Plimsoll {plimsoll}. The seed {seed} stands in the scenario, so that due times and sizes are the same.\n\n    \
         plimsoll check BUNDLE.tar.gz\n    plimsoll run BUNDLE.tar.gz\n\n\
         Or unpack it, and change what you like:\n\n    \
         tar xzf BUNDLE.tar.gz\n    cd {}\n    sha256sum -c SHA256SUMS\n    plimsoll run scenario.yaml\n\n",
        folder(record)
    );
    if let Some(profile) = platform.get("profile") {
        let _ = writeln!(
            out,
            "The platform is that of the profile `{profile}`, which stands in `profile.yaml` as it was for this run.\n\
             If `plimsoll platforms {profile}` shows another one, the versions differ.\n"
        );
    }
    if attached.scenario.contains(HIDDEN) {
        let _ = writeln!(
            out,
            "Secrets are left out of the scenario: put yours in the places of `{HIDDEN}`, or name environment variables.\n"
        );
    }
    out.push_str("## Reproduce the figures\n\n`report.html` has all figures. Their numbers:\n\n");
    for (name, what) in [
        ("summary.json", "the whole result"),
        ("levels.csv", "a row for each level"),
        ("samples.csv", "a row for each sample"),
        ("components.csv", "what the platform's components used, a row for each reading"),
        ("methods.md", "how it was measured, for the methods section of a paper"),
        ("provenance.json", "versions, seed, host, platform, processors, command"),
    ] {
        let _ = writeln!(out, "- `{name}`: {what}");
    }
    for file in &attached.files {
        let _ = writeln!(
            out,
            "- `{}`: a file that the scenario names, as it was when the bundle was made",
            file.name
        );
    }
    if !attached.notes.is_empty() {
        out.push_str("\n## To know\n\n");
        for note in &attached.notes {
            let _ = writeln!(out, "- {note}");
        }
    }
    out
}

/// The folder that all files of a bundle stand in.
pub fn folder(record: &RunRecord) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let name: String = record.name.chars().take(60).map(plain).collect();
    format!("{}-{}", name.trim_matches('-'), record.id)
}
