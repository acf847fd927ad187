//! What a message contains, and how the marker is found again.

use crate::run_context::{RunContext, View};
use plimsoll_codec::marker::Marker;
use plimsoll_codec::numbering::Numbering;
use plimsoll_model::RunId;
use plimsoll_scenario::plan::Variables;
use plimsoll_scenario::plan::{
    Content, MarkerForm, MessagePlan, OptionPlan, OptionValue, Plan, RequestPlan, SaidPlan, Template,
};
use plimsoll_stats::distribution::{Random, SizeDistribution, random};
use std::collections::HashMap;
use std::sync::Arc;

/// The run's tag as markers of a form carry it.
pub fn run_tag(form: MarkerForm, run: RunId) -> u16 {
    match form {
        MarkerForm::Binary | MarkerForm::Ascii => run.tag(),
        MarkerForm::Integer => run.tag() & 0xff,
    }
}

/// The forms of the markers that come to the clients of a plan.
pub fn markers_of(plan: &Plan) -> Vec<MarkerForm> {
    match plan.population.markers.as_slice() {
        [] => vec![plan.message.marker],
        forms => forms.to_vec(),
    }
}

/// Makes contents and reads their markers.
pub struct Contents {
    message: MessagePlan,
    /// The forms of the markers that are looked for.
    markers: Vec<MarkerForm>,
    topic: Template,
    user_properties: Vec<(String, Template)>,
    run: RunId,
    run_text: String,
    seed: u64,
    marker: Vec<u8>,
    /// How markers are divided.
    numbering: Numbering,
    /// What stands around the message, and the message that was made last.
    envelope: Option<Template>,
    inner: Vec<u8>,
    /// Whether anything that is said has the time in it.
    tells_time: bool,
    /// Which device each query of the present level is about; `None` where these are messages of devices themselves.
    asked: Option<HashMap<u32, u32>>,
    view: View,
}

/// Distinguishes the random numbers of contents from those of arrivals.
const CONTENT_STREAM: u64 = 0x636f_6e74_656e_7400;
const BESIDE_STREAM: u64 = 0x6265_7369_6465_0000;

impl Contents {
    /// Contents of a run.
    pub fn new(plan: &Plan, run: RunId) -> Contents {
        Contents {
            message: plan.message.clone(),
            markers: markers_of(plan),
            topic: plan.message.target.clone(),
            user_properties: plan.mqtt.session.user_properties.clone(),
            run,
            run_text: run.to_string(),
            seed: plan.seed,
            marker: Vec::new(),
            numbering: plan.numbering(),
            envelope: plan.platform.roles.device.envelope.clone(),
            inner: Vec::new(),
            tells_time: tells_time(plan),
            asked: None,
            view: View::of(&Arc::default()),
        }
    }

    /// What queriers ask by messages: in the place of a device and its messages are a querier and the queries that it asks.
    pub fn of_queries(plan: &Plan, run: RunId, said: &SaidPlan) -> Contents {
        let contents = Contents::new(plan, run);
        Contents {
            message: MessagePlan { content: Content::Template(Template::default()), ..contents.message },
            topic: said.topic.clone().unwrap_or_default(),
            user_properties: Vec::new(),
            tells_time: said.message.tells_time(),
            envelope: Some(said.message.clone()),
            asked: Some(HashMap::new()),
            ..contents
        }
    }

    /// A query of the present level is about that device.
    pub fn ask(&mut self, query: u32, device: u32) {
        if let Some(asked) = &mut self.asked {
            asked.insert(query, device);
        }
    }

    /// Which device a query is about; `None` where these are messages of devices themselves, or it is over.
    pub fn asked_about(&self, query: u32) -> Option<u32> {
        self.asked.as_ref()?.get(&query).copied()
    }

    /// A query is over.
    pub fn forget_query(&mut self, query: u32) {
        if let Some(asked) = &mut self.asked {
            asked.remove(&query);
        }
    }

    /// The level is closed: its queries are forgotten.
    pub fn forget_queries(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.clear();
        }
    }

    /// The same with what the runner gives: what set-up steps capture, once they have, and the access token.
    pub fn in_context(self, run_context: &Arc<RunContext>) -> Contents {
        Contents { view: View::of(run_context), ..self }
    }

    /// What the variables of a path or a header stand for beside the message that was made last.
    pub fn beside(&self, device: u32, sequence: u32) -> Variables<'_> {
        Variables {
            run: &self.run_text,
            device,
            sequence,
            marker: &self.marker,
            // A look at the clock costs as much as all the rest of a short message.
            time_ms: if self.tells_time { (crate::clock::wall_nanos() / 1_000_000) as u64 } else { 0 },
            message: &self.inner,
            token: self.view.token(),
            captures: self.view.captures(),
            feed: self.message.feed.as_deref(),
            ..Variables::default()
        }
    }

    /// Takes in what the runner has given since the last message; returns the generation of the access token.
    pub fn refresh(&mut self) -> u64 {
        self.view.refresh();
        self.view.generation()
    }

    /// What the runner gives, as it was seen last.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Random numbers for what stands beside a message, such as a path.
    pub fn numbers(&self, device: u32, sequence: u32) -> Numbers {
        Numbers::of(self.seed, [BESIDE_STREAM, u64::from(device), u64::from(sequence)])
    }

    /// The user properties of a message.
    pub fn user_properties(&self, device: u32, sequence: u32) -> Vec<(&str, String)> {
        if self.user_properties.is_empty() {
            return Vec::new();
        }
        let time_ms = (crate::clock::wall_nanos() / 1_000_000) as u64;
        let variables = Variables { run: &self.run_text, device, sequence, time_ms, ..Variables::default() };
        let rendered = self.user_properties.iter().map(|(name, template)| {
            let mut value = Vec::new();
            template.render(&variables, &mut || 0, &mut value);
            (name.as_str(), String::from_utf8_lossy(&value).into_owned())
        });
        rendered.collect()
    }

    /// Appends the topic of a message.
    pub fn render_topic(&self, device: u32, sequence: u32, out: &mut Vec<u8>) {
        let variables = Variables { run: &self.run_text, device, sequence, ..Variables::default() };
        self.topic.render(&variables, &mut || 0, out);
    }

    /// Appends the content of a message. What is random in it depends on seed, device and sequence only.
    pub fn render(&mut self, device: u32, sequence: u32, out: &mut Vec<u8>) {
        self.view.refresh();
        let device = self.asked_about(sequence).unwrap_or(device);
        let marker = Marker { run: run_tag(self.message.marker, self.run), device, sequence };
        self.marker.clear();
        match self.message.marker {
            MarkerForm::Binary => {
                self.marker.extend_from_slice(&self.numbering.written(marker).to_binary());
            }
            MarkerForm::Ascii => self.numbering.written(marker).write_ascii(&mut self.marker),
            MarkerForm::Integer => {
                // The plan has no more devices than fit; after 2^24 messages a device's markers stop counting.
                let number = marker.to_integer().unwrap_or_default();
                self.marker.extend_from_slice(number.to_string().as_bytes());
            }
        }
        let mut numbers = Numbers::of(self.seed, [CONTENT_STREAM, u64::from(device), u64::from(sequence)]);
        let mut inner = std::mem::take(&mut self.inner);
        inner.clear();
        let variables = self.beside(device, sequence);
        match &self.envelope {
            None => render_message(&self.message.content, &variables, &mut numbers, out),
            Some(envelope) => {
                render_message(&self.message.content, &variables, &mut numbers, &mut inner);
                let variables = Variables { message: &inner, ..variables };
                envelope.render(&variables, &mut || numbers.bits(), out);
            }
        }
        self.inner = inner;
    }

    /// Calls for every marker in a content that carries several messages; whether there was any.
    pub fn each_marker(&self, content: &[u8], found: &mut dyn FnMut(Marker)) -> bool {
        let mut any = false;
        let mut tell = |marker| {
            any = true;
            found(marker);
        };
        let read = |marker| self.numbering.read(marker);
        for &form in &self.markers {
            match form {
                MarkerForm::Binary => Marker::read_binary(content).map(read).into_iter().for_each(&mut tell),
                MarkerForm::Ascii => Marker::all_ascii(content).map(read).for_each(&mut tell),
                MarkerForm::Integer => {
                    Marker::all_integer(content, run_tag(form, self.run)).for_each(&mut tell)
                }
            }
        }
        any
    }

    /// The marker of a content, `None` where it carries none.
    pub fn marker(&self, content: &[u8]) -> Option<Marker> {
        let read = |marker| self.numbering.read(marker);
        self.markers.iter().find_map(|&form| match form {
            MarkerForm::Binary => Marker::read_binary(content).map(read),
            MarkerForm::Ascii => Marker::find_ascii(content).map(read),
            MarkerForm::Integer => Marker::find_integer(content, run_tag(form, self.run)),
        })
    }
}

/// Random numbers of one message; where it needs none, nothing is drawn.
pub struct Numbers {
    seed: u64,
    name: [u64; 3],
    drawn: Option<Random>,
}

impl Numbers {
    fn of(seed: u64, name: [u64; 3]) -> Numbers {
        Numbers { seed, name, drawn: None }
    }

    fn random(&mut self) -> &mut Random {
        self.drawn.get_or_insert_with(|| random(self.seed, &self.name))
    }

    /// The next one.
    pub fn bits(&mut self) -> u64 {
        self.random().bits()
    }
}

/// Whether a template that devices or queriers fill in has the time in it.
fn tells_time(plan: &Plan) -> bool {
    let of_message = match &plan.message.content {
        Content::Sized(_) => false,
        Content::Template(template) => template.tells_time(),
    };
    let roles = &plan.platform.roles;
    let of_option =
        |option: &OptionPlan| matches!(&option.value, OptionValue::Text(text) if text.tells_time());
    let of_request = |request: &RequestPlan| {
        request.path.tells_time()
            || request.body.tells_time()
            || request.headers.iter().any(|(_, value)| value.tells_time())
            || request.options.iter().any(of_option)
    };
    let query = roles.query.as_ref().and_then(|query| query.ask.request());
    of_message
        || roles.device.envelope.as_ref().is_some_and(Template::tells_time)
        || roles.device.request.iter().chain(query).any(of_request)
}

fn render_message(content: &Content, variables: &Variables<'_>, numbers: &mut Numbers, out: &mut Vec<u8>) {
    match content {
        Content::Sized(sizes) => {
            let size = match sizes {
                SizeDistribution::Fixed(size) => *size,
                sizes => sizes.sample(numbers.random()),
            };
            let end = out.len() + size as usize;
            out.extend_from_slice(variables.marker);
            out.resize(end.max(out.len()), b'.');
        }
        Content::Template(template) => template.render(variables, &mut || numbers.bits(), out),
    }
}
