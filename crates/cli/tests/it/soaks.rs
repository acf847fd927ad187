//! What grows through a quarter of an hour beside a real broker: five processes leak, each at a rate of its own, one opens descriptors,
//! and the others do not.

use crate::harness::Bench;
use serde_json::Value;
use std::time::Duration;

/// Holds so many bytes more a minute, every tenth of a second some of them.
const LEAK: &str = "
import sys, time
rate, kept = int(sys.argv[1]) / 600, bytearray()
begun, due = time.monotonic(), 0.0
while True:
    time.sleep(0.1)
    due += rate
    # Pages count as resident once they are written.
    kept.extend(b'x' * (int(due) - len(kept)))
";

/// Opens a file every ten seconds.
const OPEN: &str = "
import time
kept = []
while True:
    kept.append(open('/dev/null'))
    time.sleep(10)
";

/// Kibibytes a minute.
const RATES: [u32; 5] = [100, 120, 150, 200, 300];

fn profile() -> String {
    let script = |name: &str, arguments: &str| {
        format!(
            "- {{ name: {name}, command: [python3, \"{{dir}}/{name}.py\"{arguments}], files: {{ {name}.py: \"{{{name}}}\" }} }}\n"
        )
    };
    let mut text = String::from(
        "name: leaky
title: a broker beside processes that leak
components:
- name: broker
  command: [mosquitto, -c, \"{dir}/mosquitto.conf\"]
  files: { mosquitto.conf: \"listener {port:mqtt} 127.0.0.1\\nallow_anonymous true\\nuser root\\n\" }
  ready_port: mqtt
  mqtt_port: mqtt
",
    );
    for rate in RATES {
        let name = format!("leaks-{rate}");
        text +=
            &script(&name, &format!(", \"{}\"", rate * 1024)).replace(&format!("{{{name}}}"), &quoted(LEAK));
    }
    text += &script("opens", "").replace("{opens}", &quoted(OPEN));
    text + &script("stays", "").replace("{stays}", &quoted("import time\nwhile True: time.sleep(1)\n"))
}

/// As a text of YAML in double quotes.
fn quoted(script: &str) -> String {
    script.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[test]
#[ignore = "acceptance: leaks"]
fn five_leaks_and_open_files_are_found_and_nothing_else_is() {
    let bench = Bench::new();
    bench.write("leaky.yaml", &profile());
    let mut command = bench.run_command(
        "name: soak
platform: ./leaky.yaml
population: { devices: 20, subscribers: 1 }
load: { levels: [200], hold: 15m, samples: 30, warm_up: 10s, again: 0s }
",
    );
    let run = bench.start(&mut command).finish_within(Duration::from_secs(1200));
    let soaks = run.summary["soaks"].as_array().unwrap();
    let [soak] = soaks.as_slice() else { panic!("{soaks:#?}") };
    let grew = soak["grew"].as_array().unwrap();
    println!("{} quantities; {grew:#?}", soak["quantities"]);
    let of = |subject: &str, quantity: &str| -> Option<&Value> {
        grew.iter().find(|growth| growth["subject"] == subject && growth["quantity"] == quantity)
    };
    for rate in RATES {
        let growth = of(&format!("leaks-{rate}"), "memory").unwrap_or_else(|| panic!("{rate}: {grew:#?}"));
        let end = |place: usize| growth["interval"][place].as_f64().unwrap() / 1024.0;
        let expected = f64::from(rate);
        assert!(end(0) <= expected && expected <= end(1), "{growth:#}");
    }
    assert!(of("opens", "descriptors").is_some(), "{grew:#?}");
    assert_eq!(grew.len(), RATES.len() + 1, "{grew:#?}");
}
