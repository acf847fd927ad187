//! How devices get new firmware: they download it block by block while they go on with their messages, and install it.

use super::{Devices, Event, Purpose, Rare, Standing};
use crate::drivers::lwm2m::firmware::{self, Download, Order, Outcome, RESULT, STATE, State};
use plimsoll_codec::coap::{Block, MOST_BLOCKS, Message, code, option};
use plimsoll_codec::lwm2m::Given;
use plimsoll_model::Nanos;

impl Devices {
    /// Does what a server wants done about the firmware of a device.
    pub(super) fn ordered(&mut self, slot: u32, order: Order, now: Nanos, events: &mut Vec<Event>) {
        match order {
            Order::Download => self.begin_download(slot, now, events),
            Order::Pushed(bytes) => {
                self.end_download(slot);
                self.stands(slot, State::Downloaded, Outcome::None);
                events.push(Event::Downloaded { took: None, bytes: bytes as u64 });
            }
            Order::Cancel => {
                self.end_download(slot);
                self.stands(slot, State::Idle, Outcome::None);
            }
            Order::Install => {
                self.stands(slot, State::Updating, Outcome::None);
                let at = now + self.plan.firmware.unwrap_or_default();
                self.rare(slot, |rare| rare.installs_at = Some(at));
                self.wake(slot);
            }
        }
    }

    pub(super) fn rare(&mut self, slot: u32, change: impl FnOnce(&mut Rare)) {
        if let Some(own) = self.devices.get_mut(slot as usize) {
            change(own.rare.get_or_insert_default());
        }
    }

    /// Notes how far a device is, which whoever observes it is notified of.
    fn stands(&mut self, slot: u32, state: State, outcome: Outcome) {
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        own.own.write(STATE, Given::Integer(state as i64));
        own.own.write(RESULT, Given::Integer(outcome as i64));
        own.observations.look_again(Nanos::ZERO);
        self.look_at_values(slot);
    }

    fn begin_download(&mut self, slot: u32, now: Nanos, events: &mut Vec<Event>) {
        self.end_download(slot);
        let written = self.devices.get(slot as usize).and_then(|own| own.own.written(firmware::PACKAGE_URI));
        let uri = match written {
            Some(Given::Text(uri)) => uri.to_string(),
            _ => String::new(),
        };
        let registered_at = self.devices.get(slot as usize).map_or(self.port, |own| own.port);
        let may_ask = |port: u16| !self.hears_one_port || port == registered_at;
        match firmware::place(&uri, (self.host, self.is_secured)) {
            Ok((port, _)) if !may_ask(port) => {
                let reason =
                    format!("it is at port {port}, and this device hears port {registered_at} alone");
                self.download_failed(slot, Outcome::InvalidUri, &reason, events);
            }
            Ok((port, target)) => {
                self.stands(slot, State::Downloading, Outcome::None);
                let block_size = self.block_size;
                let (block, is_asked, tag, bytes, restarts, began) = (0, false, None, 0, 0, now);
                let download =
                    Download { target, port, block, block_size, is_asked, tag, bytes, restarts, began };
                self.rare(slot, |rare| rare.download = Some(download));
            }
            Err(outcome) => {
                let reason =
                    format!("the server wants firmware from `{uri}`, and devices reach {} alone", self.host);
                self.download_failed(slot, outcome, &reason, events);
            }
        }
    }

    /// Asks for the block that a download waits for, if something more may be under way.
    pub(super) fn ask_for_block(&mut self, slot: u32, now: Nanos) {
        let outstanding = self.coap.outstanding as usize;
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        let may_ask = own.standing == Standing::Registered && own.under_way.len() < outstanding;
        let download = own.rare.as_mut().and_then(|rare| rare.download.as_mut());
        let Some(download) = download.filter(|download| may_ask && !download.is_asked) else { return };
        download.is_asked = true;
        let (port, block) = (download.port, Block::new(download.block, false, download.block_size));
        self.options.clear();
        self.options.add_target(download.target.as_bytes());
        self.options.add_number(option::BLOCK2, block.to_number());
        self.request((slot, port), (Purpose::Download, code::GET), &[], now);
    }

    /// The server has answered a request for a block.
    pub(super) fn downloaded(&mut self, slot: u32, answer: &Message<'_>, at: Nanos, events: &mut Vec<Event>) {
        let own = self.devices.get_mut(slot as usize);
        let download = own.and_then(|own| own.rare.as_mut()).and_then(|rare| rare.download.as_mut());
        let Some(download) = download else { return };
        if answer.code != code::CONTENT {
            let reason = format!("the server answered {} to a request for it", code::dotted(answer.code));
            return self.download_failed(slot, Outcome::InvalidUri, &reason, events);
        }
        let block = match (answer.option(option::BLOCK2), answer.block(option::BLOCK2)) {
            (Some(_), None) => {
                let reason = "the server answered with a block of no size";
                return self.download_failed(slot, Outcome::ConnectionLost, reason, events);
            }
            (_, block) => block.unwrap_or(Block::new(0, false, download.block_size)),
        };
        let tag = answer.option(option::ETAG).map(Box::from);
        if download.block > 0 && tag.is_some() && download.tag.is_some() && tag != download.tag {
            // Another image is there now.
            (download.block, download.bytes, download.tag) = (0, 0, None);
            download.restarts += 1;
            if download.restarts > firmware::MOST_RESTARTS {
                let reason = "it is another one each time";
                return self.download_failed(slot, Outcome::ConnectionLost, reason, events);
            }
            return self.dirty.push(slot);
        }
        let is_full = answer.payload.len() == usize::from(block.size());
        if block.begin() as u64 != download.bytes || (block.more && !is_full) {
            let reason = "the server answered another block than the one that was asked for";
            return self.download_failed(slot, Outcome::ConnectionLost, reason, events);
        }
        download.tag = tag.or(download.tag.take());
        download.bytes += answer.payload.len() as u64;
        if block.more && block.number + 1 >= MOST_BLOCKS {
            let reason = "it has more blocks than CoAP can number";
            return self.download_failed(slot, Outcome::TooLarge, reason, events);
        }
        if block.more {
            // A server may have smaller blocks than were asked for: numbers count those.
            (download.block, download.block_size) = (block.number + 1, block.size());
            return self.dirty.push(slot);
        }
        let (took, bytes) = (at - download.began, download.bytes);
        self.end_download(slot);
        self.stands(slot, State::Downloaded, Outcome::None);
        events.push(Event::Downloaded { took: Some(took), bytes });
    }

    pub(super) fn download_failed(
        &mut self,
        slot: u32,
        outcome: Outcome,
        reason: &str,
        events: &mut Vec<Event>,
    ) {
        self.end_download(slot);
        self.stands(slot, State::Idle, outcome);
        events.push(Event::DownloadFailed {
            reason: format!("a device could not download firmware: {reason}"),
        });
    }

    /// Whatever is under way about firmware is over.
    fn end_download(&mut self, slot: u32) {
        let asked = self
            .under_way(slot)
            .into_iter()
            .find(|place| self.exchanges.get(*place).is_some_and(|own| own.purpose == Purpose::Download));
        let _ = asked.and_then(|place| self.end(place));
        if let Some(rare) = self.devices.get_mut(slot as usize).and_then(|own| own.rare.as_mut()) {
            (rare.download, rare.installs_at) = (None, None);
        }
    }

    /// A device has installed what it had: it says so, and that it is still there.
    pub(super) fn installed(&mut self, slot: u32, now: Nanos) {
        self.stands(slot, State::Idle, Outcome::Success);
        self.update(slot, false, now);
    }
}
