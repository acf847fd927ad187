//! `plimsoll dissect`: what any capture says.

use super::outputs::{self, Output};
use crate::exit_code;
use crate::failure::Failure;
use crate::interrupt::stop_flag;
use crate::output::{file, say};
use crate::progress::ReadingProgress;
use clap::{Args, ValueEnum};
use plimsoll_analysis::exchange::ExchangeRow;
use plimsoll_capture::component::Components;
use plimsoll_capture::marker::{Form, Pattern, Search};
use plimsoll_capture::source::{PacketSource, SourceError};
use plimsoll_capture::tls::keys::Keys;
use plimsoll_model::wire::SharedId;
use plimsoll_report::dissection as render;
use plimsoll_runner::dissection::Dissection;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reads captures: who called whom, how long it took, what was lost where
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll dissect capture.pcap
  plimsoll dissect chain.pcapng --marker 'plm1:{device}:{seq};' \\
      --name redis=:6379
  plimsoll dissect secured.pcap --keys keys.log
  tcpdump -i any -w - | plimsoll dissect - --export spans.json

Reads pcap and pcapng, also compressed with gzip or zstd. It recognises HTTP,
HTTP/2, WebSocket, MQTT, CoAP, Redis, MongoDB, PostgreSQL, Kafka, NATS and AMQP
by content and port. It merges several files by time. It decrypts TLS with the
keys that clients write to SSLKEYLOGFILE (--keys), or that a pcapng file holds.

Exit codes: 0 read, 1 a file is no capture or is damaged, 104 wrong usage, 105
interrupted. What was read is always reported.")]
pub struct Dissect {
    /// Captures, `-` for the standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Another pattern that marks a message, as in 'plm1:{device}:{seq};' (repeatable); markers
    /// of Plimsoll in ASCII are found by themselves
    #[arg(long, value_name = "PATTERN")]
    marker: Vec<String>,
    /// Where WebSocket messages hold the id that a request and its response share, as in
    /// '"requestId":"{id}"' (repeatable). Without it, they share a marker or come in
    /// order
    #[arg(long, value_name = "TEXT")]
    shared_id: Vec<String>,
    /// Calls an endpoint by a name: NAME=HOST:PORT, NAME=:PORT or NAME=HOST (repeatable)
    #[arg(long, value_name = "NAME=WHERE")]
    name: Vec<String>,
    /// Open TLS with the keys in this log, of the form of SSLKEYLOGFILE (repeatable)
    #[arg(long, value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// Write the summary as JSON
    #[arg(long, value_name = "FILE", value_parser = file())]
    summary_json: Option<PathBuf>,
    /// Write every exchange (repeatable): FILE.csv, FILE.parquet, or FILE.json for OTLP
    /// traces
    #[arg(long, value_name = "FILE", value_parser = file())]
    export: Vec<PathBuf>,
    /// The form of the exports, where the names of the files do not say
    #[arg(long, value_name = "FORM")]
    export_form: Option<Export>,
    /// Wait for more at the end of the last file, until interrupted
    #[arg(long)]
    follow: bool,
    /// Conversations that are followed at once
    #[arg(long, value_name = "N", default_value_t = 32_768, value_parser = clap::value_parser!(u32).range(16..=16_777_216))]
    conversations: u32,
    /// Threads that follow conversations; a further one reads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// How exchanges are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Export {
    /// One line an exchange.
    Csv,
    /// OpenTelemetry's JSON, one object a line.
    Otlp,
    /// One row an exchange.
    Parquet,
}

impl Dissect {
    pub fn perform(self) -> Result<u8, Failure> {
        self.check_outputs()?;
        let search = self.search()?;
        let components = self.components()?;
        let keys =
            Keys::of_files(&self.keys, self.follow).map_err(|error| Failure::Undoable(error.to_string()))?;
        let stop =
            stop_flag().map_err(|error| Failure::Undoable(format!("cannot watch for signals: {error}")))?;
        // What is wrong with an input is told before an output is begun.
        let sources = self.sources(&stop)?;
        let mut exports = self.exports()?;
        let progress = ReadingProgress::new(self.quiet, sizes(&self.files));
        let threads = self.threads.map_or_else(threads, usize::from);
        let (conversations, stopping) = (self.conversations as usize, Arc::clone(&stop));
        let dissection = Dissection { search, components, keys, conversations, threads, stop: stopping };
        let mut broken = None;
        let read = dissection.read((sources, &self.files), &mut |rows, read| {
            if !exports.is_empty() {
                let rows: Vec<ExchangeRow> = rows.collect();
                for export in exports.iter_mut().filter(|export| !export.broken) {
                    if let Err(error) = export.write(&rows) {
                        export.broken = true;
                        broken.get_or_insert(Failure::unwritable(&export.path, &error));
                    }
                }
            }
            progress.read(read);
        });
        let summary = read.map_err(unreadable)?;
        progress.finish();
        say(&render::terminal::render(&summary));
        // One that cannot be written takes none of the others along.
        let exported = exports.into_iter().filter(|export| !export.broken).map(Exporting::finish);
        let exported = exported.fold(broken.map_or(Ok(()), Err), Result::and);
        if let Some(path) = &self.summary_json {
            outputs::write(path, &render::json(&summary))?;
        }
        exported?;
        if stop.load(Ordering::Relaxed) && !self.follow {
            return Ok(exit_code::INTERRUPTED);
        }
        // The summary has told what, and where.
        let damaged = summary.files.iter().any(|file| file.error.is_some() || file.garbage.is_some());
        Ok(if damaged { exit_code::UNDOABLE } else { exit_code::MET })
    }

    /// No output is an input, nor another output.
    fn check_outputs(&self) -> Result<(), Failure> {
        let read: Vec<PathBuf> = self.files.iter().chain(&self.keys).cloned().collect();
        let exports = self.export.iter().map(|path| ("--export", Some(path.as_path())));
        let outputs: Vec<_> = exports.chain([("--summary-json", self.summary_json.as_deref())]).collect();
        outputs::check(None, &read, &outputs)
    }

    fn search(&self) -> Result<Search, Failure> {
        let mut forms = vec![Form::Ascii(None)];
        for text in &self.marker {
            forms.push(Form::Pattern(Pattern::parse(text).map_err(Failure::Usage)?));
        }
        for text in &self.shared_id {
            forms.push(Form::Shared(SharedId::parse(text).map_err(Failure::Usage)?));
        }
        Ok(Search::new(forms))
    }

    fn components(&self) -> Result<Components, Failure> {
        let mut components = Components::default();
        let mut places = BTreeSet::new();
        for given in &self.name {
            let wrong = || {
                Failure::Usage(format!(
                    "--name {given}: give NAME=HOST:PORT, NAME=:PORT or NAME=HOST, as in --name redis=10.0.0.7:6379; hosts are addresses"
                ))
            };
            let (name, place) = given.split_once('=').filter(|(name, _)| is_name(name)).ok_or_else(wrong)?;
            if !places.insert(place) {
                return Err(Failure::Usage(format!(
                    "--name {given}: {place} has a name already; give each place one"
                )));
            }
            if let Some(port) = place.strip_prefix(':') {
                components.port(port.parse::<NonZeroU16>().map_err(|_| wrong())?.get(), name);
            } else if let Ok(address) = place.parse::<SocketAddr>() {
                components.endpoint(address.into(), name);
            } else {
                let address: IpAddr = place.trim_matches(['[', ']']).parse().map_err(|_| wrong())?;
                components.host(
                    plimsoll_capture::packet::Endpoint::from(SocketAddr::new(address, 0)).address,
                    name,
                );
            }
        }
        Ok(components)
    }

    fn sources(&self, stop: &Arc<AtomicBool>) -> Result<Vec<PacketSource>, Failure> {
        let mut sources = opened(&self.files)?;
        if self.follow
            && let Some(last) = sources.pop()
        {
            let stop = Arc::clone(stop);
            sources.push(last.follow(move || !stop.load(Ordering::Relaxed)));
        }
        Ok(sources)
    }

    fn exports(&self) -> Result<Vec<Exporting>, Failure> {
        let opened = |path: &PathBuf| {
            let form = match (self.export_form, path.extension().and_then(|extension| extension.to_str())) {
                (Some(form), _) => form,
                (None, Some("csv")) => Export::Csv,
                (None, Some("json" | "jsonl" | "otlp")) => Export::Otlp,
                (None, Some("parquet")) => Export::Parquet,
                (None, _) => {
                    let path = path.display();
                    return Err(Failure::Usage(format!(
                        "--export {path}: end its name in .csv, .parquet or .json, or give --export-form"
                    )));
                }
            };
            // Who follows a capture looks at its exchanges meanwhile.
            let output = if self.follow { Output::create_open(path) } else { Output::create(path) };
            output
                .and_then(|output| Exporting::begin(path, form, output))
                .map_err(|error| Failure::unwritable(path, &error))
        };
        self.export.iter().map(opened).collect()
    }
}

/// A file of exchanges that is being written.
struct Exporting {
    path: PathBuf,
    output: Output,
    writing: Writing,
    /// Whether something could not be written: it does not become a file.
    broken: bool,
}

enum Writing {
    Csv(BufWriter<File>),
    Otlp(BufWriter<File>, render::otlp::Spans),
    Parquet(render::parquet::Exchanges<BufWriter<File>>),
}

impl Exporting {
    fn begin(path: &Path, form: Export, mut output: Output) -> std::io::Result<Exporting> {
        let file = output.file().try_clone()?;
        let buffered = |file| BufWriter::with_capacity(1 << 16, file);
        let writing = match form {
            Export::Csv => {
                let mut out = buffered(file);
                writeln!(out, "{}", render::csv::HEADER)?;
                Writing::Csv(out)
            }
            Export::Otlp => Writing::Otlp(buffered(file), render::otlp::Spans::default()),
            Export::Parquet => Writing::Parquet(render::parquet::Exchanges::begin(buffered(file))?),
        };
        Ok(Exporting { path: path.to_owned(), output, writing, broken: false })
    }

    fn write(&mut self, rows: &[ExchangeRow]) -> std::io::Result<()> {
        match &mut self.writing {
            Writing::Csv(out) => rows.iter().try_for_each(|row| render::csv::write(out, row)),
            Writing::Otlp(..) if rows.is_empty() => Ok(()),
            Writing::Otlp(out, spans) => out.write_all(spans.line(rows).as_bytes()),
            Writing::Parquet(table) => rows.iter().try_for_each(|row| table.write(row)),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        let finished = match self.writing {
            Writing::Csv(mut out) | Writing::Otlp(mut out, _) => out.flush(),
            Writing::Parquet(table) => table.finish(),
        };
        let finished = finished.and_then(|()| self.output.finish());
        finished.map_err(|error| Failure::unwritable(&self.path, &error))
    }
}

/// Whether it can stand in a line.
fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(char::is_control)
}

/// Opens captures.
pub(super) fn opened(files: &[PathBuf]) -> Result<Vec<PacketSource>, Failure> {
    files.iter().map(|path| PacketSource::open(path)).collect::<Result<_, _>>().map_err(unreadable)
}

pub(super) fn unreadable(error: SourceError) -> Failure {
    Failure::Undoable(error.to_string())
}

/// Bytes of all files, where they are files.
pub(super) fn sizes(files: &[PathBuf]) -> Option<u64> {
    files
        .iter()
        .map(|path| std::fs::metadata(path).ok().filter(|found| found.is_file()).map(|found| found.len()))
        .sum()
}

/// As many as there are processors.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
