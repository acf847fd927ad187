//! Holes, breaches and what becomes of their bytes.

use super::*;
use crate::marker::{Form, Pattern};

fn counts(observations: &Observations) -> [usize; 3] {
    let of = |outcome: Outcome| {
        observations.exchanges.iter().filter(|exchange| exchange.outcome == outcome).count()
    };
    [of(Outcome::Answered), of(Outcome::Unknown), of(Outcome::Unanswered)]
}

/// Four requests are always under way, and each takes 10 ms. A reply that is missing would give each later request that of
/// the one before: times would be too short by a quarter, with nothing to show for it.
#[test]
fn a_pipeline_with_a_hole_is_told_as_unknown_until_it_is_empty() {
    let search = Search::default();
    let mut observations = Observations::default();
    let mut context =
        DissectionContext { search: &search, keys: &Keys::default(), observations: &mut observations };
    let mut conversation =
        Conversation::new(ConversationId(0), Carrier::Stream, [50_000, 6379], Opening::Seen(0));
    let request: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
    let mut play = |from: i64, number: i64, hole: Option<i64>| {
        for step in 0..number + 4 {
            let at = Nanos::from_millis(from + step * 10 / 4);
            if step >= 4 && Some(step) == hole {
                conversation.gap(1, at, 5, &mut context);
            } else if step >= 4 {
                conversation.data(1, at, b"$1\r\n1\r\n", &mut context);
            }
            if step < number {
                conversation.data(0, at, request, &mut context);
            }
        }
    };
    play(0, 100, Some(50));
    play(2_000, 100, None);
    conversation.end(&mut context);
    let [answered, unknown, unanswered] = counts(&observations);
    assert!(
        (140..150).contains(&answered) && answered + unknown == 200 && unanswered == 0,
        "{answered} {unknown}"
    );
    for exchange in observations.exchanges.iter().filter(|exchange| exchange.outcome == Outcome::Answered) {
        let time = exchange.response.unwrap().last - exchange.request.last;
        assert!((9..=11).contains(&(time.0 / 1_000_000)), "{time:?}");
    }
    assert!(observations.notices.iter().all(|notice| !notice.unexpected));
}

/// What is given up is searched for markers all the same, and counted.
#[test]
fn bytes_that_nobody_understands_are_searched_and_counted() {
    let search = Search::new(vec![Form::Pattern(Pattern::parse("plm1:{device}:{seq};").unwrap())]);
    let mut observations = Observations::default();
    let mut context =
        DissectionContext { search: &search, keys: &Keys::default(), observations: &mut observations };
    let mut short = Conversation::new(ConversationId(0), Carrier::Stream, [50_000, 9999], Opening::Seen(0));
    short.data(0, Nanos(1), b"hello plm1:d0:1;\r\n", &mut context);
    short.end(&mut context);
    let mut broken = Conversation::new(ConversationId(1), Carrier::Stream, [50_000, 6379], Opening::Seen(0));
    broken.data(0, Nanos(2), b"*1\r\n$4\r\nPING\r\n", &mut context);
    broken.data(0, Nanos(3), b"*1\r\n:1\r\n plm1:d0:2;", &mut context);
    broken.end(&mut context);
    let found: Vec<u64> = observations.sightings.iter().map(|sighting| sighting.message.sequence).collect();
    assert_eq!((found, observations.skipped), (vec![1, 2], 19));
}

/// Of a connection that was there before the capture, the server may well have the higher port: who listens tells who asks,
/// and so does a command.
#[test]
fn who_asks_is_known_without_the_opening_whatever_the_ports() {
    let search = Search::default();
    let asked: [(Opening, &[u8], &[u8]); 3] = [
        (Opening::Unknown, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", b"$-1\r\n"),
        (Opening::Told(1), b"*2\r\n$3\r\nFOO\r\n$1\r\na\r\n", b"*1\r\n$3\r\nGET\r\n"),
        (Opening::Told(1), b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", b"*1\r\n$1\r\na\r\n"),
    ];
    for (opening, request, reply) in asked {
        let mut observations = Observations::default();
        let mut context =
            DissectionContext { search: &search, keys: &Keys::default(), observations: &mut observations };
        let ports = [50_000, 40_000];
        let mut conversation = Conversation::new(ConversationId(0), Carrier::Stream, ports, opening);
        for number in 0..10 {
            conversation.data(1, Nanos::from_millis(10 * number), request, &mut context);
            conversation.data(0, Nanos::from_millis(10 * number + 4), reply, &mut context);
        }
        conversation.end(&mut context);
        assert_eq!((conversation.client(), counts(&observations)), (1, [10, 0, 0]), "{opening:?}");
        assert_eq!((observations.skipped, observations.notices.len()), (0, 0), "{opening:?}");
    }
}
