//! The wire at a worker: captures packets there for the coordinator, and keeps the keys of TLS sessions.

use super::components::Seen;
use crate::capturing::{Captured, Capturing, Network, Wanted};
use crate::tls_keys::TlsKeys;
use plimsoll_analysis::dissection::OURSELVES;
use plimsoll_load::clock::wall_nanos;
use plimsoll_model::Nanos;
use plimsoll_observe::endpoints::EndpointSampler;
use plimsoll_platform::folder::Folder;
use plimsoll_workers::message::{Collected, OwnedEnd, PacketOrder};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it is looked at which process has which connection.
const LOOK: Duration = Duration::from_secs(1);

/// Ends of connections that are told: with more, a message about them would not fit between worker and coordinator.
const MOST_ENDS: usize = 200_000;

/// See the module. Dropped, it ends, and nothing of it is left.
pub struct Wire {
    keys: Arc<TlsKeys>,
    key_log: PathBuf,
    /// Set to end the capture as it should.
    end: Arc<AtomicBool>,
    /// Set to give it up.
    stop: Arc<AtomicBool>,
    /// Whether packets are captured now, once that is known.
    begun: Receiver<Result<(), String>>,
    thread: Option<JoinHandle<Option<Kept>>>,
    /// Removed with all that is in it.
    _folder: Folder,
}

/// What a capture leaves.
#[derive(Default)]
struct Kept {
    captured: Captured,
    ends: Vec<OwnedEnd>,
}

/// What there is to say.
pub enum Word {
    /// Packets are captured, or not.
    Begun(Result<(), String>),
    /// The capture has ended: what there is, and its files.
    Ended(Box<Collected>, Vec<PathBuf>),
}

impl Wire {
    /// Begins, with captures in a folder of its own. `program` is this program, and `seen` has the processes of components.
    ///
    /// # Errors
    /// The operating system gives no folder or no thread.
    pub fn begin(packets: Option<PacketOrder>, program: &Path, seen: Seen) -> std::io::Result<Wire> {
        let folder = Folder::fresh(program)?;
        let key_log = folder.path().join("keys.log");
        let file = folder.path().join("wire.pcap");
        let (begun_in, begun) = channel();
        let (end, stop) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (ends_now, stops_now, program) = (Arc::clone(&end), Arc::clone(&stop), program.to_owned());
        let work = move || {
            let capturing = packets.map(|packets| {
                Capturing::start(&program, wanted(packets, file), &stops_now)
                    .map_err(|error| error.to_string())
            });
            let capturing = match capturing.transpose() {
                Ok(capturing) => capturing,
                Err(why) => {
                    let _ = begun_in.send(Err(why));
                    return None;
                }
            };
            // Nobody listens where the worker is ending.
            let _ = begun_in.send(Ok(()));
            let mut ends = EndpointSampler::default();
            while !ends_now.load(Ordering::Relaxed) {
                if stops_now.load(Ordering::Relaxed) {
                    return None;
                }
                ends.look(&owners(&seen), Nanos(wall_nanos()));
                std::thread::park_timeout(LOOK);
            }
            ends.look(&owners(&seen), Nanos(wall_nanos()));
            let captured = capturing.map(Capturing::stop).unwrap_or_default();
            let owned = ends.finish().owned.into_iter();
            let ends = owned.flat_map(|(address, spans)| {
                spans.into_iter().map(move |span| OwnedEnd {
                    address,
                    from: span.from,
                    until: span.until,
                    owner: span.owner,
                })
            });
            Some(Kept { captured, ends: ends.take(MOST_ENDS).collect() })
        };
        let thread = std::thread::Builder::new().name("wire".into()).spawn(work)?;
        let keys = Arc::new(TlsKeys::new(Some(key_log.clone())));
        Ok(Wire { keys, key_log, end, stop, begun, thread: Some(thread), _folder: folder })
    }

    /// Where our clients leave the keys of their TLS sessions.
    pub fn key_log(&self) -> Arc<dyn rustls::KeyLog> {
        Arc::clone(&self.keys) as Arc<dyn rustls::KeyLog>
    }

    /// Ends the capture; what came of it is said later.
    pub fn end(&self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// What there is to say now.
    pub fn word(&mut self) -> Option<Word> {
        match self.begun.try_recv() {
            Ok(begun) => return Some(Word::Begun(begun)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
        let thread = self.thread.take_if(|thread| thread.is_finished())?;
        // One that could not begin has said so, and one that panicked has captured nothing.
        let Kept { captured, ends } = thread.join().ok().flatten().unwrap_or_default();
        let mut files: Vec<PathBuf> = captured.files;
        let captures = u16::try_from(files.len()).unwrap_or(u16::MAX);
        let has_keys = self.key_log.exists();
        files.extend(has_keys.then(|| self.key_log.clone()));
        let kept = Collected {
            captures,
            has_keys,
            logs: Vec::new(),
            packets: captured.packets,
            dropped: captured.dropped,
            wrapped: captured.wrapped,
            died: captured.died.map(|death| (death.at, death.why)),
            ends,
        };
        Some(Word::Ended(Box::new(kept), files))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn wanted(PacketOrder { interface, filter, limit }: PacketOrder, file: PathBuf) -> Wanted {
    Wanted { network: Network::Own, interface, filter, file, limit: Some(limit), replace: false }
}

/// Who has connections here: our own clients, and the components, which are children of this process and keep what is theirs.
fn owners(seen: &Seen) -> Vec<(String, i32)> {
    let mut all = vec![(OURSELVES.to_owned(), std::process::id() as i32)];
    all.extend(seen.lock().unwrap_or_else(PoisonError::into_inner).processes.iter().cloned());
    all
}
