//! Response times of the wire beside those that the clients of a capture have measured themselves.

use crate::Reading;
use plimsoll_capture::heard::Exchange;
use plimsoll_model::wire::Protocol;
use serde_json::Value;
use std::collections::BTreeMap;

/// A client's clock is read before it sends and after it has received, with its own work between clock and wire; on a machine
/// that is shared it may also be made to wait there. So much is allowed of the median, and far more of each.
const OWN_WORK: f64 = 0.001;
const MADE_TO_WAIT: f64 = 0.25;
/// Stamps of clients and of the capture are in microseconds.
const ROUNDING: f64 = 0.000_005;

/// Pairs the exchanges of a truth with those of a protocol that were heard, by client and verb in the order of their sending, and
/// demands that each took no longer on the wire than its client says, and the median hardly less. `verb` is the verb as heard of
/// an exchange of the truth. Returns how many were compared.
pub fn agree(
    reading: &Reading,
    truth: &Value,
    protocol: Protocol,
    verb: impl Fn(&Value) -> Option<String>,
) -> usize {
    let mut told: BTreeMap<(u64, String), Vec<[f64; 3]>> = BTreeMap::new();
    for exchange in truth["exchanges"].as_array().unwrap() {
        let (Some(verb), Some(sent)) = (verb(exchange), exchange["t_send"].as_f64()) else { continue };
        let received = exchange["t_recv"].as_f64().unwrap_or(f64::NAN);
        told.entry((exchange["client_port"].as_u64().unwrap_or(0), verb)).or_default().push([
            sent,
            received,
            exchange["planted_delay_s"].as_f64().unwrap_or(0.0),
        ]);
    }
    let mut heard: BTreeMap<(u64, String), Vec<Exchange>> = BTreeMap::new();
    for exchange in reading.exchanges.iter().filter(|exchange| exchange.protocol == protocol) {
        let verb = exchange.heard.verb.to_string();
        let port = u64::from(exchange.client.port);
        for port in [port, 0].into_iter().filter(|&port| told.contains_key(&(port, verb.clone()))) {
            heard.entry((port, verb.clone())).or_default().push(exchange.heard);
        }
    }
    let mut own = Vec::new();
    for (key, mut told) in told {
        let mut heard = heard.remove(&key).unwrap_or_default();
        assert_eq!(heard.len(), told.len(), "{key:?}");
        told.sort_by(|one, other| one[0].total_cmp(&other[0]));
        heard.sort_by_key(|exchange| exchange.request.first);
        for ([sent, received, planted], exchange) in told.into_iter().zip(heard) {
            assert_eq!(received.is_nan(), exchange.response.is_none(), "{key:?} sent at {sent}");
            let Some(response) = exchange.response else { continue };
            let wire = (response.last - exchange.request.last).as_secs_f64();
            assert!(
                wire > planted - ROUNDING,
                "{key:?} sent at {sent}: {wire} s on the wire, {planted} s planted"
            );
            // A client that took no time of an exchange gives the same twice.
            if received == sent {
                continue;
            }
            let spare = received - sent - wire;
            assert!(
                (-ROUNDING..MADE_TO_WAIT).contains(&spare),
                "{key:?} sent at {sent}: {wire} s on the wire, {spare} s less"
            );
            own.push(spare);
        }
    }
    own.sort_by(f64::total_cmp);
    assert!(own[own.len() / 2] < OWN_WORK, "half of them {} s shorter on the wire", own[own.len() / 2]);
    own.len()
}
