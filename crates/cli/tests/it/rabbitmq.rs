//! AMQP 0-9-1: a real RabbitMQ.

use crate::harness::{Bench, Finished, count};

const LOAD: &str = "\
load: { arrivals: constant, levels: [200], hold: 2s, samples: 4, warm_up: 200ms, drain: 2s }
objectives: { publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }
";

/// Sent = acknowledged, and each subscriber has everything.
#[track_caller]
fn assert_adds_up(run: &Finished, level: usize, copies: u64) {
    let level = run.level(level);
    let sent = count(level, "sent");
    assert!((350..=440).contains(&sent), "{level:#}");
    assert_eq!(count(level, "acknowledged"), sent, "{level:#}");
    assert_eq!(count(level, "delivered"), sent * copies, "{level:#}");
    let other = ["lost", "late", "duplicated", "reordered", "foreign", "reconnects"];
    assert_eq!(other.map(|name| count(level, name)), [0; 6], "{level:#}");
}

#[test]
fn confirms_and_deliveries_add_up_also_where_devices_speak_mqtt() {
    let bench = Bench::beside_others();
    let run = bench.run(&format!(
        "name: rabbit\nplatform: rabbitmq\nconnection: {{ timeout: 20s }}\n\
         populations:\n\
         \x20 - {{ name: own, devices: 10, message: {{ target: 'city.{{run}}.{{device}}', size: 40 }} }}\n\
         \x20 - {{ name: mqtt, devices: 10, platform: {{ mapping: mqtt }}, message: {{ target: 'city/{{run}}/{{device}}' }} }}\n\
         subscribers: {{ count: 2, filters: ['city/#'] }}\n{LOAD}"
    ));
    assert_adds_up(&run.judged(), 0, 2);
}
