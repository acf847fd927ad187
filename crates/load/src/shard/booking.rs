//! What becomes of the driver's events: each is booked with its message, its level and its sample.

use super::attempts::{Attempts, Cause};
use super::workload::Workload;
use super::{INCIDENTS, LONGEST_REASON, Reply, Shard};
use crate::content::run_tag;
use crate::driver::{Client, Driver, Event, StageOutcome, StageSource};
use crate::ledger::Delivery;
use crate::recorder::SampleSlot;
use plimsoll_codec::hiding::cut;
use plimsoll_model::{Metric, Nanos};

/// What is said of stages that are not booked.
fn impossible(source: &StageSource) -> String {
    format!(
        "{} reports an event that was over before it was sent, after now, or out of order: its clock has jumped, or the log \
         is not of this run",
        source.name
    )
}

impl<D: Driver> Shard<D> {
    /// Books an event of the driver.
    pub(super) fn book(&mut self, event: Event) {
        let Some(timeline) = self.level.as_ref().map(|level| level.timeline) else {
            return self.book_anywhere(event, self.last_slot);
        };
        match event {
            Event::Sent { device, sequence, at, content, packet } => {
                let before =
                    self.attempts.as_mut().and_then(|attempts| attempts.sent((device, sequence), at));
                if let Some((cause, after)) = before {
                    self.book_repeated(cause.status(), after);
                }
                let sizes = (content, packet);
                self.ledger.sent(&mut self.recorder, &timeline, (device, sequence), at, sizes);
                if !self.acknowledges {
                    self.operation_passed((device, sequence), at);
                }
            }
            Event::Acknowledged { device, sequence, at } => {
                self.attempts.iter_mut().for_each(|attempts| attempts.ended((device, sequence)));
                let is_first =
                    self.ledger.acknowledged(&mut self.recorder, &timeline, (device, sequence), at);
                if !is_first && self.attempts.is_some() {
                    let now = timeline.slot(self.driver.now());
                    self.recorder.counts(now).acknowledged_again += 1;
                }
                self.operation_passed((device, sequence), at);
            }
            Event::Stages { device, sequence, stages, outcome, source } => {
                let (message, told) = ((device, sequence), (stages, self.driver.now()));
                match outcome {
                    StageOutcome::Acknowledged => {
                        if !self.ledger.acknowledged_by_stages(&mut self.recorder, &timeline, message, told) {
                            return self.incident(impossible(source));
                        }
                        self.operation_passed(message, stages.done);
                    }
                    StageOutcome::Reported => {
                        if !self.ledger.passed_stages(&mut self.recorder, message, told) {
                            self.incident(impossible(source));
                        }
                    }
                    StageOutcome::Failed => {
                        if self.ledger.given_up(&mut self.recorder, message, true) {
                            self.incident(source.failure.to_owned());
                            self.operation_ended(message, stages.done);
                        }
                    }
                }
            }
            Event::Refused { device, sequence, at, reason } => {
                self.attempts.iter_mut().for_each(|attempts| attempts.ended((device, sequence)));
                self.ledger.given_up(&mut self.recorder, (device, sequence), true);
                self.incident(reason);
                self.operation_ended((device, sequence), at);
            }
            Event::Answered { query, at } => {
                if let Some(queries) = self.level.as_mut().and_then(|level| level.queries.as_mut()) {
                    queries.answered(query, at, &mut self.recorder);
                }
            }
            Event::Unanswered { query, reason } => {
                let queries = self.level.as_mut().and_then(|level| level.queries.as_mut());
                if let Some((queries, query)) = queries.zip(query) {
                    queries.failed(query, &mut self.recorder);
                }
                self.incident(reason);
            }
            Event::Repeated { status, after } => self.book_repeated(status, after),
            Event::Arrived { device, through } => self.ledger.arrived(device, through),
            Event::Abandoned { device, sequence, at } => {
                let again = |attempts: &mut Attempts| attempts.failed((device, sequence), at, Cause::Lost);
                if self.attempts.as_mut().is_some_and(again) {
                    return;
                }
                self.ledger.given_up(&mut self.recorder, (device, sequence), false);
                self.operation_ended((device, sequence), at);
            }
            other => self.book_anywhere(other, timeline.slot(self.driver.now())),
        }
    }

    /// A message was sent again, after an answer with that status or for a cause that stands for one.
    fn book_repeated(&mut self, status: u16, after: Nanos) {
        let now = self.here();
        self.recorder.counts(now).repeated += 1;
        self.recorder.time(now, Metric::RetryDelay, after);
        if now.sample.is_some() {
            *self.repeated.entry(status).or_default() += 1;
        }
        self.incident(match status {
            0 => "sent again after a lost connection".into(),
            1 => "sent again after no acknowledgement in time".into(),
            status => format!("sent again after {status}"),
        });
    }

    /// Books what belongs to no message of a level. Acknowledgements that come after their level was closed change nothing.
    fn book_anywhere(&mut self, event: Event, now: SampleSlot) {
        match event {
            Event::Received { subscriber, marker, at, lag, retained, content, partition } => {
                if let Some(lag) = lag {
                    self.recorder.time(now, Metric::ReceiverLag, lag);
                }
                let ours = marker
                    .filter(|marker| self.is_ours(marker.run) && self.owners.shard(marker.device).is_some());
                match ours {
                    None => self.recorder.counts(now).foreign += 1,
                    Some(_) if retained => self.recorder.counts(now).retained += 1,
                    Some(marker) => {
                        let (device, sequence) = (marker.device, marker.sequence);
                        self.deliver(Delivery { device, sequence, subscriber, at, content, partition }, now);
                    }
                }
            }
            Event::Ready { again: false, took, client } => {
                self.retries.forget(client);
                self.connected += devices_in(client);
                self.recorder.time(now, Metric::ConnectTime, took);
                if self.connecting.pending > 0 {
                    self.connecting.pending -= 1;
                    self.reply(Reply::Ready(1));
                    if self.connecting.pending == 0 {
                        self.reply(Reply::AllReady);
                    }
                }
            }
            Event::Ready { again: true, took, client } => {
                self.retries.forget(client);
                self.connected += devices_in(client);
                self.recorder.time(now, Metric::ConnectTime, took);
                if let Some(outage) = self.outages.back(client, self.driver.now()) {
                    self.recorder.time(now, Metric::Outage, outage);
                }
                self.recorder.counts(now).reconnects += 1;
            }
            Event::Will => self.recorder.counts(now).wills += 1,
            Event::Incident { reason } => self.incident(reason),
            Event::Incidents { reason, times } => self.incidents_of(reason, times),
            Event::Retransmitted { after } => {
                self.recorder.counts(now).retransmitted += 1;
                self.recorder.time(now, Metric::RetransmissionDelay, after);
            }
            Event::RoundTrip { took } => self.recorder.time(now, Metric::RequestRtt, took),
            Event::Downloaded { took, bytes } => {
                if let Some(took) = took {
                    self.recorder.time(now, Metric::DownloadTime, took);
                }
                let counts = self.recorder.counts(now);
                counts.downloads += 1;
                counts.download_bytes += bytes;
            }
            Event::DownloadFailed { reason } => {
                self.recorder.counts(now).downloads_failed += 1;
                self.incident(reason);
            }
            Event::Stray => self.recorder.counts(now).foreign += 1,
            Event::UnknownAck => self.recorder.counts(now).unknown_acks += 1,
            Event::Secured { took, resumed } => {
                self.recorder.time(now, Metric::HandshakeTime, took);
                let counts = self.recorder.counts(now);
                counts.handshakes += 1;
                counts.handshakes_resumed += u64::from(resumed);
            }
            Event::Disconnected { reason, client, at } => {
                self.recorder.counts(now).disconnected += 1;
                self.outages.lost(client, at);
                self.connected = self.connected.saturating_sub(devices_in(client));
                self.incident(reason);
            }
            Event::ConnectFailed { reason, client, lasting } if self.connecting.pending > 0 => {
                self.recorder.counts(now).connect_failed += 1;
                let tried_again = self.retries.has_failed(client);
                let again = !lasting && self.retries.failed(client, self.driver.now());
                let reason = self.run_context.token.hide(&reason);
                self.reply(match again {
                    true => Reply::ConnectRepeated(reason),
                    false => Reply::ConnectFailed { reason, tried_again },
                });
            }
            Event::ConnectFailed { reason, .. } => {
                self.recorder.counts(now).connect_failed += 1;
                self.incident(reason);
            }
            Event::Sent { .. }
            | Event::Acknowledged { .. }
            | Event::Stages { .. }
            | Event::Refused { .. }
            | Event::Repeated { .. }
            | Event::Answered { .. }
            | Event::Unanswered { .. }
            | Event::Arrived { .. }
            | Event::Abandoned { .. } => {}
        }
    }

    /// An integer marker carries the low bits of the tag only.
    fn is_ours(&self, tag: u16) -> bool {
        self.markers.iter().any(|&form| tag == run_tag(form, self.run))
    }

    fn deliver(&mut self, delivery: Delivery, now: SampleSlot) {
        if let Some(throttle) = &self.throttle {
            throttle.notified(delivery.subscriber - self.plan.population.first_subscriber, delivery.at);
        }
        if self.share.owns(delivery.device) && self.ledger.has(delivery.device) {
            self.received(delivery, now);
        } else if let Some(owner) = self.owners.shard(delivery.device)
            && let Some(outbox) = self.outboxes.get_mut(owner as usize)
        {
            outbox.push(delivery);
        }
    }

    /// A delivery of a message of ours came.
    pub(super) fn received(&mut self, delivery: Delivery, now: SampleSlot) {
        let (operation, at) = ((delivery.device, delivery.sequence), delivery.at);
        self.ledger.received(&mut self.recorder, now, delivery);
        if self.ends_with_delivery(operation.0) {
            self.operation_ended(operation, at);
        }
    }

    /// The platform has taken a message over: the end of an operation, unless it is to come out again.
    fn operation_passed(&mut self, operation: (u32, u32), at: Nanos) {
        if !self.ends_with_delivery(operation.0) {
            self.operation_ended(operation, at);
        }
    }

    fn ends_with_delivery(&self, device: u32) -> bool {
        self.level.as_ref().is_some_and(|level| level.experiments) && self.ledger.promises_delivery(device)
    }

    fn operation_ended(&mut self, operation: (u32, u32), at: Nanos) {
        match self.level.as_mut().map(|level| &mut level.workload) {
            Some(Workload::Closed(slots)) => slots.finished(operation, at),
            Some(Workload::PartlyOpen(sessions)) => sessions.finished(operation, at),
            _ => {}
        }
    }

    fn incident(&mut self, reason: String) {
        self.incidents_of(reason, 1);
    }

    /// Reasons that differ in the bytes that they show alone are one: the first of them is told.
    fn incidents_of(&mut self, reason: String, times: u64) {
        // Most reasons show no bytes, and a platform may refuse every message.
        if let Some((_, so_far)) = self.incidents.get_mut(&reason) {
            *so_far += times;
            return;
        }
        let kind = without_bytes(&reason);
        let known = self.incidents.len() < INCIDENTS || self.incidents.contains_key(&kind);
        let (kind, reason) = if known { (kind, reason) } else { ("".into(), "other reasons".into()) };
        // A platform may say of itself what it likes.
        let hidden = || (cut(&self.run_context.token.hide(&reason), LONGEST_REASON), 0);
        self.incidents.entry(kind).or_insert_with(hidden).1 += times;
    }
}

/// A reason without the bytes that it shows, as pairs of hexadecimal digits. So few of them may be numbers that matter.
fn without_bytes(reason: &str) -> String {
    const FEW: usize = 2;
    let is_byte = |word: &&str| word.len() == 2 && word.bytes().all(|digit| digit.is_ascii_hexdigit());
    let words: Vec<&str> = reason.split(' ').collect();
    let runs = words.chunk_by(|one, next| is_byte(one) == is_byte(next));
    let kept = runs.filter(|run| run.len() <= FEW || !run.iter().all(is_byte));
    kept.flatten().copied().collect::<Vec<&str>>().join(" ")
}

/// How many devices a client is: one or none.
fn devices_in(client: Client) -> u32 {
    u32::from(matches!(client, Client::Device(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_show_other_bytes_are_of_one_kind() {
        assert_eq!(without_bytes("it begins with 16 44 00 cf"), "it begins with");
        assert_eq!(without_bytes("16 44 00 cf came"), "came");
        let of_numbers = "no answer within 30 s, 20 times";
        assert_eq!(without_bytes(of_numbers), of_numbers);
    }
}
