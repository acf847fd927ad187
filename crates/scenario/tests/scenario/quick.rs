//! The file-less form.

use crate::support::{ENVIRONMENT, facts};
use plimsoll_scenario::plan::{LevelPlan, Plan, Protocol};
use plimsoll_scenario::{Diagnostics, Environment, Override, QuickOptions};

/// The plan of one run.
fn quick(
    options: &QuickOptions,
    overrides: &[Override],
    environment: &Environment<'_>,
) -> Result<Plan, Diagnostics> {
    plimsoll_scenario::quick(options, overrides, environment)?.one()
}

fn least() -> QuickOptions {
    QuickOptions {
        address: "mqtt://broker:1884".into(),
        devices: Some("1000".into()),
        rate: Some("100..1500/100".into()),
        ..QuickOptions::default()
    }
}

#[test]
fn options_become_a_plan_for_a_platform_that_runs_already() {
    let options = QuickOptions {
        hold: Some("10s".into()),
        warm_up: Some("1s".into()),
        samples: Some("20".into()),
        drain: Some("2s".into()),
        qos: Some("2".into()),
        size: Some("1 KiB".into()),
        subscribers: Some("3".into()),
        arrivals: Some("{gamma: {shape: 2}}".into()),
        version: Some("5".into()),
        seed: Some("9".into()),
        ..least()
    };
    let overrides = [
        Override::Objective("publish_p99 < 80 ms".into()),
        Override::Objective("load_line>=1000".into()),
        Override::Key("load.threads=1".into()),
    ];
    let plan = quick(&options, &overrides, &ENVIRONMENT).unwrap();
    insta::assert_snapshot!("resolved_quick", plan.resolved);
    assert_eq!(plan.load.levels.len(), 15);
    assert_eq!(plan.mqtt.password, None, "there is no user name");
}

/// The address is the scenario's name, which must not be longer than a name.
#[test]
fn an_address_may_be_longer_than_a_name() {
    let address = format!("ws://host/{}", "a".repeat(300));
    let plan = quick(&QuickOptions { address, ..least() }, &[], &ENVIRONMENT).unwrap();
    assert_eq!((plan.name.len(), plan.platform.address.unwrap().path.len()), (200, 301));
}

#[test]
fn a_rate_is_one_level_or_a_range() {
    let levels = |rate: &str| {
        let options = QuickOptions { rate: Some(rate.into()), ..least() };
        quick(&options, &[], &ENVIRONMENT).unwrap().load.levels
    };
    for (rate, expected) in [
        ("500", vec![500.0]),
        ("1.5k/s", vec![1500.0]),
        ("100..300/100", vec![100.0, 200.0, 300.0]),
        ("100/s..300/s/100", vec![100.0, 200.0, 300.0]),
        ("100 .. 300/100/s", vec![100.0, 200.0, 300.0]),
    ] {
        assert_eq!(levels(rate), expected.into_iter().map(LevelPlan::Rate).collect::<Vec<_>>(), "{rate}");
    }
}

#[test]
fn a_websocket_address_means_mqtt_unless_another_protocol_is_named() {
    let protocol = |protocol: Option<&str>| {
        let address = "ws://host/in".to_owned();
        let options = QuickOptions { address, protocol: protocol.map(str::to_owned), ..least() };
        quick(&options, &[], &ENVIRONMENT).unwrap().protocol()
    };
    assert_eq!([None, Some("mqtt")].map(protocol), [Protocol::Mqtt; 2]);
    assert_eq!(protocol(Some("websocket")), Protocol::WebSocket);
}

#[test]
fn a_search_needs_no_rate() {
    let options = |range: &str| QuickOptions { rate: None, search: Some(range.into()), ..least() };
    let plan = quick(&options("100 .. 200k/s"), &[], &ENVIRONMENT).unwrap();
    assert_eq!(plan.load.search.map(|search| (search.from, search.to)), Some((100.0, 200_000.0)));
    for (range, expected) in
        [("100", "this is no range"), ("5..1", "is above `to`"), ("1..x", "is not a rate")]
    {
        let told = quick(&options(range), &[], &ENVIRONMENT).unwrap_err().to_string();
        assert!(told.contains(expected) && told.contains("--search"), "{told}");
    }
}

#[test]
fn user_and_password_come_from_the_address_and_the_environment() {
    let options = QuickOptions { address: "mqtt://alice@broker".into(), ..least() };
    let plan = quick(&options, &[], &ENVIRONMENT).unwrap();
    assert_eq!(plan.name, "mqtt://broker");
    assert_eq!(plan.mqtt.username.as_deref(), Some("alice"));
    assert_eq!(plan.mqtt.password.map(|secret| secret.0).as_deref(), Some("open sesame"));
    assert!(!plan.resolved.contains("sesame"));
    let bare = Environment { variable: &|_| None, ..ENVIRONMENT };
    assert_eq!(quick(&options, &[], &bare).unwrap().mqtt.password, None);
}

/// A token in a query goes to the platform, and is shown nowhere.
#[test]
fn values_of_a_query_are_not_shown() {
    let told = |address: &str, devices: &str| {
        let options = QuickOptions { address: address.into(), devices: Some(devices.into()), ..least() };
        quick(&options, &[], &ENVIRONMENT)
    };
    let plan = told("http://h/in?site=north&token=tik%2Ftak", "10").unwrap();
    let request = plan.platform.roles.device.request.as_ref().unwrap();
    assert_eq!(request.path.text(), "/in?site=north&token=tik%2Ftak");
    assert_eq!(plan.name, "http://h/in?site=***&token=***");
    let secrets: Vec<&str> = plan.platform.secrets.iter().map(|secret| secret.0.as_str()).collect();
    assert_eq!(secrets, ["tik%2Ftak", "tik/tak"]);
    for text in [&plan.resolved, &facts(&plan)] {
        assert!(text.contains("/in?site=north&token=***") && !text.contains("tik"), "{text}");
    }
    for address in [
        "http://h/in?token=tiktak",
        "http://h:x/in?token=tiktak",
        "http://h/i#n?token=tiktak",
        "mqtt://h/?token=tiktak",
        "mqtt://h?token=tiktak",
        "mqtt://h:1?token=tiktak",
        "what://h?token=tiktak",
        "ws://me:tiktak@h/?token=tiktak",
    ] {
        let told = told(address, "none").unwrap_err().to_string();
        assert!(!told.contains("tik"), "{told}");
    }
}

#[test]
fn what_varies_goes_with_an_address_too() {
    let sets = |texts: &[&str]| texts.iter().map(|text| Override::Key((*text).into())).collect::<Vec<_>>();
    let options = QuickOptions { devices: None, ..least() };
    let set = sets(&["matrix.population.devices=[1, 5]", "matrix.mqtt.qos=[0, 1]"]);
    let matrix = plimsoll_scenario::quick(&options, &set, &ENVIRONMENT).unwrap();
    let plans = matrix.positions().map(|position| matrix.plan(&position, 1).unwrap());
    assert_eq!(plans.map(|plan| plan.devices).collect::<Vec<_>>(), [1, 1, 5, 5]);
    let told = quick(&options, &set, &ENVIRONMENT).unwrap_err().to_string();
    assert!(told.contains("it is 4 runs") && told.contains("`plimsoll sweep`"), "{told}");
    let told = quick(&least(), &sets(&["quick.load.hold=1s"]), &ENVIRONMENT).unwrap_err().to_string();
    assert!(told.contains("in the scenario's file"), "{told}");
}

#[test]
fn errors_name_the_option_as_typed() {
    let told = |options: QuickOptions, objectives: &[&str], set: &[&str]| {
        let objectives = objectives.iter().map(|text| Override::Objective((*text).into()));
        let keys = set.iter().map(|text| Override::Key((*text).into()));
        let overrides: Vec<Override> = objectives.chain(keys).collect();
        quick(&options, &overrides, &ENVIRONMENT).unwrap_err().to_string()
    };
    let options = QuickOptions {
        address: "mqtt://broker:port".into(),
        devices: Some("many".into()),
        rate: Some("100..15x/100".into()),
        hold: Some("30".into()),
        ..least()
    };
    insta::assert_snapshot!(
        "wrong_options",
        told(options, &["publish_p99 < 50", "publish", "deliverd > 5 %"], &["load.hold=5"])
    );
    insta::assert_snapshot!(
        "missing_options",
        told(QuickOptions { address: "broker".into(), ..QuickOptions::default() }, &[], &[])
    );
    insta::assert_snapshot!(
        "conflicting_options",
        told(
            QuickOptions {
                rate: Some("900..100/100".into()),
                hold: Some("100ms".into()),
                qos: Some("0".into()),
                ..least()
            },
            &["publish_p99 < 5 ms"],
            &[]
        )
    );
    insta::assert_snapshot!(
        "range_without_step",
        told(QuickOptions { rate: Some("1..2/s".into()), ..least() }, &[], &[])
    );
}

#[test]
fn a_password_in_the_address_is_refused_and_not_repeated() {
    let options = QuickOptions { address: "mqtt://alice:pa@ss@broker".into(), ..least() };
    let told = quick(&options, &[], &ENVIRONMENT).unwrap_err().to_string();
    assert!(told.contains("PLIMSOLL_PASSWORD") && told.contains("alice:*****@broker"), "{told}");
    assert!(!told.contains("pa@ss") && !told.contains("ss@"), "{told}");
}

#[test]
fn the_closed_model_needs_no_rate() {
    let options = QuickOptions { rate: None, ..least() };
    let overrides =
        [Override::Key("load.model=closed".into()), Override::Key("load.in_flight=[1, 5]".into())];
    let plan = quick(&options, &overrides, &ENVIRONMENT).unwrap();
    assert_eq!(plan.load.levels, [LevelPlan::InFlight(1), LevelPlan::InFlight(5)]);
}

#[test]
fn a_text_may_look_like_a_map_on_the_command_line() {
    let json = r#"{"value":"{marker}","unit":[1]}"#;
    let set = [format!("message.template={json}"), "message.marker=ascii".to_owned()].map(Override::Key);
    let plan = quick(&least(), &set, &ENVIRONMENT).unwrap();
    assert!(plan.resolved.contains(&json.replace('"', "\\\"")), "{}", plan.resolved);
}

#[test]
fn an_objective_has_one_bound() {
    let objectives =
        ["publish_p99 < 5 ms", "publish_p99 < 9 ms"].map(|text| Override::Objective(text.into()));
    let told = quick(&least(), &objectives, &ENVIRONMENT).unwrap_err().to_string();
    assert!(told.contains("a second bound for `publish_p99`"), "{told}");
}

#[test]
fn levels_too_short_for_an_objective_are_told_with_the_hold_that_they_need() {
    let options = |hold: &str| QuickOptions { hold: Some(hold.into()), qos: Some("1".into()), ..least() };
    // 10 / (1 - 0.99) observations: at 100/s in 5 s there are 500, at 200/s there are 1,000.
    let plan = quick(&options("5s"), &[], &ENVIRONMENT).unwrap();
    let told = plan.too_few_observations();
    assert!(
        told.iter().any(|text| text
            .starts_with("publish_p99 needs 1,000 observations, but the hold of 100/s has about 500")
            && text.ends_with("hold for 10 s or more")),
        "{told:?}"
    );
    assert!(facts(&plan).contains("warning"), "{}", facts(&plan));
    let plan = quick(&options("10s"), &[], &ENVIRONMENT).unwrap();
    assert_eq!(plan.too_few_observations(), [""; 0]);
}
