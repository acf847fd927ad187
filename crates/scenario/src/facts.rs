//! A plan in words: what would happen, for `plimsoll check`.

use crate::duration::clock;
use crate::plan::{
    ArrivalsPer, Ask, BalancerPlan, Content, CountPlan, Each, Endpoint, EnginePlan, LevelPlan, Model,
    Offline, Plan, Protocol, QuotaPlan, ReceiveRole, ReceiversPlan, RelayPlan, SharePlan, Template,
    TokenEndpoint,
};
use crate::protocols::{routing, slice};
use crate::quantity::Quantity;
use crate::words::{level_of, link_in_words};
use plimsoll_codec::credentials::hide_query_secrets;
use plimsoll_model::text::grouped;
use plimsoll_model::{ArrivalTrace, Nanos};
use plimsoll_stats::distribution::{InterArrival, SizeDistribution};
use plimsoll_template::Variables;

impl Plan {
    /// What the run would do, each with its label: levels, times, messages, connections, objectives.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("platform", self.platform_in_words())];
        facts.extend(self.relays_in_words());
        facts.extend(self.balancers_in_words());
        facts.extend(self.replicas_in_words());
        facts.extend(self.quotas_in_words());
        facts.extend(self.populations().flat_map(|plan| plan.facts_of_population(!self.others.is_empty())));
        let sites = self.all_places_in_words();
        facts.extend(sites.map(|sites| ("stand", format!("{sites}; without --workers, all on this host"))));
        facts.extend([
            ("load", self.load_in_words()),
            ("levels", self.levels_in_words()),
            ("each level", self.level_in_words()),
            ("connections", self.connections_in_words()),
            ("time", self.time_in_words()),
        ]);
        if let Some(experiment) = self.load.experiment {
            let what = format!("each component is slowed in turn, within {}", experiment.within);
            facts.insert(facts.len() - 2, ("experiment", what));
        }
        if let Some(command) = &self.platform.command {
            let scheme = self.platform.address.as_ref().map(|address| address.scheme());
            let (up, down) = (command.up.join(" "), command.down.join(" "));
            let (within, down_within) = (command.within.show(), command.down_within.show());
            let scheme = scheme.unwrap_or_default();
            let place = match &command.engine {
                None => format!("which prints an address that begins with {scheme}://"),
                Some(plan) => format!("{scheme}:// at port {} of {}", plan.port, plan.service),
            };
            facts.insert(1, ("brought up", format!("by `{up}`, within {within}, {place}")));
            facts.insert(2, ("taken down", format!("by `{down}`, within {down_within}")));
        }
        if self.platform.state.reset {
            let by = match self.platform.state.command.as_slice() {
                [] => "the profile's steps".to_owned(),
                command => format!("`{}`", command.join(" ")),
            };
            facts.insert(1, ("before it", format!("the platform is reset by {by}")));
        }
        if let Some(schedule) = &self.schedule {
            facts.push(("repeated", schedule.in_words()));
        }
        if let Some(storm) = &self.load.storm {
            let (component, after, down) = (&storm.component, storm.after.show(), storm.down.show());
            let offline = match self.connection.offline {
                Offline::Buffer => "wait",
                Offline::Drop => "are not sent",
                Offline::KeepLatest => "are not sent but for the newest of each device",
            };
            facts.push((
                "storm",
                format!(
                    "{component} is killed {after} into each hold and started again {down} later; messages due \
                     meanwhile {offline}"
                ),
            ));
        }
        facts.extend(self.retry.iter().map(|retry| ("retries", retry.in_words())));
        facts.extend(self.load.faults.iter().map(|fault| ("fault", fault.in_words())));
        if let Some(messages) = self.messages_due() {
            let deliveries = match self.all_subscribers() {
                0 => String::new(),
                _ => format!(", and up to {} deliveries", grouped(self.deliveries_due().round())),
            };
            facts.push(("messages", format!("about {} in the holds{deliveries}", grouped(messages.round()))));
        }
        let mut label = "objectives";
        for objective in &self.objectives.level {
            let key = objective.key();
            facts.push((
                std::mem::take(&mut label),
                format!("{key} {}", crate::objective::condition(objective)),
            ));
        }
        if self.objectives.level.is_empty() {
            facts.push((label, "none: every valid level meets".to_owned()));
        }
        if let Some(rate) = self.objectives.load_line {
            facts.push(("load line", format!("at least {}/s", grouped(rate))));
        }
        facts.extend(self.oversize().map(|warning| ("warning", warning)));
        facts.extend(self.platform.roles.doubtful_delivery.clone().map(|warning| ("warning", warning)));
        let unreached = self.with_devices().find_map(Plan::unreached_by_queries);
        facts.extend(unreached.map(|warning| ("warning", warning)));
        facts.extend(self.doubtful_filters().into_iter().map(|warning| ("warning", warning)));
        facts.extend(self.too_few_observations().into_iter().map(|warning| ("warning", warning)));
        facts
    }

    /// Who takes part, and what it sends.
    fn facts_of_population(&self, is_one_of_several: bool) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        let population = &self.population;
        if is_one_of_several && population.receivers == ReceiversPlan::OfOthers {
            let subscribers = self.subscribers_in_words();
            return vec![("subscribers", format!("in common: {subscribers}{}", self.place_in_words()))];
        }
        match is_one_of_several {
            true => facts.push(("population", self.population_in_words())),
            false => facts.push(("devices", self.devices_in_words())),
        }
        match population.receivers {
            ReceiversPlan::Common => {}
            _ => facts.push(("subscribers", self.subscribers_in_words())),
        }
        facts.extend(self.token_in_words().map(|token| ("token", token)));
        facts.extend(self.set_up_in_words().map(|steps| ("set-up", steps)));
        facts.push(("message", self.message_in_words()));
        facts.extend(self.target_in_words().map(|target| ("goes to", target)));
        facts
    }

    /// One of several populations: its name, its devices, what it has of each level.
    fn population_in_words(&self) -> String {
        let population = &self.population;
        let share = match &population.share {
            None => String::new(),
            Some(SharePlan::Weight(weight)) => format!("; share {weight} of the load"),
            Some(SharePlan::Rate(rate)) => format!("; {}/s at each level", grouped(*rate)),
            Some(SharePlan::Rates(rates)) => {
                let rates: Vec<String> = rates.iter().map(|rate| grouped(*rate)).collect();
                format!("; {} per second", rates.join(", "))
            }
        };
        let (devices, place) = (self.devices_in_words(), self.place_in_words());
        format!("{}: {devices}{place}{share}", population.name)
    }

    /// Where one of several populations finds the platform.
    fn place_in_words(&self) -> String {
        let mapping = self.platform.roles.mapping.as_ref().map(|mapping| format!(", mapping {mapping}"));
        let address =
            self.known_address().map(|address| format!(" at {}", hide_query_secrets(&address.show())));
        format!("{}{}", address.unwrap_or_default(), mapping.unwrap_or_default())
    }

    fn platform_in_words(&self) -> String {
        let profile = &self.platform.profile;
        let mapping = match &self.platform.roles.mapping {
            Some(mapping) => format!(", mapping {mapping}"),
            None => String::new(),
        };
        match self.known_address() {
            Some(address) => format!("{} at {}{mapping}", profile.title, hide_query_secrets(&address.show())),
            None => format!("{}: {}{mapping}", profile.name, profile.title),
        }
    }

    /// The platform's address, where it is known before the run.
    fn known_address(&self) -> Option<&Endpoint> {
        self.platform.address.as_ref().filter(|_| self.platform.command.is_none())
    }

    /// What stands before components of the platform.
    fn relays_in_words(&self) -> Vec<(&'static str, String)> {
        let relay =
            |relay: &RelayPlan| ("relay", format!("before {}: {}", relay.component, relay.in_words()));
        self.platform.relays.iter().map(relay).collect()
    }

    /// Which load balancers stand before components.
    fn balancers_in_words(&self) -> Vec<(&'static str, String)> {
        let balancer =
            |own: &BalancerPlan| ("balancer", format!("before {}: {}", own.component, own.in_words()));
        self.platform.balancers.iter().map(balancer).collect()
    }

    /// Of which components there are several.
    fn replicas_in_words(&self) -> Vec<(&'static str, String)> {
        let several = |(name, count): (&String, &u16)| ("replicas", format!("{count} of {name}"));
        let of_engine = self.engine().into_iter().flat_map(|engine| &engine.counts);
        self.platform.replicas.iter().chain(of_engine).map(several).collect()
    }

    /// The engine that brings the platform up.
    fn engine(&self) -> Option<&EnginePlan> {
        self.platform.command.as_ref()?.engine.as_ref()
    }

    /// Which components may not use as much as they like.
    fn quotas_in_words(&self) -> Vec<(&'static str, String)> {
        let quota = |(name, quota): (&String, &QuotaPlan)| ("quota", format!("{name}: at most {quota}"));
        let of_engine = self.engine().into_iter().flat_map(|engine| &engine.quotas);
        self.platform.quotas.iter().chain(of_engine).map(quota).collect()
    }

    /// Where the access token comes from.
    fn token_in_words(&self) -> Option<String> {
        let token = self.platform.roles.token.as_ref()?;
        let place = match &token.endpoint {
            TokenEndpoint::Url(url) => hide_query_secrets(url),
            TokenEndpoint::Platform { path, .. } => format!("{path} of the platform"),
        };
        Some(format!("grant {} at {place}, renewed before it expires", token.grant.name()))
    }

    /// The requests of the controller before the run.
    fn set_up_in_words(&self) -> Option<String> {
        let roles = &self.platform.roles;
        let filling = if self.platform.state.preload > 0 { &roles.preload[..] } else { &[] };
        let reset = if self.platform.state.reset { &roles.reset[..] } else { &[] };
        let steps: Vec<_> = reset.iter().chain(filling).chain(&roles.set_up).collect();
        let (devices, subscribers) = (u64::from(self.devices), u64::from(self.subscribers.count));
        let count = |each| match each {
            Each::Once => 1,
            Each::Device => devices,
            Each::Subscriber => subscribers,
            Each::Pair => u64::from(self.subscribers.followed(self.devices)) * subscribers,
            Each::Item => u64::from(self.platform.state.preload),
        };
        let told: Vec<String> = steps
            .iter()
            .map(|step| format!("{} x {}", grouped(count(step.each) as f64), step.name))
            .collect();
        let first = match &steps.first()?.ask {
            Ask::Request(request) => format!("{} {}", request.method, self.first(&request.path)),
            Ask::Message(said) => match &said.topic {
                Some(topic) => format!("a message to {}", self.first(topic)),
                None => "a message over WebSocket".to_owned(),
            },
        };
        Some(format!("{}; begins with {first}", told.join(", ")))
    }

    fn devices_in_words(&self) -> String {
        (slice(self.protocol()).describe)(self)
    }

    fn subscribers_in_words(&self) -> String {
        let subscribers = &self.subscribers;
        if subscribers.count == 0 {
            return "none: deliveries are not measured".to_owned();
        }
        if let Some(listener) = &self.platform.roles.listener {
            let count = grouped(f64::from(subscribers.count));
            return format!("{count} that listen for notifications over {}", listener.protocol);
        }
        if self.platform.roles.notified.is_some() {
            let count = grouped(f64::from(subscribers.count));
            let filters: Vec<String> = subscribers.filters.iter().map(|filter| filter.text()).collect();
            return format!("{count} that are notified over MQTT at {}", filters.join(" and "));
        }
        if let Some(receives) = &self.platform.roles.receives {
            let count = grouped(f64::from(subscribers.count));
            return match receives {
                ReceiveRole::WebSocket(_) => format!("{count} that receive over WebSockets of their own"),
                ReceiveRole::Http(role) => {
                    let way = if role.polls.is_some() { "poll" } else { "read the stream" };
                    format!(
                        "{count} that {way} over HTTP: {} {}",
                        role.request.method,
                        hide_query_secrets(&role.request.path.text())
                    )
                }
            };
        }
        if let Some(observes) = &self.platform.roles.observes {
            let count = grouped(f64::from(subscribers.count));
            let over = match self.protocol() {
                Protocol::CoapTcp if self.connection.transport.tls.is_some() => " over TLS",
                Protocol::CoapTcp => " over TCP",
                _ if self.coap.dtls.is_some() => " over DTLS",
                _ => "",
            };
            return format!("{count} that observe {} over CoAP{over}", observes.path.text());
        }
        let filters =
            subscribers.filters.iter().map(|filter| routing::shown(&filter.text(), self.protocol()));
        let filters: Vec<String> = filters.collect();
        let shared = match &subscribers.share {
            Some(group) => format!(", shared in the group {group}"),
            None => String::new(),
        };
        let work = match subscribers.work {
            Nanos::ZERO => String::new(),
            work => format!(", {} of work on each message", work.show()),
        };
        let qos = match self.protocol() {
            Protocol::Mqtt => format!(" with QoS {}", level_of(subscribers.qos)),
            _ => String::new(),
        };
        format!(
            "{}{qos}, filter {}{shared}{work}{}",
            grouped(f64::from(subscribers.count)),
            filters.join(" and "),
            link_in_words(subscribers.link)
        )
    }

    fn message_in_words(&self) -> String {
        let marker = self.message.marker;
        match &self.message.content {
            Content::Template(template) => {
                let feed = self.message.feed.as_deref();
                let longest = template.longest_with(marker.length(), 0, feed);
                format!("a template of at most {longest} B, {marker} marker")
            }
            Content::Sized(sizes) => format!("{}, {marker} marker", sizes_in_words(sizes)),
        }
    }

    /// Where the first message of the first device goes as a request.
    fn target_in_words(&self) -> Option<String> {
        let request = self.platform.roles.device.request.as_ref()?;
        let address = self.known_address();
        let base = address.map(|address| address.path.trim_end_matches('/')).unwrap_or_default();
        let (method, path) = (&request.method, self.first(&request.path));
        let place =
            address.map_or("the platform".to_owned(), |address| format!("{}:{}", address.host, address.port));
        Some(format!("{method} {} at {place}", hide_query_secrets(&format!("{base}{path}"))))
    }

    /// A template in the first message of the first device; what is known only in the run keeps its name.
    fn first(&self, template: &Template) -> String {
        let device = self.population.first_device;
        let variables = Variables { run: "RUN", device, ..Variables::default() };
        let mut out = Vec::new();
        template.render(&variables, &mut || 0, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn connections_in_words(&self) -> String {
        let rate = grouped(self.load.connect_rate);
        let before = format!(
            "{} at {rate} per second, about {}",
            grouped(self.clients() as f64),
            clock(self.connecting())
        );
        let subscribers = match self.all_subscribers() {
            0 => String::new(),
            _ => format!("; before them subscribers, {before}"),
        };
        let in_levels = clock(self.connecting_in_levels());
        match self.load.levels.first() {
            Some(LevelPlan::Devices { .. }) => {
                format!(
                    "those missing in a level at {rate} per second, {in_levels} in all levels{subscribers}"
                )
            }
            Some(LevelPlan::ConnectRate(_)) => {
                let devices = grouped(f64::from(self.all_devices()));
                format!("{devices} again in each level, {in_levels} in all levels{subscribers}")
            }
            _ => before,
        }
    }

    fn load_in_words(&self) -> String {
        match &self.load.model {
            Model::Open { arrivals, per } => {
                let per = match per {
                    ArrivalsPer::Population => "the whole population",
                    ArrivalsPer::Device => "each device",
                };
                format!("open, {} arrivals of {per}, seed {}", arrivals_in_words(arrivals), self.seed)
            }
            Model::Trace(trace) => trace_in_words(trace),
            Model::PartlyOpen { arrivals, messages, think_time, .. } => format!(
                "partly open, {} arrivals of sessions of {messages} messages, think time {}, seed {}",
                arrivals_in_words(arrivals),
                think_time.show(),
                self.seed
            ),
            Model::Closed { think_time, timeout } => {
                let (think_time, timeout) = (think_time.show(), timeout.show());
                format!("closed, think time {think_time}, operations given up after {timeout}")
            }
        }
    }

    fn levels_in_words(&self) -> String {
        if let Some(search) = &self.load.search {
            return format!(
                "searched from {} to {} per second to within {} %",
                grouped(search.from),
                grouped(search.to),
                (search.tolerance * 1e4).round() / 1e2
            );
        }
        if let Some(calibration) = &self.load.calibration {
            return format!(
                "calibrated from {} per second down to what is done, until {} % of what is due is; {} levels at most",
                grouped(calibration.from),
                (calibration.done * 1e4).round() / 1e2,
                calibration.attempts
            );
        }
        if let Some(curve) = &self.load.curve {
            let [mean, lowest, highest] = [curve.mean(), curve.lowest(), curve.highest()]
                .map(|rate| grouped((rate * 1e3).round() / 1e3));
            let from = format!("1 from {lowest} to {highest} per second, {mean} on average");
            return match curve.spike() {
                Some((at, end)) => {
                    format!("{from}: a spike of {} after {}", (end - at).show(), at.show())
                }
                None => {
                    let points = curve.points().len();
                    format!("{from}: {} along {points} points", curve.length().show())
                }
            };
        }
        if self.load.levels.is_empty() && self.load.experiment.is_some() {
            return "those of the experiment alone".to_owned();
        }
        let shown: Vec<String> = self
            .load
            .levels
            .iter()
            .map(|level| match level {
                LevelPlan::Rate(rate) | LevelPlan::Listed { rate, .. } | LevelPlan::ExperimentRate(rate) => {
                    grouped(*rate)
                }
                LevelPlan::InFlight(count) | LevelPlan::Experiment(count) => grouped(f64::from(*count)),
                LevelPlan::Devices { devices, .. } => grouped(f64::from(*devices)),
                LevelPlan::ConnectRate(rate) => grouped(*rate),
            })
            .collect();
        let unit = match self.load.levels.first() {
            Some(LevelPlan::InFlight(_) | LevelPlan::Experiment(_)) => "in flight".to_owned(),
            Some(LevelPlan::Devices { devices, rate }) if *rate > 0.0 => {
                format!("devices, {} per second each", grouped(rate / f64::from(*devices)))
            }
            Some(LevelPlan::Devices { .. }) => "devices, idle".to_owned(),
            Some(LevelPlan::ConnectRate(_)) => "connections per second, idle devices".to_owned(),
            Some(LevelPlan::Rate(_) | LevelPlan::Listed { .. } | LevelPlan::ExperimentRate(_)) | None => {
                "per second".to_owned()
            }
        };
        let levels = match shown.as_slice() {
            [first, second, .., last] if shown.len() > 12 => {
                format!("{}: {first}, {second}, ... {last} {unit}", shown.len())
            }
            all => format!("{}: {} {unit}", all.len(), all.join(", ")),
        };
        let levels = match self.load.turn {
            Some(turn) => format!("{levels}, {turn} of them on the way up and the others on the way down"),
            None => levels,
        };
        match self.load.stop_after_missed {
            None => levels,
            Some(1) => format!("{levels}, up to the first that misses"),
            Some(after) => format!("{levels}, up to {after} in a row that miss"),
        }
    }

    fn time_in_words(&self) -> String {
        let (all, again) = (self.longest_duration(), self.holding_again());
        let longer = match again > Nanos::ZERO {
            true => format!(", or {} if undecided levels are held again", clock(all)),
            false => String::new(),
        };
        format!("at most {}{longer}, plus the platform's start", clock(all - again))
    }

    fn level_in_words(&self) -> String {
        let load = &self.load;
        let idle = match load.idle_before {
            Nanos::ZERO => String::new(),
            idle => format!("{} without load, ", idle.show()),
        };
        let (warm_up, hold, drain) = (load.warm_up.show(), load.hold.show(), load.drain.show());
        let hold = match load.count {
            None => format!("{hold} hold"),
            Some(CountPlan::Messages(count)) => {
                format!("a hold of {} messages, {hold} at most,", grouped(f64::from(count)))
            }
            Some(CountPlan::Cycles(count)) => {
                let messages = if count == 1 { "message" } else { "messages" };
                format!("a hold of {} {messages} of each device, {hold} at most,", grouped(f64::from(count)))
            }
        };
        let after = match load.idle_after {
            Nanos::ZERO => String::new(),
            idle => format!("; {} without load after the last", idle.show()),
        };
        format!("{idle}{warm_up} warm-up, {hold} in {} samples, at most {drain} drain{after}", load.samples)
    }
}

fn sizes_in_words(sizes: &SizeDistribution) -> String {
    match sizes {
        SizeDistribution::Fixed(size) => format!("{size} B"),
        SizeDistribution::Uniform { min, max } => format!("{min} to {max} B, uniform"),
        SizeDistribution::Normal { mean, deviation, min, max } => {
            format!("{mean} B on average, normal with deviation {deviation} B, {min} to {max} B")
        }
        SizeDistribution::Choice(list) => {
            let shown: Vec<String> =
                list.iter().map(|(size, weight)| format!("{size} B ({weight})")).collect();
            format!("one of {} (weight)", shown.join(", "))
        }
    }
}

fn trace_in_words(trace: &ArrivalTrace) -> String {
    let messages = grouped(trace.times().len() as f64);
    let devices = match trace.devices() {
        Some(devices) => format!(" of {} devices", grouped(f64::from(devices))),
        None => String::new(),
    };
    let (length, rate) = (clock(trace.length()), grouped(trace.rate()));
    format!("open, at the times of a trace: {messages} messages{devices} in {length}, {rate} per second")
}

fn arrivals_in_words(arrivals: &InterArrival) -> String {
    match arrivals {
        InterArrival::Constant => "constant".to_owned(),
        InterArrival::Exponential => "Poisson".to_owned(),
        InterArrival::Uniform { spread } => format!("uniform (spread {spread})"),
        InterArrival::Normal { cv } => format!("normal (cv {cv})"),
        InterArrival::Gamma { shape } => format!("gamma (shape {shape})"),
    }
}
