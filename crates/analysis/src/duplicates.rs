//! Whether the platform may deliver a message twice, and whether it does so often.

use crate::level::LevelSummary;
use plimsoll_model::record::Terms;
use plimsoll_model::text::grouped;

/// Why duplicates are legal; `None` where they are violations (MQTT 5, sections 3.3.4, 4.3 and 4.4). How a platform acknowledges what is
/// published to it says nothing of what it delivers, but over MQTT.
pub fn legal(terms: &Terms) -> Option<String> {
    if terms.redelivery.is_some() {
        terms.redelivery.clone()
    } else if terms.several_filters {
        Some("a broker may deliver once for each matching filter".into())
    } else if terms.qos.min(terms.subscribe_qos) == 1 {
        let repeats =
            if terms.persistent { ", and persistent sessions repeat after a reconnect (DUP)" } else { "" };
        Some(format!("QoS 1 delivers at least once{repeats}"))
    } else if terms.qos == 1 && terms.persistent {
        // Each copy is a message of its own for the broker, whatever the subscriber's QoS.
        Some("devices with persistent sessions repeat at QoS 1 after a reconnect (DUP)".into())
    } else if terms.repeats_lost {
        Some("messages whose connection was lost are sent again, as the profile or `retry` says".into())
    } else {
        None
    }
}

/// From this share of the deliveries on, duplicates are told wherever a result is.
const OFTEN: f64 = 0.01;

/// The level with the most duplicates, for people; `None` where there are few in each.
pub fn story(levels: &[LevelSummary]) -> Option<String> {
    let share = |level: &LevelSummary| level.duplicated as f64 / level.expected_deliveries as f64;
    let expecting = levels.iter().filter(|level| level.expected_deliveries > 0);
    let level = expecting.max_by(|one, other| share(one).total_cmp(&share(other)))?;
    (share(level) >= OFTEN).then(|| {
        let [duplicated, expected] = [level.duplicated, level.expected_deliveries].map(|n| grouped(n as f64));
        let legal = level.duplicates_legal.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
        format!(
            "{}: besides the {expected} deliveries that were to come, messages came again {duplicated} times{legal}",
            level.load
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_duplicates_are_told_of_the_level_with_the_most() {
        let level = |index, expected_deliveries, duplicated| LevelSummary {
            index,
            expected_deliveries,
            duplicated,
            ..LevelSummary::default()
        };
        assert_eq!(story(&[]), None);
        assert_eq!(story(&[level(0, 1_000, 9)]), None);
        let told = story(&[level(0, 1_000, 9), level(1, 200, 21_319), level(2, 0, 0)]).unwrap();
        assert!(told.contains("the 200 deliveries") && told.ends_with("again 21,319 times"), "{told}");
    }

    #[test]
    fn what_may_come_twice_depends_on_both_qos_filters_and_sessions() {
        let why = |qos, subscribe_qos, persistent| {
            legal(&Terms { qos, subscribe_qos, persistent, ..Terms::default() }).unwrap_or_default()
        };
        assert_eq!(why(1, 1, false), "QoS 1 delivers at least once");
        assert!(why(1, 1, true).contains("persistent sessions repeat"));
        assert!(why(2, 1, true).starts_with("QoS 1"), "the broker repeats to the subscriber");
        assert!(why(1, 0, true).contains("devices with persistent sessions"));
        for (qos, subscribe_qos) in [(0, 0), (0, 1), (2, 0), (2, 2)] {
            assert_eq!(why(qos, subscribe_qos, true), "", "{qos} and {subscribe_qos}");
        }
        assert_eq!(why(1, 0, false), "", "in a clean session nothing is sent again");
        let filters = Terms { several_filters: true, ..Terms::default() };
        assert!(legal(&filters).is_some());
    }

    #[test]
    fn a_protocol_that_delivers_again_does_so_however_messages_are_acknowledged() {
        for qos in [0, 1] {
            let log = "a log is read again".to_owned();
            let terms = Terms { qos, several_filters: true, redelivery: Some(log), ..Terms::default() };
            assert_eq!(legal(&terms).as_deref(), Some("a log is read again"));
        }
    }
}
