//! The way of a capture: one thread reads it and finds the packets, others follow the conversations, each its share, and the
//! caller gets what they observe in the order of the capture.

use crate::merged::Merged;
use crate::packet::{Counts, Decoder, Packet};
use crate::source::{Block, Ending, PacketSource, SourceError};
use crate::table::{ObservationBatch, Settings, Table};
use crate::tally::Tally;
use plimsoll_model::Nanos;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Blocks that are under way to a thread.
const UNDER_WAY: usize = 2;

/// What a capture held.
#[derive(Debug, Default)]
pub struct Dissected {
    /// On the way from records to packets.
    pub counts: Counts,
    /// Who called whom.
    pub tally: Tally,
    /// When the first and the last packet were captured, since 1970.
    pub first: Option<Nanos>,
    /// The latest time.
    pub last: Option<Nanos>,
    /// How each file ended, in their order.
    pub endings: Vec<Ending>,
}

/// A block and its packets, by thread: on the way to those who follow conversations.
struct PacketBatch {
    number: u64,
    block: Block,
    packets: Vec<Vec<Packet>>,
}

/// Follows all conversations of some files, put together by time, on so many threads; `receive` is given what is observed, and
/// how many bytes were read.
pub fn dissect(
    sources: Vec<PacketSource>,
    settings: &Settings,
    threads: usize,
    receive: &mut dyn FnMut(ObservationBatch, u64),
) -> Result<Dissected, SourceError> {
    let threads = threads.max(1);
    let settings = Settings { open: settings.open.div_ceil(threads).max(16), ..settings.clone() };
    thread::scope(|scope| {
        let (back, used) = channel();
        let (to_caller, from_threads) = sync_channel::<(u64, ObservationBatch)>(4 * threads);
        let mut doors = Vec::new();
        let mut workers = Vec::new();
        for share in 0..threads {
            let (door, batches) = sync_channel::<Arc<PacketBatch>>(UNDER_WAY);
            let (back, to_caller, settings) = (back.clone(), to_caller.clone(), settings.clone());
            doors.push(door);
            workers.push(scope.spawn(move || work(share, settings, &batches, &back, &to_caller)));
        }
        drop((back, to_caller));
        let (progress, read) = channel();
        let stop = Arc::clone(&settings.stop);
        let keys = Arc::clone(&settings.keys);
        let sources = sources.into_iter().map(|source| source.teach(Arc::clone(&keys))).collect();
        let reader = scope.spawn(move || read_all(sources, &doors, &used, &progress, &stop));
        deliver(&from_threads, threads, &read, receive);
        let mut dissected = match reader.join() {
            Ok(result) => result?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        for worker in workers {
            match worker.join() {
                Ok(tally) => dissected.tally.merge(tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(dissected)
    })
}

/// Hands on what all threads have observed of a block, block by block.
fn deliver(
    from_threads: &Receiver<(u64, ObservationBatch)>,
    threads: usize,
    read: &Receiver<u64>,
    receive: &mut dyn FnMut(ObservationBatch, u64),
) {
    let mut waiting: BTreeMap<u64, (usize, ObservationBatch)> = BTreeMap::new();
    let mut bytes = 0;
    for (number, batch) in from_threads {
        let (parts, all) = waiting.entry(number).or_default();
        *parts += 1;
        all.exchanges.extend(batch.exchanges);
        all.sightings.extend(batch.sightings);
        all.actions.extend(batch.actions);
        while let Some(first) = waiting.first_entry().filter(|first| first.get().0 == threads) {
            let (_, mut whole) = first.remove();
            whole.exchanges.sort_by_key(|exchange| exchange.observed.request.first);
            whole.sightings.sort_by_key(|sighting| sighting.observed.at);
            // What a client does in one packet keeps its order.
            whole.actions.sort_by_key(|action| action.observed.at);
            bytes += read.try_iter().sum::<u64>();
            receive(whole, bytes);
        }
    }
}

fn read_all(
    sources: Vec<PacketSource>,
    doors: &[SyncSender<Arc<PacketBatch>>],
    used: &Receiver<PacketBatch>,
    progress: &Sender<u64>,
    stop: &AtomicBool,
) -> Result<Dissected, SourceError> {
    let mut dissected = Dissected::default();
    let mut decoder = Decoder::default();
    let mut number = 0;
    let mut sources = Merged::new(sources);
    loop {
        let mut batch = used.try_recv().unwrap_or_else(|_| PacketBatch {
            number: 0,
            block: Block::default(),
            packets: vec![Vec::new(); doors.len()],
        });
        batch.packets.iter_mut().for_each(Vec::clear);
        if stop.load(Ordering::Relaxed) || !sources.next(&mut batch.block)? {
            break;
        }
        let records = std::mem::take(&mut batch.block.records);
        for record in &records {
            dissected.first = Some(dissected.first.map_or(record.at, |first| first.min(record.at)));
            dissected.last = Some(dissected.last.map_or(record.at, |last| last.max(record.at)));
            if let Some(packet) = decoder.packet(&mut batch.block, record) {
                let share = (packet.conversation_hash() >> 32) as usize % doors.len();
                batch.packets[share].push(packet);
            }
        }
        batch.block.records = records;
        batch.number = number;
        number += 1;
        // The caller may be gone only when a thread has panicked, which is told when they are joined.
        let _ = progress.send(batch.block.bytes.len() as u64);
        let batch = Arc::new(batch);
        for door in doors {
            let _ = door.send(Arc::clone(&batch));
        }
    }
    dissected.endings = sources.sources().map(PacketSource::ending).collect();
    decoder.finish();
    dissected.counts = decoder.counts;
    Ok(dissected)
}

fn work(
    share: usize,
    settings: Settings,
    batches: &Receiver<Arc<PacketBatch>>,
    back: &Sender<PacketBatch>,
    to_caller: &SyncSender<(u64, ObservationBatch)>,
) -> Tally {
    let mut table = Table::new(settings);
    let mut last = (0, Nanos::ZERO);
    for batch in batches {
        for packet in &batch.packets[share] {
            let bytes = batch.block.bytes.get(packet.offset as usize..).unwrap_or_default();
            let content = bytes.get(..packet.length as usize).unwrap_or_default();
            table.packet(packet, content);
            last.1 = packet.at;
        }
        last.0 = batch.number + 1;
        let _ = to_caller.send((batch.number, std::mem::take(&mut table.batch)));
        // The last one gives the memory back.
        if let Some(batch) = Arc::into_inner(batch) {
            let _ = back.send(batch);
        }
    }
    table.finish(last.1);
    let _ = to_caller.send((last.0, std::mem::take(&mut table.batch)));
    table.tally
}
