//! Exchanges as spans in OTLP's JSON form (OpenTelemetry Protocol 1.x, one `TracesData` object a line), which Jaeger, Grafana
//! Tempo and the OpenTelemetry collector's file receiver read. Exchanges with the same marker are one trace.

use plimsoll_capture::component::Components;
use plimsoll_capture::dissect::Side;
use plimsoll_capture::heard::Exchange;
use plimsoll_capture::marker::Search;
use plimsoll_capture::table::Located;
use plimsoll_model::wire::Outcome;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A span is made by who asks (OTLP's SpanKind).
const CLIENT: u8 = 3;
/// OTLP's StatusCode.
const OK: u8 = 1;
const ERROR: u8 = 2;

/// Makes spans, numbered so that each is told apart.
#[derive(Debug, Default)]
pub struct Spans {
    made: u64,
}

impl Spans {
    /// One `TracesData` object of all those exchanges, on one line.
    pub fn line(
        &mut self,
        exchanges: &[Located<Exchange>],
        components: &Components,
        search: &Search,
    ) -> String {
        let mut by_service: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for exchange in exchanges {
            self.made += 1;
            let [asks, asked] = exchange.asker_and_asked().map(|party| components.name(&party));
            by_service.entry(asks).or_default().push(self.span(exchange, &asked, search));
        }
        let resources: Vec<Value> = by_service
            .into_iter()
            .map(|(service, spans)| {
                json!({
                    "resource": { "attributes": [text("service.name", &service)] },
                    "scopeSpans": [{ "scope": { "name": "plimsoll" }, "spans": spans }],
                })
            })
            .collect();
        let mut line = json!({ "resourceSpans": resources }).to_string();
        line.push('\n');
        line
    }

    fn span(&self, exchange: &Located<Exchange>, asked: &str, search: &Search) -> Value {
        let heard = &exchange.heard;
        let end =
            heard.response.map_or(heard.request.last, |response| response.last).max(heard.request.first);
        let (ours, theirs) = match heard.requester {
            Side::Client => (exchange.client, exchange.server),
            Side::Server => (exchange.server, exchange.client),
        };
        let mut attributes = vec![
            text("rpc.system", exchange.protocol.name()),
            text("peer.service", asked),
            text("network.local.address", &ours.ip().to_string()),
            number("network.local.port", u64::from(ours.port)),
            text("server.address", &theirs.ip().to_string()),
            number("server.port", u64::from(theirs.port)),
            text("plimsoll.outcome", heard.outcome.name()),
            number("plimsoll.request.bytes", heard.request.bytes),
        ];
        if let Some(response) = heard.response {
            attributes.push(number("plimsoll.response.bytes", response.bytes));
            attributes.push(text("plimsoll.status", heard.status.as_str()));
        }
        let trace = match heard.marker {
            Some(marker) => {
                attributes.push(text("plimsoll.device", &search.name(marker.device)));
                attributes.push(number("plimsoll.sequence", marker.sequence));
                // Never that of an exchange without a marker.
                u128::from(marker.device) << 64 | u128::from(marker.sequence) | 1 << 127
            }
            None => u128::from(self.made) | 1 << 126,
        };
        let status = match heard.outcome {
            Outcome::Answered | Outcome::OneWay => json!({ "code": OK }),
            Outcome::Failed => json!({ "code": ERROR, "message": heard.status.as_str() }),
            Outcome::Unanswered => json!({ "code": ERROR, "message": "unanswered" }),
            Outcome::Unknown => json!({}),
        };
        json!({
            "traceId": format!("{trace:032x}"),
            "spanId": format!("{:016x}", self.made),
            "name": format!("{} {}", exchange.protocol.name(), heard.verb),
            "kind": CLIENT,
            "startTimeUnixNano": heard.request.first.0.to_string(),
            "endTimeUnixNano": end.0.to_string(),
            "attributes": attributes,
            "status": status,
        })
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}
