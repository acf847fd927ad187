//! What a resolved scenario keeps to itself: it is stored, printed and put into reports.

use super::metrics;
use plimsoll_codec::credentials::{HIDDEN, hide_query_secrets};
use serde_json::Value;

/// Hides keys, and what looks like a secret in the query of an address. `scenario` may also be one of several populations.
pub(crate) fn hide_secrets(scenario: &mut Value) {
    for address in ["/platform/address", "/platform/token/url"] {
        if let Some(Value::String(address)) = scenario.pointer_mut(address) {
            *address = hide_query_secrets(address);
        }
    }
    for key in ["/coap/dtls/key", "/coap/dtls/subscriber_key"] {
        if let Some(Value::String(key)) = scenario.pointer_mut(key) {
            HIDDEN.clone_into(key);
        }
    }
    let metrics = scenario.pointer_mut("/record/metrics").and_then(Value::as_array_mut);
    for url in metrics.into_iter().flatten().flat_map(metrics::urls) {
        *url = hide_query_secrets(url);
    }
    let parts = scenario.as_object_mut().into_iter().flatten().filter(|(key, _)| *key == "populations");
    for population in parts.filter_map(|(_, parts)| parts.as_array_mut()).flatten() {
        hide_secrets(population);
    }
}
