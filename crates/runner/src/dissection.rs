//! Captures of anybody's programs, read to their end: what they say, with names and markers that the user knows.

use plimsoll_analysis::dissection::{DissectionSummary, summarize};
use plimsoll_analysis::exchange::ExchangeRow;
use plimsoll_capture::component::Components;
use plimsoll_capture::marker::Search;
use plimsoll_capture::phases::Phases;
use plimsoll_capture::pipeline::dissect;
use plimsoll_capture::source::{PacketSource, SourceError};
use plimsoll_capture::table::Settings;
use plimsoll_capture::tls::keys::Keys;
use plimsoll_capture::traces::Traces;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How captures are read.
pub struct Dissection {
    /// The markers that are looked for.
    pub search: Search,
    /// The names of endpoints.
    pub components: Components,
    /// What opens TLS.
    pub keys: Keys,
    /// Conversations that are followed at once.
    pub conversations: usize,
    /// Threads that follow them; a further one reads.
    pub threads: usize,
    /// Ends the reading.
    pub stop: Arc<AtomicBool>,
}

impl Dissection {
    /// Reads the captures, which come from those paths, as one. Exchanges are given on as they are found, together with how many bytes
    /// have been read, unpacked.
    ///
    /// # Errors
    /// What was read is no capture.
    pub fn read(
        self,
        (sources, paths): (Vec<PacketSource>, &[PathBuf]),
        found: &mut dyn FnMut(&mut dyn Iterator<Item = ExchangeRow>, u64),
    ) -> Result<DissectionSummary, SourceError> {
        let Dissection { search, components, keys, conversations, threads, stop } = self;
        let (components, keys, phases) = (Arc::new(components), Arc::new(keys), Arc::new(Phases::default()));
        let settings = Settings {
            search: search.clone(),
            components: Arc::clone(&components),
            phases: Arc::clone(&phases),
            keys: Arc::clone(&keys),
            exchanges: true,
            actions: false,
            only_known: false,
            open: conversations,
            stop,
        };
        let mut traces = Traces::new(Arc::clone(&phases));
        let dissected = dissect(sources, &settings, threads, &mut |batch, read| {
            traces.observe(&batch);
            let rows = batch.exchanges.iter().map(|one| ExchangeRow::of(one, &components, &search));
            found(&mut { rows }, read);
        })?;
        traces.finish(dissected.last);
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let mut summary = summarize(&dissected, &paths, &traces, &components, &phases, &search, None);
        summary.notes.extend(keys.notes());
        Ok(summary)
    }
}
