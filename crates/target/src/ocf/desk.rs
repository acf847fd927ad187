//! What all the servers work with: connections, counts, the record.

use super::{OcfError, Seen};
use crate::ocf::links::Links;
use crate::record_file::{RecordFile, Unwritable};
use plimsoll_codec::cbor;
use plimsoll_codec::coap::{Message, OptionList, code, option};
use plimsoll_codec::marker::Marker;
use plimsoll_model::Nanos;
use serde_json::Value;

/// See the module.
pub struct Desk {
    pub links: Links,
    pub record: Option<RecordFile>,
    pub seen: Seen,
    /// When the present turn began.
    pub at: Nanos,
    /// Why the record could not be written, which ends the server.
    pub failed: Option<Unwritable>,
}

impl Desk {
    /// Answers a request. The path is repeated, as such servers do.
    pub fn answer(&mut self, link: u64, request: &Message<'_>, code: u8, payload: Option<&Value>) {
        let mut list = OptionList::new();
        for (number, value) in request.options().filter(|(number, _)| *number == option::URI_PATH) {
            list.add(number, value);
        }
        let mut body = Vec::new();
        if let Some(payload) = payload {
            list.add_number(option::CONTENT_FORMAT, cbor::CONTENT_FORMAT);
            cbor::write_json(payload, &mut body);
        }
        self.count(code);
        self.links.say(link, code, request.token, &list, &body);
    }

    /// Counts an answer.
    pub fn count(&mut self, code: u8) {
        match code >> 5 {
            2 => self.seen.answered += 1,
            _ => self.seen.refused += 1,
        }
    }

    /// Refuses a request.
    pub fn refuse(&mut self, link: u64, request: &Message<'_>, code: u8) {
        self.answer(link, request, code, None);
    }

    /// Writes a line of the record.
    pub fn note(&mut self, what: &str, link: u64, path: &str, payload: &[u8]) {
        let Some(record) = &mut self.record else { return };
        let marker = Marker::find_ascii(payload).map(|marker| {
            let mut text = Vec::new();
            marker.write_ascii(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        // A path is a client's word: it must not begin a column or a line.
        let path: String = path.chars().map(|c| if c == ',' || c.is_control() { '_' } else { c }).collect();
        let (at, connection, length) = (self.at.0, link >> 32, payload.len());
        let marker = marker.unwrap_or_default();
        if let Err(error) = record.write(format_args!("{at},{what},{connection},{path},{length},{marker}\n"))
        {
            self.failed.get_or_insert(error);
        }
    }

    /// Hands the record to the kernel.
    pub fn flush(&mut self) -> Result<(), OcfError> {
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        Ok(self.record.as_mut().map_or(Ok(()), RecordFile::flush)?)
    }
}

/// What a request says in CBOR, where that is a map.
pub fn map_of(request: &Message<'_>) -> Option<Value> {
    cbor::to_json(request.payload).ok().filter(Value::is_object)
}

/// A text of a map.
pub fn text<'a>(map: &'a Value, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The value of a name in the query. Several may stand in one option, divided by semicolons.
pub fn query(request: &Message<'_>, name: &str) -> Option<String> {
    let mut values = request.options().filter(|(number, _)| *number == option::URI_QUERY);
    let of_pair = |pair: &str| pair.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    values.find_map(|(_, value)| String::from_utf8_lossy(value).split(';').find_map(of_pair))
}

/// Whether a request asks to be notified (0), or not to be any more (1).
pub fn observe(request: &Message<'_>) -> Option<u32> {
    request.number(option::OBSERVE).filter(|_| request.code == code::GET)
}
