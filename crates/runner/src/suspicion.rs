//! What to look at first where clients cannot connect, or where subscribers received nothing at all.

use plimsoll_analysis::level::LevelSummary;
use plimsoll_model::text::grouped;
use plimsoll_observe::found::{Place, process_at, program_of};
use plimsoll_observe::limits::open_files_of;
use plimsoll_scenario::plan::{Content, Piece, Plan, Protocol, ReceiveRole, Template};
use std::net::SocketAddr;

/// That a platform on this host may open fewer files than there will be connections, for people.
pub fn too_few_files(plan: &Plan, address: SocketAddr) -> Option<String> {
    if !plan.protocol().accepts_connections() || !plimsoll_observe::network::is_here(address.ip()) {
        return None;
    }
    let process = process_at(&Place::Port(address.port())).ok()?;
    let connections = plan.populations().map(Plan::connections).sum::<u64>();
    let limit = open_files_of(process)?;
    (limit < connections).then(|| {
        let program = program_of(process).unwrap_or_else(|| "the platform".to_owned());
        let [files, wanted] = [limit, connections].map(|count| grouped(count as f64));
        format!(
            "{program} (process {process}) may open {files} files, but {wanted} connections are to be made: raise its \
             limit, with `ulimit -n {}` where it is started or LimitNOFILE= in its unit",
            (connections * 2).next_power_of_two()
        )
    })
}

/// What an HTTP service may dislike in a message that is a marker and filler, where it refused nearly all, for people.
pub fn refused_content(plan: &Plan, levels: &[LevelSummary]) -> Option<String> {
    const MALFORMED: [&str; 3] = ["answered 400 ", "answered 415 ", "answered 422 "];
    let is_plain =
        matches!(plan.message.content, Content::Sized(_)) && plan.platform.roles.device.envelope.is_none();
    let is_refused = |level: &LevelSummary| {
        let incident = level.incident.as_deref().unwrap_or_default();
        2 * level.refused > level.sent && MALFORMED.iter().any(|words| incident.contains(words))
    };
    let asks = plan.protocol() == Protocol::Http && is_plain && levels.iter().any(is_refused);
    asks.then(|| {
        "each message is a binary marker with filler; for a service that takes JSON, choose the profile `http` and set its \
         `body` and `content_type`, as `plimsoll platforms http` shows"
            .to_owned()
    })
}

/// The first suspicion, for people; `None` where somebody received something, or nobody was to. `listener` is where the first
/// subscriber listens or is notified; empty where subscribers are clients of their own.
pub fn nothing_received(plan: &Plan, listener: &str, levels: &[LevelSummary]) -> Option<String> {
    let sum = |count: fn(&LevelSummary) -> u64| levels.iter().map(count).sum::<u64>();
    let subscribers = plan.subscribers.count;
    let sent = sum(|level| level.sent);
    if subscribers == 0 || sent == 0 || sum(|level| level.delivered + level.late + level.retained) > 0 {
        return None;
    }
    if sum(|level| level.expected_deliveries) == 0 {
        let texts = |template: &Template| template.pieces.iter().map(piece).collect::<String>();
        let filters: Vec<String> = plan.subscribers.filters.iter().map(texts).collect();
        return Some(format!(
            "no subscriber was to receive anything: the filters `{}` match no topic that the devices publish to (`{}`)",
            filters.join("`, `"),
            texts(&plan.message.target)
        ));
    }
    let foreign = sum(|level| level.foreign);
    if foreign > 0 {
        return Some(format!(
            "subscribers received {foreign} deliveries, but none with a message of this run: the platform may change or leave \
             out the marker, which `plimsoll check --probe SCENARIO` shows, or all are of somebody else"
        ));
    }
    let taken = match sum(|level| level.acknowledged.unwrap_or_default()) {
        0 => format!("{sent} messages were sent"),
        acknowledged => format!("the platform acknowledged {acknowledged} messages"),
    };
    let roles = &plan.platform.roles;
    let asks = roles.set_up.iter().map(|step| step.name.as_str()).rfind(|name| name.contains("subscri"));
    let suspicion = match (roles.listener.is_some(), asks) {
        (true, None) => "no step of the profile's set-up is named after a subscription: the platform was perhaps never asked to \
                         notify anybody"
            .to_owned(),
        (true, Some(step)) => {
            let loopback = match listener.contains("//127.") || listener.contains("//[::1]") {
                true => "; a platform in a container, or behind a forwarded port, does not reach this host there",
                false => "; a firewall on the way or on this host may refuse it",
            };
            format!(
                "the platform may not reach the subscribers, who listen at {listener}{loopback}. If it does, look whether the \
                 pattern or condition of the step `{step}` matches what the devices send"
            )
        }
        (false, _) if roles.observes.is_some() => {
            "the observed path may be another resource than the one that the devices write to".to_owned()
        }
        (false, _) if roles.receives.is_some() => {
            let key = match &roles.receives {
                Some(ReceiveRole::Http(role)) if role.polls.is_some() => "polls.request",
                Some(ReceiveRole::Http(_)) => "streams.request",
                _ => "websocket.opening",
            };
            format!("what subscribers say (`subscriber.{key}`) may not ask for what the devices send")
        }
        (false, _) => "the platform granted every subscription, so its access rules may forbid the delivery or drop what is \
                       published, or what stands between two brokers is away"
            .to_owned(),
    };
    let seen = levels.iter().find_map(|level| level.incident.as_deref());
    let seen = seen
        .map(|incident| format!(" What was seen: {}.", incident.trim_end_matches('.')))
        .unwrap_or_default();
    Some(format!("{taken} and subscribers received nothing at all.{seen} First suspicion: {suspicion}"))
}

/// A part of a topic as it was written, as far as that matters for people.
fn piece(piece: &Piece) -> String {
    match piece {
        Piece::Text(text) => text.clone(),
        Piece::Run => "{run}".into(),
        Piece::Device => "{device}".into(),
        Piece::Subscriber => "{subscriber}".into(),
        _ => "{..}".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::{Environment, SourceFile, load};

    fn plan(platform: &str, subscribers: &str) -> Plan {
        let text = format!(
            "name: silent\nplatform: {platform}\npopulation: {{ devices: 2, subscribers: {subscribers} }}\nload: {{ levels: [1] }}\n"
        );
        let environment = Environment { profile: &|_| Err(String::new()), variable: &|_| None };
        load(&SourceFile { name: "test".into(), text }, &[], &environment).unwrap()
    }

    fn level(expected_deliveries: u64, delivered: u64, foreign: u64) -> LevelSummary {
        let acknowledged = Some(7);
        LevelSummary {
            sent: 7,
            acknowledged,
            expected_deliveries,
            delivered,
            foreign,
            ..LevelSummary::default()
        }
    }

    #[test]
    fn the_first_suspicion_follows_from_what_is_known() {
        let broker = plan("{ profile: existing, address: 'mqtt://h:1' }", "1");
        let told = |plan: &Plan, listener: &str, level| nothing_received(plan, listener, &[level]);
        assert_eq!(told(&broker, "", level(7, 1, 0)), None);
        assert!(told(&broker, "", level(7, 0, 0)).unwrap().contains("access rules"));
        assert!(told(&broker, "", level(7, 0, 3)).unwrap().contains("check --probe"));
        let elsewhere =
            plan("{ profile: existing, address: 'mqtt://h:1' }", "{ count: 1, filters: ['elsewhere/#'] }");
        let told_of_filters = told(&elsewhere, "", level(0, 0, 0)).unwrap();
        assert!(told_of_filters.contains("`elsewhere/#` match no topic"), "{told_of_filters}");
        let context = plan("{ profile: fiware-orion, address: 'http://h:1' }", "1");
        let told_of_listener = told(&context, "http://127.0.0.1:9/0", level(7, 0, 0)).unwrap();
        for part in ["acknowledged 7", "http://127.0.0.1:9/0", "container", "`subscribe`"] {
            assert!(told_of_listener.contains(part), "{told_of_listener}");
        }
        assert_eq!(nothing_received(&plan("embedded", "0"), "", &[level(0, 0, 0)]), None);
    }
}
