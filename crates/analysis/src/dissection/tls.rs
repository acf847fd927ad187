//! TLS: how many conversations, how many of them were opened, and why the others were not.

use plimsoll_capture::tally::Tally;
use plimsoll_capture::tls::Unopened;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Conversations under TLS. Those that were opened are counted as what is spoken in them, the others as `tls`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct TlsSummary {
    /// All of them, DTLS included.
    pub conversations: u64,
    /// Those that were opened, to their end.
    pub opened: u64,
    /// Those that were not, by the reason: `no_key`, `suite` (a version or suite that cannot be opened), `beginning` (their
    /// handshake is not in the capture), `hole` (the capture lacks too much), `early_data`, `broken` (a record is none, or not
    /// made with the key), `given_up` (to make room), `unfinished` (nothing was encrypted
    /// before the end), `dtls`.
    pub unopened: BTreeMap<String, u64>,
}

impl TlsSummary {
    /// Of what was counted.
    pub(super) fn of(tally: &Tally) -> TlsSummary {
        let unopened = tally.unopened.iter();
        TlsSummary {
            conversations: tally.opened + tally.unopened.values().sum::<u64>(),
            opened: tally.opened,
            unopened: unopened.map(|(reason, &count)| (reason.name().to_owned(), count)).collect(),
        }
    }

    /// Why some were not opened, in words.
    pub(super) fn doubts(&self) -> impl Iterator<Item = String> {
        let words = [
            (Unopened::NoKey, "no key log has their keys (dissect --keys FILE)"),
            (Unopened::Suite, "their version or suite of TLS is not known"),
            (Unopened::Beginning, "their handshake is not in the capture"),
            (Unopened::Hole, "the capture lacks too much of them; what was read before counts"),
            (
                Unopened::EarlyData,
                "a client's early data (0-RTT) cannot be read, and what follows not without it",
            ),
            (Unopened::Broken, "a record is none of TLS, or was not made with the key that is known"),
            (Unopened::Unfinished, "they ended before anything was encrypted"),
            (Unopened::Datagrams, "they are DTLS, which is not read"),
        ];
        words.into_iter().filter_map(|(reason, why)| {
            let count = self.unopened.get(reason.name())?;
            Some(format!("{count} conversations under TLS were not opened: {why}"))
        })
    }
}
