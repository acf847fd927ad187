//! Several captures as one, by time.

use crate::source::{Block, PacketSource, Record, SourceError};

/// Bytes put together at once.
const BLOCK: usize = 1 << 20;

/// Captures that are read side by side: of several networks, or the parts of a ring.
pub struct Merged {
    parts: Vec<Part>,
}

struct Part {
    source: PacketSource,
    block: Block,
    /// The next record in the block.
    next: usize,
    ended: bool,
}

impl Merged {
    /// All of them.
    pub fn new(sources: Vec<PacketSource>) -> Merged {
        let part = |source| Part { source, block: Block::default(), next: 0, ended: false };
        let mut parts: Vec<Part> = sources.into_iter().map(part).collect();
        let many = parts.len();
        parts.iter_mut().for_each(|part| part.source.among(many));
        Merged { parts }
    }

    /// The next stretch, in a block that was used before; `false` at the end. Each capture's own order is kept, also where
    /// its clock was set.
    pub fn next(&mut self, block: &mut Block) -> Result<bool, SourceError> {
        if let [part] = &mut self.parts[..] {
            return part.source.next(block);
        }
        block.bytes.clear();
        block.records.clear();
        while block.bytes.len() < BLOCK {
            for part in &mut self.parts {
                part.fill()?;
            }
            let first = self
                .parts
                .iter_mut()
                .filter(|part| !part.ended)
                .min_by_key(|part| part.record().map(|next| next.at));
            let Some((part, record)) = first.and_then(|part| part.record().map(|record| (part, record)))
            else {
                break;
            };
            let offset = block.bytes.len() as u32;
            let begin = record.offset as usize;
            let bytes = part.block.bytes.get(begin..begin + record.captured as usize).unwrap_or_default();
            block.bytes.extend_from_slice(bytes);
            block.records.push(Record { offset, ..record });
            part.next += 1;
        }
        Ok(!block.records.is_empty())
    }

    /// The captures.
    pub fn sources(&self) -> impl Iterator<Item = &PacketSource> {
        self.parts.iter().map(|part| &part.source)
    }
}

impl Part {
    fn record(&self) -> Option<Record> {
        self.block.records.get(self.next).copied()
    }

    /// Sees to it that there is a next record, where there is one.
    fn fill(&mut self) -> Result<(), SourceError> {
        if self.record().is_none() && !self.ended {
            self.ended = !self.source.next(&mut self.block)?;
            self.next = 0;
        }
        Ok(())
    }
}
