//! What a message contains, and how the marker is found again.

use plimsoll_codec::marker::Marker;
use plimsoll_model::RunId;
use plimsoll_scenario::Variables;
use plimsoll_scenario::plan::{Content, MarkerForm, MessagePlan, Plan, Template};
use plimsoll_stats::distribution::random;

/// The run's tag as the scenario's marker form carries it.
pub fn run_tag(message: &MessagePlan, run: RunId) -> u16 {
    match message.marker {
        MarkerForm::Binary | MarkerForm::Ascii => run.tag(),
        MarkerForm::Integer => run.tag() & 0xff,
    }
}

/// A size that no content of the plan exceeds, in bytes.
pub fn largest(message: &MessagePlan) -> u32 {
    match &message.content {
        Content::Sized(sizes) => sizes.largest(),
        Content::Template(template) => template.longest(message.marker.length()) as u32,
    }
}

/// Makes contents and reads their markers.
pub struct Contents {
    message: MessagePlan,
    topic: Template,
    user_properties: Vec<(String, Template)>,
    run: RunId,
    run_text: String,
    seed: u64,
    marker: Vec<u8>,
}

/// Distinguishes the random numbers of contents from those of arrivals.
const CONTENT_STREAM: u64 = 0x636f_6e74_656e_7400;

impl Contents {
    /// Contents of a run.
    pub fn new(plan: &Plan, run: RunId) -> Contents {
        Contents {
            message: plan.message.clone(),
            topic: plan.mqtt.topic.clone(),
            user_properties: plan.mqtt.session.user_properties.clone(),
            run,
            run_text: run.to_string(),
            seed: plan.seed,
            marker: Vec::new(),
        }
    }

    /// The user properties of a message.
    pub fn user_properties(&self, device: u32, sequence: u32) -> Vec<(&str, String)> {
        if self.user_properties.is_empty() {
            return Vec::new();
        }
        let time_ms = (crate::clock::wall_nanos() / 1_000_000) as u64;
        let variables =
            Variables { run: &self.run_text, device, subscriber: 0, sequence, marker: &[], time_ms };
        let rendered = self.user_properties.iter().map(|(name, template)| {
            let mut value = Vec::new();
            template.render(&variables, &mut || 0, &mut value);
            (name.as_str(), String::from_utf8_lossy(&value).into_owned())
        });
        rendered.collect()
    }

    /// Appends the topic of a message.
    pub fn render_topic(&self, device: u32, sequence: u32, out: &mut Vec<u8>) {
        let variables =
            Variables { run: &self.run_text, device, subscriber: 0, sequence, marker: &[], time_ms: 0 };
        self.topic.render(&variables, &mut || 0, out);
    }

    /// Appends the content of a message. What is random in it depends on seed, device and sequence only.
    pub fn render(&mut self, device: u32, sequence: u32, out: &mut Vec<u8>) {
        let marker = Marker { run: run_tag(&self.message, self.run), device, sequence };
        self.marker.clear();
        match self.message.marker {
            MarkerForm::Binary => self.marker.extend_from_slice(&marker.to_binary()),
            MarkerForm::Ascii => marker.write_ascii(&mut self.marker),
            MarkerForm::Integer => {
                // The plan has no more devices than fit; after 2^24 messages a device's markers stop counting.
                let number = marker.to_integer().unwrap_or_default();
                self.marker.extend_from_slice(number.to_string().as_bytes());
            }
        }
        let mut numbers = random(self.seed, &[CONTENT_STREAM, u64::from(device), u64::from(sequence)]);
        match &self.message.content {
            Content::Sized(sizes) => {
                let end = out.len() + sizes.sample(&mut numbers) as usize;
                out.extend_from_slice(&self.marker);
                out.resize(end.max(out.len()), b'.');
            }
            Content::Template(template) => {
                let time_ms = (crate::clock::wall_nanos() / 1_000_000) as u64;
                let variables = Variables {
                    run: &self.run_text,
                    device,
                    subscriber: 0,
                    sequence,
                    marker: &self.marker,
                    time_ms,
                };
                template.render(&variables, &mut || numbers.bits(), out);
            }
        }
    }

    /// The marker of a content, `None` where it carries none.
    pub fn marker(&self, content: &[u8]) -> Option<Marker> {
        match self.message.marker {
            MarkerForm::Binary => Marker::read_binary(content),
            MarkerForm::Ascii => Marker::find_ascii(content),
            MarkerForm::Integer => Marker::find_integer(content, run_tag(&self.message, self.run)),
        }
    }
}
