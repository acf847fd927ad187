//! Markers of a run on the wire: found behind the broker too, and missed aloud.

use crate::harness::{Bench, count};
use crate::mosquitto::Mosquitto;
use serde_json::Value;

fn path(summary: &Value) -> Vec<(String, String)> {
    let phases = summary["dissection"]["phases"].as_array().unwrap();
    let level = phases.iter().find(|phase| phase["measured"] == true).unwrap();
    let steps = level["ways"]["path"].as_array().unwrap();
    let text = |step: &Value, key: &str| step[key].as_str().unwrap().to_owned();
    steps.iter().map(|step| (text(step, "from"), text(step, "to"))).collect()
}

/// Binary markers, MQTT's default, are followed over the bridge: a connection that one broker has opened to the other before
/// the run, and of which the scenario says nothing.
#[test]
fn the_second_leg_of_bridged_brokers_is_followed() {
    let bench = Bench::beside_others();
    let behind = Mosquitto::start(&bench, "allow_anonymous true\n");
    let bridge = format!("connection bridge\naddress 127.0.0.1:{}\ntopic # out 0\n", behind.port());
    let front = Mosquitto::start(&bench, &format!("allow_anonymous true\n{bridge}"));
    for known in [false, true] {
        let components = match known {
            true => format!(
                ", components: [{{ name: front, port: {} }}, {{ name: behind, port: {} }}]",
                front.port(),
                behind.port()
            ),
            false => String::new(),
        };
        let scenario = format!(
            "name: bridged\nplatform: {{ profile: existing, address: \"mqtt://127.0.0.1:{}\"{components} }}\n\
             population: {{ devices: 5, subscribers: 1 }}\n\
             load: {{ levels: [100], warm_up: 500ms, hold: 3s, samples: 4, drain: 2s }}\n",
            front.port()
        );
        let run = bench.start(bench.run_command(&scenario).arg("--capture")).finish();
        assert!(count(&run.summary["dissection"]["messages"], "marked") > 200, "{}", run.stdout);
        let path = path(&run.summary);
        let [first, second] = if known {
            ["front".to_owned(), "behind".to_owned()]
        } else {
            ["mosquitto".to_owned(), format!("127.0.0.1:{}", behind.port())]
        };
        assert!(path.contains(&(first, second)), "{path:?}");
    }
}

#[test]
fn markers_that_are_not_found_are_missed_aloud() {
    let bench = Bench::beside_others();
    let scenario = "name: unseen\nplatform: mosquitto\npopulation: { devices: 5, subscribers: 1 }\n\
                    load: { levels: [50], warm_up: 500ms, hold: 1s, samples: 4, drain: 1s }\n\
                    record: { capture: { filter: \"port 9\" } }\n";
    let run = bench.start(&mut bench.run_command(scenario)).finish();
    let notes = run.summary["dissection"]["notes"].to_string();
    assert!(notes.contains("no marker of this run was found on the wire"), "{notes}");
    assert_eq!(run.summary["dissection"]["losses_by_component"], serde_json::json!({}));
}
