//! What platforms promise to deliver: nothing lenient that nobody asked for.

use crate::support::facts;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{DeliveryContract, Plan};
use plimsoll_scenario::{Environment, SourceFile, profiles};

/// A platform with a subscription, whose set-up says `SAID`, whose subscribers are promised `PROMISED`.
const PROFILE: &str = "\
name: mine
title: mine
variables: { silence: '2' }
controller:
  set_up:
    - name: subscribe
      each: subscriber
      request: { path: /s, body: '{\"url\":\"{listener}\"SAID}' }
device: { speaks: http, request: { path: / } }
subscriber: { listens: http, delivery: PROMISED }
components: []
";

fn plan_of(profile: &str, platform: &str) -> Plan {
    plan_with(profile, platform, 1)
}

fn plan_with(profile: &str, platform: &str, subscribers: u32) -> Plan {
    let given = |_: &str| Ok(profile.to_owned());
    let environment = Environment { profile: &given, variable: &|_| None };
    let text = format!(
        "name: contract\nplatform: {platform}\npopulation: {{ devices: 2, subscribers: {subscribers} }}\nload: {{ levels: [1] }}\n"
    );
    let source = SourceFile { name: "scenario.yaml".to_owned(), text };
    plimsoll_scenario::load(&source, &[], &environment).unwrap()
}

/// The contract of the profile above, and whether it is doubted.
#[track_caller]
fn promised(said: &str, promised: &str) -> (DeliveryContract, bool) {
    let profile = PROFILE.replace("SAID", said).replace("PROMISED", promised);
    let plan = plan_of(&profile, "{ profile: ./mine.yaml, address: 'http://127.0.0.1:1' }");
    let doubt = plan.platform.roles.doubtful_delivery.clone();
    assert_eq!(facts(&plan).contains("may hide real losses"), doubt.is_some(), "{}", facts(&plan));
    (plan.platform.roles.delivery, doubt.is_some())
}

#[test]
fn a_silence_is_believed_where_the_set_up_asks_for_it() {
    let two = DeliveryContract::Throttled(Nanos::from_secs(2));
    assert_eq!(promised(",\"throttling\":{silence}", "{ throttled: '{silence}s' }"), (two, false));
    assert_eq!(promised("", "{ throttled: '{silence}s' }"), (two, true));
    assert_eq!(promised(",\"throttling\":2", "{ throttled: 2s }"), (two, true));
    assert_eq!(promised("", "{ throttled: 0s }"), (DeliveryContract::Every, false));
}

#[test]
fn the_latest_of_whoever_writes_it_loads_with_a_warning() {
    assert_eq!(promised("", "latest"), (DeliveryContract::Latest, true));
    assert_eq!(promised("", "every"), (DeliveryContract::Every, false));
}

/// Each profile that comes along, in each of its mappings: lenient only where RFC 7641 or the subscription is.
#[test]
fn profiles_that_come_along_promise_what_they_asked_for() {
    for profile in profiles() {
        // What is started may lack the ports of a mapping, which it shares with one that runs already.
        let mappings: Vec<Option<&str>> = match profile.components.is_empty() && !profile.mappings.is_empty()
        {
            true => profile.mappings.keys().map(|mapping| Some(mapping.as_str())).collect(),
            false => vec![None],
        };
        for mapping in mappings {
            let name = &profile.name;
            let chosen = mapping.map(|mapping| format!(", mapping: {mapping}")).unwrap_or_default();
            let address = match (profile.components.is_empty(), name.as_str(), mapping) {
                (false, ..) => String::new(),
                (_, "coap" | "lwm2m" | "fiware-iota-lwm2m", _)
                | (_, "onem2m", Some("coap" | "coap-notified")) => ", address: 'coap://h:1'".into(),
                (_, "existing", _) | (_, "fiware-iota-json", Some("mqtt" | "mqtt-named")) => {
                    ", address: 'mqtt://h:1'".into()
                }
                (_, "onem2m", Some("mqtt" | "mqtt-notified")) => ", address: 'mqtt://h:1'".into(),
                (_, "ocf-cloud", _) => ", address: 'coap+tcp://h:1'".into(),
                (_, "gateway-existing", _) => ", address: 'gateway://h:1'".into(),
                (_, "devicehive" | "meshblu", Some("websocket" | "poll" | "stream")) => {
                    ", address: 'ws://h:1'".into()
                }
                (_, "devicehive" | "meshblu", Some("mqtt")) => ", address: 'mqtt://h:1'".into(),
                (_, "meshblu", Some("coap")) => ", address: 'coap://h:1'".into(),
                _ => ", address: 'http://h:1'".into(),
            };
            // Gateways have no subscribers, and ports of other protocols are a matter of the run.
            if name.starts_with("gateway") {
                continue;
            }
            let ports = match name.as_str() {
                "onem2m" => ", ports: { http: 2 }",
                "fiware-iota-json" | "fiware-iota-lwm2m" => ", ports: { north: 2, broker: 3 }",
                _ => "",
            };
            let platform = format!("{{ profile: {name}{chosen}{address}{ports} }}");
            let roles = plan_with("", &platform, 0).platform.roles;
            let expected = match (name.as_str(), mapping) {
                ("coap", Some("observed")) | ("libcoap" | "californium" | "aiocoap", _) => {
                    DeliveryContract::Observed
                }
                _ => DeliveryContract::Every,
            };
            assert_eq!((roles.delivery, roles.doubtful_delivery), (expected, None), "{platform}");
        }
    }
}

#[test]
fn a_context_broker_keeps_the_silence_that_its_subscriptions_ask_for() {
    for mapping in ["update", "create", "single"] {
        let platform =
            format!("{{ profile: ngsi-target, mapping: {mapping}, with: {{ throttling: '0.5' }} }}");
        let roles = plan_of("", &platform).platform.roles;
        let expected = DeliveryContract::Throttled(Nanos::from_millis(500));
        assert_eq!((roles.delivery, roles.doubtful_delivery), (expected, None), "{platform}");
    }
}
