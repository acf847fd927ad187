//! The exports of a run, as files. They are those of `plimsoll export`, `show --json`, `report` and `bundle`.

use crate::answer::{self, Answer, HTML};
use crate::archive::Told;
use crate::error_page;
use crate::run_page::UNREAD;
use crate::site::Site;
use crate::tokens::Role;
use bytes::Bytes;
use futures_util::stream::unfold;
use hyper::StatusCode;
use hyper::header::CONTENT_DISPOSITION;
use plimsoll_model::RunId;
use plimsoll_model::message::MessageRecord;
use plimsoll_report::bundle::{Attached, BundledFile, OWN, files, folder};
use plimsoll_report::series::Occurrence;
use plimsoll_report::{csv, hlog, html, json, jtl, junit, k6};
use plimsoll_runner::bundle::{Named, Sources, begun, named, pack};
use plimsoll_store::{RunReader, StoreError};
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::channel;
use tokio::time::timeout;

/// Bytes of the message log that are sent at once.
const PIECE: usize = 64 * 1024;
/// Bytes of the files that a bundle has from the folder.
const MOST_ATTACHED: usize = 16 << 20;
/// Pieces that wait for a slow reader, and how long.
const WAITING: usize = 4;
const PATIENCE: Duration = Duration::from_secs(20);

/// A file that can be had of a run.
pub struct Download {
    /// Its name in addresses.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// How the name of the file ends.
    ending: &'static str,
    kind: &'static str,
    content: Content,
}

/// Where its content comes from.
enum Content {
    /// It is rendered from the run.
    Rendered(fn(&Told) -> String),
    /// It is made of the message log, which may be larger than memory.
    Log(Log),
    /// All that it takes to repeat the run.
    Bundle,
}

/// What is made of a message log.
#[derive(Clone, Copy)]
enum Log {
    /// A row a message.
    Messages,
    /// The lives of events at a gateway.
    Events,
    /// JMeter's result file.
    Jtl,
}

const CSV: &str = "text/csv; charset=utf-8";
const JSON: &str = "application/json";

/// All of them.
pub const DOWNLOADS: &[Download] = &[
    Download {
        name: "report",
        title: "Report",
        ending: "report.html",
        kind: HTML,
        content: Content::Rendered(|told| html::render(&told.record, &told.summary)),
    },
    Download {
        name: "summary",
        title: "Summary (JSON)",
        ending: "summary.json",
        kind: JSON,
        content: Content::Rendered(|told| json::render(&told.summary)),
    },
    Download {
        name: "levels",
        title: "Levels (CSV)",
        ending: "levels.csv",
        kind: CSV,
        content: Content::Rendered(|told| csv::levels(&told.summary)),
    },
    Download {
        name: "samples",
        title: "Samples (CSV)",
        ending: "samples.csv",
        kind: CSV,
        content: Content::Rendered(|told| csv::samples(&told.record)),
    },
    Download {
        name: "components",
        title: "Components (CSV)",
        ending: "components.csv",
        kind: CSV,
        content: Content::Rendered(|told| csv::components(&told.record)),
    },
    Download {
        name: "gauges",
        title: "Other observers (CSV)",
        ending: "gauges.csv",
        kind: CSV,
        content: Content::Rendered(|told| csv::gauges(&told.record)),
    },
    Download {
        name: "histograms",
        title: "Histograms",
        ending: "hlog",
        kind: "text/plain; charset=utf-8",
        content: Content::Rendered(|told| hlog::render(&told.record)),
    },
    Download {
        name: "junit",
        title: "JUnit",
        ending: "junit.xml",
        kind: "application/xml",
        content: Content::Rendered(|told| junit::render(&told.summary)),
    },
    Download {
        name: "k6",
        title: "k6 summary",
        ending: "k6.json",
        kind: JSON,
        content: Content::Rendered(|told| k6::render(&told.record)),
    },
    Download {
        name: "messages",
        title: "Messages (CSV)",
        ending: "messages.csv",
        kind: CSV,
        content: Content::Log(Log::Messages),
    },
    Download {
        name: "events",
        title: "Lives of events (CSV)",
        ending: "events.csv",
        kind: CSV,
        content: Content::Log(Log::Events),
    },
    Download { name: "jtl", title: "JMeter", ending: "jtl", kind: CSV, content: Content::Log(Log::Jtl) },
    Download {
        name: "bundle",
        title: "All in one file (bundle)",
        ending: "tar.gz",
        kind: "application/gzip",
        content: Content::Bundle,
    },
];

/// Answers with a file of a run. A bundle has files of the folder, which are shown to operators alone.
pub async fn download(site: &Arc<Site>, role: Role, run: &str, name: &str) -> Answer {
    let found = RunId::parse(run).zip(DOWNLOADS.iter().find(|download| download.name == name));
    let Some((id, download)) = found else { return error_page::not_found("There is no such file.") };
    match download.content {
        Content::Rendered(render) => {
            let own = Arc::clone(site);
            match site.permits.work(move || own.archive.run(id).map(|told| render(&told))).await {
                Ok(Ok(text)) => download.named(id, answer::text(download.kind, text)),
                Ok(Err(error)) => error_page::of_store(&error),
                Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, UNREAD, "Try again."),
            }
        }
        Content::Log(log) => of_log(site, id, log, download).await,
        Content::Bundle if !download.is_for(role) => error_page::of(
            StatusCode::FORBIDDEN,
            "A bundle is for operators alone: its files may hold passwords.",
            "Download the report.",
        ),
        Content::Bundle => of_bundle(site, id, download).await,
    }
}

/// Answers with a bundle of a run that has ended.
async fn of_bundle(site: &Arc<Site>, id: RunId, download: &Download) -> Answer {
    let own = Arc::clone(site);
    let made = site.permits.work(move || {
        let told = own.archive.run(id)?;
        let series = own.archive.series(&told.record)?;
        Ok::<_, StoreError>((!told.record.goes_on).then(|| bundle(&own, &told, &series)))
    });
    let unread = |why: &str| error_page::of(StatusCode::INTERNAL_SERVER_ERROR, UNREAD, why);
    match made.await {
        Ok(Ok(Some(Ok(packed)))) => download.named(id, answer::text(download.kind, packed)),
        Ok(Ok(Some(Err(error)))) => unread(&error.to_string()),
        Ok(Ok(None)) => {
            error_page::of(StatusCode::CONFLICT, "The run goes on.", "Make its bundle when it has ended.")
        }
        Ok(Err(error)) => error_page::of_store(&error),
        Err(_) => unread("Try again."),
    }
}

/// A bundle, with those of the files that the scenario names which are in the folder.
fn bundle(site: &Site, told: &Told, series: &[Occurrence]) -> io::Result<Vec<u8>> {
    let Told { record, summary } = told;
    // Packing takes a processor, which a run on this host needs more.
    let left = Cell::new(MOST_ATTACHED);
    let read = |path: &str| {
        let text = site.folder.named(path).ok()?;
        left.set(left.get().checked_sub(text.len())?);
        Some(text)
    };
    let Named { scenario, files: found, notes } =
        named(record, Sources { origin: None, read: &read, taken: &OWN });
    let found = found.into_iter().map(|(name, text)| BundledFile { name, text }).collect();
    let files = files(record, summary, series, &Attached { scenario, files: found, notes });
    let texts = files.iter().map(|file| (file.name.as_str(), file.text.as_str()));
    pack(texts, &folder(record), begun(record))
}

impl Download {
    /// Whether somebody may have it.
    pub fn is_for(&self, role: Role) -> bool {
        role >= Role::Operator || !matches!(self.content, Content::Bundle)
    }

    /// An answer that a browser keeps as a file.
    fn named(&self, id: RunId, answer: Answer) -> Answer {
        let disposition = format!("attachment; filename=\"plimsoll.{id}.{}\"", self.ending);
        answer::with(answer, CONTENT_DISPOSITION, &disposition)
    }
}

/// A piece of the log. An empty one says that it was the last: an answer without it ends in an error, so that nobody takes a part for the
/// whole.
type Piece = io::Result<Bytes>;

/// Sends what is made of the message log as that is read.
async fn of_log(site: &Arc<Site>, id: RunId, log: Log, download: &Download) -> Answer {
    let (sender, mut pieces) = channel::<Piece>(WAITING);
    let own = Arc::clone(site);
    let handle = Handle::current();
    tokio::task::spawn_blocking(move || {
        let send = |piece: Piece| {
            handle.block_on(timeout(PATIENCE, sender.send(piece))).is_ok_and(|sent| sent.is_ok())
        };
        match read_log(&own, id, log, &send) {
            Ok(true) => drop(send(Ok(Bytes::new()))),
            Ok(false) => {}
            Err(error) => drop(send(Err(io::Error::other(error)))),
        }
    });
    let unread = |why: &str| error_page::of(StatusCode::INTERNAL_SERVER_ERROR, UNREAD, why);
    match pieces.recv().await {
        Some(Ok(first)) if first.is_empty() => error_page::of(
            StatusCode::NOT_FOUND,
            "The run has no message log.",
            "Run its scenario with `record: { messages: true }` to get one.",
        ),
        Some(Ok(first)) => {
            let rest = unfold((Some(first), pieces), |(first, mut pieces)| async move {
                let piece = match first {
                    Some(first) => Ok(first),
                    None => pieces.recv().await.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into())),
                };
                let is_last = piece.as_ref().is_ok_and(Bytes::is_empty);
                (!is_last).then_some((piece, (None, pieces)))
            });
            download.named(id, answer::stream(download.kind, rest))
        }
        Some(Err(error)) => unread(&error.to_string()),
        None => unread("Try again."),
    }
}

/// Sends it in pieces, none of a run without a log; whether all were taken.
fn read_log(site: &Site, id: RunId, log: Log, send: &impl Fn(Piece) -> bool) -> Result<bool, StoreError> {
    let reader = RunReader::open(site.archive.store())?;
    let run = id.to_string();
    let (mut header, row) = log.rows(&reader, id)?;
    let mut text = String::new();
    let mut is_heard = true;
    reader.messages(&run, |message| {
        if !is_heard {
            return;
        }
        // Before the first row.
        text.push_str(&std::mem::take(&mut header));
        text += &row(&message);
        if text.len() > PIECE {
            is_heard = send(Ok(Bytes::from(std::mem::take(&mut text))));
        }
    })?;
    Ok(is_heard && (text.is_empty() || send(Ok(Bytes::from(text)))))
}

/// Makes a row of a message.
type Row = Box<dyn Fn(&MessageRecord) -> String>;

impl Log {
    /// What stands above the rows, and what makes them.
    fn rows(self, reader: &RunReader, id: RunId) -> Result<(String, Row), StoreError> {
        Ok(match self {
            Log::Messages => (csv::message_header(), Box::new(csv::message)),
            Log::Events => (csv::event_header(), Box::new(move |message| csv::event(id.tag(), message))),
            Log::Jtl => {
                let rows = jtl::Rows::of(&reader.run_of_id(&id.to_string())?);
                (jtl::HEADER.to_owned(), Box::new(move |message| rows.row(message)))
            }
        })
    }
}
