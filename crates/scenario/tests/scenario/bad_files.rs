//! How wrong scenarios are told: one snapshot for each.

use crate::support::{load, load_with};

/// A scenario without error, to which a test adds one.
const GOOD: &str = "\
name: baseline
platform: embedded
population: { devices: 100, subscribers: 2 }
load:
  levels: { from: 100, to: 500, step: 100 }
  hold: 10s
";

fn told(text: &str) -> String {
    load(text).map(|plan| format!("no error: {plan:?}")).unwrap_or_else(|found| found.to_string())
}

#[test]
fn wrong_files_are_told_with_place_and_remedy() {
    let with = |text: &str| format!("{GOOD}{text}");
    for (name, text) in [
        ("several errors at once", with("  holdd: 30s\n  modell: closed\nobjectivs: {}\n")),
        ("wrong words", GOOD.replace("levels", "model: opn\n  arrivals: poison\n  per: devise\n  levels")),
        (
            "wrong kinds",
            GOOD.replace("{ devices: 100, subscribers: 2 }", "[100, 2]").replace("10s", "{ of: 10s }"),
        ),
        ("wrong quantities", GOOD.replace("10s", "10").replace("500", "5k/m") + "message: { size: 1.5 B }\n"),
        ("missing keys", "name: empty\nload:\n  levels: { from: 100, to: 200 }\npopulation:\n".into()),
        ("numbers out of range", GOOD.replace("devices: 100", "devices: 0") + "  samples: 1\n  threads: 0\n"),
        ("wrong distribution", with("  arrivals: { gama: { shape: 2 } }\n")),
        ("parameter out of range", with("  arrivals: { uniform: { spread: 1.5 } }\n")),
        ("unknown objective", with("objectives: { publish_p98: \"< 5 ms\", delivered: \"> 101 %\" }\n")),
        ("objective without quotes", with("objectives:\n  delivered: >= 99.9 %\n")),
        ("key twice", with("  hold: 20s\n  hold: 30s\n")),
        ("not yaml", with("message: { size: 10\n")),
        (
            "keys of the other model",
            GOOD.replace("load:", "load:\n  model: closed") + "  arrivals: poisson\n",
        ),
        (
            "keys of the partly open model",
            GOOD.replace("load:", "load:\n  model: partly_open") + "  in_flight: [1]\n  spin: 30us\n",
        ),
        (
            "conflicts",
            GOOD.replace("from: 100", "from: 900").replace("10s", "100ms")
                + "mqtt: { receive_maximum: 5, password: { env: NOT_SET }, keep_alive: 1500ms }\n",
        ),
        ("password in the file", with("mqtt: { username: alice, password: sesame }\n")),
        ("profile near miss", GOOD.replace("embedded", "mosquito")),
        (
            "mqtt over websocket alone",
            GOOD.replace(
                "embedded",
                "{ profile: existing, address: \"ws://localhost/in\", protocol: websocket }",
            ) + "mqtt: { topic: a, qos: 0, tls: { verify: false } }\n",
        ),
        (
            "websocket without websocket",
            GOOD.replace(
                "embedded",
                "{ profile: existing, address: \"mqtt://localhost\", protocol: websocket }",
            ),
        ),
        (
            "unknown protocol",
            GOOD.replace(
                "embedded",
                "{ profile: existing, address: \"ws://localhost\", protocol: websockets }",
            ),
        ),
        ("address of a platform that is started", {
            let address = "{ profile: embedded, address: \"mqtt://localhost\" }";
            GOOD.replace("embedded", address)
        }),
        (
            "ports of a platform that is started",
            GOOD.replace("embedded", "{ profile: chain, ports: { bridge: 8080 } }"),
        ),
        ("no address", GOOD.replace("embedded", "existing")),
        ("relays that make no sense", {
            let relays = "brokr: { delay: 2m }, broker: { cut: { every: 1s, for: 1s }, half_open: 1us }";
            GOOD.replace("embedded", &format!("{{ profile: embedded, relays: {{ {relays} }} }}"))
        }),
        (
            "rate of a relay",
            GOOD.replace(
                "embedded",
                "{ profile: embedded, relays: { broker: { rate: 10mb, loss: 150 % } } }",
            ),
        ),
        (
            "logs of a platform that runs already",
            GOOD.replace("embedded", "{ profile: existing, address: \"mqtt://localhost\", logs: kept }"),
        ),
        ("logs in a folder without a name", GOOD.replace("embedded", "{ profile: embedded, logs: \" \" }")),
        (
            "relays of a platform that runs already",
            GOOD.replace(
                "embedded",
                "{ profile: existing, address: \"mqtt://localhost\", relays: { broker: { delay: 1ms } } }",
            ),
        ),
        (
            "quotas that make no sense",
            GOOD.replace("embedded", "{ profile: embedded, quotas: { brokr: 1, broker: 0 } }"),
        ),
        (
            "a quota that limits nothing",
            GOOD.replace("embedded", "{ profile: embedded, quotas: { broker: {} } }"),
        ),
        (
            "a quota of too little memory",
            GOOD.replace("embedded", "{ profile: embedded, quotas: { broker: { memory: 1 kB } } }"),
        ),
        ("load line above all levels", with("objectives: { load_line: \">= 9M/s\" }\n")),
        (
            "replicas that make no sense",
            GOOD.replace("embedded", "{ profile: embedded, replicas: { brokr: 2, broker: 0 } }"),
        ),
        (
            "prices that make no sense",
            with(
                "prices: { currency: USD, types: { small: -1, large: { price: 2, processors: 0 } }, \
                 components: { brokr: small, broker: smal }, others: { balancer: .nan } }\n",
            ),
        ),
        ("prices of a file that is missing", with("prices: { currency: USD, file: no.csv }\n")),
        ("prices of a file with a wrong row", with("prices: { currency: USD, file: wrong-prices.csv }\n")),
        (
            "words of a balancer",
            GOOD.replace(
                "embedded",
                "{ profile: embedded, balancers: { broker: { by: haproxy, policy: fast, mode: udp } } }",
            ),
        ),
        (
            "balancers that make no sense",
            GOOD.replace("embedded", "{ profile: embedded, balancers: { brokr: nginx, broker: haprox } }"),
        ),
        ("a balancer and a relay before a component", {
            let fronts = "relays: { broker: {} }, balancers: { broker: nginx }";
            GOOD.replace("embedded", &format!("{{ profile: embedded, {fronts} }}"))
        }),
        (
            "a balancer before what it does not understand",
            GOOD.replace(
                "embedded",
                "{ profile: ./both.yaml, balancers: { broker: { by: nginx, mode: http } } }",
            ),
        ),
        ("what a balancer lacks", {
            let balancer = "{ by: ./plain.yaml, policy: source_address, mode: http }";
            GOOD.replace("embedded", &format!("{{ profile: chain, balancers: {{ worker: {balancer} }} }}"))
        }),
        (
            "balancers of a platform that runs already",
            GOOD.replace(
                "embedded",
                "{ profile: existing, address: \"mqtt://localhost\", balancers: { broker: nginx } }",
            ),
        ),
        (
            "processors that make no sense",
            GOOD.replace("embedded", "{ profile: embedded, processors: { brokr: [0], broker: [] } }"),
        ),
        (
            "quotas of a platform that runs already",
            GOOD.replace(
                "embedded",
                "{ profile: existing, address: \"mqtt://localhost\", quotas: { broker: 0.5 } }",
            ),
        ),
        ("objectives at QoS 0", with("mqtt: { qos: 0 }\nobjectives: { publish_p99: \"< 5 ms\" }\n")),
        (
            "template",
            with("message:\n  template: |\n    { \"device\": {devise},\n      \"temperature\": 21 }\n"),
        ),
        (
            "template without marker",
            with("message: { template: \"temperature {random:1..6}\", marker: binary }\n"),
        ),
        ("topic", with("mqtt: { topic: \"a/+/{device}\" }\n")),
        (
            "filter",
            GOOD.replace("subscribers: 2", "subscribers: { count: 2, filters: [\"a/#/b\", \"{device}\"] }"),
        ),
        ("coarse precision", with("  precision: 2s\n  spin: 20ms\n")),
        (
            "mqtt over http",
            GOOD.replace("embedded", "{ profile: existing, address: \"http://localhost/in\" }")
                + "mqtt: { qos: 2 }\n",
        ),
        (
            "coap settings",
            GOOD.replace("embedded", "{ profile: existing, address: \"coap://localhost\" }")
                .replace("subscribers: 2", "subscribers: 0")
                + "coap: { block_size: 100, timeout: 0s, ack_timeout: 0s }\n",
        ),
        ("coap elsewhere", with("coap: { confirmable: false }\n")),
        (
            "coap path",
            GOOD.replace("embedded", "{ profile: existing, address: \"coap://localhost\" }")
                .replace("subscribers: 2", "subscribers: 0")
                + &format!("mqtt: {{ topic: \"a/{}/{{device}}\" }}\n", "x".repeat(256)),
        ),
        (
            "dtls without a secured address",
            GOOD.replace("embedded", "{ profile: existing, address: \"coap://localhost\" }")
                .replace("subscribers: 2", "subscribers: 0")
                + "coap: { dtls: { identity: a, key: b } }\n",
        ),
        (
            "coaps without a key",
            GOOD.replace("embedded", "{ profile: existing, address: \"coaps://localhost\" }")
                .replace("subscribers: 2", "subscribers: 0"),
        ),
        ("dtls", {
            let dtls = "identity: \"{devise}\", key: \"0xa{device}\", subscriber_key: { env: NONE }";
            GOOD.replace("embedded", "{ profile: existing, address: \"coaps://localhost\" }")
                + &format!("coap: {{ sockets: 2, dtls: {{ {dtls} }} }}\n")
        }),
        ("dtls of each device", {
            let dtls = "identity: \"d{device}\", key: \"0xa{device}\"";
            GOOD.replace("embedded", "{ profile: existing, address: \"coaps://localhost\" }")
                + &format!("coap: {{ dtls: {{ {dtls} }} }}\n")
        }),
        ("links", {
            let links = "link: { delay: 2m }, subscribers: { count: 2, link: { delay: 1ms, jitter: 2ms } }";
            GOOD.replace("subscribers: 2", links)
        }),
        ("sites and clocks", {
            let at = "at: \"the north\", subscribers: { count: 2, at: south, beside: devices }";
            GOOD.replace("subscribers: 2", at) + "clock_bound: 2s\n"
        }),
        ("source addresses", GOOD.replace("subscribers: 2", "source_addresses: [127.0.0.2, localhost]")),
        ("tls without a secured address", with("mqtt: { tls: { verify: false } }\n")),
        ("tls", {
            let files =
                "tls: { ca: ./mine.yaml, certificate: device.pem, server_name: \"a b\", verify: false }";
            let address = "{ profile: existing, address: \"mqtts://broker\" }";
            GOOD.replace("embedded", address) + &format!("mqtt: {{ {files} }}\n")
        }),
        ("certificates of each client", {
            let files = "certificate: \"certs/{device}.pem\", key: one.key, subscriber_key: \"{device}.key\"";
            let address = "{ profile: existing, address: \"mqtts://broker\" }";
            GOOD.replace("embedded", address) + &format!("mqtt: {{ tls: {{ {files} }} }}\n")
        }),
        ("template of a certificate", {
            let files = "certificate: \"{devise}.pem\", key: one.key";
            let address = "{ profile: existing, address: \"mqtts://broker\" }";
            GOOD.replace("embedded", address) + &format!("mqtt: {{ tls: {{ {files} }} }}\n")
        }),
        ("what MQTT 3.1.1 lacks", {
            let mqtt =
                "topic_alias: true, user_properties: { a: x }, session_expiry: 1m, will: { delay: 1s }";
            GOOD.replace("subscribers: 2", "subscribers: { count: 2, share: a/b }")
                + &format!("mqtt: {{ {mqtt} }}\n")
        }),
        ("wills and sessions", {
            let mqtt = "session: persistent, will: { topic: \"plimsoll/{run}/{device}\", payload: gone }";
            GOOD.replace("levels: { from: 100, to: 500, step: 100 }", "devices: [10]")
                + &format!("mqtt: {{ {mqtt} }}\n")
        }),
        ("shared filters", {
            let filters = "filters: [\"$share/a/x/{subscriber}\", \"$share/b/y\", z]";
            GOOD.replace("subscribers: 2", &format!("subscribers: {{ count: 2, {filters} }}"))
                + "mqtt: { version: \"5\" }\n"
        }),
        ("addresses", GOOD.replace("embedded", "{ profile: existing, address: \"mqtts://broker/mqtt\" }")),
        ("count twice", GOOD.replace("step: 100 }", "step: 100 }\n  messages: 5\n  cycles: 1")),
        ("count of a search", {
            let search = "search: { from: 1, to: 10 }\n  messages: 5";
            GOOD.replace("levels: { from: 100, to: 500, step: 100 }", search)
        }),
        ("cycles without turns", GOOD.replace("step: 100 }", "step: 100 }\n  cycles: 1")),
        ("few messages", GOOD.replace("step: 100 }", "step: 100 }\n  messages: 100")),
        ("count of idle devices", {
            GOOD.replace("levels: { from: 100, to: 500, step: 100 }", "devices: [10]\n  messages: 10")
        }),
        ("feed of both kinds", with("message: { feed: { file: rows.csv, city: { segments: 9 } } }\n")),
        ("feed of no kind", with("message: { feed: {}, template: \"{marker} {feed:lon}\" }\n")),
        ("feed of a city", {
            with("message: { feed: { city: {} }, template: \"{marker} {feed:longitude}\" }\n")
        }),
        ("faults", {
            let faults = "[{ kind: pase, at: 3s, for: 1s }, { kind: delay, at: 3s, fro: 1s }]";
            with(&format!("faults: {faults}\n"))
        }),
        ("faults that do not fit", {
            let faults = "
  - { kind: pause, at: 500ms, for: 1s }
  - { kind: kill, component: brokr, at: 3s, for: 1s }
  - { kind: restart, at: 3s, for: 1s }
  - { kind: pause, at: 4s, for: 5500ms }
  - { kind: cut, at: 5s }
  - { kind: loss, at: 5s, for: 1s }
  - { kind: processor, keep: 100 %, at: 6s, for: 1s, loss: 5 % }
  - { kind: half_open, at: 7s, for: 1s, level: 9 }
  - { kind: half_open, at: 7500ms, for: 1s }
";
            with(&format!("faults:{faults}"))
        }),
        ("retries", {
            let retry = "{ attempts: 1, timeout: 0s, backoff: { from: 2s, to: 1s } }";
            with(&format!("retry: {retry}\nmqtt: {{ qos: 0 }}\n"))
        }),
        ("profile file", GOOD.replace("embedded", "./broken.yaml")),
    ] {
        insta::assert_snapshot!(name.replace(' ', "_"), told(&text));
    }
}

#[test]
fn wrong_commands_are_told_with_place_and_remedy() {
    const BOTH: &str = "up: [./up.sh], down: [./down.sh]";
    for (platform, expected) in [
        (format!("address: \"mqtt://h\", command: {{ {BOTH} }}"), "remove the `address`, or the `command`"),
        ("command: { up: [./up.sh] }".to_owned(), "`down`"),
        ("command: { up: [], down: [./down.sh] }".to_owned(), "the list is empty"),
        ("command: { up: [\" \"], down: [./down.sh] }".to_owned(), "a program and its arguments"),
        (format!("command: {{ {BOTH}, then: [x] }}"), "then"),
        (format!("command: {{ {BOTH}, within: 5 }}"), "has no unit"),
        (format!("command: {{ {BOTH}, within: 0s }}"), "no command ends within zero time"),
        (format!("command: {{ {BOTH}, down_within: 0s }}"), "no command ends within zero time"),
        (format!("command: {{ {BOTH}, scheme: mqt }}"), "did you mean `mqtt`?"),
        (format!("command: {{ {BOTH}, scheme: coap }}, protocol: mqtt"), "there is none"),
        ("command: { up: [./up.sh, \"{size}\"], down: [./down.sh] }".to_owned(), "with: { size: \"3\" }"),
        (
            "with: { key: { env: BROKER_PASSWORD } }, command: { up: [./up.sh], down: [./down.sh, \"{key}\"] }"
                .to_owned(),
            "let the script read `$BROKER_PASSWORD`",
        ),
        (format!("with: {{ size: \"3\" }}, command: {{ {BOTH} }}"), "has no variable `size`"),
        (format!("between_runs: keep, command: {{ {BOTH} }}"), "brings the platform up for each run"),
        (format!("reset_command: [a], command: {{ {BOTH} }}"), "it would never be run"),
        (format!("relays: {{ broker: {{ delay: 1ms }} }}, command: {{ {BOTH} }}"), "starts no component"),
    ] {
        let told = told(&GOOD.replace("embedded", &format!("{{ profile: existing, {platform} }}")));
        let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(expected) && told.contains(" --> scenario.yaml:2:"), "{platform}: {told}");
    }
    let started = GOOD.replace("embedded", &format!("{{ profile: embedded, command: {{ {BOTH} }} }}"));
    assert!(told(&started).contains("starts its own platform and takes no `command`"), "{}", told(&started));
    let storm = GOOD.replace("embedded", &format!("{{ profile: existing, command: {{ {BOTH} }} }}"))
        + "  storm: { after: 1s, down: 1s }\n";
    assert!(told(&storm).contains("starts nothing that could be killed"), "{}", told(&storm));
}

#[test]
fn wrong_compose_files_and_manifests_are_told_with_place_and_remedy() {
    const COMPOSE: &str = "file: compose.yaml, service: broker, port: 1883";
    const MANIFESTS: &str = "files: broker.yaml, service: broker, port: 1883, context: test";
    for (platform, expected) in [
        ("compose: { service: broker, port: 1883 }".to_owned(), "`file`"),
        ("compose: { file: [], service: broker, port: 1883 }".to_owned(), "the list is empty"),
        ("compose: { file: [a.yaml, ' '], service: broker, port: 1883 }".to_owned(), "a file has a name"),
        ("compose: { file: a.yaml, service: broker, port: 0 }".to_owned(), "0"),
        ("compose: { file: a.yaml, service: -x, port: 1 }".to_owned(), "a name has letters, digits"),
        (format!("compose: {{ {COMPOSE}, with: ' ' }}"), "a program has a name"),
        (format!("compose: {{ {COMPOSE}, with: --x }}"), "begins with no `-`"),
        (format!("compose: {{ {COMPOSE}, ports: {{ http: '8080' }} }}"), "such as `broker:8080`"),
        (format!("compose: {{ {COMPOSE}, ports: {{ http: 'web:0' }} }}"), "such as `broker:8080`"),
        (format!("compose: {{ {COMPOSE}, scale: {{ broker: 2 }} }}"), "add a load balancer to the file"),
        (format!("compose: {{ {COMPOSE}, scale: {{ worker: 0 }} }}"), "from 1 to 1000"),
        (format!("compose: {{ {COMPOSE}, path: in }}"), "a path begins with `/`"),
        (format!("compose: {{ {COMPOSE}, scheme: mqt }}"), "did you mean `mqtt`?"),
        (format!("compose: {{ {COMPOSE}, within: 0s }}"), "no command ends within zero time"),
        (format!("compose: {{ {COMPOSE}, replicas: {{ worker: 2 }} }}"), "replicas"),
        (format!("address: 'mqtt://h', compose: {{ {COMPOSE} }}"), "remove the `address`, or the `compose`"),
        (
            format!("between_runs: keep, compose: {{ {COMPOSE} }}"),
            "`platform.compose` brings the platform up",
        ),
        (format!("quotas: {{ 'a b': 1 }}, compose: {{ {COMPOSE} }}"), "a name has letters, digits"),
        (
            format!("quotas: {{ worker: {{ processors: 1, period: 10ms }} }}, compose: {{ {COMPOSE} }}"),
            "remove the `period`",
        ),
        (
            format!("compose: {{ {COMPOSE} }}, manifests: {{ {MANIFESTS} }}"),
            "both `compose` and `manifests` bring the platform up",
        ),
        ("manifests: { files: a.yaml, service: broker, port: 1883 }".to_owned(), "`context`"),
        (format!("manifests: {{ {MANIFESTS}, ports: {{ http: 0 }} }}"), "ports have numbers from 1"),
        (format!("manifests: {{ {} }}", MANIFESTS.replace("test", "' '")), "a context has a name"),
    ] {
        let told = told(&GOOD.replace("embedded", &format!("{{ profile: existing, {platform} }}")));
        let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(expected) && told.contains(" --> scenario.yaml:2:"), "{platform}: {told}");
    }
    let started = GOOD.replace("embedded", &format!("{{ profile: embedded, compose: {{ {COMPOSE} }} }}"));
    assert!(told(&started).contains("takes no `compose`"), "{}", told(&started));
}

#[test]
fn a_wrong_override_is_shown_as_typed() {
    let told =
        load_with(GOOD, &["load.hold=10", "load.levels=[1, x]", "load.hald=1s", "name.x=1"]).unwrap_err();
    insta::assert_snapshot!("overrides", told);
}

#[test]
fn diagnostics_keep_to_80_columns() {
    let text = format!("{GOOD}  {}: 1\n  wrong: {}\n", "k".repeat(100), "v".repeat(100));
    let told = told(&text);
    // Only words that have no space to break at are longer.
    let long: Vec<&str> =
        told.lines().filter(|line| line.chars().count() > 80 && !line.contains("kkk")).collect();
    assert_eq!(long, Vec::<&str>::new());
}

#[test]
fn a_file_of_nothing_but_errors_is_told_in_part() {
    let text: String = (0..200_000).map(|number| format!("key{number}: 1\n")).collect();
    let found = load(&text).unwrap_err();
    assert_eq!(found.0.len(), 1000);
    assert!(found.to_string().ends_with("and 950 more errors\n"));
}
