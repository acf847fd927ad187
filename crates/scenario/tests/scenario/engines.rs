//! Platforms that an engine brings up from files of the user's.

use crate::support::{ENVIRONMENT, facts, load};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{Engine, EnginePlan, Plan, QuotaPlan, RunningPlace};
use plimsoll_scenario::{BroughtUp, SourceFile, matrix};
use std::path::Path;

const COMPOSE: &str = "\
name: composed
platform:
  profile: existing
  compose:
    file: [compose.yaml, test.yaml]
    service: broker
    port: 1883
    scale: { worker: 3 }
    ports: { http: 'web:8080' }
  quotas: { worker: { processors: 0.5, memory: 256 MiB } }
population: { devices: 10 }
load: { levels: [100] }
";

const MANIFESTS: &str = "\
name: applied
platform:
  profile: existing
  manifests:
    files: broker.yaml
    service: broker
    port: 8883
    scheme: mqtts
    replicas: { broker: 3 }
    ports: { http: 8080 }
    context: kind-test
    logs: logs
    within: 3m
population: { devices: 10 }
load: { levels: [100] }
";

fn loaded(text: &str) -> Plan {
    load(text).unwrap_or_else(|found| panic!("{found}"))
}

fn engine(plan: &Plan) -> &EnginePlan {
    plan.platform.command.as_ref().unwrap().engine.as_ref().unwrap()
}

#[test]
fn a_plan_has_the_compose_file_with_counts_ports_and_quotas() {
    let plan = loaded(COMPOSE);
    let (command, engine) = (plan.platform.command.as_ref().unwrap(), engine(&plan));
    assert_eq!(command.up.join(" "), "docker compose --file compose.yaml --file test.yaml up");
    assert_eq!(command.down.join(" "), "docker compose down");
    assert_eq!((command.key(), command.within), ("platform.compose", Nanos::from_secs(600)));
    assert_eq!(engine.engine, Engine::Compose { program: "docker".to_owned() });
    assert_eq!((&engine.scheme[..], &engine.path[..], engine.datagrams), ("mqtt", "", false));
    assert_eq!((&engine.service[..], engine.port), ("broker", 1883));
    assert_eq!(engine.counts.get("worker"), Some(&3));
    assert_eq!(engine.ports.get("http"), Some(&("web".to_owned(), 8080)));
    let quota = QuotaPlan { processors: Some(0.5), memory: Some(256 << 20), period: None };
    assert_eq!(engine.quotas.get("worker"), Some(&quota));
    assert!(plan.platform.quotas.is_empty());
    let facts = facts(&plan);
    let brought_up = "by `docker compose --file compose.yaml --file test.yaml up`, within 10m, mqtt:// at port 1883 of broker";
    assert!(facts.contains(&format!("brought up: {brought_up}\n")), "{facts}");
    assert!(facts.contains("replicas: 3 of worker\n"), "{facts}");
    assert!(facts.contains("quota: worker: at most 0.5 processors and 256 MiB of memory\n"), "{facts}");
    assert_eq!(loaded(&plan.resolved).resolved, plan.resolved);
}

#[test]
fn a_plan_has_the_manifests_and_the_context_of_their_cluster() {
    let plan = loaded(MANIFESTS);
    let (command, engine) = (plan.platform.command.as_ref().unwrap(), engine(&plan));
    assert_eq!(command.up.join(" "), "kubectl --context kind-test apply broker.yaml");
    assert_eq!((command.key(), command.within), ("platform.manifests", Nanos::from_secs(180)));
    assert_eq!(engine.engine, Engine::Kubernetes { context: "kind-test".to_owned() });
    assert_eq!((&engine.scheme[..], engine.port), ("mqtts", 8883));
    assert_eq!(engine.ports.get("http"), Some(&("broker".to_owned(), 8080)));
    assert_eq!((engine.counts.get("broker"), engine.logs.as_deref()), (Some(&3), Some("logs")));
    assert_eq!(loaded(&plan.resolved).resolved, plan.resolved);
}

#[test]
fn a_path_and_datagrams_are_known_before() {
    let with = |key: &str| loaded(&COMPOSE.replace("port: 1883", &format!("port: 1883\n    {key}")));
    let plan = with("scheme: http\n    path: '/in/{device}'");
    assert_eq!(plan.platform.roles.device.request.as_ref().unwrap().path.text(), "/in/{device}");
    assert_eq!(engine(&plan).path, "/in/{device}");
    assert!(engine(&with("scheme: coap\n    path: /in")).datagrams);
}

#[test]
fn what_varies_reaches_the_engine() {
    let text = format!("{COMPOSE}matrix: {{ platform.compose.scale.worker: [1, 4] }}\n");
    let source = SourceFile { name: "folder/scenario.yaml".to_owned(), text };
    let matrix = matrix(&source, false, &[], &ENVIRONMENT).unwrap_or_else(|found| panic!("{found}"));
    let of = |position: Vec<usize>| matrix.plan(&position, 1).unwrap().platform.command.unwrap();
    let commands: Vec<_> = matrix.positions().map(of).collect();
    let counts = commands.iter().map(|command| command.engine.as_ref().unwrap().counts["worker"]);
    assert_eq!(counts.collect::<Vec<_>>(), [1, 4]);
    assert_eq!(commands[0].folder, Path::new("folder"));
}

#[test]
fn the_place_that_was_printed_counts() {
    let printed = r#"{"address":"mqtt://127.0.0.1:32768","ports":{"http":32769},
        "components":[{"name":"broker","container":"4f0c1a9be3d5"}]}"#;
    let plan = loaded(COMPOSE).placed(&BroughtUp::read(printed).unwrap()).unwrap();
    assert_eq!(plan.platform.address.as_ref().unwrap().port, 32768);
    assert_eq!(plan.platform.ports.get("http"), Some(&32769));
    let place = RunningPlace::Container("4f0c1a9be3d5".to_owned());
    assert_eq!(plan.platform.components.first().unwrap().place, place);
    assert_eq!(plan.platform.command, loaded(COMPOSE).platform.command);
}

#[test]
fn what_an_engine_runs_costs_by_its_counts_and_quotas() {
    let prices = "prices: { currency: EUR, types: { small: { price: 5, processors: 1 } }, components: { broker: 40 } }\n";
    let cost = loaded(&format!("{COMPOSE}{prices}")).cost.unwrap();
    let found: Vec<_> =
        cost.priced.iter().map(|own| (own.name.as_str(), own.on.as_deref(), own.count, own.price)).collect();
    assert_eq!(found, [("broker", None, 1, 40.0), ("worker", Some("small"), 3, 5.0)]);
    assert_eq!((cost.total(), cost.unpriced.len()), (55.0, 0));
    let cost = loaded(&format!("{MANIFESTS}prices: {{ currency: EUR }}\n")).cost.unwrap();
    assert_eq!((cost.priced.len(), cost.unpriced), (0, vec!["broker".to_owned()]));
}
