//! The NGSIv2 profile against the target: exact ledgers of its three mappings, forbidden characters, tokens, faults.

use crate::harness::{Bench, Finished, count, sent, until_valid};

fn scenario(platform: &str, message: &str) -> String {
    format!(
        "name: ngsi\nplatform: {platform}\nmessage: {message}\n\
        population: {{ devices: 20, subscribers: 3 }}\n\
        load: {{ model: closed, in_flight: [5], hold: 1s, samples: 2, warm_up: 0s, drain: 2s }}\n\
        mqtt: {{ reconnect: {{ from: 10ms, to: 20ms }} }}\n\
        objectives: {{ delivered: \">= 50 %\", publish_p99: null }}\n"
    )
}

/// A profile of a target with those options.
fn profile(options: &str) -> String {
    format!(
        "name: rehearsal\ntitle: a rehearsal\nlike: fiware-orion\ncomponents:\n\
        - name: target\n  ready_port: http\n  http_port: http\n\
        \x20 command: [\"{{plimsoll}}\", target, ngsi, --port, \"{{port:http}}\", --delay, 2ms{options}]\n"
    )
}

#[track_caller]
fn delivers_each_three_times(finished: &Finished) -> u64 {
    let level = finished.level(0);
    let sent = sent(level, 51..);
    assert_eq!(count(level, "acknowledged"), sent, "{level:#}");
    assert_eq!(count(level, "expected_deliveries"), 3 * sent);
    assert_eq!(count(level, "delivered") + count(level, "late"), 3 * sent, "{level:#}");
    for nothing in ["lost", "superseded", "duplicated", "foreign", "refused"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {level:#}");
    }
    // Only what was sent again may come behind a newer message.
    let repeated = level["repeated"].as_u64().unwrap_or_default();
    assert!(count(level, "reordered") <= 3 * repeated, "{level:#}");
    sent
}

#[test]
fn every_mapping_has_an_exact_ledger() {
    let bench = Bench::beside_others();
    for mapping in ["update", "create", "single"] {
        let platform = format!("{{ profile: ngsi-target, mapping: {mapping}, clean_up: true }}");
        let finished = until_valid(|| bench.run(&scenario(&platform, "{ size: 100 }")));
        delivers_each_three_times(&finished);
    }
}

#[test]
fn messages_survive_the_characters_that_are_forbidden() {
    let bench = Bench::beside_others();
    // As a text, quotes and parentheses included; then as a structured value, which a filter may look into.
    let text = "{ template: 'f(x) = \"{marker}\"; <b>' }";
    delivers_each_three_times(&bench.run(&scenario("ngsi-target", text)));
    let json = "{ template: '{\"m\":\"{marker}\",\"speed\":{random:5..9}}' }";
    let with = |condition: &str| {
        format!(
            "{{ profile: ngsi-target, with: {{ condition: '{{\"attrs\":[\"message\"],\"expression\":{{\"q\":\"{condition}\"}}}}', \
            attributes: '\"message\":{{\"type\":\"StructuredValue\",\"value\":{{message}}}}' }} }}"
        )
    };
    delivers_each_three_times(&bench.run(&scenario(&with("message.speed>=5"), json)));
    let finished = bench.run(&scenario(&with("message.speed>=7"), json));
    let level = finished.level(0);
    let (sent, delivered) = (count(level, "sent") as f64, count(level, "delivered") as f64);
    // Three of five speeds: 60 %, give or take some ten standard deviations.
    assert!((0.45..0.75).contains(&(delivered / (3.0 * sent))), "{delivered} of {sent}");
    // No contract excuses what a filter keeps back: whoever filters demands less.
    assert_eq!(
        (count(level, "superseded"), count(level, "lost_acknowledged")),
        (0, count(level, "lost")),
        "{level:#}"
    );
}

/// What a target leaves out between two notifications of a subscriber is no loss where the contract says that it may; where
/// it keeps longer silences than it promises, it is.
#[test]
#[ignore = "acceptance: faults"]
fn a_silence_between_notifications_excuses_what_falls_into_it() {
    let bench = Bench::beside_others();
    let run = |platform: &str| {
        bench.run(&format!(
            "name: throttled\nplatform: {platform}\npopulation: {{ devices: 20, subscribers: 2 }}\n\
             load: {{ arrivals: constant, levels: [100], hold: 3s, samples: 3, warm_up: 0s, drain: 1s }}\n\
             objectives: {{ publish_p99: null, delivered: null, achieved: null }}\n"
        ))
    };
    let finished = run("{ profile: ngsi-target, with: { throttling: \"0.5\" } }");
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert_eq!((count(level, "acknowledged"), count(level, "lost")), (sent, 0), "{level:#}");
    let (delivered, superseded) = (count(level, "delivered"), count(level, "superseded"));
    assert_eq!(delivered + superseded, 2 * sent, "{level:#}");
    // At most one every half second of hold and drain, the first at once, for each subscriber.
    assert!((2..=2 * 9).contains(&delivered), "{level:#}");
    // A second of silence where half of that is promised.
    let model = include_str!("../../../../platforms/fiware-orion.yaml");
    let liar = model.replace("name: fiware-orion\n", "name: liar\n");
    let liar = liar.replace("{ throttled: \"{throttling}s\" }", "{ throttled: 200ms }");
    let liar = liar.replace("throttling: \"0\"", "throttling: \"1\"");
    let components = profile("");
    let (_, components) = components.split_once("components:\n").unwrap();
    bench.write("liar.yaml", &liar.replace("components: []", &format!("components:\n{components}")));
    let finished = run("./liar.yaml");
    let level = finished.level(0);
    assert!(count(level, "lost") > 0 && count(level, "superseded") > 0, "{level:#}");
    let all = ["delivered", "late", "superseded", "lost"].map(|name| count(level, name));
    assert_eq!(all.iter().sum::<u64>(), count(level, "expected_deliveries"), "{level:#}");
}

/// The profile says what the broker takes: who sends more is told before, and finds the refusals in the ledger.
#[test]
fn messages_that_are_too_large_are_told_before_and_counted() {
    let bench = Bench::beside_others();
    let large = scenario("{ profile: ngsi-target, clean_up: true }", "{ size: 1MiB }");
    bench.write("large.yaml", &large);
    bench.call(["check", "large.yaml"]).exits(0).says("takes 1048576 B");
    let finished = bench.run(&large.replace("in_flight: [5]", "in_flight: [1]")).says("takes 1048576 B");
    let level = finished.level(0);
    assert!(count(level, "sent") > 0 && count(level, "refused") == count(level, "sent"), "{level:#}");
    finished.says("the platform answered 413");
}

#[test]
fn a_forbidden_character_is_refused_and_said() {
    let bench = Bench::beside_others();
    let plain = "{ profile: ngsi-target, with: { attributes: '\"message\":{\"type\":\"Text\",\"value\":\"{message:json}\"}' } }";
    let finished = bench.run(&scenario(plain, "{ template: 'a=b {marker}' }"));
    let level = finished.level(0);
    assert_eq!(count(level, "refused"), count(level, "sent"), "{level:#}");
    finished.says("Invalid characters in attribute value");
}

#[test]
fn a_token_opens_and_faults_are_sent_again() {
    let bench = Bench::beside_others();
    bench.write("rehearsal.yaml", &profile(", --token, open-sesame, --fail-every, \"7\""));
    let closed = bench.run(&scenario("./rehearsal.yaml", "{ size: 100 }")).exits(1);
    closed.says("was answered 401").says("X-Auth-Token");
    let open = "{ profile: ./rehearsal.yaml, with: { token: open-sesame }, clean_up: true }";
    let finished = bench.run(&scenario(open, "{ size: 100 }"));
    let sent = delivers_each_three_times(&finished);
    let repeated = count(finished.level(0), "repeated");
    // Each seventh request is answered 503, so of seven requests six are messages that were taken.
    assert!(repeated.abs_diff(sent / 6) <= 2 + sent / 100, "{repeated} of {sent}");
}
