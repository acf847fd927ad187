use super::*;
use plimsoll_capture::observations::{ConversationId, Exchange, Notice};
use plimsoll_capture::request::Asking;
use plimsoll_capture::side::Side;
use plimsoll_model::wire::{Label, Outcome, Span, WireProtocol};

const NAMES: [&str; 4] = ["plimsoll", "agent", "context", "store"];

pub(in crate::dissection) fn components() -> Components {
    let mut components = Components::default();
    NAMES.iter().for_each(|name| {
        components.component(name);
    });
    components
}

pub(in crate::dissection) fn call(
    pulse: &mut Pulse,
    asker: u32,
    asked: u32,
    begin: f64,
    end: Option<f64>,
    asking: Asking,
) {
    let span = |at: f64| Span { first: Nanos::from_secs_f64(at), last: Nanos::from_secs_f64(at), bytes: 10 };
    let exchange = Exchange {
        conversation: ConversationId(0),
        protocol: WireProtocol::Http,
        requester: Side::Client,
        verb: Label::new("POST"),
        outcome: if end.is_some() { Outcome::Answered } else { Outcome::Unanswered },
        status: Label::default(),
        request: span(begin),
        interim: None,
        response: end.map(span),
        marker: None,
        carried: false,
        asking,
    };
    pulse.exchange(&exchange, [Party::Component(asker), Party::Component(asked)]);
}

/// So many messages a second for 20 s along a chain; nobody who is frozen says or sends anything from 8 s to 10 s.
fn chain(rate: u32, frozen: &[u32], answers_after: bool) -> Vec<StallSummary> {
    let mut pulse = Pulse::default();
    let thaw = |who: u32, at: f64| match frozen.contains(&who) && (8.0..10.0).contains(&at) {
        true => 10.0 + (at - 8.0) / 100.0,
        false => at,
    };
    for number in 0..20 * rate {
        let due = f64::from(number) / f64::from(rate);
        let sent = thaw(0, due);
        let passed = thaw(1, sent + 0.001);
        let written = thaw(2, passed + 0.001);
        let stored = thaw(3, written + 0.001);
        let back = [thaw(2, stored + 0.001), thaw(1, stored + 0.002)];
        // What was asked meanwhile may never be answered.
        let kept = |end: f64| (answers_after || !(8.0..10.0).contains(&due)).then_some(end);
        call(&mut pulse, 2, 3, written, kept(stored), Asking::Now);
        call(&mut pulse, 1, 2, passed, kept(back[0]), Asking::Now);
        call(&mut pulse, 0, 1, sent, kept(back[1]), Asking::Now);
        // Somebody always waits for news.
        if number % rate == 0 {
            call(&mut pulse, 2, 3, thaw(2, due), Some(thaw(3, due + 0.99)), Asking::News);
        }
    }
    stalls(&pulse, &components(), Nanos::ZERO)
}

#[test]
fn whoever_stands_still_is_named_and_those_who_wait_for_it_are_not() {
    for rate in [10, 50, 200] {
        for (frozen, waiting) in [
            (1, &["plimsoll"][..]),
            (2, &["plimsoll", "agent"][..]),
            (3, &["plimsoll", "agent", "context"][..]),
        ] {
            for answers_after in [true, false] {
                let told = chain(rate, &[frozen], answers_after);
                let [stall] = &told[..] else { panic!("{rate} {frozen}: {told:?}") };
                assert_eq!(stall.component.as_deref(), Some(NAMES[frozen as usize]), "{rate} {told:?}");
                // Without answers, it is not known who waited.
                let known = stall.waiting.iter().all(|name| waiting.contains(&name.as_str()));
                assert!(known && (!answers_after || stall.waiting == waiting), "{rate} {stall:?}");
                assert!((stall.from - 8.0).abs() < 0.25 && (stall.to - 10.0).abs() < 0.25, "{stall:?}");
            }
        }
    }
}

#[test]
fn where_everything_is_silent_nobody_is_named() {
    for rate in [10, 50, 200] {
        let told = chain(rate, &[0, 1, 2, 3], true);
        assert!(told.iter().all(|stall| stall.component.is_none()), "{told:?}");
        assert_eq!(chain(rate, &[], true), []);
        // The generator alone: nobody waits for anything.
        assert_eq!(chain(rate, &[0], true), []);
    }
}

#[test]
fn who_is_always_slow_does_not_stand_still() {
    let mut pulse = Pulse::default();
    for number in 0..60 {
        let at = f64::from(number) * 0.7;
        call(&mut pulse, 0, 1, at, Some(at + 0.65 + f64::from(number % 5) / 10.0), Asking::Now);
    }
    assert_eq!(stalls(&pulse, &components(), Nanos::ZERO), []);
}

#[test]
fn threads_put_together_tell_the_same() {
    let mut parts = [Pulse::default(), Pulse::default()];
    for number in 0..400_usize {
        let at = 5.0 + number as f64 / 20.0;
        let end = if (12.0..14.0).contains(&at) { 14.0 } else { at + 0.01 };
        call(&mut parts[number % 2], 0, 1, at, Some(end), Asking::Now);
    }
    let [mut one, other] = parts;
    one.merge(other);
    let told = stalls(&one, &components(), Nanos::from_secs(5));
    assert_eq!(
        told.iter().map(StallSummary::told).collect::<Vec<_>>(),
        ["from 7.0 s to 9.0 s agent answered nothing; plimsoll waited"]
    );
}

/// A closed loop: all devices wait while the store stands still. Somebody who opens connections meanwhile shows that the host does not.
#[test]
fn a_closed_loop_names_who_stands_still_where_the_host_is_seen_to_be_awake() {
    for awake in [true, false] {
        let mut pulse = Pulse::default();
        let mut at = 0.0;
        while at < 20.0 {
            let end = if (8.0..10.0).contains(&(at + 0.01)) { 10.0 } else { at + 0.01 };
            call(&mut pulse, 2, 3, at, Some(end), Asking::Now);
            call(&mut pulse, 0, 2, at, Some(end + 0.001), Asking::Now);
            at = end + 0.02;
        }
        for quarter in 0..80_u32 {
            let at = f64::from(quarter) / 4.0;
            if awake || !(8.0..10.0).contains(&at) {
                pulse.opened(Nanos::from_secs_f64(at), Party::Component(0));
            }
        }
        let told = stalls(&pulse, &components(), Nanos::ZERO);
        let [stall] = &told[..] else { panic!("{told:?}") };
        assert_eq!(stall.component.as_deref(), awake.then_some("store"), "{told:?}");
    }
}

/// The same with nobody who speaks: the host itself was awake all the time, or not.
#[test]
fn where_all_wait_a_host_that_was_awake_shows_who_stands_still() {
    for (awake_until, named) in [(20.0, Some("store")), (8.5, None)] {
        let mut pulse = Pulse::default();
        let mut at = 0.0;
        while at < 20.0 {
            let end = if (8.0..10.0).contains(&(at + 0.01)) { 10.0 } else { at + 0.01 };
            call(&mut pulse, 2, 3, at, Some(end), Asking::Now);
            call(&mut pulse, 1, 2, at, Some(end + 0.001), Asking::Now);
            call(&mut pulse, 0, 1, at, Some(end + 0.002), Asking::Now);
            at = end + 0.02;
        }
        for twentieth in 0..400_u32 {
            let at = f64::from(twentieth) / 20.0;
            if at < awake_until || at >= 10.0 {
                pulse.awake(Nanos::from_secs_f64(at));
            }
        }
        let told = stalls(&pulse, &components(), Nanos::ZERO);
        let [stall] = &told[..] else { panic!("{told:?}") };
        assert_eq!(stall.component.as_deref(), named, "{told:?}");
    }
}

/// An agent that is only notified, and calls the store for each notification, stands still for a quarter of the capture. One that
/// is notified and calls seldom does not.
#[test]
fn who_is_notified_and_stops_calling_is_named_though_the_stall_is_a_good_part_of_all() {
    for (every, named) in [(1, true), (20, false)] {
        let mut pulse = Pulse::default();
        for number in 0..240 {
            let at = f64::from(number) / 30.0;
            let span = Span { first: Nanos::from_secs_f64(at), last: Nanos::from_secs_f64(at), bytes: 10 };
            let notice = Notice {
                conversation: ConversationId(0),
                protocol: WireProtocol::Mqtt,
                from: Side::Server,
                verb: Label::new("PUBLISH"),
                unexpected: false,
                span,
            };
            pulse.notice(&notice, [Party::Component(0), Party::Component(1)]);
            let calls = if (3.0..5.0).contains(&at) { 5.0 + (at - 3.0) / 100.0 } else { at + 0.001 };
            if number % every == 0 {
                call(&mut pulse, 1, 3, calls, Some(calls + 0.001), Asking::Now);
            }
        }
        let told = stalls(&pulse, &components(), Nanos::ZERO);
        let names: Vec<_> = told.iter().filter_map(|stall| stall.component.as_deref()).collect();
        assert_eq!(names, if named { &["agent"][..] } else { &[] }, "{told:?}");
    }
}
