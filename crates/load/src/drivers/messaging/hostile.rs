//! A platform that means harm, for tests of sessions. What it says comes in any order, changed anywhere, or as bytes as they fall. A session
//! fails by an error then, never by a panic, and takes no frames without an end.

use super::{Happened, Outgoing, Session};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// Scripts that are played of each client: enough of them in a second.
const CASES: u32 = 64;

/// What happens to a session.
#[derive(Clone, Debug)]
enum Step {
    /// The platform says one of the things that it has to say, perhaps with a byte changed.
    Said(Index, Option<(Index, u8)>),
    /// Bytes as they fall come.
    Bytes(Vec<u8>),
    /// A message of that size is published, where that is possible.
    Publish(usize),
    /// The last message is not sent.
    Withdraw,
    Ping,
    Wake,
    /// All has been sent, and something waits or not.
    AllSent(bool),
    BranchesReady,
    /// The connection is lost.
    Lost,
    Goodbye(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let change = proptest::option::weighted(0.3, any::<(Index, u8)>());
    prop_oneof![
        12 => (any::<Index>(), change).prop_map(|(place, change)| Step::Said(place, change)),
        1 => proptest::collection::vec(any::<u8>(), 0..60).prop_map(Step::Bytes),
        4 => (0..3000_usize).prop_map(Step::Publish),
        1 => Just(Step::Withdraw),
        1 => Just(Step::Ping),
        1 => Just(Step::Wake),
        1 => any::<bool>().prop_map(Step::AllSent),
        1 => Just(Step::BranchesReady),
        1 => Just(Step::Lost),
        1 => any::<bool>().prop_map(Step::Goodbye),
    ]
}

/// Sessions that `make` makes, against a platform that has so many things to say, which `say` gives: in their order they let a client in.
pub fn endure<S: Session>(make: impl Fn() -> S, said: usize, say: impl Fn(&S, usize) -> Vec<u8>) {
    let scripts = (0..=said, proptest::collection::vec(step(), 0..60));
    let played = TestRunner::new(Config::with_cases(CASES)).run(&scripts, |(opening, steps)| {
        let mut client = Client::of(make());
        for place in 0..opening {
            client.receive(&say(&client.session, place));
        }
        for step in steps {
            client.take(step, said, &say);
        }
        Ok(())
    });
    played.unwrap_or_else(|found| panic!("{found}"));
}

/// A session, as a connection has it.
struct Client<S> {
    session: S,
    is_ready: bool,
    /// What came of a frame whose end has not.
    pending: Vec<u8>,
    out: Vec<u8>,
    /// The number of the next message.
    next: u32,
}

impl<S: Session> Client<S> {
    fn of(session: S) -> Client<S> {
        let mut client = Client { session, is_ready: false, pending: Vec::new(), out: Vec::new(), next: 0 };
        client.session.begin(&mut client.out);
        client
    }

    fn connect_again(&mut self) {
        self.session.abandon();
        self.pending.clear();
        self.is_ready = false;
        self.session.begin(&mut self.out);
    }

    fn take(&mut self, step: Step, said: usize, say: &impl Fn(&S, usize) -> Vec<u8>) {
        self.out.clear();
        match step {
            Step::Said(place, change) => {
                let mut bytes = say(&self.session, place.index(said));
                if let Some((place, by)) = change.filter(|_| !bytes.is_empty()) {
                    let place = place.index(bytes.len());
                    bytes[place] ^= by;
                }
                self.receive(&bytes);
            }
            Step::Bytes(bytes) => self.receive(&bytes),
            Step::Publish(size) if self.is_ready && self.session.may_publish() => {
                let (mut topic, content) = (b"a/b".to_vec(), vec![7; size]);
                let message = Outgoing { sequence: self.next, topic: &mut topic, content: &content };
                self.next += u32::from(self.session.publish(message, &mut self.out).is_ok());
            }
            Step::Publish(_) => {}
            Step::Withdraw => {
                if let Some(last) = self.next.checked_sub(1) {
                    self.session.withdraw(last);
                }
            }
            Step::Ping if self.is_ready => self.session.ping(&mut self.out),
            Step::Ping => {}
            Step::Wake => self.session.wake(&mut self.out),
            Step::AllSent(wait) => self.session.all_sent(wait, &mut self.out),
            Step::BranchesReady => {
                self.is_ready |= self.session.branches_ready(&mut self.out) == Happened::Ready;
            }
            Step::Lost => self.connect_again(),
            Step::Goodbye(ends) => self.session.goodbye(ends, &mut self.out),
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        // A frame may have no bytes; there is a head of some before each of those.
        for _ in 0..self.pending.len() + 16 {
            if self.pending.is_empty() {
                return;
            }
            let length = match self.session.frame(&self.pending) {
                Ok(Some(length)) if length <= self.pending.len() => length,
                Ok(_) => return,
                Err(_) => return self.connect_again(),
            };
            let frame: Vec<u8> = self.pending.drain(..length).collect();
            let (is_ready, goes_on) = match self.session.receive(&frame, &mut self.out) {
                Ok(Happened::Ready) => (true, true),
                Ok(Happened::Elsewhere(_)) | Err(_) => (false, false),
                Ok(_) => (self.is_ready, true),
            };
            self.is_ready = is_ready;
            let session = &mut self.session;
            let _ = (session.take_complaint(), session.take_branches().map(|branches| branches.len()));
            let _ = (session.wakes_after(), session.held_back(), session.patience(), session.awaited());
            if !goes_on {
                session.last_words(&mut self.out);
                return self.connect_again();
            }
        }
        panic!("frames without an end: {} bytes are left", self.pending.len());
    }
}
