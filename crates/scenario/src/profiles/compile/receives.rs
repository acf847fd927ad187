//! How subscribers receive over connections of their own.

use super::Compiler;
use crate::plan::{
    CapturedName, Each, HttpReceiveRole, NextPollPlan, Piece, PollPlan, Protocol, ReceiveRole, Template,
};
use crate::profiles::roles::{NextPoll, Polls, Request, Streams, Subscriber};
use plimsoll_model::Nanos;

/// What may stand in what a subscriber asks for.
pub(super) const OF_RECEIVER: &[&str] = &["run", "subscriber", "device", "random", "time"];
/// What may stand in how it goes on.
const OF_NEXT: &[&str] = &["run", "subscriber", "device", "random", "time", "since"];
/// How long an answer to a poll may take, where nothing says it: platforms wait half of it.
const WITHIN: Nanos = Nanos::from_secs(60);

impl Compiler<'_> {
    /// The way of a subscriber, where it is one of these.
    pub(super) fn receives(
        &mut self,
        subscriber: &Subscriber,
        captured: &[CapturedName],
    ) -> Option<ReceiveRole> {
        let ways = [
            ("listens", subscriber.listens.is_some()),
            ("observes", subscriber.observes.is_some()),
            ("websocket", subscriber.websocket.is_some()),
            ("streams", subscriber.streams.is_some()),
            ("polls", subscriber.polls.is_some()),
        ];
        let written: Vec<&str> =
            ways.into_iter().filter(|(_, is_there)| *is_there).map(|(way, _)| way).collect();
        if let [.., before, last] = written.as_slice() {
            let help = format!("keep one of `{before}` and `{last}`");
            self.error(&format!("subscriber.{last}"), "a subscriber is notified in one way", help);
        }
        if let Some(written) = &subscriber.websocket {
            return Some(ReceiveRole::WebSocket(self.websocket_of_subscriber(written, captured)));
        }
        if let Some(streams) = &subscriber.streams {
            return Some(ReceiveRole::Http(self.streamed(streams, captured)));
        }
        let polls = subscriber.polls.as_ref()?;
        Some(ReceiveRole::Http(self.polled(polls, captured)))
    }

    /// An answer that does not end.
    fn streamed(&mut self, streams: &Streams, captured: &[CapturedName]) -> HttpReceiveRole {
        const PATH: &str = "subscriber.streams";
        let asked = self.asked(&streams.request, &format!("{PATH}.request"), captured);
        let ready_after = streams.ready_after.as_ref().and_then(|text| {
            let time = crate::duration(&self.fill(text));
            let time =
                time.and_then(|time| (time > Nanos::ZERO).then_some(time).ok_or_else(|| "it is zero".into()));
            time.map_err(|wrong: String| {
                self.error(&format!("{PATH}.ready_after"), wrong, "write a time, such as `1s`".into());
            })
            .ok()
        });
        HttpReceiveRole { ready_after, ..asked }
    }

    /// Answers that wait for messages.
    fn polled(&mut self, polls: &Polls, captured: &[CapturedName]) -> HttpReceiveRole {
        const PATH: &str = "subscriber.polls";
        let asked = self.asked(&polls.request, &format!("{PATH}.request"), captured);
        let within = polls.within.as_ref().map_or(Ok(WITHIN), |text| crate::duration(&self.fill(text)));
        let within = within.unwrap_or_else(|wrong| {
            self.error(&format!("{PATH}.within"), wrong, "write a time, such as `60s`".into());
            WITHIN
        });
        let next = polls.next.as_ref().map(|next| self.next_poll(next, &format!("{PATH}.next"), captured));
        let is_next_of_device = next.as_ref().is_some_and(|next| is_about_a_device(&next.path, captured));
        if is_next_of_device != is_about_a_device(&asked.request.path, captured) && next.is_some() {
            let help = "let both be about a device, or neither".to_owned();
            self.error(&format!("{PATH}.next.path"), "it asks for something else than the request", help);
        }
        HttpReceiveRole { polls: Some(PollPlan { next, within }), ..asked }
    }

    /// How a poll goes on.
    fn next_poll(&mut self, next: &NextPoll, path: &str, captured: &[CapturedName]) -> NextPollPlan {
        let NextPoll { path: written, since, plus } = next;
        let request = Request { path: written.clone(), ..Request::get() };
        let request = self.request((&request, Protocol::Http), OF_NEXT, path, captured);
        if !request.path.has(&|piece| *piece == Piece::Since) {
            let help = "write it into the path or its query, such as `?since={since}`".to_owned();
            self.error(&format!("{path}.path"), "`{since}` does not stand in it", help);
        }
        if !since.starts_with('/') {
            self.error(&format!("{path}.since"), "a JSON pointer begins with a slash", String::new());
        }
        let plus = plus
            .as_deref()
            .map_or(Ok(Nanos::ZERO), |text| crate::duration(&self.fill(text)))
            .unwrap_or_else(|wrong| {
                self.error(&format!("{path}.plus"), wrong, "write a time, such as `1ms`".into());
                Nanos::ZERO
            });
        NextPollPlan { path: request.path, since: since.clone(), plus }
    }

    /// What is asked for.
    fn asked(&mut self, written: &Request, path: &str, captured: &[CapturedName]) -> HttpReceiveRole {
        let means_nothing = [
            ("options", !written.options.is_empty(), "HTTP has no options"),
            ("retry", !written.retry.is_empty(), "subscribers ask again by themselves"),
            ("retry_lost", written.retry_lost, "subscribers ask again by themselves"),
            ("method", written.method == "HEAD", "the answer to HEAD has no body"),
        ];
        for (key, _, message) in means_nothing.into_iter().filter(|(_, is_there, _)| *is_there) {
            self.error(&format!("{path}.{key}"), message, "remove it".into());
        }
        let request = self.request((written, Protocol::Http), OF_RECEIVER, path, captured);
        let of_each_device = request.texts().any(|text| is_about_a_device(text, captured));
        HttpReceiveRole { request, of_each_device, polls: None, ready_after: None }
    }
}

/// Whether a text has the number of a device, or what a step captured for one.
pub(super) fn is_about_a_device(text: &Template, captured: &[CapturedName]) -> bool {
    let is_of_one = |each: Each| matches!(each, Each::Device | Each::Pair);
    let is_of_device = |name: &str| captured.iter().any(|own| own.name == name && is_of_one(own.each));
    text.has(&|piece| match piece {
        Piece::Device => true,
        Piece::Captured(_, name) => is_of_device(name),
        _ => false,
    })
}

/// Whether a text has something that is another for each device or subscriber.
pub(super) fn is_about_one(text: &Template, captured: &[CapturedName]) -> bool {
    let is_of_all = |name: &String| captured.iter().any(|own| own.name == *name && own.each == Each::Once);
    text.has(&|piece| match piece {
        Piece::Device | Piece::Subscriber => true,
        Piece::Captured(_, name) => !is_of_all(name),
        _ => false,
    })
}
