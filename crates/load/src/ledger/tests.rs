//! The ledger against hand-made events.

use super::*;
use plimsoll_model::Counts;
use plimsoll_model::message::Fate;

mod contracts;

const TIMELINE: Timeline = Timeline {
    level: 0,
    start: Nanos(0),
    hold_start: Nanos(0),
    hold_end: Nanos(1000),
    samples: 1,
    cut: None,
};

/// One device, two subscribers, and what the recorder says.
struct Bench {
    ledger: Ledger,
    recorder: Recorder,
    total: Counts,
}

impl Bench {
    fn new(receivers: u32) -> Bench {
        let topology = Arc::new(Topology::uniform(1, receivers));
        let ledger = Ledger::new(topology, true, Share::WHOLE);
        Bench { ledger, recorder: Recorder::default(), total: Counts::default() }
    }

    /// A message that is due, ready and sent at once.
    fn send(&mut self, at: i64) -> u32 {
        let sequence = self.ledger.ready(&mut self.recorder, &TIMELINE, 0, Nanos(at), Nanos(at)).unwrap();
        self.ledger.sent(&mut self.recorder, &TIMELINE, (0, sequence), Nanos(at), (10, 20));
        sequence
    }

    fn acknowledge(&mut self, sequence: u32) {
        self.ledger.acknowledged(&mut self.recorder, &TIMELINE, (0, sequence), Nanos(500));
    }

    fn receive(&mut self, sequence: u32, subscriber: u32) {
        self.receive_at(600, sequence, subscriber);
    }

    fn receive_at(&mut self, at: i64, sequence: u32, subscriber: u32) {
        self.receive_in(0, at, sequence, subscriber);
    }

    fn receive_in(&mut self, partition: u16, at: i64, sequence: u32, subscriber: u32) {
        let at = Nanos(at);
        let delivery = Delivery { device: 0, sequence, subscriber, at, content: 10, partition };
        self.ledger.received(&mut self.recorder, TIMELINE.slot(at), delivery);
    }

    fn close(&mut self) -> Option<FirstLoss> {
        self.ledger.close(&mut self.recorder, &TIMELINE).2
    }

    fn counts(&mut self) -> Counts {
        for part in self.recorder.flush() {
            self.total += part.counts;
        }
        self.total
    }
}

#[test]
fn what_everybody_has_is_forgotten_and_comes_again_as_a_duplicate() {
    let mut bench = Bench::new(2);
    let sequence = bench.send(0);
    bench.receive(sequence, 0);
    bench.receive(sequence, 1);
    assert_eq!(bench.ledger.outstanding(), 1, "the acknowledgement is still awaited");
    bench.acknowledge(sequence);
    assert_eq!(bench.ledger.outstanding(), 0);
    bench.receive(sequence, 1);
    let counts = bench.counts();
    assert_eq!((counts.delivered, counts.duplicated, counts.acknowledged), (2, 1, 1));
}

#[test]
fn what_a_components_log_tells_is_awaited_beside_the_answer() {
    let mut bench = Bench::new(0);
    bench.ledger = bench.ledger.awaiting_stages().logging();
    let life = |retrieved| {
        let life = Stages {
            retrieved: Some(Nanos(retrieved)),
            dispatched: None,
            done: Nanos(400),
            within: Nanos(5),
        };
        (life, Nanos(500))
    };
    let [first, second, refused, untold] = [0, 10, 20, 30].map(|at| bench.send(at));
    // Answered, but behind one that is not: kept, and told in time.
    bench.acknowledge(second);
    bench.ledger.passed_stages(&mut bench.recorder, (0, second), life(110));
    bench.ledger.passed_stages(&mut bench.recorder, (0, first), life(100));
    // Said twice, it counts once.
    bench.ledger.passed_stages(&mut bench.recorder, (0, first), life(200));
    assert_eq!(bench.ledger.outstanding(), 4, "the first answer is still awaited");
    bench.acknowledge(first);
    assert_eq!(bench.ledger.outstanding(), 2);
    assert!(bench.ledger.given_up(&mut bench.recorder, (0, refused), true));
    assert!(!bench.ledger.given_up(&mut bench.recorder, (0, refused), true), "that was known");
    bench.acknowledge(untold);
    assert_eq!(bench.ledger.outstanding(), 1, "what the log says of the last is still awaited");
    bench.close();
    // Of a message that is gone, and of one that never was.
    bench.ledger.passed_stages(&mut bench.recorder, (0, untold), life(130));
    bench.ledger.passed_stages(&mut bench.recorder, (0, 99), life(130));
    let records = bench.ledger.take_log();
    let lives: Vec<_> = records.iter().map(|record| (record.retrieved, record.fate)).collect();
    let [complete, gone] = [Fate::Complete, Fate::Refused];
    let expected =
        [(Some(Nanos(100)), complete), (Some(Nanos(110)), complete), (None, gone), (None, complete)];
    assert_eq!(lives, expected);
    let parts = bench.recorder.flush();
    let transfers = parts.iter().flat_map(|part| &part.histograms);
    let transfers = transfers.filter(|(metric, _)| *metric == Metric::TransferTime);
    assert_eq!(transfers.map(|(_, times)| times.count()).sum::<u64>(), 2);
}

#[test]
fn a_life_that_cannot_have_been_is_not_booked() {
    let mut bench = Bench::new(0);
    let sequence = bench.send(100);
    let life = |[retrieved, dispatched, done]: [i64; 3]| Stages {
        retrieved: Some(Nanos(retrieved)),
        dispatched: Some(Nanos(dispatched)),
        done: Nanos(done),
        within: Nanos(5),
    };
    let mut handled = |stations, now| {
        let told = (life(stations), Nanos(now));
        bench.ledger.acknowledged_by_stages(&mut bench.recorder, &TIMELINE, (0, sequence), told)
    };
    assert!(!handled([90, 200, 300], 400), "before it was sent");
    assert!(!handled([200, 300, 410], 400), "after now");
    assert!(!handled([300, 200, 350], 400), "out of order");
    assert!(!handled([i64::MIN, i64::MAX, i64::MIN], 400));
    assert!(handled([96, 200, 404], 400), "as well as the clocks are known");
    assert_eq!((bench.counts().acknowledged, bench.ledger.outstanding()), (1, 0));
}

#[test]
fn queries_are_about_devices_of_which_the_platform_has_had_something() {
    let mut bench = Bench::new(0);
    let topology = Arc::new(Topology::uniform(6, 0));
    bench.ledger = Ledger::new(topology, true, Share { index: 1, of: 2, first: 0 });
    assert_eq!(bench.ledger.known_near(3), 3, "of nobody anything is known");
    let sequence = bench.ledger.ready(&mut bench.recorder, &TIMELINE, 5, Nanos(1), Nanos(1)).unwrap();
    bench.ledger.sent(&mut bench.recorder, &TIMELINE, (5, sequence), Nanos(2), (10, 20));
    assert_eq!(bench.ledger.known_near(3), 3, "nor what was not acknowledged");
    bench.ledger.acknowledged(&mut bench.recorder, &TIMELINE, (5, sequence), Nanos(3));
    assert_eq!([0, 1, 2, 3, 4, 5].map(|device| bench.ledger.known_near(device)), [5; 6]);
}

/// As well as the clocks are known an event was retrieved 4 ns before it was fetched, which cannot be: all of its stations
/// were later.
#[test]
fn no_event_is_told_as_retrieved_before_it_was_fetched() {
    let mut bench = Bench::new(0);
    bench.ledger = bench.ledger.logging();
    let sequence = bench.send(100);
    let life = Stages {
        retrieved: Some(Nanos(96)),
        dispatched: Some(Nanos(200)),
        done: Nanos(400),
        within: Nanos(5),
    };
    let told = (life, Nanos(500));
    assert!(bench.ledger.acknowledged_by_stages(&mut bench.recorder, &TIMELINE, (0, sequence), told));
    let log = bench.ledger.take_log();
    let found = [log[0].sent, log[0].retrieved, log[0].dispatched, log[0].done];
    assert_eq!(found, [100, 100, 204, 404].map(|at| Some(Nanos(at))));
}

#[test]
fn a_swapped_pair_is_one_reordering_and_a_duplicate_is_none() {
    let mut bench = Bench::new(1);
    let (first, second) = (bench.send(0), bench.send(1));
    bench.receive(second, 0);
    bench.receive(first, 0);
    bench.receive(first, 0);
    let counts = bench.counts();
    assert_eq!((counts.delivered, counts.reordered, counts.duplicated), (2, 1, 1));
}

#[test]
fn order_is_that_of_a_partition() {
    let mut bench = Bench::new(1);
    let sent: Vec<u32> = (0..4).map(|at| bench.send(at)).collect();
    for (partition, place) in [(0, 1), (3, 0), (3, 3), (3, 2)] {
        bench.receive_in(partition, 600, sent[place], 0);
    }
    let counts = bench.counts();
    assert_eq!(
        (counts.delivered, counts.reordered),
        (4, 1),
        "the last one alone, behind another one of its partition"
    );
}

#[test]
fn the_first_loss_is_named_and_a_late_delivery_takes_it_back() {
    let mut bench = Bench::new(1);
    let sent: Vec<u32> = (0..3).map(|at| bench.send(at * 10)).collect();
    bench.receive(sent[0], 0);
    bench.receive(sent[2], 0);
    let loss = bench.close().unwrap();
    assert_eq!((loss.sequence, loss.message_number, loss.due_in_hold), (1, 2, Nanos(10)));
    assert_eq!(bench.counts().lost(), 1);
    bench.receive(sent[1], 0);
    bench.receive(sent[1], 0);
    let counts = bench.counts();
    assert_eq!((counts.late, counts.lost(), counts.duplicated), (1, 0, 1));
}

#[test]
fn what_was_never_sent_is_unsent_and_expects_nobody() {
    let mut bench = Bench::new(2);
    bench.ledger.ready(&mut bench.recorder, &TIMELINE, 0, Nanos(1), Nanos(2)).unwrap();
    bench.ledger.never_ready(&mut bench.recorder, &TIMELINE, Nanos(3));
    assert_eq!(bench.close(), None);
    let counts = bench.counts();
    assert_eq!((counts.due, counts.sent, counts.unsent, counts.never_ready), (2, 0, 2, 1));
    assert_eq!(counts.expected_deliveries, 0);
}

#[test]
fn a_message_refused_before_it_was_sent_is_unsent_once() {
    for receivers in [0, 2] {
        let mut bench = Bench::new(receivers);
        let sequence = bench.ledger.ready(&mut bench.recorder, &TIMELINE, 0, Nanos(1), Nanos(1)).unwrap();
        bench.ledger.given_up(&mut bench.recorder, (0, sequence), true);
        assert_eq!(bench.ledger.outstanding(), 0);
        bench.close();
        let counts = bench.counts();
        assert_eq!((counts.due, counts.sent, counts.unsent, counts.refused), (1, 0, 1, 1));
    }
}

#[test]
fn an_invented_message_or_subscriber_is_foreign() {
    let mut bench = Bench::new(1);
    let sequence = bench.send(0);
    bench.receive(sequence + 1, 0);
    bench.receive(sequence, 7);
    let counts = bench.counts();
    assert_eq!((counts.foreign, counts.delivered), (2, 0));
}

#[test]
fn more_than_sixty_four_subscribers_are_told_apart() {
    for receivers in [64, 65, 130] {
        let mut bench = Bench::new(receivers);
        let sequence = bench.send(0);
        bench.acknowledge(sequence);
        for subscriber in 0..receivers {
            assert_eq!(bench.ledger.outstanding(), 1);
            bench.receive(sequence, subscriber);
        }
        assert_eq!(bench.ledger.outstanding(), 0);
        assert_eq!(bench.counts().delivered, u64::from(receivers));
    }
}

#[test]
fn a_second_acknowledgement_and_one_of_nothing_change_nothing() {
    let mut bench = Bench::new(1);
    let sequence = bench.send(0);
    bench.acknowledge(sequence);
    bench.acknowledge(sequence);
    bench.acknowledge(sequence + 5);
    assert_eq!(bench.counts().acknowledged, 1);
}

#[test]
fn the_log_has_one_record_a_message_and_its_fate() {
    let mut bench = Bench::new(2);
    bench.ledger = bench.ledger.logging();
    let [complete, lost, unacknowledged, refused, abandoned] = [0, 1, 2, 3, 4].map(|at| bench.send(at));
    let unsent = bench.ledger.ready(&mut bench.recorder, &TIMELINE, 0, Nanos(5), Nanos(6)).unwrap();
    for sequence in [complete, unacknowledged, refused, abandoned] {
        bench.receive(sequence, 0);
        bench.receive(sequence, 1);
    }
    bench.receive(lost, 1);
    bench.acknowledge(complete);
    bench.acknowledge(lost);
    bench.ledger.given_up(&mut bench.recorder, (0, refused), true);
    bench.ledger.given_up(&mut bench.recorder, (0, abandoned), false);
    assert_eq!(bench.ledger.logged(), 1, "behind a lost message the others wait for their level to close");
    bench.close();
    let log = bench.ledger.take_log();
    let fates: Vec<(u32, Fate, u32)> = log.iter().map(|m| (m.sequence, m.fate, m.missing)).collect();
    let expected = [
        (complete, Fate::Complete, 0),
        (lost, Fate::Lost, 1),
        (unacknowledged, Fate::Unacknowledged, 0),
        (refused, Fate::Refused, 0),
        (abandoned, Fate::Abandoned, 0),
        (unsent, Fate::Unsent, 0),
    ];
    assert_eq!(fates, expected);
    let first = log[0];
    assert_eq!((first.due, first.ready, first.sent), (Nanos(0), Nanos(0), Some(Nanos(0))));
    assert_eq!((first.done, first.first_received, first.receivers), (Some(Nanos(500)), Some(Nanos(600)), 2));
    assert_eq!((log[5].ready, log[5].sent, log[5].done), (Nanos(6), None, None));
    assert_eq!(bench.ledger.take_log(), []);
}

#[test]
fn without_a_log_nothing_is_kept() {
    let mut bench = Bench::new(1);
    let sequence = bench.send(0);
    bench.receive(sequence, 0);
    bench.acknowledge(sequence);
    assert_eq!((bench.ledger.logged(), bench.ledger.take_log()), (0, vec![]));
}

/// Whoever of the group gets a message, it is delivered; another one is too many. Order is kept by each member alone.
#[test]
fn a_group_that_shares_its_subscription_expects_each_message_once() {
    let topology = Arc::new(Topology::shared(1, 3));
    let ledger = Ledger::new(topology, true, Share::WHOLE);
    let mut bench = Bench { ledger, recorder: Recorder::default(), total: Counts::default() };
    let sent: Vec<u32> = (0..4).map(|at| bench.send(at)).collect();
    bench.receive(sent[1], 2);
    bench.receive(sent[0], 1);
    bench.receive(sent[0], 0);
    assert_eq!((bench.counts().reordered, bench.counts().duplicated), (0, 1));
    bench.receive(sent[2], 2);
    bench.close();
    let counts = bench.counts();
    assert_eq!((counts.expected_deliveries, counts.delivered, counts.lost()), (4, 3, 1));
    bench.receive(sent[3], 3);
    assert_eq!(bench.counts().foreign, 1, "nobody of the group");
    bench.receive(sent[3], 0);
    assert_eq!(bench.counts().lost(), 0);
}
