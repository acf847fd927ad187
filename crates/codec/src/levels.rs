//! Topics as levels that slashes separate, and the same in protocols whose levels dots separate: subjects of NATS, routing keys of AMQP.
//! NATS and RabbitMQ translate topics of MQTT in this way.

/// Puts dots in the place of slashes.
pub fn to_dots(levels: &mut [u8]) {
    for byte in levels.iter_mut().filter(|byte| **byte == b'/') {
        *byte = b'.';
    }
}

/// A topic filter with dots: `+` is `*`, and `#` is the protocol's own word for all that follows.
pub fn dotted_filter(levels: &str, rest: &str) -> String {
    let level = |level| match level {
        "+" => "*",
        "#" => rest,
        level => level,
    };
    levels.split('/').map(level).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_in_the_place_of_slashes() {
        let mut topic = b"a/b".to_vec();
        to_dots(&mut topic);
        assert_eq!(topic, b"a.b");
        assert_eq!([">", "#"].map(|rest| dotted_filter("a/+/#", rest)), ["a.*.>", "a.*.#"]);
    }
}
