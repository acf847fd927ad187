//! Platforms that commands of the user's bring up: the plan before, and the plan at the address that was printed.

use crate::support::{ENVIRONMENT, facts, load};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{Plan, RunningPlace};
use plimsoll_scenario::{BroughtUp, SourceFile, matrix};
use std::path::Path;

const SCENARIO: &str = "\
name: brought up
platform:
  profile: existing
  with: { replicas: '3' }
  command: { up: [./up.sh, 'n={replicas}', '{}'], down: [./down.sh] }
population: { devices: 10 }
load: { levels: [100] }
";

fn loaded(text: &str) -> Plan {
    load(text).unwrap_or_else(|found| panic!("{found}"))
}

fn placed(text: &str, printed: &str) -> Result<Plan, String> {
    loaded(text).placed(&BroughtUp::read(printed).unwrap()).map_err(|found| found.to_string())
}

#[test]
fn a_plan_has_the_commands_with_their_variables_and_no_address_to_speak_of() {
    let plan = loaded(SCENARIO);
    let command = plan.platform.command.as_ref().unwrap();
    assert_eq!(command.up, ["./up.sh", "n=3", "{}"]);
    assert_eq!((&command.down[..], command.folder.as_path()), (&["./down.sh".to_owned()][..], Path::new("")));
    assert_eq!((command.within, command.down_within), (Nanos::from_secs(600), Nanos::from_secs(300)));
    let facts = facts(&plan);
    let brought_up = "by `./up.sh n=3 {}`, within 10m, which prints an address that begins with mqtt://";
    assert!(facts.contains(&format!("brought up: {brought_up}\n")), "{facts}");
    assert!(facts.contains("taken down: by `./down.sh`, within 5m\n"), "{facts}");
    assert!(!facts.contains("localhost"), "{facts}");
    assert_eq!(loaded(&plan.resolved).resolved, plan.resolved);
}

#[test]
fn what_varies_reaches_the_commands() {
    let text = format!("{SCENARIO}matrix: {{ platform.with.replicas: ['1', '2'] }}\n");
    let source = SourceFile { name: "folder/scenario.yaml".to_owned(), text };
    let matrix = matrix(&source, false, &[], &ENVIRONMENT).unwrap_or_else(|found| panic!("{found}"));
    let of = |position: Vec<usize>| matrix.plan(&position, 1).unwrap().platform.command.unwrap();
    let commands: Vec<_> = matrix.positions().map(of).collect();
    assert_eq!(commands.iter().map(|command| command.up[1].as_str()).collect::<Vec<_>>(), ["n=1", "n=2"]);
    assert_eq!(commands[0].folder, Path::new("folder"));
}

#[test]
fn the_printed_address_takes_its_place_and_the_rest_stays() {
    let mut plan = loaded(SCENARIO);
    plan.load.again = Nanos::from_secs(7);
    let printed = r#"{"address":"mqtt://10.0.0.7:1884","ports":{"http":8080},
        "components":[{"name":"broker","port":1884},{"name":"db","pid":4711}]}"#;
    let placed = plan.placed(&BroughtUp::read(printed).unwrap()).unwrap();
    let address = placed.platform.address.as_ref().unwrap();
    assert_eq!((address.host.as_str(), address.port), ("10.0.0.7", 1884));
    assert_eq!(placed.platform.ports.get("http"), Some(&8080));
    let places: Vec<_> = placed.platform.components.iter().map(|one| (&one.name[..], &one.place)).collect();
    assert_eq!(places, [("broker", &RunningPlace::Port(1884)), ("db", &RunningPlace::Process(4711))]);
    assert_eq!((&placed.resolved, placed.load.again), (&plan.resolved, Nanos::from_secs(7)));
    assert_eq!(placed.platform.command, plan.platform.command);
    // A plan without commands has its place.
    let own = SCENARIO.replace("command: { up: [./up.sh, 'n={replicas}', '{}'], down: [./down.sh] }", "")
        + "description: no commands\n";
    let own = loaded(&own.replace("with: { replicas: '3' }", "address: 'mqtt://h'"));
    let same = own.placed(&BroughtUp::read(printed).unwrap()).unwrap();
    assert_eq!(same.platform.address, own.platform.address);
}

#[test]
fn names_and_paths_of_the_printed_address_count() {
    let with = |scheme: &str| SCENARIO.replace("up: [", &format!("scheme: {scheme}, up: ["));
    let plan = placed(&with("mqtts"), r#"{"address":"mqtts://broker.example"}"#).unwrap();
    assert_eq!(plan.connection.transport.tls.unwrap().server_name.to_str(), "broker.example");
    let plan = placed(&with("wss"), r#"{"address":"wss://broker.example/in"}"#).unwrap();
    let websocket = plan.connection.transport.websocket.unwrap();
    assert_eq!((&websocket.host[..], &websocket.path[..]), ("broker.example:443", "/in"));
    let plan = placed(&with("http"), r#"{"address":"http://h:8080/in/{device}?a=b"}"#).unwrap();
    let request = plan.platform.roles.device.request.unwrap();
    assert_eq!(request.path.text(), "/in/{device}?a=b");
}

#[test]
fn what_was_printed_and_does_not_fit_is_said() {
    for (printed, expected) in [
        (r#"{"address":"mqtts://h"}"#, "write `scheme: mqtts` below `platform.command`"),
        (r#"{"address":"http://h"}"#, "begins with `http://`, not with `mqtt://`"),
        (r#"{"address":"mqtt://h","components":[{"name":"a"}]}"#, "it is not clear which process that is"),
        (r#"{"address":"mqtt://h","components":[{"name":"plimsoll","pid":7}]}"#, "choose another name"),
    ] {
        let told = placed(SCENARIO, printed).map(drop).unwrap_err();
        let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(expected), "{printed}: {told}");
    }
}

#[test]
fn populations_are_at_the_printed_address_unless_they_have_their_own() {
    let populations = "populations:
- { name: here, devices: 5 }
- { name: too, devices: 5 }
- { name: there, devices: 5, platform: { address: 'mqtt://other.example' } }
";
    let text = SCENARIO.replace("population: { devices: 10 }\n", populations);
    let plan = placed(&text, r#"{"address":"mqtt://10.0.0.7"}"#).unwrap();
    let hosts: Vec<_> =
        plan.populations().map(|plan| plan.platform.address.as_ref().unwrap().host.as_str()).collect();
    assert_eq!(hosts, ["10.0.0.7", "10.0.0.7", "other.example"]);
    let first = text.replace("here, devices: 5", "here, devices: 5, platform: { address: 'mqtt://h' }");
    let told = load(&first).map(drop).unwrap_err().to_string();
    assert!(told.contains("`platform.command` brings the platform up"), "{told}");
}
