//! What device management shows beside messages (LwM2M): who is observed, values that were notified, firmware that was downloaded.

use crate::time_summary::TimeSummary;
use plimsoll_model::formats::Sizes;
use plimsoll_model::record::ObservedDevices;
use plimsoll_model::text::grouped;
use plimsoll_model::{Counts, Histogram, Metric};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Device management in one level.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ManagementSummary {
    /// Devices whose messages somebody observed when the level ended; null where devices need not be observed.
    pub observed: Option<u32>,
    /// Devices that were registered then and that nobody observed: they sent nothing.
    pub unobserved: Option<u32>,
    /// By time: notifications of values that are no messages, and of messages to any observer after the first.
    pub value_notifications: u64,
    /// By time: what devices notified of or sent of themselves, by the format of the payload; empty where they sent nothing.
    pub formats: Vec<FormatSummary>,
    /// By time: registrations that were renewed or changed, as requests.
    pub renewals: u64,
    /// By time: requests of the server that devices served: reads, writes, observations and others, repetitions apart.
    pub served: u64,
    /// By time: datagrams that came to devices in queue mode that did not listen any more.
    pub unheard: u64,
    /// By time: devices that had downloaded new firmware, or that the server had written it to.
    pub downloads: u64,
    /// By time: devices that could not download it.
    pub downloads_failed: u64,
    /// Bytes of that firmware.
    pub download_bytes: u64,
    /// The server's order to the last block of an image that a device downloaded. Its intervals are those of independent
    /// observations. Null where none was.
    pub download_time: Option<TimeSummary>,
}

/// Sizes of what devices sent in one format.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FormatSummary {
    /// The format: `text`, `opaque`, `SenML JSON`, `SenML CBOR` or `TLV`.
    pub format: String,
    /// Messages, those that were sent again counted once.
    pub messages: u64,
    /// Bytes of a payload, on average.
    pub payload_bytes: f64,
    /// Bytes of a whole message of CoAP, on average.
    pub packet_bytes: f64,
}

impl FormatSummary {
    fn of((format, sizes): (&str, Sizes)) -> Option<FormatSummary> {
        let each = |bytes: u64| bytes as f64 / sizes.messages as f64;
        (sizes.messages > 0).then(|| FormatSummary {
            format: format.to_owned(),
            messages: sizes.messages,
            payload_bytes: each(sizes.payload_bytes),
            packet_bytes: each(sizes.packet_bytes),
        })
    }

    /// For people.
    fn in_words(&self) -> String {
        format!(
            "{} in {}: a payload of {:.0} bytes, {:.0} as a message of CoAP",
            grouped(self.messages as f64),
            self.format,
            self.payload_bytes,
            self.packet_bytes
        )
    }
}

impl ManagementSummary {
    /// Of counts, the histogram of each metric, and who was observed at the end; `None` where nothing was managed.
    pub(crate) fn of(
        counts: &Counts,
        merged: impl Fn(Metric) -> Histogram,
        observed: Option<ObservedDevices>,
    ) -> Option<ManagementSummary> {
        let of_counts = counts.value_notifications
            + counts.renewals
            + counts.served
            + counts.unheard
            + counts.downloads
            + counts.downloads_failed;
        let download_time = TimeSummary::of_independent(&merged(Metric::DownloadTime));
        let formats: Vec<_> = counts.formats.all().into_iter().filter_map(FormatSummary::of).collect();
        let is_managed = of_counts > 0 || observed.is_some() || !formats.is_empty();
        is_managed.then(|| ManagementSummary {
            observed: observed.map(|devices| devices.observed),
            unobserved: observed.map(|devices| devices.unobserved),
            value_notifications: counts.value_notifications,
            formats,
            renewals: counts.renewals,
            served: counts.served,
            unheard: counts.unheard,
            downloads: counts.downloads,
            downloads_failed: counts.downloads_failed,
            download_bytes: counts.download_bytes,
            download_time: (download_time.n > 0).then_some(download_time),
        })
    }

    /// In words, one part a subject.
    pub fn in_words(&self, time: impl Fn(Option<f64>) -> String) -> Vec<String> {
        let count = |number: u64| grouped(number as f64);
        let mut told = Vec::new();
        if let (Some(observed), Some(unobserved)) = (self.observed, self.unobserved) {
            let registered = count(u64::from(observed) + u64::from(unobserved));
            told.push(format!("{} of {registered} registered devices observed", count(observed.into())));
        }
        if self.value_notifications > 0 {
            let further = count(self.value_notifications);
            told.push(format!("{further} notifications of values, or of messages to a second observer"));
        }
        told.extend(self.formats.iter().map(FormatSummary::in_words));
        if self.renewals > 0 {
            told.push(format!("{} registrations renewed", count(self.renewals)));
        }
        if self.served > 0 {
            told.push(format!("{} requests of the server served", count(self.served)));
        }
        if self.unheard > 0 {
            told.push(format!("{} datagrams came to devices that slept (queue mode)", count(self.unheard)));
        }
        if self.downloads > 0 {
            let mut text = format!("devices with new firmware: {}", count(self.downloads));
            if let Some(took) = &self.download_time {
                let (n, p50, max) = (count(took.n), time(took.p50), time(took.max));
                text += &format!(", {n} of them by a download: p50 {p50}, max {max}");
            }
            told.push(text);
        }
        if self.downloads_failed > 0 {
            told.push(format!("downloads of firmware that failed: {}", count(self.downloads_failed)));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Nanos;

    #[test]
    fn a_level_without_management_has_none() {
        assert!(ManagementSummary::of(&Counts::default(), |_| Histogram::new(), None).is_none());
    }

    #[test]
    fn what_devices_send_of_themselves_has_formats_although_nobody_is_observed() {
        let mut counts = Counts::default();
        counts.formats.senml_cbor.add(40, 61);
        let told = ManagementSummary::of(&counts, |_| Histogram::new(), None).unwrap();
        assert_eq!((told.observed, told.formats.len()), (None, 1));
    }

    #[test]
    fn what_happened_is_said() {
        let mut counts =
            Counts { downloads: 3, download_bytes: 30, downloads_failed: 1, ..Counts::default() };
        [[40, 61], [42, 63]]
            .into_iter()
            .for_each(|[payload, packet]| counts.formats.tlv.add(payload, packet));
        let mut took = Histogram::new();
        (0..100).for_each(|_| took.record(Nanos::from_secs(2)));
        let observed = Some(ObservedDevices { observed: 8, unobserved: 2 });
        let merged = |metric| if metric == Metric::DownloadTime { took.clone() } else { Histogram::new() };
        let told = ManagementSummary::of(&counts, merged, observed).unwrap();
        let words = told.in_words(|seconds| format!("{:.0} s", seconds.unwrap()));
        assert_eq!(
            words,
            [
                "8 of 10 registered devices observed",
                "2 in TLV: a payload of 41 bytes, 62 as a message of CoAP",
                "devices with new firmware: 3, 100 of them by a download: p50 2 s, max 2 s",
                "downloads of firmware that failed: 1"
            ]
        );
    }
}
