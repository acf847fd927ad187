//! The profile of an agent for LwM2M: devices, an agent on the real library of FIWARE's agent (installed by
//! `scripts/test`), the NGSIv2 target, and notifications back.

use crate::harness::{Bench, Finished, count, sent};

const POPULATION: &str = "population: { devices: 12, subscribers: 2 }\nnorthbound: { rate: 10/s }";

/// The library acknowledges no confirmable notification.
fn scenario(platform: &str, rate: u32, more: &str) -> String {
    format!(
        "name: agent\nplatform: {platform}\ncoap: {{ confirmable: false }}\n\
         load: {{ arrivals: constant, levels: [{rate}], hold: 2s, samples: 2, warm_up: 0s, drain: 10s, again: 0s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: \">= 1 %\" }}\n{more}\n"
    )
}

/// Each of so many messages at least reached so many subscribers once.
#[track_caller]
fn exact(finished: &Finished, least: u64, subscribers: u64) {
    let level = finished.level(0);
    let sent = sent(level, least..);
    assert_eq!(count(level, "expected_deliveries"), subscribers * sent, "{level:#}");
    // Nothing acknowledges a notification that is not confirmable: it is done when it is sent.
    assert!(level["acknowledged"].is_null() && level["achieved"].as_f64() > Some(0.0), "{level:#}");
    assert_eq!(count(level, "delivered") + count(level, "late"), subscribers * sent, "{level:#}");
    for nothing in ["lost", "duplicated", "foreign", "refused", "superseded", "queries_failed"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {level:#}");
    }
}

#[test]
fn an_agent_writes_each_notification_of_the_devices_of_a_group() {
    let bench = Bench::beside_others();
    let platform = "{ profile: iota-lwm2m-target, clean_up: true }";
    let finished = bench.run(&scenario(platform, 60, POPULATION)).judged();
    exact(&finished, 118, 2);
    assert!(count(finished.level(0), "queries_answered") > 10, "{finished:?}");
}

#[test]
#[ignore = "acceptance: peers"]
fn devices_may_be_provisioned_before_they_register() {
    let bench = Bench::beside_others();
    let platform = "{ profile: iota-lwm2m-target, mapping: devices, clean_up: true }";
    exact(&bench.run(&scenario(platform, 60, POPULATION)).judged(), 118, 2);
}

#[test]
#[ignore = "acceptance: peers"]
fn several_hundred_devices_notify_one_agent() {
    let bench = Bench::beside_others();
    let more = "population: { devices: 300, subscribers: 1 }";
    exact(&bench.run(&scenario("iota-lwm2m-target", 150, more)).judged(), 298, 1);
}

/// The library drops a datagram of more than 1,280 bytes: the ledger says so, since nobody acknowledged it.
#[test]
#[ignore = "acceptance: peers"]
fn what_is_too_large_for_the_agent_is_lost() {
    let bench = Bench::beside_others();
    let more = "population: { devices: 2, subscribers: 1 }\nmessage: { size: 1300 }";
    let finished = bench.run(&scenario("iota-lwm2m-target", 4, more)).not_met();
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert!(sent >= 6, "{finished:?}");
    assert_eq!((count(level, "lost"), count(level, "delivered")), (sent, 0), "{level:#}");
}
