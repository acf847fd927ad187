//! Warnings about filters by which subscribers receive nothing.

use crate::support::{facts, load};

fn warnings(platform: &str, more: &str) -> Vec<String> {
    let text = format!(
        "name: t\nplatform: {{ profile: existing, address: \"{platform}\" }}\n\
         message: {{ target: \"city/{{run}}/{{device}}\" }}\nload: {{ levels: [1/s] }}\n{more}\n"
    );
    let plan = load(&text).unwrap_or_else(|found| panic!("{text}{found}"));
    let warnings = plan.doubtful_filters();
    assert!(warnings.iter().all(|warning| facts(&plan).contains(warning)), "`check` shows them");
    warnings
}

fn alone(platform: &str, filters: &str) -> Vec<String> {
    let population = format!("population: {{ devices: 3, subscribers: {{ count: 2, filters: {filters} }} }}");
    warnings(platform, &population)
}

#[test]
fn filters_that_match_nothing_are_a_warning() {
    let mqtt = "mqtt://h";
    let said = alone(mqtt, "['nothing/#', 'city/+']");
    let expected = "devices publish to `city/{run}/{device}`, and no filter of the subscribers matches that (`nothing/#`, `city/+`): \
                    no delivery counts; correct the filters or `message.target`, or write the filter `#` where the platform changes \
                    topics";
    assert_eq!(said, [expected]);
    let said = alone("nats://h", "['nothing.>']");
    assert!(said[0].contains("`city.{run}.{device}`") && said[0].contains("the filter `>`"), "{said:?}");
    for filters in ["['#']", "['city/{run}/{subscriber}']", "['nothing', 'city/{run}/+']", "['+/+/2']"] {
        assert_eq!(alone(mqtt, filters), [""; 0], "{filters}");
    }
    // Nobody is there to miss something, or something else decides who receives what.
    assert_eq!(
        warnings(mqtt, "population: { devices: 3, subscribers: { count: 0, filters: [nothing] } }"),
        [""; 0]
    );
    assert_eq!(warnings("http://h/in", "population: { devices: 3 }"), [""; 0]);
}

#[test]
fn wildcards_of_another_protocol_are_a_warning() {
    for (platform, filter, expected) in [
        (
            "amqp://h",
            "city.>",
            "`>` in the filter `city.>` is no wildcard over AMQP 0-9-1; write `*` for one level, or `#` for all that follow",
        ),
        (
            "mqtt://h",
            "city/*/1",
            "`*` in the filter `city/*/1` is no wildcard over MQTT; write `+` for one level, or `#` for all that follow",
        ),
        (
            "kafka://h",
            "city/>",
            "`>` in the filter `city/>` is no wildcard over Kafka; write `+` for one level, or `#` for all that follow",
        ),
    ] {
        assert_eq!(alone(platform, &format!("['{filter}']")), [expected]);
        // A filter beside it that matches does not hide it.
        assert_eq!(alone(platform, &format!("['{filter}', 'city/#']")), [expected]);
    }
    for (platform, filter) in [("nats://h", "city.*.>"), ("nats://h", "city/+/#"), ("amqp://h", "city.*.#")] {
        assert_eq!(alone(platform, &format!("['{filter}']")), [""; 0], "{filter}");
    }
}

#[test]
fn subscribers_in_common_filter_what_all_populations_publish() {
    let populations = "populations:\n- { name: a, devices: 1, message: { target: 'a/{device}' } }\n\
                       - { name: b, devices: 1, message: { target: 'b/{device}' } }";
    let common = |filters: &str| warnings("mqtt://h", &format!("{populations}\nsubscribers: {filters}"));
    assert_eq!(common("2"), [""; 0]);
    assert_eq!(common("{ count: 2, filters: ['a/#', 'b/+'] }"), [""; 0]);
    let said = common("{ count: 2, filters: ['a/#'] }");
    assert!(said.len() == 1 && said[0].starts_with("devices of `b` publish to `b/{device}`"), "{said:?}");
    // They write filters in the words of what they speak, whatever devices speak.
    for (platform, filter) in [("nats://g", "*.>"), ("amqp://g", "*.#"), ("kafka://g", "+/#")] {
        let kafka = if platform.starts_with("kafka") { ", kafka: { topic: t }" } else { "" };
        let subscribers =
            format!("{{ count: 2, filters: ['{filter}'], platform: {{ address: '{platform}' }}{kafka} }}");
        assert_eq!(common(&subscribers), [""; 0], "{platform}");
    }
    let said = common("{ count: 2, filters: ['c.>'], platform: { address: 'nats://g' } }");
    assert!(said.len() == 2 && said[0].contains("(`c.>`)"), "{said:?}");
}
