//! Messages of one device that were sent and not answered, and which of them an answer belongs to.

use plimsoll_model::Nanos;
use std::collections::VecDeque;

/// Messages that answer nothing, from which on order may tell nothing; and of those that answered by their order, the share.
const FEWEST_STRAYS: u32 = 10;
const MOST_STRAYS: f64 = 0.1;
/// How long an answer is awaited before its message is given up.
pub const PATIENCE: Nanos = Nanos::from_secs(30);

/// See the module.
#[derive(Default)]
pub struct Unanswered {
    /// Sequence and time of sending, both rising.
    messages: VecDeque<(u32, Nanos)>,
    /// Whether an answer on this connection had a marker: one without is no answer from then on.
    marked: bool,
    /// Whether answers repeat the names of their messages.
    named: bool,
    /// On this connection, since its first message: what answered by its order, and what came while nothing was unanswered.
    by_order: u32,
    strays: u32,
}

impl Unanswered {
    /// None. `named` says whether answers repeat the names of their messages.
    pub fn new(named: bool) -> Unanswered {
        Unanswered { named, ..Unanswered::default() }
    }

    /// A message was sent.
    pub fn sent(&mut self, sequence: u32, at: Nanos) {
        self.messages.push_back((sequence, at));
    }

    /// Something came, with the sequence of its marker where it has one of this device: which message it answers. Without a
    /// marker it is the oldest.
    pub fn answered(&mut self, marked: Option<u32>) -> Option<u32> {
        let Some(sequence) = marked else { return if self.marked { None } else { self.in_order() } };
        let found = self.of_name(sequence);
        self.marked |= found.is_some();
        found
    }

    fn in_order(&mut self) -> Option<u32> {
        let answered = self.oldest();
        match answered {
            Some(_) => self.by_order = self.by_order.saturating_add(1),
            // A greeting comes before the first message.
            None if self.by_order > 0 => self.strays = self.strays.saturating_add(1),
            None => {}
        }
        answered
    }

    /// Why what comes need not be an answer, for people: on this connection, much came that answers nothing, so that other messages of the
    /// platform may have been taken for answers.
    pub fn doubt(&self) -> Option<String> {
        let Unanswered { by_order, strays, marked, .. } = *self;
        let is_doubtful = strays >= FEWEST_STRAYS && f64::from(strays) > MOST_STRAYS * f64::from(by_order);
        (is_doubtful && !marked).then(|| {
            "the platform sends more messages than answers, and nothing but their order distinguishes answers: a profile can say what \
             an answer looks like (`websocket`)"
                .to_owned()
        })
    }

    /// The oldest message is answered.
    pub fn oldest(&mut self) -> Option<u32> {
        self.messages.pop_front().map(|(sequence, _)| sequence)
    }

    /// The message of that sequence is answered, if it is one of them.
    pub fn of_name(&mut self, sequence: u32) -> Option<u32> {
        let place = match self.messages.front() {
            // Nearly always.
            Some(&(oldest, _)) if oldest == sequence => 0,
            _ => self.messages.binary_search_by_key(&sequence, |&(sequence, _)| sequence).ok()?,
        };
        self.messages.remove(place).map(|(sequence, _)| sequence)
    }

    /// Whether only the order tells which message an answer belongs to, so that one answer too few would lend each
    /// message the answer of the next.
    pub fn goes_by_order(&self) -> bool {
        !self.marked && !self.named && !self.messages.is_empty()
    }

    /// Gives up the oldest message if it has waited too long by then.
    pub fn overdue(&mut self, now: Nanos) -> Option<u32> {
        let &(sequence, sent) = self.messages.front()?;
        (now >= sent + PATIENCE).then(|| {
            self.messages.pop_front();
            sequence
        })
    }

    /// When the oldest message will have waited too long.
    pub fn next_overdue(&self) -> Option<Nanos> {
        self.messages.front().map(|&(_, sent)| sent + PATIENCE)
    }

    /// Gives up all of them: the connection is no more.
    pub fn abandon(&mut self) -> impl Iterator<Item = u32> {
        (self.marked, self.by_order, self.strays) = (false, 0, 0);
        self.messages.drain(..).map(|(sequence, _)| sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sequences: impl IntoIterator<Item = u32>) -> Unanswered {
        let mut unanswered = Unanswered::default();
        for sequence in sequences {
            unanswered.sent(sequence, Nanos(i64::from(sequence)));
        }
        unanswered
    }

    #[test]
    fn a_marker_finds_its_message_in_any_order_and_once() {
        let mut messages = of([3, 5, 9]);
        assert_eq!(
            [9, 3, 3, 4].map(|marker| messages.answered(Some(marker))),
            [Some(9), Some(3), None, None]
        );
        assert_eq!(messages.abandon().collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn without_markers_answers_belong_to_messages_in_their_order() {
        let mut messages = of([3, 5]);
        assert!(messages.goes_by_order());
        assert_eq!([None, None, None].map(|none| messages.answered(none)), [Some(3), Some(5), None]);
    }

    #[test]
    fn order_tells_nothing_where_more_comes_than_answers() {
        let mut messages = of(0..3);
        assert_eq!(messages.answered(None), Some(0));
        assert_eq!([(); 2].map(|()| messages.answered(None)), [Some(1), Some(2)]);
        (0..9).for_each(|_| assert_eq!(messages.answered(None), None));
        assert_eq!(messages.doubt(), None, "few may be anything");
        assert_eq!(messages.answered(None), None);
        assert!(messages.doubt().unwrap().contains("more messages than answers"));
        messages.abandon().for_each(drop);
        assert_eq!(messages.doubt(), None, "the next connection may lead to another server");
        (0..20).for_each(|_| assert_eq!(messages.answered(None), None));
        assert_eq!(messages.doubt(), None, "greetings");
        let mut many = of(0..200);
        assert_eq!((0..212).filter_map(|_| many.answered(None)).count(), 200);
        assert_eq!(many.doubt(), None, "6 % are not many");
    }

    #[test]
    fn what_has_no_marker_where_answers_have_one_is_no_answer() {
        let mut messages = of([3, 5]);
        // A marker of what was never sent proves nothing.
        assert_eq!(messages.answered(Some(7)), None);
        assert_eq!([Some(3), None].map(|marker| messages.answered(marker)), [Some(3), None]);
        assert!(!messages.goes_by_order());
        // The next connection may lead to another server.
        messages.abandon().for_each(drop);
        messages.sent(6, Nanos::ZERO);
        assert_eq!(messages.answered(None), Some(6));
    }

    #[test]
    fn a_message_is_given_up_after_its_time() {
        let mut messages = of([3, 5]);
        assert_eq!(messages.next_overdue(), Some(PATIENCE + Nanos(3)));
        assert_eq!(messages.overdue(PATIENCE + Nanos(2)), None);
        assert_eq!(messages.overdue(PATIENCE + Nanos(4)), Some(3));
        assert_eq!(messages.overdue(PATIENCE + Nanos(4)), None);
    }
}
