//! Planted causes: who is slow and who loses is known, and the traces must name it, and nobody else.

use super::*;
use plimsoll_capture::observations::Exchange;
use plimsoll_capture::request::Asking;
use plimsoll_capture::table::ObservationBatch;
use plimsoll_model::wire::{Outcome, Span};

/// A party: what it is called, and the ports of its server and of its client.
#[derive(Clone, Copy)]
struct Who(&'static str, u16, u16);

const US: Who = Who("plimsoll", 9000, 50_000);
const AGENT: Who = Who("agent", 4041, 50_001);
const CONTEXT: Who = Who("context", 1026, 50_002);
const STORE: Who = Who("store", 27_017, 50_003);
const WORKER: Who = Who("worker", 8081, 50_004);
const DASHBOARD: Who = Who("dashboard", 8082, 50_005);
const ALL: [Who; 6] = [US, AGENT, CONTEXT, STORE, WORKER, DASHBOARD];

/// In the order in which they are told.
fn parties(one: Who, other: Who) -> [Party; 2] {
    let place = |who: Who| ALL.iter().position(|known| known.0 == who.0).unwrap_or_default();
    [one, other].map(|who| Party::Component(place(who) as u32))
}

/// What was said, in microseconds, and how many subscribers each message was for, where that is told.
#[derive(Default)]
struct Scene(ObservationBatch, Option<u32>);

impl Scene {
    /// A request from one to the other: with which marker, answered with which one, and when.
    fn ask(&mut self, told: (u64, u64), who: (Who, Who), what: (WireProtocol, &str), has: [Option<u64>; 2]) {
        let ((begin, end), (one, other), (protocol, verb)) = (told, who, what);
        let asking = plimsoll_capture::dissectors::asking(protocol, &Label::new(verb), &Label::default());
        if let Some(sequence) = has[0] {
            self.sight(begin, who, what, (sequence, Side::Client, Manner::Handed));
        }
        let asked = Nanos::from_micros(begin as i64);
        if let Some(sequence) = has[1] {
            let manner = match asking {
                Asking::Next => Manner::Taken,
                _ if has[0] == has[1] => Manner::Echoed,
                _ => Manner::Answered(Some(asked)),
            };
            self.sight(end, who, what, (sequence, Side::Server, manner));
        }
        let span = |at: Nanos| Span { first: at, last: at, bytes: 10 };
        let message = |sequence| MessageId { device: 0, sequence };
        let observed = Exchange {
            conversation: ConversationId(0),
            protocol,
            requester: Side::Client,
            verb: Label::new(verb),
            outcome: Outcome::Answered,
            status: Label::default(),
            request: span(asked),
            interim: None,
            response: Some(span(Nanos::from_micros(end as i64))),
            marker: has[0].or(has[1]).map(message),
            carried: has[0].is_some(),
            asking,
        };
        let (client, server) = (super::end(one.2), super::end(other.1));
        self.0.exchanges.push(Located { client, server, parties: parties(one, other), protocol, observed });
    }

    fn sight(
        &mut self,
        at: u64,
        (one, other): (Who, Who),
        what: (WireProtocol, &str),
        said: (u64, Side, Manner),
    ) {
        let (sequence, from, manner) = said;
        let observed = Sighting {
            at: Nanos::from_micros(at as i64),
            conversation: ConversationId(0),
            from,
            message: MessageId { device: 0, sequence },
            verb: Label::new(what.1),
            manner,
        };
        let (client, server) = (super::end(one.2), super::end(other.1));
        self.0.sightings.push(Located {
            client,
            server,
            parties: parties(one, other),
            protocol: what.0,
            observed,
        });
    }

    /// What is told of it: of a run, with the messages that its ledger has lost.
    fn told(mut self, run: bool, lost: &[u64]) -> Told {
        let mut components = Components::default();
        if run {
            components.outside(US.0);
        }
        for who in ALL {
            components.port(who.1, who.0);
            components.endpoint(super::end(who.2), who.0);
        }
        let mut traces = Traces::new(Arc::new(Phases::default()));
        let lost: BTreeSet<MessageId> =
            lost.iter().map(|&sequence| MessageId { device: 0, sequence }).collect();
        if run {
            traces.name(lost.clone());
        }
        self.0.sightings.sort_by_key(|sighting| sighting.observed.at);
        traces.observe(&self.0);
        traces.finish(None);
        let ledger = Ledger { lost, receivers: self.1 };
        tell(&traces, &components, &Search::default(), run.then_some(&ledger))
    }
}

/// The mean residences of each component in milliseconds, as far as they are above a tenth of one.
fn residences(told: &Told) -> BTreeMap<String, f64> {
    let residences = told.phases[&0].residences.iter();
    let means = residences
        .filter_map(|residence| Some((residence.component.clone(), residence.times.mean? * 1000.0)));
    means.filter(|(_, mean)| *mean > 0.1).map(|(name, mean)| (name, (mean * 10.0).round() / 10.0)).collect()
}

fn all(residences: &[(&str, f64)]) -> BTreeMap<String, f64> {
    residences.iter().map(|(name, mean)| ((*name).to_owned(), *mean)).collect()
}

const HTTP: (WireProtocol, &str) = (WireProtocol::Http, "POST");
const FIND: (WireProtocol, &str) = (WireProtocol::MongoDb, "find");
const UPDATE: (WireProtocol, &str) = (WireProtocol::MongoDb, "update");

/// How long each takes, microseconds.
#[derive(Clone, Copy)]
struct Pace {
    agent: u64,
    context: u64,
    find: u64,
    update: u64,
}

const QUICK: Pace = Pace { agent: 10, context: 10, find: 10, update: 10 };

/// A broker of contexts that reads the stored entity before it writes: what it reads carries the message before. So many
/// messages a second.
fn contexts(pace: Pace, rate: u64, notified_first: bool, loses: &[u64]) -> Scene {
    let mut scene = Scene::default();
    for number in 1..=40_u64 {
        let begin = number * 1_000_000 / rate;
        let read = |scene: &mut Scene, at, who| {
            let before = number.checked_sub(1).filter(|&before| before > 0);
            scene.ask((at, at + pace.find), (who, STORE), FIND, [None, before]);
            at + pace.find
        };
        let at = read(&mut scene, begin + 1, AGENT) + pace.agent;
        let at_context = at;
        let at = read(&mut scene, at + 1, CONTEXT) + pace.context;
        let written = at + pace.update;
        scene.ask((at, written), (CONTEXT, STORE), UPDATE, [Some(number), None]);
        let notified = if notified_first { at - 1 } else { written + 1 };
        if !loses.contains(&number) {
            scene.ask((notified, notified + 5), (CONTEXT, US), HTTP, [Some(number), None]);
        }
        scene.ask((at_context, written + 6), (AGENT, CONTEXT), HTTP, [Some(number), None]);
        scene.ask((begin, written + 9), (US, AGENT), HTTP, [Some(number), None]);
    }
    scene
}

#[test]
fn a_store_that_answers_at_once_is_not_blamed_for_what_is_read_again() {
    for rate in [10, 200] {
        let slow_context = Pace { context: 3_000, ..QUICK };
        assert_eq!(
            residences(&contexts(slow_context, rate, false, &[]).told(true, &[])),
            all(&[("context", 3.0)])
        );
        let slow_agent = Pace { agent: 2_000, ..QUICK };
        assert_eq!(
            residences(&contexts(slow_agent, rate, false, &[]).told(true, &[])),
            all(&[("agent", 2.0)])
        );
        // Without a ledger, too.
        assert_eq!(
            residences(&contexts(slow_context, rate, false, &[]).told(false, &[])),
            all(&[("context", 3.0)])
        );
        // Messages that overlap: the one before is not delivered when the next is read for.
        let told = contexts(Pace { context: 30_000, ..QUICK }, 100, false, &[]).told(true, &[]);
        assert_eq!(residences(&told), all(&[("context", 30.0)]));
    }
}

#[test]
fn a_slow_store_is_named_whether_it_is_slow_to_write_or_to_read() {
    for rate in [10, 50] {
        // Both read, and each message waits for both.
        for slow in [Pace { update: 8_000, ..QUICK }, Pace { find: 4_000, ..QUICK }] {
            let told = contexts(slow, rate, false, &[]).told(true, &[]);
            let shares: Vec<_> = told.phases[&0]
                .residences
                .iter()
                .map(|residence| (&*residence.component, residence.share))
                .collect();
            assert!(shares[0].0 == "store" && shares[0].1 > 0.99, "{shares:?}");
            assert!(
                (told.phases[&0].total.p50.unwrap() - 0.008).abs() < 1e-3,
                "nothing is lost of the whole"
            );
        }
    }
}

#[test]
fn what_is_written_after_the_notification_delays_nobody() {
    let slow = Pace { update: 8_000, context: 1_000, ..QUICK };
    assert_eq!(residences(&contexts(slow, 20, true, &[]).told(true, &[])), all(&[("context", 1.0)]));
}

#[test]
fn who_has_written_a_message_and_not_passed_it_on_has_lost_it() {
    let losses = |loses: &[u64]| contexts(QUICK, 20, false, loses).told(true, loses).losses;
    assert_eq!(losses(&[7, 20, 40]), BTreeMap::from([("context".to_owned(), 3)]));
    // Also where none is delivered.
    let every: Vec<u64> = (1..=40).collect();
    assert_eq!(losses(&every), BTreeMap::from([("context".to_owned(), 40)]));
}

/// A dashboard reads what is stored, before it is delivered and after, and passes nothing on.
#[test]
fn who_only_reads_is_no_part_of_the_course() {
    for protocol in [
        (WireProtocol::Redis, "GET"),
        (WireProtocol::Redis, "HGETALL"),
        (WireProtocol::Postgres, "Query"),
        FIND,
    ] {
        for run in [true, false] {
            let write = match protocol.0 {
                WireProtocol::Redis => (WireProtocol::Redis, "SET"),
                other => (other, "Query"),
            };
            let mut scene = Scene::default();
            for number in 1..=20_u64 {
                let begin = number * 100_000;
                scene.ask((begin, begin + 30), (US, CONTEXT), HTTP, [Some(number), None]);
                scene.ask((begin + 10, begin + 20), (CONTEXT, STORE), write, [Some(number), None]);
                scene.ask((begin + 500, begin + 510), (DASHBOARD, STORE), protocol, [None, Some(number)]);
                scene.ask((begin + 5_000, begin + 5_010), (CONTEXT, US), HTTP, [Some(number), None]);
                scene.ask(
                    (begin + 50_000, begin + 50_010),
                    (DASHBOARD, STORE),
                    protocol,
                    [None, Some(number)],
                );
                // An answer to a device holds what was stored before.
                scene.ask(
                    (begin + 60_000, begin + 60_010),
                    (US, CONTEXT),
                    (WireProtocol::Http, "GET"),
                    [None, Some(number)],
                );
            }
            let told = scene.told(run, &[]);
            assert_eq!(residences(&told), all(&[("context", 5.0)]), "{protocol:?} {run}");
            let path: Vec<_> = told.phases[&0].path.iter().map(|step| (&*step.from, &*step.to)).collect();
            assert!(!path.iter().any(|(from, to)| *to == "dashboard" || *from == "store"), "{path:?}");
        }
    }
}

/// A worker finds in a store what another has put there, and passes it on: the store is a part of the course.
#[test]
fn what_is_read_and_passed_on_leads_on() {
    for read in [(WireProtocol::Redis, "GET"), (WireProtocol::Postgres, "Execute"), FIND] {
        let mut scene = Scene::default();
        for number in 1..=20_u64 {
            let begin = number * 100_000;
            scene.ask((begin, begin + 3), (US, CONTEXT), HTTP, [Some(number), None]);
            scene.ask((begin + 1, begin + 2), (CONTEXT, STORE), (read.0, "put"), [Some(number), None]);
            scene.ask((begin + 7_000, begin + 7_001), (WORKER, STORE), read, [None, Some(number)]);
            scene.ask((begin + 9_001, begin + 9_002), (WORKER, US), HTTP, [Some(number), None]);
        }
        let told = scene.told(true, &[]);
        assert_eq!(residences(&told), all(&[("store", 7.0), ("worker", 2.0)]), "{read:?}");
    }
}

/// What a queue had next is passed on by who takes it, also where that is the one who has put it there.
#[test]
fn queues_pass_on() {
    let queues = [
        (WireProtocol::Redis, "LPUSH", "BRPOP"),
        (WireProtocol::Redis, "XADD", "XREADGROUP"),
        (WireProtocol::Kafka, "Produce v9", "Fetch v12"),
        (WireProtocol::Nats, "PUB", "PUB $JS.API"),
        (WireProtocol::Amqp, "basic.publish", "basic.get"),
        (WireProtocol::MongoDb, "insert", "findAndModify remove"),
    ];
    for (protocol, put, take) in queues {
        for taker in [WORKER, CONTEXT] {
            let mut scene = Scene::default();
            for number in 1..=20_u64 {
                let begin = number * 100_000;
                scene.ask((begin, begin + 3), (US, CONTEXT), HTTP, [Some(number), None]);
                scene.ask((begin + 1, begin + 2), (CONTEXT, STORE), (protocol, put), [Some(number), None]);
                scene.ask(
                    (begin + 6_000, begin + 7_001),
                    (taker, STORE),
                    (protocol, take),
                    [None, Some(number)],
                );
                scene.ask((begin + 9_001, begin + 9_002), (taker, US), HTTP, [Some(number), None]);
            }
            let told = scene.told(true, &[]);
            assert_eq!(residences(&told)["store"], 7.0, "{protocol:?}");
            assert_eq!(told.phases[&0].residences[0].component, "store");
        }
    }
}

/// Messages that are pushed pass on, too: by MQTT, AMQP, NATS, PostgreSQL's and Redis' notifications, WebSocket, CoAP.
#[test]
fn pushes_pass_on_and_a_lost_one_was_last_at_who_did_not_push_it() {
    for protocol in [
        WireProtocol::Mqtt,
        WireProtocol::Amqp,
        WireProtocol::Nats,
        WireProtocol::Redis,
        WireProtocol::Postgres,
        WireProtocol::WebSocket,
        WireProtocol::Coap,
    ] {
        let mut scene = Scene::default();
        for number in 1..=20_u64 {
            let begin = number * 100_000;
            scene.sight(begin, (US, STORE), (protocol, "put"), (number, Side::Client, Manner::Handed));
            if number != 5 {
                let push = (number, Side::Server, Manner::Handed);
                scene.sight(begin + 4_000, (WORKER, STORE), (protocol, "push"), push);
                scene.ask((begin + 5_000, begin + 5_001), (WORKER, US), HTTP, [Some(number), None]);
            }
        }
        let told = scene.told(true, &[5]);
        assert_eq!(residences(&told), all(&[("store", 4.0), ("worker", 1.0)]), "{protocol:?}");
        assert_eq!(told.losses, BTreeMap::from([("store".to_owned(), 1)]), "{protocol:?}");
    }
}

/// Who polls over HTTP for what comes is a subscriber, also where a few messages came between two polls.
#[test]
fn a_long_poll_delivers_and_passes_on() {
    let poll = (WireProtocol::Http, "GET");
    for (leads_on, run) in [(true, true), (true, false), (false, false)] {
        let mut scene = Scene::default();
        for number in 1..=20_u64 {
            let begin = number * 100_000;
            scene.ask((begin, begin + 3), (US, CONTEXT), HTTP, [Some(number), None]);
            let asked = if number % 5 == 0 { begin + 3_000 } else { begin - 50_000 };
            scene.ask((asked, begin + 4_000), (WORKER, CONTEXT), poll, [None, Some(number)]);
            if leads_on {
                scene.ask((begin + 6_000, begin + 6_001), (WORKER, US), HTTP, [Some(number), None]);
            }
        }
        let told = scene.told(run, &[]);
        let expected: &[_] =
            if leads_on { &[("context", 4.0), ("worker", 2.0)] } else { &[("context", 4.0)] };
        assert_eq!(residences(&told), all(expected), "{leads_on} {run}");
    }
}

/// Two subscribers, and a device that repeats itself because its acknowledgement is late.
#[test]
fn repetitions_and_several_subscribers_change_nobodys_residence() {
    let mut scene = Scene::default();
    for number in 1..=20_u64 {
        let begin = number * 100_000;
        let publish = (WireProtocol::Mqtt, "PUBLISH");
        for again in [0, 2_000] {
            scene.ask((begin + again, begin + 2_500), (US, CONTEXT), publish, [Some(number), None]);
        }
        for later in [4_000, 4_500] {
            let push = (number, Side::Server, Manner::Handed);
            scene.sight(begin + later, (US, CONTEXT), publish, push);
        }
    }
    assert_eq!(residences(&scene.told(true, &[])), all(&[("context", 4.0)]));
}

/// The course ends where a message is written, where nobody is notified: until that is acknowledged.
#[test]
fn a_course_may_end_at_a_store() {
    let mut scene = Scene::default();
    for number in 1..=20_u64 {
        let begin = number * 100_000;
        scene.ask((begin, begin + 9_000), (US, CONTEXT), HTTP, [Some(number), None]);
        scene.ask((begin + 2_000, begin + 8_000), (CONTEXT, STORE), UPDATE, [Some(number), None]);
        scene.ask((begin + 90_000, begin + 90_001), (CONTEXT, STORE), FIND, [None, Some(number)]);
    }
    assert_eq!(residences(&scene.told(true, &[])), all(&[("context", 2.0), ("store", 6.0)]));
}

/// Each message goes to its subscribers by way of a worker, one by one, and to somebody else who passes nothing on. Of each message:
/// how many subscribers it has, how many of these the context passes on, and how many the worker.
fn fan_out(of: impl Fn(u64) -> (u64, u64)) -> Scene {
    let mut scene = Scene::default();
    for number in 1..=40_u64 {
        let begin = number * 100_000;
        scene.ask((begin, begin + 900), (US, CONTEXT), HTTP, [Some(number), None]);
        let (passed_on, delivered) = of(number);
        for turn in 0..passed_on {
            let at = begin + 100 + turn * 20;
            scene.ask((at, at + 1), (CONTEXT, WORKER), HTTP, [Some(number), None]);
            if turn < delivered {
                scene.ask((at + 5, at + 6), (WORKER, US), HTTP, [Some(number), None]);
            }
        }
        scene.ask((begin + 500, begin + 501), (CONTEXT, DASHBOARD), HTTP, [Some(number), None]);
    }
    scene
}

#[test]
fn who_loses_a_message_for_some_of_its_subscribers_is_named() {
    let losses = |of: &dyn Fn(u64) -> (u64, u64), lost: &[u64]| fan_out(of).told(true, lost).losses;
    let named = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
    let of_two = |number: u64, less: (u64, u64)| if [7, 20].contains(&number) { less } else { (2, 2) };
    assert_eq!(losses(&|number| of_two(number, (2, 1)), &[7, 20]), named("worker", 2));
    assert_eq!(losses(&|number| of_two(number, (1, 1)), &[7, 20]), named("context", 2));
    assert_eq!(losses(&|number| of_two(number, (2, 0)), &[7, 20]), named("worker", 2));
    assert_eq!(losses(&|number| of_two(number, (0, 0)), &[7, 20]), named("context", 2));
    // Where some messages have fewer subscribers than most, what they do not pass again is no loss.
    let some_have_one = |number: u64| match number {
        7 => (1, 0),
        _ if number % 4 == 3 => (1, 1),
        _ => (2, 2),
    };
    assert_eq!(losses(&some_have_one, &[7]), named("worker", 1));
    // Of one that has more than most, it is not told whether all of it came to who delivers.
    assert_eq!(
        losses(&|number| if number == 7 { (3, 2) } else { (2, 2) }, &[7]),
        named("worker or before it", 1)
    );
    // Without a ledger, a message that came to somebody is not lost.
    assert_eq!(fan_out(|number| of_two(number, (2, 1))).told(false, &[]).losses, BTreeMap::new());
}

#[test]
fn who_first_passes_a_message_on_once_more_is_named() {
    let duplicates = |of: &dyn Fn(u64) -> (u64, u64), receivers| {
        let scene = fan_out(of);
        Scene(scene.0, receivers).told(true, &[]).duplicates
    };
    let named = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
    // Once more by the context, and so by the worker, too.
    let by_context = |number: u64| if [7, 20].contains(&number) { (3, 3) } else { (2, 2) };
    assert_eq!(duplicates(&by_context, Some(2)), named("context", 2));
    assert_eq!(duplicates(&by_context, Some(3)), BTreeMap::new());
    assert_eq!(duplicates(&by_context, None), BTreeMap::new(), "messages have different subscribers");
    // All of them come twice: nobody is told from the others.
    assert_eq!(duplicates(&|_| (2, 2), Some(1)), named("worker or before it", 40));
}
