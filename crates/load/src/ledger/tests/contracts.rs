//! What a contract allows to be left out, and what is lost all the same.

use super::*;
use crate::throttle::Throttle;
use plimsoll_scenario::plan::DeliveryContract;

/// A bench under a promise, where a delivery may take 100 ns.
fn promised(delivery: DeliveryContract, receivers: u32) -> Bench {
    let mut bench = Bench::new(receivers);
    bench.ledger = bench.ledger.under(Contract::of(delivery, Nanos(100), None));
    bench
}

/// Superseded and lost, once the level is closed.
fn ends(bench: &mut Bench) -> (u64, u64) {
    bench.close();
    let counts = bench.counts();
    assert_eq!(counts.expected_deliveries, counts.delivered + counts.superseded + counts.lost());
    (counts.superseded, counts.lost())
}

/// An agent is away for a while: every message meanwhile is acknowledged by what stands before it, and none arrives.
fn an_outage(delivery: DeliveryContract) -> Bench {
    let mut bench = promised(delivery, 1);
    for at in (0..1000).step_by(20) {
        let sequence = bench.send(at);
        bench.acknowledge(sequence);
        if !(200..600).contains(&at) {
            bench.receive_at(at + 5, sequence, 0);
        }
    }
    bench
}

#[test]
fn what_an_outage_takes_is_lost_where_every_message_is_promised() {
    assert_eq!(ends(&mut an_outage(DeliveryContract::Every)), (0, 20));
}

/// At 600 the first newer one is sent, at 605 it comes: those sent from 505 on were replaced in time, four of them.
#[test]
fn what_is_replaced_too_late_is_lost() {
    assert_eq!(ends(&mut an_outage(DeliveryContract::Latest)), (4, 16));
}

#[test]
fn who_observes_is_told_the_newest_at_last() {
    assert_eq!(ends(&mut an_outage(DeliveryContract::Observed)), (20, 0));
    // Nothing newer comes after the last: it is lost, and all that it would have replaced.
    let mut bench = promised(DeliveryContract::Observed, 1);
    let sent = [0, 10, 20, 30].map(|at| bench.send(at));
    sent.iter().for_each(|&sequence| bench.acknowledge(sequence));
    bench.receive_at(15, sent[1], 0);
    assert_eq!(ends(&mut bench), (1, 2));
}

#[test]
fn a_newer_message_replaces_for_whom_it_reached_alone() {
    for receivers in [2, 70] {
        let mut bench = promised(DeliveryContract::Latest, receivers);
        let (older, newer) = (bench.send(0), bench.send(10));
        bench.acknowledge(older);
        bench.acknowledge(newer);
        bench.receive_at(20, newer, receivers - 1);
        // The other subscribers have neither.
        assert_eq!(ends(&mut bench), (1, 2 * u64::from(receivers - 1)));
    }
}

#[test]
fn what_was_never_acknowledged_is_not_replaced_but_lost() {
    let mut bench = promised(DeliveryContract::Observed, 1);
    let (lost, newer) = (bench.send(0), bench.send(10));
    bench.acknowledge(newer);
    bench.receive_at(20, newer, 0);
    bench.close();
    let counts = bench.counts();
    assert_eq!((counts.superseded, counts.lost(), counts.lost_acknowledged()), (0, 1, Some(0)));
    bench.receive(lost, 0);
    assert_eq!((bench.counts().late, bench.counts().lost_acknowledged()), (1, Some(0)));
}

/// One that overtakes and is overtaken: what comes itself is delivered, whatever replaced it before.
#[test]
fn what_comes_after_the_one_that_replaced_it_is_delivered() {
    let mut bench = promised(DeliveryContract::Latest, 1);
    let sent = [0, 10, 20].map(|at| bench.send(at));
    sent.iter().for_each(|&sequence| bench.acknowledge(sequence));
    bench.receive_at(30, sent[2], 0);
    bench.receive_at(40, sent[1], 0);
    assert_eq!(ends(&mut bench), (1, 0));
    assert_eq!(bench.counts().delivered, 2);
}

/// A silence excuses what is missing at the subscriber that was notified, the newest message included, and nothing else.
#[test]
fn what_falls_into_a_silence_is_superseded_for_whom_it_is_kept() {
    let mut bench = Bench::new(2);
    let throttle = Arc::new(Throttle::new(Nanos(100), 2));
    let contract =
        Contract::of(DeliveryContract::Throttled(Nanos(100)), Nanos(5000), Some(Arc::clone(&throttle)));
    bench.ledger = bench.ledger.under(contract);
    let sent = [0, 510, 550, 650, 900].map(|at| bench.send(at));
    for (sequence, at) in sent.iter().zip([0, 510, 550, 650, 900]) {
        bench.ledger.acknowledged(&mut bench.recorder, &TIMELINE, (0, *sequence), Nanos(at));
    }
    bench.receive(sent[2], 0);
    throttle.notified(0, Nanos(600));
    let first_loss = bench.close();
    let counts = bench.counts();
    // Subscriber 0: the first was sent a period and more before anything came, the second was replaced in time, the third
    // delivered, the fourth in the silence, the last after it. Subscriber 1 was told nothing.
    assert_eq!((counts.delivered, counts.superseded, counts.lost()), (1, 2, 7));
    assert_eq!(counts.lost_acknowledged(), Some(7));
    assert_eq!(first_loss.unwrap().sequence, sent[0]);
}

#[test]
fn losses_are_told_apart_by_whether_the_platform_had_taken_the_message() {
    let mut bench = Bench::new(2);
    let (taken, not_taken, refused) = (bench.send(0), bench.send(10), bench.send(20));
    bench.acknowledge(taken);
    bench.ledger.given_up(&mut bench.recorder, (0, refused), true);
    bench.receive(taken, 0);
    bench.close();
    assert_eq!((bench.counts().lost(), bench.counts().lost_acknowledged()), (5, Some(1)));
    bench.receive(taken, 1);
    bench.receive(not_taken, 1);
    assert_eq!((bench.counts().lost(), bench.counts().lost_acknowledged()), (3, Some(0)));
    // Where nothing is acknowledged, nobody can say.
    let topology = Arc::new(Topology::uniform(1, 1));
    bench = Bench::new(1);
    bench.ledger = Ledger::new(topology, false, Share::WHOLE);
    bench.send(0);
    bench.close();
    assert_eq!((bench.counts().lost(), bench.counts().lost_acknowledged()), (1, None));
}
