//! What messages weigh part by part, retries by cause, and why times rose.

use crate::harness::{Bench, count, number};
use crate::http_service::{Fault, HttpService};
use crate::roles::PROFILE;

fn scenario(service: &HttpService, in_flight: &str) -> String {
    format!(
        "name: sizes\nplatform: {{ profile: ./things.yaml, address: \"{}\", clean_up: true }}\n\
        population: {{ devices: 4, subscribers: 1 }}\n\
        message: {{ size: 100 }}\n\
        load: {{ model: closed, in_flight: {in_flight}, hold: 2s, samples: 4, warm_up: 0s, drain: 2s }}\n\
        mqtt: {{ reconnect: {{ from: 10ms, to: 20ms }} }}\n\
        record: {{ network: true }}\n\
        objectives: {{ delivered: \">= 50 %\", publish_p99: null }}\n",
        service.url()
    )
}

/// Tests that measure.
mod alone {
    use super::*;

    #[test]
    fn requests_responses_and_notifications_have_their_parts() {
        let bench = Bench::new();
        bench.write("things.yaml", PROFILE);
        let service = HttpService::start([]);
        let finished = bench.run(&scenario(&service, "[1]")).exits(0);
        let level = finished.level(0);
        let sizes = &level["sizes"];
        for part in ["request", "response", "notification"] {
            // IPv4, TCP and its timestamps: each of these packets fits into one segment.
            assert_eq!(number(sizes, &[part, "transport_header"]), 52.0, "{sizes:#}");
            assert!(sizes[part]["security"].is_null());
        }
        // The envelope of the profile: `{"n":,"text":""}` and a number of one to five digits around 100 characters.
        let content = number(sizes, &["request", "content"]);
        assert!((117.0..123.0).contains(&content), "{sizes:#}");
        assert!(
            number(sizes, &["notification", "content"]) > content,
            "told with the thing's name around it"
        );
        let sent = count(level, "sent") as f64;
        let whole = number(sizes, &["request", "application_header"]) + content;
        assert!((whole - number(level, &["publication_size"])).abs() < 1e-6);
        // What went out and came in is at least the parts, and the network carried more than that: headers.
        let least = whole
            + number(sizes, &["response", "application_header"])
            + number(sizes, &["notification", "application_header"])
            + number(sizes, &["notification", "content"]);
        let carried = (number(level, &["bytes_sent"]) + number(level, &["bytes_received"])) / sent;
        assert!(carried >= 0.99 * least, "{carried} {least}");
        let data = number(sizes, &["data_per_message"]);
        // At least four packets with 52 bytes of headers each: both requests, both answers.
        assert!(data >= 0.99 * (least + 4.0 * 52.0) && data < 2.0 * least + 600.0, "{data} {least}");
        assert!(number(level, &["wire", "network_rtt", "n"]) >= 1.0, "asked once a second at least");
        finished.says("sizes (header + content): request");
    }

    #[test]
    fn retries_are_told_by_cause_with_their_delay() {
        let bench = Bench::new();
        let repeats = PROFILE.replace("    retry: [503]\n", "    retry: [503]\n    retry_lost: true\n");
        bench.write("things.yaml", &repeats);
        let faults =
            [(3, Fault::Status(503)), (5, Fault::Status(503)), (8, Fault::Close), (12, Fault::Garbage)];
        let service = HttpService::start(faults);
        let finished = bench.run(&scenario(&service, "[1]")).exits(0);
        let level = finished.level(0);
        assert_eq!(count(level, "repeated"), 4, "{level:#}");
        assert_eq!(level["retries"], serde_json::json!({ "503": 2, "connection lost": 2 }));
        // No retry comes before half of the shortest pause.
        assert!(number(level, &["retry_delay", "mean"]) >= 0.005, "{level:#}");
        assert_eq!(count(level, "acknowledged"), count(level, "sent"), "all of them came through in the end");
        // The service had stored one before it closed the connection: it stored it twice.
        let stored: usize = service.state().values.values().map(Vec::len).sum();
        assert!(stored as u64 > count(level, "sent"), "{stored}");
    }
}
