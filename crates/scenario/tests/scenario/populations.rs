//! Several populations in one scenario.

use crate::support::{facts, load, load_with};
use plimsoll_model::Nanos;
use plimsoll_model::objective::Objective;
use plimsoll_scenario::Diagnostics;
use plimsoll_scenario::plan::{LevelPlan, MarkerForm, Plan, Protocol, ReceiversPlan};

const THREE: &str = "\
name: three
platform: { profile: existing, address: 'mqtt://broker.example:1883' }
mqtt: { qos: 1, in_flight: 5 }
connection: { timeout: 3s, offline: drop }
populations:
  - name: sensors
    devices: 100
    message: { target: 'sensors/{device}' }
    load: { share: 3 }
  - name: cameras
    devices: 4
    platform: { address: 'http://camera.example:8080/in' }
    message: { size: 2KB, marker: ascii }
    load: { rate: 5/s, arrivals: constant }
    objectives: { publish_p50: '< 1 s' }
  - name: meters
    devices: 10
    platform: { address: 'coap://meter.example:5683' }
    coap: { ack_timeout: 3s }
    load: { share: 1 }
    subscribers: 0
subscribers: { count: 2, filters: ['#'] }
load: { levels: [105, 205], hold: 30s }
objectives:
  sensors.publish_p99: '< 20 ms'
  achieved: '>= 98 %'
  meters: { delivered: null }
";

fn three() -> Plan {
    load(THREE).unwrap_or_else(|found| panic!("{found}"))
}

/// Without the ends of lines.
fn flat(found: &Diagnostics) -> String {
    found.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn keys(plan: &Plan) -> Vec<String> {
    plan.objectives.level.iter().map(Objective::to_string).collect()
}

#[test]
fn each_population_is_planned_by_itself_and_numbered_after_the_others() {
    let plan = three();
    let told: Vec<_> = plan
        .populations()
        .map(|plan| {
            let own = &plan.population;
            (own.name.as_str(), own.first_device, plan.devices, plan.protocol(), own.receivers)
        })
        .collect();
    use ReceiversPlan::{Common, OfOthers, Own};
    assert_eq!(
        told,
        [
            ("sensors", 0, 100, Protocol::Mqtt, Common),
            ("cameras", 100, 4, Protocol::Http, Common),
            ("meters", 104, 10, Protocol::Coap, Own),
            ("subscribers", 0, 0, Protocol::Mqtt, OfOthers),
        ]
    );
    assert_eq!((plan.all_devices(), plan.all_subscribers()), (114, 2));
    let seeds: std::collections::BTreeSet<u64> = plan.populations().map(|plan| plan.seed).collect();
    assert_eq!(seeds.len(), 4, "each draws its own numbers");
    let common = plan.others.last().unwrap();
    assert_eq!(common.population.markers, [MarkerForm::Binary, MarkerForm::Ascii]);
}

#[test]
fn what_is_said_for_all_holds_for_those_whom_it_concerns() {
    let plan = three();
    let timeouts: Vec<f64> = plan.populations().map(|plan| plan.connection.timeout.as_secs_f64()).collect();
    assert_eq!(timeouts, [3.0; 4]);
    // Without `mqtt` of their own, those who speak something else have its defaults, and nobody complains.
    assert_eq!((plan.mqtt.in_flight, plan.others[0].mqtt.in_flight), (5, plan.others[1].mqtt.in_flight));
    assert_ne!(plan.mqtt.in_flight, plan.others[0].mqtt.in_flight);
    // What a population says itself must mean something to it.
    let wrong = THREE.replace("coap: { ack_timeout: 3s }", "mqtt: { qos: 2 }");
    let told = load(&wrong).unwrap_err().to_string();
    assert!(told.contains("means nothing to CoAP") && told.contains("mqtt: { qos: 2 }"), "{told}");
}

#[test]
fn a_population_does_not_get_the_token_of_another() {
    let scenario = |profile: &str| {
        format!(
            "name: tokens\nplatform: {{ profile: ./guarded.yaml, address: 'http://a.example/' }}\npopulations:\n\
             - {{ name: one, devices: 2 }}\n\
             - {{ name: two, devices: 2, platform: {{ profile: {profile}, address: 'http://b.example/' }} }}\n\
             load: {{ levels: [10] }}\n"
        )
    };
    let plan = load(&scenario("./guarded.yaml")).unwrap_or_else(|found| panic!("{found}"));
    assert!(plan.populations().all(|plan| plan.platform.roles.token.is_some()));
    let found = flat(&load(&scenario("./other-client.yaml")).unwrap_err());
    assert!(found.contains("`two` needs an access token of its own"), "{found}");
}

#[test]
fn levels_are_divided_by_share_behind_rates_of_their_own() {
    let plan = three();
    let rates = |level| plan.shares_of(level).into_iter().map(LevelPlan::rate).collect::<Vec<_>>();
    assert_eq!(rates(LevelPlan::Rate(105.0)), [75.0, 5.0, 25.0, 0.0]);
    assert_eq!(rates(LevelPlan::Rate(205.0)), [150.0, 5.0, 50.0, 0.0]);
    let by_devices =
        load(&THREE.replace("load: { share: 3 }", "").replace("load: { share: 1 }", "")).unwrap();
    let rates: Vec<f64> =
        by_devices.shares_of(LevelPlan::Rate(115.0)).into_iter().map(LevelPlan::rate).collect();
    assert_eq!(rates, [100.0, 5.0, 10.0, 0.0]);
}

#[test]
fn populations_may_have_levels_of_their_own() {
    let text = THREE
        .replace("load: { share: 3 }", "load: { levels: [10, 30] }")
        .replace("load: { share: 1 }", "load: { levels: [20, 20] }")
        .replace("levels: [105, 205], ", "");
    let plan = load(&text).unwrap_or_else(|found| panic!("{found}"));
    let told: Vec<_> = plan
        .load
        .levels
        .iter()
        .map(|level| {
            (level.load(), plan.shares_of(*level).into_iter().map(LevelPlan::rate).collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(told, [(35.0, vec![10.0, 5.0, 20.0, 0.0]), (55.0, vec![30.0, 5.0, 20.0, 0.0])]);
    for (from, to, expected) in [
        ("levels: [20, 20]", "levels: [20]", "`meters` has 1 levels of its own, and the run has 2"),
        ("hold: 30s", "hold: 30s, levels: [10, 20]", "which leave nothing to the scenario's levels"),
        ("{ levels: [20, 20] }", "{ levels: [20, 20], rate: 3 }", "a population has a `share` of the levels"),
    ] {
        let told = flat(&load(&text.replace(from, to)).unwrap_err());
        assert!(told.contains(expected), "{to}: {told}");
    }
}

#[test]
fn each_population_has_its_objectives_and_all_have_theirs() {
    let told = keys(&three());
    assert_eq!(
        told,
        [
            "sensors.delivered >= 99.9 %",
            "sensors.achieved >= 99 %",
            "sensors.publish_p99 < 20.0 ms",
            "cameras.delivered >= 99.9 %",
            "cameras.achieved >= 99 %",
            "cameras.publish_p50 < 1.00 s",
            // 25 a second for 30 seconds are 750 messages: too few for the default of 99 %.
            "meters.achieved >= 99 %",
            "meters.publish_p95 < 50.0 ms",
            "achieved >= 98 %",
        ]
    );
    let plan =
        load_with(THREE, &["objectives.cameras.achieved=>= 90 %", "populations.cameras.devices=8"]).unwrap();
    assert!(keys(&plan).contains(&"cameras.achieved >= 90 %".to_owned()), "{:?}", keys(&plan));
    assert_eq!(plan.all_devices(), 118);
}

#[test]
fn the_resolved_scenario_says_the_same_again() {
    let plan = three();
    let again = load(&plan.resolved).unwrap_or_else(|found| panic!("{found}\n{}", plan.resolved));
    assert_eq!(again.resolved, plan.resolved);
    assert_eq!(facts(&again), facts(&plan));
    assert_eq!(keys(&again), keys(&plan));
}

#[test]
fn secrets_of_each_population_are_left_out_of_what_is_kept() {
    let text = THREE
        .replace("camera.example:8080/in", "camera.example:8080/in?key=tiktak")
        .replace("'coap://meter.example:5683'", "'coaps://meter.example:5684/up?token=tiktak'")
        .replace(
            "ack_timeout: 3s",
            "dtls: { identity: m, key: tiktak, subscriber_identity: n, subscriber_key: tiktak }",
        )
        .replace("mqtt://broker.example:1883", "ws://broker.example:80/mqtt?api_key=tiktak");
    let plan = load(&text).unwrap_or_else(|found| panic!("{found}"));
    assert!(!plan.resolved.contains("tiktak"), "{}", plan.resolved);
    assert_eq!(plan.resolved.matches("***").count(), 5, "{}", plan.resolved);
}

#[test]
fn subscribers_may_stand_elsewhere_than_the_only_population() {
    let text = "\
name: bridged
platform: { profile: existing, address: 'mqtt://in.example:1883' }
population: { devices: 10 }
subscribers: { count: 3, platform: { address: 'mqtt://out.example:1884' }, mqtt: { version: 5 } }
message: { target: 'a/{device}' }
load: { levels: [100] }
";
    let plan = load(text).unwrap_or_else(|found| panic!("{found}"));
    let [common] = plan.others.as_slice() else { panic!("{:?}", plan.others) };
    assert_eq!(common.platform.address.as_ref().map(|address| address.port), Some(1884));
    assert_eq!((common.own_subscribers(), plan.own_subscribers(), plan.subscribers.count), (3, 0, 3));
    assert_eq!(common.subscribers.filters[0].text(), "a/+", "what the devices publish");
    assert_eq!(keys(&plan)[0], "delivered >= 99.9 %", "there is one population, and nobody names it");
    assert_eq!(load(&plan.resolved).unwrap().resolved, plan.resolved);
}

#[test]
fn a_queue_has_a_name_and_who_only_receives_from_it_has_no_prefix() {
    let with = |more: &str| {
        let text = format!(
            "name: t\nplatform: {{ profile: existing, address: 'amqp1://h' }}\npopulation: {{ devices: 1 }}\n\
             load: {{ levels: [100] }}\n{more}\n"
        );
        load(&text).map_err(|found| flat(&found))
    };
    for (more, expected) in [
        ("amqp1: { queue: '' }", "the name of the queue is empty"),
        (
            "subscribers: { count: 1, amqp1: { queue: orders, prefix: /topic/ } }",
            "these subscribers receive from the queue alone",
        ),
    ] {
        let found = with(more).unwrap_err();
        assert!(found.contains(expected), "{found}");
    }
    // What devices send has the prefix.
    for more in [
        "amqp1: { queue: orders, prefix: /topic/ }\nsubscribers: 1",
        "amqp1: { prefix: /topic/ }\nsubscribers: { count: 1, amqp1: { queue: orders } }",
    ] {
        assert_eq!(with(more).map(|plan| plan.others.len()), Ok(1), "{more}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (from, to, expected) in [
        ("devices: 100", "devices: many", "`populations.0.devices`: expected a whole number"),
        ("name: cameras", "name: Cameras", "`Cameras` is no name of a population"),
        ("name: cameras", "name: sensors", "`sensors` is the name of something else, too"),
        ("    devices: 4\n", "", "missing key `devices` in `populations.1`"),
        ("devices: 4\n", "devices: 4\n    devises: 5\n", "did you mean `devices`?"),
        ("load: { share: 1 }", "", "other populations have a `share` of the levels, and this one has none"),
        ("levels: [105, 205]", "levels: [5]", "leave nothing of 5/s to the others"),
        (
            "levels: [105, 205]",
            "devices: [50], rate_per_device: 1",
            "populations have rates of their own only where",
        ),
        (
            "load: { levels",
            "population: { devices: 5 }\nload: { levels",
            "either `population` or `populations`",
        ),
        ("filters: ['#']", "filter: ['#']", "unknown key `filter` in `subscribers`"),
        (
            ", filters: ['#']",
            "",
            "nothing says under which topics subscribers receive what `cameras` sends over HTTP",
        ),
        ("sensors.publish_p99", "sensor.publish_p99", "unknown key `sensor.publish_p99` in `objectives`"),
        ("achieved: '>= 98 %'", "achieved: 'all'", "`all`: it does not begin with"),
        ("achieved: '>= 98 %'", "query_p99: '< 1 s'", "without `northbound` nobody asks"),
        (
            "  - name: sensors\n",
            "  - name: sensors\n    platform: { profile: http }\n",
            "the first population speaks to",
        ),
        (
            "marker: ascii",
            "marker: integer, template: '{marker}'",
            "a message has either a size or a template",
        ),
    ] {
        let text = THREE.replace(from, to);
        assert_ne!(text, THREE, "{from}");
        let told = match load(&text) {
            Ok(_) => panic!("{to} is taken"),
            Err(found) => flat(&found),
        };
        assert!(told.contains(expected), "{to}: {told}");
        assert!(told.contains("scenario.yaml:"), "no place: {told}");
    }
}

#[test]
fn an_integer_marker_numbers_fewer_devices_than_a_run_may_have() {
    let text = THREE
        .replace("devices: 100", "devices: 131072")
        .replace("size: 2KB, marker: ascii", "marker: integer, template: '{marker}'");
    let told = flat(&load(&text).unwrap_err());
    assert!(told.contains("the last of `cameras` is device 131076"), "{told}");
}

#[test]
fn operations_in_flight_are_divided_and_bounded() {
    let text = THREE
        .replace("load: { rate: 5/s, arrivals: constant }", "")
        .replace("load: { share: 3 }", "")
        .replace("load: { share: 1 }", "")
        .replace("offline: drop", "offline: buffer")
        .replace("levels: [105, 205]", "model: closed, in_flight: [114, 5, 400]");
    let told = flat(&load(&text).unwrap_err());
    assert!(told.contains("`cameras` has 14 of these in flight, and its devices may have 4"), "{told}");
    assert_eq!(told.matches("error").count(), 2, "cameras and meters, at 400 alone: {told}");
    let plan = load(&text.replace(", 400]", "]")).unwrap();
    let shares = |level| plan.shares_of(level);
    let of = |counts: [u32; 4]| counts.map(LevelPlan::InFlight).to_vec();
    assert_eq!(shares(LevelPlan::InFlight(114)), of([100, 4, 10, 0]));
    assert_eq!(shares(LevelPlan::InFlight(5)), of([4, 0, 1, 0]));
}

#[test]
fn clients_stand_where_their_population_or_their_own_section_says() {
    let sites = |plan: &Plan| {
        let sites = &plan.sites;
        (sites.devices.clone(), sites.subscribers.clone(), sites.queriers.clone(), sites.beside)
    };
    let one = |text: &str| {
        load(&format!("name: one\nplatform: embedded\n{text}\nload: {{ levels: [10] }}\n")).unwrap()
    };
    let north = || Some("north".to_owned());
    let inherited = one("population: { devices: 4, at: north, subscribers: 1 }");
    assert_eq!(sites(&inherited), (north(), north(), None, false), "its own subscribers stand with it");
    let apart = one("population: { devices: 4, at: north, subscribers: { count: 1, at: south } }");
    assert_eq!(sites(&apart), (north(), Some("south".into()), None, false));
    assert!(
        facts(&apart).contains("devices at north, subscribers at south; without --workers, all on this host")
    );
    let beside = one("population: { devices: 4, subscribers: { count: 1, beside: devices } }");
    assert_eq!(sites(&beside), (None, None, None, true));
    let bounded = one("population: { devices: 4 }\nclock_bound: 50us");
    assert_eq!(
        (sites(&bounded), bounded.clock_bound),
        ((None, None, None, false), Some(Nanos::from_micros(50)))
    );
    // Those in common stand where their own section says.
    let common = THREE
        .replace("devices: 100", "devices: 100\n    at: north")
        .replace("count: 2,", "count: 2, at: south,");
    let common = load(&common).unwrap_or_else(|found| panic!("{found}"));
    let of_each: Vec<_> = common.populations().map(|plan| sites(plan).0).collect();
    assert_eq!(of_each, [north(), None, None, None]);
    assert_eq!(common.others.last().unwrap().sites.subscribers.as_deref(), Some("south"));
    // What is resolved says the same once more.
    let again = load(&common.resolved).unwrap_or_else(|found| panic!("{found}\n{}", common.resolved));
    assert_eq!(again.all_sites_in_words(), common.all_sites_in_words());
    assert_eq!(common.all_sites_in_words().unwrap(), "sensors: devices at north; subscribers at south");
}
