//! The message log as JMeter's result file (JTL) in its CSV form, with the default columns, for tools that read those.
//!
//! `timeStamp` is when the message was due, and `elapsed` counts from there: a platform that stalls is charged with all
//! that was due meanwhile. JMeter itself would count from sending.

use crate::wall_clock::WallClock;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_model::Nanos;
use plimsoll_model::message::{Fate, MessageRecord};
use plimsoll_model::record::RunRecord;

/// The names of the columns, in JMeter's order.
pub const HEADER: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,bytes,sentBytes,grpThreads,\
                          allThreads,Latency,IdleTime,Connect\n";

/// Writes the rows of a run's messages.
pub struct Rows {
    wall: WallClock,
    levels: Vec<Level>,
    devices: u32,
    /// Name and first device of each population; empty in a run of one.
    populations: Vec<(String, u32)>,
}

struct Level {
    index: u16,
    label: String,
    end: Option<Nanos>,
    /// Mean size of a message as protocol packet.
    sent_bytes: u64,
}

impl Rows {
    /// For the messages of that run.
    pub fn of(record: &RunRecord) -> Rows {
        let level = |record: &plimsoll_model::record::LevelRecord, summary: &LevelSummary| Level {
            index: record.start.index,
            // As readers of the format expect: one cell without quotes.
            label: summary.load.to_string().replace(',', ""),
            end: record.end.as_ref().map(|end| end.at),
            sent_bytes: summary.publication_size.unwrap_or(0.0).round() as u64,
        };
        let summaries = plimsoll_analysis::summarize(record).levels;
        let levels = record.levels.iter().zip(&summaries).map(|(record, summary)| level(record, summary));
        let populations = record.terms.populations.iter().filter(|own| own.terms.devices > 0);
        Rows {
            wall: WallClock::of(&record.provenance),
            levels: levels.collect(),
            devices: record.terms.devices,
            populations: populations.map(|own| (own.name.clone(), own.first_device)).collect(),
        }
    }

    /// What stands for JMeter's thread: the device, behind its population where there are several.
    fn thread(&self, device: u32) -> String {
        let of =
            self.populations.iter().filter(|(_, first)| *first <= device).max_by_key(|(_, first)| *first);
        of.map_or(format!("device {device}"), |(name, _)| format!("{name} device {device}"))
    }

    /// One message. A message that never came to its end has the time until its level was closed.
    pub fn row(&self, message: &MessageRecord) -> String {
        let level = self.levels.iter().find(|level| level.index == message.level);
        let success = message.fate == Fate::Complete;
        // At QoS 0 nothing is acknowledged: a message ends when it is sent.
        let own_end = message.done.or(message.sent.filter(|_| success || message.fate == Fate::Lost));
        let end = own_end.or(level.and_then(|level| level.end)).unwrap_or(message.due);
        let elapsed = (end - message.due).0.max(0) / 1_000_000;
        let warm_up = if message.sample.is_none() { " warm-up" } else { "" };
        let label = level.map_or("", |level| level.label.as_str());
        let sent_bytes = level.filter(|_| message.sent.is_some()).map_or(0, |level| level.sent_bytes);
        format!(
            "{},{elapsed},{label}{warm_up},{},{},{},{success},0,{sent_bytes},{devices},{devices},{},0,0\n",
            self.wall.millis(message.due),
            message.fate.name(),
            told(message),
            self.thread(message.device),
            own_end.map_or(0, |_| elapsed),
            devices = self.devices,
        )
    }
}

fn told(message: &MessageRecord) -> String {
    match message.fate {
        Fate::Unsent => "not sent".into(),
        Fate::Refused => "refused by the platform".into(),
        Fate::Abandoned => "its connection broke".into(),
        Fate::Unacknowledged => "not acknowledged".into(),
        Fate::Lost => format!("{} of {} subscribers lacked it", message.missing, message.receivers),
        Fate::Complete => "OK".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::synthetic;
    use plimsoll_model::record::{PopulationTerms, Terms};

    fn message(fate: Fate) -> MessageRecord {
        MessageRecord {
            level: 0,
            sample: Some(0),
            device: 7,
            sequence: 3,
            due: Nanos::from_millis(4_250),
            ready: Nanos::from_millis(4_250),
            sent: Some(Nanos::from_millis(4_260)),
            done: Some(Nanos::from_millis(4_271)),
            first_received: None,
            retrieved: None,
            dispatched: None,
            receivers: 2,
            missing: 0,
            fate,
        }
    }

    #[test]
    fn a_device_stands_behind_its_population() {
        let mut record = synthetic::record();
        let population = |name: &str, first_device, devices| PopulationTerms {
            name: name.into(),
            first_device,
            terms: Terms { devices, ..Terms::default() },
            ..PopulationTerms::default()
        };
        record.terms.populations =
            vec![population("sensors", 0, 60), population("meters", 60, 9), population("subscribers", 0, 0)];
        let rows = Rows::of(&record);
        assert_eq!([59, 60].map(|device| rows.thread(device)), ["sensors device 59", "meters device 60"]);
    }

    #[test]
    fn a_message_counts_from_due_and_says_what_became_of_it() {
        let rows = Rows::of(&synthetic::record());
        // 2026-03-14T09:26:53Z and 4.25 s; a packet of the synthetic run has 88 bytes.
        let begin = "1773480417250,21,1000/s,complete,OK,device 7,true,0,88,1000,1000,21,0,0\n";
        assert_eq!(rows.row(&message(Fate::Complete)), begin);
        assert_eq!(HEADER.split(',').count(), begin.split(',').count());
        let lost = MessageRecord { missing: 1, ..message(Fate::Lost) };
        assert!(rows.row(&lost).contains(",lost,1 of 2 subscribers lacked it,device 7,false,"));
        // The level was closed 15 s after time zero.
        let unsent = MessageRecord { sent: None, done: None, sample: None, ..message(Fate::Unsent) };
        let row = rows.row(&unsent);
        assert!(row.contains(",10750,1000/s warm-up,unsent,not sent,device 7,false,0,0,"), "{row}");
        let silent = MessageRecord { done: None, ..message(Fate::Unacknowledged) };
        assert!(rows.row(&silent).contains(",10750,1000/s,unacknowledged,"));
        let without_acknowledgement = MessageRecord { done: None, ..message(Fate::Complete) };
        assert!(rows.row(&without_acknowledgement).contains(",10,1000/s,complete,"));
    }
}
