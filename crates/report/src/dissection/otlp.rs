//! Exchanges as spans in OTLP's JSON form (OpenTelemetry Protocol 1.x, one `TracesData` object a line), which Jaeger, Grafana
//! Tempo and the OpenTelemetry collector's file receiver read. Exchanges with the same marker are one trace.

use plimsoll_analysis::exchange::ExchangeRow;
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
    pub fn line(&mut self, rows: &[ExchangeRow]) -> String {
        let mut by_service: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for row in rows {
            self.made += 1;
            let [(asks, _), _] = row.asker_and_asked();
            by_service.entry(asks.clone()).or_default().push(self.span(row));
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

    fn span(&self, row: &ExchangeRow) -> Value {
        let end = row.response.map_or(row.request.last, |response| response.last).max(row.request.first);
        let [(_, ours), (asked, theirs)] = row.asker_and_asked();
        let mut attributes = vec![
            text("rpc.system", row.protocol),
            text("peer.service", asked),
            text("network.local.address", &ours.ip().to_string()),
            number("network.local.port", u64::from(ours.port())),
            text("server.address", &theirs.ip().to_string()),
            number("server.port", u64::from(theirs.port())),
            text("plimsoll.outcome", row.outcome.name()),
            number("plimsoll.request.bytes", row.request.bytes),
        ];
        if let Some(response) = row.response {
            attributes.push(number("plimsoll.response.bytes", response.bytes));
            attributes.push(text("plimsoll.status", &row.status));
        }
        let trace = match &row.message {
            Some(message) => {
                attributes.push(text("plimsoll.device", &message.device));
                attributes.push(number("plimsoll.sequence", message.sequence));
                // Never that of an exchange without a marker.
                u128::from(message.number) << 64 | u128::from(message.sequence) | 1 << 127
            }
            None => u128::from(self.made) | 1 << 126,
        };
        let status = match row.outcome {
            Outcome::Answered | Outcome::OneWay => json!({ "code": OK }),
            Outcome::Failed => json!({ "code": ERROR, "message": &row.status }),
            Outcome::Unanswered => json!({ "code": ERROR, "message": "unanswered" }),
            Outcome::Unknown => json!({}),
        };
        json!({
            "traceId": format!("{trace:032x}"),
            "spanId": format!("{:016x}", self.made),
            "name": format!("{} {}", row.protocol, row.verb),
            "kind": CLIENT,
            "startTimeUnixNano": row.request.first.0.to_string(),
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
