//! Brokers that are not there, refuse, are silent, die, flood and lie. What was measured is kept.

use crate::harness::{Bench, Finished, RESULTS, STORE, count, on_a_calm_host};
use crate::mosquitto::{Mosquitto, PASSWORD};
use crate::scripted_broker::{Acknowledge, Fault, Script, ScriptedBroker};
use std::fs;
use std::net::TcpListener;

/// Constant arrivals, so that a level at R/s has R - 1 messages in its second and none of them in its last moment.
/// p99 needs a thousand observations, which these levels do not have; the objective on p50 is so wide that a
/// generator which a shared machine delays by less than a second is not blamed.
fn scenario(broker: &ScriptedBroker, mqtt: &str, levels: &str) -> String {
    format!(
        "name: bad day
platform: {}
population: {{ devices: 2, subscribers: 1 }}
mqtt: {{ {mqtt} }}
load: {{ arrivals: constant, levels: {levels}, warm_up: 0s, hold: 1s, samples: 5, drain: 500ms }}
objectives: {{ publish_p99: null, publish_p50: \"< 10 s\" }}
",
        broker.platform()
    )
}

/// Runs a small load on a broker that follows a script.
fn run(script: &Script, mqtt: &str, levels: &str) -> Finished {
    on_a_calm_host(|| {
        let broker = ScriptedBroker::start(script.clone());
        Bench::new().run(&scenario(&broker, mqtt, levels))
    })
}

#[test]
fn a_broker_that_may_open_too_few_files_is_told_with_its_limit() {
    let bench = Bench::beside_others();
    let broker = Mosquitto::start(&bench, "allow_anonymous true\n");
    broker.limit_open_files(40);
    let address = format!("mqtt://127.0.0.1:{}", broker.port());
    let load = ["--devices", "60", "--rate", "60", "--set", "mqtt.connect_timeout=1s", "--no-report"];
    let told = bench.call(["run", &address].into_iter().chain(load)).said();
    assert!(told.contains("may open 40 files, but 60 connections are to be made"), "{told}");
    assert!(told.contains("ulimit -n 128"), "{told}");
}

/// The quick form of a small load.
fn quick(url: &str) -> Vec<&str> {
    let mut arguments =
        vec!["run", url, "--devices", "2", "--rate", "100", "--hold", "1s", "--warm-up", "0s"];
    arguments.extend([
        "--samples",
        "5",
        "--drain",
        "500ms",
        "--arrivals",
        "constant",
        "--objective",
        "publish_p50 < 10 s",
    ]);
    arguments.extend(["--set", "objectives.publish_p99=null"]);
    arguments.extend(RESULTS);
    arguments
}

#[test]
fn an_unreachable_host_fails_the_run_and_is_stored() {
    // A port that was free a moment ago and on which nobody listens.
    let address = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let bench = Bench::beside_others();
    let run = bench.call(quick(&format!("mqtt://{address}"))).exits(1);
    let run = run.says("Connection refused").says("0 of 2 clients connected");
    assert_eq!(run.summary["verdict"], "failed");
    assert_eq!(run.levels().len(), 0);
    bench.call(["show", "--store", STORE]).exits(0).says("Connection refused");
}

#[test]
fn a_host_name_that_does_not_resolve_fails_the_run() {
    // RFC 6761 section 6.4: `.invalid` never resolves.
    let bench = Bench::beside_others();
    let run = bench.call(quick("mqtt://no-such-broker.invalid:1883")).exits(1);
    run.says("cannot resolve no-such-broker.invalid:1883");
}

#[test]
fn a_wrong_password_fails_the_run_with_the_brokers_reason_and_stays_secret() {
    const WRONG: &str = "wrong-battery-5093";
    let bench = Bench::beside_others();
    let mosquitto = Mosquitto::with_password(&bench);
    let url = mosquitto.url();
    for (password, code, version) in [(WRONG, 1, "3.1.1"), (WRONG, 1, "5"), (PASSWORD, 0, "3.1.1")] {
        let mut arguments = quick(&url);
        arguments.extend(["--mqtt", version]);
        let mut command = bench.plimsoll(arguments);
        command.env("PLIMSOLL_PASSWORD", password);
        let mut run = bench.start(&mut command).finish();
        // A run that the broker lets in may be too short for a busy machine to decide.
        run = if code == 0 { run.judged() } else { run.exits(code) };
        if code == 1 {
            // MQTT 3.1.1 table 3.1: code 5; MQTT 5 section 3.2.2.2: 0x87, which is 135. Both are "not authorized".
            let said = run.said().to_lowercase();
            run = run.says(if version == "5" { "code 135" } else { "code 5" });
            assert!(said.contains("not authori"), "{said}");
        }
        let written =
            bench.files().into_iter().filter(|name| name.starts_with("runs.db") || name == "summary.json");
        let contents: Vec<u8> = written.flat_map(|name| fs::read(bench.path(&name)).unwrap()).collect();
        assert!(
            contents.windows(7).any(|bytes| bytes == b"captain"),
            "the user's name is stored, no password"
        );
        for (place, text) in [("output", run.said().into_bytes()), ("store or summary", contents)] {
            let leaked = text.windows(password.len()).any(|bytes| bytes == password.as_bytes());
            assert!(!leaked, "the password stands in the {place}");
        }
    }
}

#[test]
fn a_broker_that_refuses_the_101st_client_fails_the_run_and_the_number_is_told() {
    // MQTT 3.1.1 table 3.1: 3 is "server unavailable".
    let script = Script { refuse_from: Some((101, 3)), ..Script::default() };
    let broker = ScriptedBroker::start(script);
    let scenario = scenario(&broker, "", "[100]").replace("devices: 2", "devices: 150");
    let run = Bench::beside_others().run(&scenario).exits(1);
    // The subscriber is one of the hundred.
    run.says("100 of 151 clients connected").says("code 3");
}

/// A run whose clients wait for a second to be connected.
fn fail_to_connect(script: Script) -> Finished {
    let broker = ScriptedBroker::start(script);
    Bench::beside_others().run(&scenario(&broker, "connect_timeout: 1s", "[100]"))
}

#[test]
fn a_broker_that_accepts_and_never_answers_fails_the_run_and_is_told_from_a_closed_port() {
    let script = Script { silent: true, ..Script::default() };
    let run = fail_to_connect(script).exits(1);
    run.says(
        "accepted but MQTT was not answered within 1.00 s; that port may speak another protocol than that of `mqtt://`",
    );
}

#[test]
fn a_broker_that_answers_connect_and_not_subscribe_is_not_said_to_be_silent() {
    let script = Script { no_suback: true, ..Script::default() };
    let run = fail_to_connect(script).exits(1);
    run.says("the platform accepted the client but SUBSCRIBE was not answered within 1.00 s");
}

/// Tests that measure.
mod alone {
    use super::*;

    #[test]
    fn a_broker_that_dies_in_mid_level_has_missed_that_level_and_higher_ones_are_not_run() {
        // 99 messages in the first level; the broker dies with the 50th of the second.
        let script = Script { die_at: Some(99 + 50), ..Script::default() };
        // Its death is the headline; the load line that was found before it stays.
        let run = run(&script, "", "[100, 200, 300]").exits(99).says("died at 200/s");
        assert_eq!(run.levels().len(), 2, "the third level would tell nothing");
        assert_eq!((&run.level(0)["verdict"], &run.level(1)["verdict"]), (&"met".into(), &"missed".into()));
        assert_eq!(run.summary["load_line"]["rate"], 100.0);
        assert_eq!(run.summary["load_line"]["at_least"], true, "what killed it need not have been the load");
        // 49 were answered before; those that were due afterwards are all accounted for.
        let level = run.level(1);
        assert_eq!(
            (count(level, "due"), count(level, "acknowledged"), count(level, "delivered")),
            (199, 49, 49)
        );
        assert_eq!(count(level, "sent") + count(level, "unsent"), 199);
        assert!(count(level, "disconnected") >= 2, "{level:#}");
        assert!(level["incident"].is_string());
    }

    #[test]
    fn a_broker_that_dies_in_the_lowest_level_misses_the_run() {
        let script = Script { die_at: Some(50), ..Script::default() };
        let run = run(&script, "", "[100, 200]").exits(99);
        assert_eq!(run.levels().len(), 1);
        assert_eq!(count(run.level(0), "delivered"), 49);
    }

    #[test]
    fn a_flood_of_foreign_messages_is_counted_and_the_run_ends_as_ever() {
        // 200 foreign messages before each of 99 deliveries: 20,000 a second that nobody asked for.
        let script = Script { flood: 200, ..Script::default() };
        let run = run(&script, "", "[100]").exits(0);
        let level = run.level(0);
        assert_eq!(count(level, "foreign"), 200 * 99);
        assert_eq!((count(level, "delivered"), count(level, "lost"), count(level, "duplicated")), (99, 0, 0));
    }

    #[test]
    fn a_malformed_packet_costs_one_connection_and_its_reason_is_told() {
        // Packet type 0 is forbidden (MQTT 5 section 2.1.2).
        let script = Script { noise_at: Some((30, &[0, 0])), ..Script::default() };
        // The first pause is at most 50 ms, so that the device is back well before the level's end.
        let mqtt = "reconnect: { from: 50ms, to: 1s }";
        let run = run(&script, mqtt, "[100]").exits(99).says("malformed packet");
        let level = run.level(0);
        assert_eq!((count(level, "disconnected"), count(level, "reconnects")), (1, 1));
        // The message that was answered with nonsense was sent, is not sent again, and nobody has it. The others of its
        // device waited for the new connection.
        let found = ["due", "sent", "unsent", "acknowledged", "delivered", "lost"];
        assert_eq!(found.map(|name| count(level, name)), [99, 99, 0, 98, 98, 1]);
    }

    #[test]
    fn a_broker_that_says_goodbye_is_quoted() {
        // MQTT 5 section 3.14.2.1: 0x97 is "quota exceeded".
        let script = Script { goodbye_at: Some((30, 0x97)), ..Script::default() };
        let mqtt = "version: 5, reconnect: { from: 50ms, to: 1s }";
        let run = run(&script, mqtt, "[100]").exits(99);
        let run = run.says("said goodbye: code 0x97").says("uota exceeded");
        assert_eq!(count(run.level(0), "reconnects"), 1);
    }

    #[test]
    fn a_message_that_is_refused_with_a_reason_is_counted_and_the_reason_told() {
        let acknowledge = Acknowledge::Refuse(30, 0x97);
        let script = Script { acknowledge, ..Script::default() };
        let run = run(&script, "version: 5", "[100]").exits(99).says("0x97");
        let level = run.level(0);
        let found = ["sent", "acknowledged", "refused", "delivered", "lost", "reconnects"];
        assert_eq!(found.map(|name| count(level, name)), [99, 98, 1, 98, 1, 0]);
    }

    /// Noise that begins like a packet of a million bytes swallows all that comes after it.
    #[test]
    fn noise_that_claims_to_be_a_long_packet_is_told() {
        let script = Script { noise_at: Some((30, &[0x32, 0xff, 0xff, 0x3f, 0, 1])), ..Script::default() };
        let run = run(&script, "", "[100]").exits(99);
        let incident = run.level(0)["incident"].as_str().unwrap_or_default();
        assert!(
            incident.contains("begun a packet and not ended it, first one of 1048579 bytes"),
            "{incident}"
        );
    }

    #[test]
    fn second_acknowledgements_are_counted_and_told_and_complete_nothing() {
        let script = Script { acknowledge: Acknowledge::TwiceEach(10), ..Script::default() };
        let run = run(&script, "", "[100]").exits(0);
        let run = run.says("unknown acknowledgements 9").says("9 x the platform sent an acknowledgement");
        let level = run.level(0);
        let found = ["sent", "acknowledged", "unknown_acks", "delivered", "disconnected"];
        assert_eq!(found.map(|name| count(level, name)), [99, 99, 9, 99, 0]);
        assert_eq!(level["achieved"], 99.0);
    }

    #[test]
    fn a_broker_that_never_acknowledges_has_missed_and_the_ledger_is_right() {
        let faults = [((1, 7), Fault::Drop)].into();
        let script = Script { acknowledge: Acknowledge::Never, faults, ..Script::default() };
        let run = run(&script, "", "[100]").exits(99).says("not acknowledged 99");
        assert_eq!(run.summary["verdict"], "missed");
        let level = run.level(0);
        let found = ["due", "sent", "acknowledged", "expected_deliveries", "delivered", "lost"];
        assert_eq!(found.map(|name| count(level, name)), [99, 99, 0, 99, 98, 1]);
        assert!(level["publish_time"].is_null(), "a time that was never observed does not exist");
        assert_eq!(level["achieved"], 0.0);
    }
}
