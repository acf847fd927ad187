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
use plimsoll_runner::bundle::{Bundle as Opened, Named, Sources, begun, named, pack};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Rights of a bundle: it may hold what only its owner may see.
const RIGHTS: u32 = 0o600;

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
        let Named { scenario, files: named, notes } = named_by(&record);
        let bundled = named.into_iter().map(|(name, text)| BundledFile { name, text }).collect();
        let attached = Attached { scenario, files: bundled, notes };
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

/// The files that a run's scenario names, which are where it was.
fn named_by(record: &RunRecord) -> Named {
    let places = places(record);
    let read = |path: &str| places.iter().find_map(|place| read_named(&place.join(path)).ok());
    named(record, Sources { origin: origin(record), read: &read, taken: &OWN })
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
