//! The plans of several populations put together: what holds for the run, and who looks for what.

use super::{COMMON, Part};
use crate::check::check_at;
use crate::context::Context;
use crate::objective::{self, Name, finest_quantile};
use crate::plan::{
    CountPlan, LevelPlan, MarkerForm, Model, Objective, Objectives, Plan, Protocol, ReceiversPlan, SharePlan,
    Subject,
};
use crate::protocols::{self, routing};
use crate::resolve::hide_secrets;
use crate::tree::{Node, Value};
use crate::yaml;
use plimsoll_codec::numbering::Numbering;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Devices that an integer marker can number.
const INTEGER_DEVICES: u32 = 1 << 17;
/// From the seed of a population to that of the next: odd, so that none comes twice (2^64 divided by the golden ratio).
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Keys of `load` that each population has by itself.
const OF_ARRIVALS: [&str; 2] = ["arrivals", "per"];

/// Sections of a resolved scenario that each population has by itself.
fn of_each() -> impl Iterator<Item = &'static str> {
    std::iter::once("connection").chain(protocols::sections()).chain(["message"])
}

/// The plan of the whole run; `None` where something is wrong with the populations together, which `context` then says.
/// Each comes with its resolved scenario.
pub(crate) fn join(
    parts: &[Part],
    planned: Vec<(Plan, Json)>,
    schema: &Json,
    context: &mut Context<'_>,
) -> Option<Plan> {
    let (mut plans, scenarios): (Vec<Plan>, Vec<Json>) = planned.into_iter().unzip();
    for plan in &mut plans {
        if plan.population.receivers == ReceiversPlan::OfOthers {
            plan.devices = 0;
        }
    }
    check_command(&plans, context);
    check_roles(&plans, context);
    check_streams(&plans, context);
    check_topics(&plans, context);
    check_queue(&plans, context);
    find_markers(&mut plans);
    match_filters(&mut plans, context);
    check_markers(&plans, context);
    coarsen_defaults(&mut plans, parts);
    let mut json = written(parts, &plans, &scenarios, schema, context);
    hide_secrets(&mut json);
    let objectives = objectives(&plans, context);
    let freshness = plans.iter().any(|plan| plan.record.freshness)
        || objectives.level.iter().any(|objective| objective.subject.needs_freshness());
    for (place, plan) in (0_u64..).zip(&mut plans) {
        plan.record.freshness = freshness;
        // Each draws its own numbers: populations that send at the same moments would load the platform in bursts.
        plan.seed = plan.seed.wrapping_add(place.wrapping_mul(SEED_STEP));
    }
    let mut plans = plans.into_iter();
    let mut first = plans.next()?;
    first.others = plans.map(Arc::new).collect();
    first.objectives = objectives;
    let lists = |plan: &Plan| matches!(plan.population.share, Some(SharePlan::Rates(_)));
    if first.populations().any(lists) {
        for (place, level) in (0_u16..).zip(&mut first.load.levels) {
            if let LevelPlan::Rate(rate) = *level {
                *level = LevelPlan::Listed { place, rate };
            }
        }
    }
    check_shares(&first, context);
    check_in_flight(&first, context);
    check_turns(&first, context);
    first.resolved = yaml::write(&json);
    context.found.is_empty().then_some(first)
}

/// Subscribers in common look for the markers of all whose messages they receive. Those are divided alike in all populations.
fn find_markers(plans: &mut [Plan]) {
    let devices = plans.iter().map(|plan| plan.devices).fold(0, u32::saturating_add);
    for plan in plans.iter_mut() {
        plan.population.numbering = Some(Numbering::of(devices));
    }
    let mut forms: Vec<MarkerForm> = Vec::new();
    for plan in plans.iter().filter(|plan| plan.population.receivers == ReceiversPlan::Common) {
        if !forms.contains(&plan.message.marker) {
            forms.push(plan.message.marker);
        }
    }
    for plan in plans.iter_mut().filter(|plan| plan.population.receivers == ReceiversPlan::OfOthers) {
        plan.population.markers.clone_from(&forms);
    }
}

/// Subscribers in common subscribe to what the devices of all populations publish, unless they say to what.
fn match_filters(plans: &mut [Plan], context: &mut Context<'_>) {
    let asks = |plan: &Plan| {
        let roles = &plan.platform.roles;
        roles.have_receivers() || roles.notified.is_some()
    };
    let common = plans.iter().position(|plan| plan.population.receivers == ReceiversPlan::OfOthers);
    let by_filters = |plan: &Plan| plan.protocol().has_topics() && !asks(plan);
    let Some(common) = common.filter(|&common| plans.get(common).is_some_and(by_filters)) else { return };
    if context.written("subscribers.filters") {
        return hand_on_filters(plans, common);
    }
    let mut filters = Vec::new();
    for plan in plans.iter().filter(|plan| plan.population.receivers == ReceiversPlan::Common) {
        if !plan.protocol().has_topics() {
            let (name, protocol) = (&plan.population.name, plan.protocol());
            let message = format!(
                "nothing says under which topics subscribers receive what `{name}` sends over {protocol}"
            );
            let help = "write `subscribers: { count: 1, filters: [\"#\"] }`";
            return context.error_with_help("subscribers", message, help);
        }
        for filter in &plan.subscribers.filters {
            if !filters.contains(filter) {
                filters.push(filter.clone());
            }
        }
    }
    if let Some(plan) = plans.get_mut(common) {
        let spoken = (plan.protocol(), plan.amqp1.queue.is_some());
        routing::check_number(filters.len(), spoken, "subscribers.filters", context);
        plan.subscribers.filters = filters;
    }
}

/// What subscribers in common subscribe to is said in the words of their own protocol. Populations that speak another one go by that, too.
fn hand_on_filters(plans: &mut [Plan], common: usize) {
    let Some(subscribers) = plans.get(common).map(|plan| plan.subscribers.clone()) else { return };
    for plan in plans.iter_mut().filter(|plan| plan.population.receivers == ReceiversPlan::Common) {
        plan.subscribers.filters.clone_from(&subscribers.filters);
        plan.subscribers.share.clone_from(&subscribers.share);
    }
}

/// A stream that is made for a run has the subjects of one population.
fn check_streams(plans: &[Plan], context: &mut Context<'_>) {
    let makes = |plan: &Plan| plan.nats.stream.as_ref().is_some_and(|stream| stream.storage.is_some());
    if plans.iter().any(makes) {
        let message =
            "a stream is made for one population with its own subscribers, and this run has several";
        let help = "make the stream before the run, and write its name at `nats.stream`";
        context.error_with_help("nats.create_stream", message, help);
    }
}

/// A topic of Kafka that is made for a run is one for all populations.
fn check_topics(plans: &[Plan], context: &mut Context<'_>) {
    let made = |plan: &&Plan| plan.protocol() == Protocol::Kafka && plan.kafka.topic.is_none();
    let of_devices = |plan: &&Plan| plan.population.receivers != ReceiversPlan::OfOthers;
    let mut terms = plans.iter().filter(made).map(|plan| (plan.kafka.partitions, plan.kafka.replicas));
    if let Some(first) = terms.next()
        && terms.any(|other| other != first)
    {
        let message =
            "the topic that is made for the run is one for all populations, and they want it in two ways";
        let help = "give all of them the same `partitions` and `replicas`, or topics that exist";
        context.error_with_help("populations", message, help);
    }
    let reads_alone = plans.iter().filter(made).any(|plan| !of_devices(&plan));
    if reads_alone && !plans.iter().filter(made).any(|plan| of_devices(&plan)) {
        let message = "subscribers read a topic that is made for the run, and nobody writes to it over Kafka";
        let help = "write the platform's topic: `subscribers: { kafka: { topic: telemetry } }`";
        context.error_with_help("subscribers", message, help);
    }
}

/// Subscribers in common send nothing: where they receive from a queue, a prefix of their own means nothing. That of devices is theirs.
fn check_queue(plans: &[Plan], context: &mut Context<'_>) {
    const KEY: &str = "subscribers.amqp1.prefix";
    let common = plans.iter().find(|plan| plan.population.receivers == ReceiversPlan::OfOthers);
    let has_both =
        |plan: &Plan| plan.amqp1.queue.is_some() && !plan.amqp1.prefix.is_empty() && context.written(KEY);
    if common.is_some_and(has_both) {
        let message = "`prefix` stands before addresses, and these subscribers receive from the queue alone";
        context.error_with_help(KEY, message, "remove `prefix`, or remove `queue` to receive from addresses");
    }
}

/// What is brought up is the scenario's own platform, at which the first population is.
fn check_command(plans: &[Plan], context: &mut Context<'_>) {
    let is_there = plans.first().is_some_and(|plan| plan.platform.command.is_some());
    for name in ["command", "compose", "manifests"] {
        let key = format!("platform.{name}");
        if context.written(&key) && !is_there {
            let message = format!("`{key}` brings the platform up, and its address is known after that");
            let help =
                format!("remove the `address` of the platform and of the first population, or the `{name}`");
            context.error_with_help(&key, message, help);
        }
    }
}

/// What several populations cannot have.
fn check_roles(plans: &[Plan], context: &mut Context<'_>) {
    let token = plans.iter().find_map(|plan| plan.platform.roles.token.as_ref());
    for (place, plan) in plans.iter().enumerate() {
        let common = plan.population.receivers == ReceiversPlan::OfOthers;
        let (key, name) = match common {
            true => ("subscribers".to_owned(), "subscribers in common"),
            false => (format!("populations.{place}"), plan.population.name.as_str()),
        };
        if plan.protocol() == Protocol::Gateway || plan.platform.reports_stages() {
            let message =
                format!("`{name}`: devices behind a gateway with a test manager are a run of their own");
            context.error_with_help(&key, message, "write a scenario with `population` for them");
        }
        if plan.platform.profile.simulated.is_some() {
            let message = "a simulated platform has one population".to_owned();
            context.error_with_help("platform", message, "write `population` in place of `populations`");
            return;
        }
        if plan.platform.roles.token.as_ref().is_some_and(|own| Some(own) != token) {
            let message = format!("`{name}` needs an access token of its own, and a run gets one");
            context.error_with_help(&key, message, "give all populations the same token, or run them apart");
        }
        if common && plan.platform.roles.asks_for_each_device() {
            let message = "who asks for each device is a subscriber of the devices' own population";
            context.error_with_help(&key, message, "give that population its own `subscribers`");
        }
    }
}

/// An integer marker numbers fewer devices than a run may have.
fn check_markers(plans: &[Plan], context: &mut Context<'_>) {
    for (place, plan) in plans.iter().enumerate() {
        let last = plan.population.first_device.saturating_add(plan.devices);
        if plan.message.marker == MarkerForm::Integer && last >= INTEGER_DEVICES {
            let message = format!(
                "an integer marker can number {} devices, and the last of `{}` is device {last}",
                INTEGER_DEVICES - 1,
                plan.population.name
            );
            let help = "put this population first, or use the marker `binary` or `ascii`";
            context.error_with_help(&format!("populations.{place}.devices"), message, help);
        }
    }
}

/// Rates of populations' own must fit the levels, and leave something to those who share them.
fn check_shares(first: &Plan, context: &mut Context<'_>) {
    let own = |plan: &&Plan| matches!(plan.population.share, Some(SharePlan::Rate(_) | SharePlan::Rates(_)));
    let fixed = first.with_devices().filter(own).count();
    let sharing = first.with_devices().count() - fixed;
    if fixed == 0 {
        return;
    }
    if first.load.curve.is_some() || first.load.turn.is_some() {
        let message =
            "populations have rates of their own only where the levels do, and none of a curve or a way down";
        let help = "give each a `load.share` in place of `load.rate` and `load.levels`";
        return context.error_with_help("populations", message, help);
    }
    let levels = &first.load.levels;
    if !matches!(levels.first(), None | Some(LevelPlan::Rate(_) | LevelPlan::Listed { .. })) {
        let message = "populations have rates of their own only where levels are operations per second";
        let help = "remove `load.rate` and `load.levels` of the populations";
        return context.error_with_help("populations", message, help);
    }
    if sharing == 0 && (context.written("load.levels") || levels.is_empty()) {
        let message = "all populations have rates of their own, which leave nothing to the scenario's levels";
        let help = "remove the scenario's, or let one population have what the others leave";
        return context.error_with_help("load", message, help);
    }
    let lists = first.with_devices().filter_map(|plan| match &plan.population.share {
        Some(SharePlan::Rates(rates)) => Some((rates.len(), &plan.population.name)),
        _ => None,
    });
    for (length, name) in lists.filter(|(length, _)| *length != levels.len()) {
        let message = format!("`{name}` has {length} levels of its own, and the run has {}", levels.len());
        let help = "list as many levels for each, in their order";
        context.error_with_help("populations", message, help);
    }
    let lowest = first.load.search.map(|search| LevelPlan::Rate(search.from));
    for level in levels.iter().copied().chain(lowest).filter(|_| sharing > 0) {
        let left = first.left_of(level);
        if left <= 0.0 {
            let message = format!(
                "populations with rates of their own leave nothing of {}/s to the others",
                level.load()
            );
            let key = if lowest.is_some() { "load.search" } else { "load.levels" };
            return context.error_with_help(
                key,
                message,
                "levels are of all populations together; raise them",
            );
        }
    }
}

/// A population that sends little has too few messages in a hold for a high quantile. Where nobody asked for one, the highest takes its
/// place for which its lowest level has enough of them; none where there are fewer yet, or where another one was asked for.
fn coarsen_defaults(plans: &mut [Plan], parts: &[Part]) {
    let Some((first, others)) = plans.split_first() else { return };
    let run = Plan { others: others.iter().cloned().map(Arc::new).collect(), ..first.clone() };
    let lowest = run.load.levels.iter().copied().filter(|level| level.rate() > 0.0);
    let lowest = lowest.chain(run.load.search.map(|search| LevelPlan::Rate(search.from)));
    let lowest: Vec<LevelPlan> = lowest.collect();
    for (place, (plan, part)) in plans.iter_mut().zip(parts).enumerate() {
        let fewest = |metric| {
            let of_levels = lowest.iter().filter_map(|level| {
                let due = run.shares_of(*level).get(place)?.rate() * run.hold_of(*level).as_secs_f64();
                plan.observations(metric, due)
            });
            of_levels.reduce(f64::min)
        };
        let written =
            |objective: &Objective| part.root.has(&format!("objectives.{}", objective.subject.key()));
        let all = plan.objectives.level.clone();
        let keep = |objective: &Objective| {
            let Subject::Quantile(metric, _) = objective.subject else { return Some(objective.clone()) };
            let Some(fewest) = fewest(metric).filter(|_| !written(objective)) else {
                return Some(objective.clone());
            };
            let is_of_it =
                |other: &&Objective| matches!(other.subject, Subject::Quantile(of, _) if of == metric);
            if all.iter().filter(is_of_it).any(written) {
                return None;
            }
            let q = finest_quantile(fewest)?;
            Some(Objective { subject: Subject::Quantile(metric, q), ..objective.clone() })
        };
        plan.objectives.level = plan.objectives.level.iter().filter_map(keep).collect();
    }
}

/// Populations of the open model send at rates of their own, so no time has equally many messages of each device of all of them.
fn check_turns(first: &Plan, context: &mut Context<'_>) {
    let cycles = matches!(first.load.count, Some(CountPlan::Cycles(_)));
    let is_open = matches!(first.load.model, Model::Open { .. } | Model::Trace(_));
    if cycles && first.with_devices().count() > 1 && is_open {
        let message = "populations do not take turns, so no time has equally many messages of each device";
        let help = "write `messages` in place of `cycles`: those of all populations together";
        context.error_with_help("load.cycles", message, help);
    }
}

/// No population can have more operations in flight than its devices may.
fn check_in_flight(first: &Plan, context: &mut Context<'_>) {
    for (place, level) in first.load.levels.iter().enumerate() {
        for (plan, share) in first.populations().zip(first.shares_of(*level)) {
            let (LevelPlan::InFlight(count), Some(most)) = (share, plan.population.most_in_flight) else {
                continue;
            };
            if u64::from(count) > most && plan.devices > 0 {
                let name = &plan.population.name;
                let message =
                    format!("`{name}` has {count} of these in flight, and its devices may have {most}");
                let help = "give it more devices, or a smaller `load.share`";
                context.error_with_help(&format!("load.in_flight.{place}"), message, help);
            }
        }
    }
}

/// What is demanded of the run: of each population what it says and, where it says nothing, the defaults; of all together what the
/// scenario says of them.
fn objectives(plans: &[Plan], context: &mut Context<'_>) -> Objectives {
    let mut all = Objectives { level: Vec::new(), load_line: None };
    let several = plans.iter().filter(|plan| plan.devices > 0).count() > 1;
    for plan in plans.iter().filter(|plan| plan.devices > 0) {
        // Those of the only one are those of all.
        let population = several.then(|| plan.population.name.clone());
        let own = plan.objectives.level.iter().cloned();
        all.level.extend(own.map(|objective| Objective { population: population.clone(), ..objective }));
        all.load_line = all.load_line.or(plan.objectives.load_line);
    }
    let root = context.root;
    let Some(Value::Map(entries)) = root.child("objectives").map(|node| &node.value) else { return all };
    for entry in entries.iter().filter(|_| several) {
        let Some(name) = Name::all().find(|name| name.key() == entry.key) else { continue };
        let Some(text) = text_of(&entry.value) else { continue };
        let path = format!("objectives.{}", entry.key);
        match (name, name.condition(text)) {
            (_, Err(reason)) => context.error(&path, format!("`{text}`: {reason}")),
            (Name::LoadLine, Ok(condition)) => all.load_line = Some(condition.bound),
            (Name::Level(subject), Ok(condition)) => match nobody(subject, plans) {
                Some(why) => context.error_with_help(&path, why, "remove the objective"),
                None => all.level.push(Objective {
                    population: None,
                    subject,
                    comparison: condition.comparison,
                    bound: condition.bound,
                }),
            },
        }
    }
    all
}

/// Why an objective on all populations together has nothing to look at.
fn nobody(subject: Subject, plans: &[Plan]) -> Option<&'static str> {
    let devices = || plans.iter().filter(|plan| plan.devices > 0);
    if subject.needs_acknowledgement() && !devices().any(Plan::acknowledges) {
        return Some("nothing is acknowledged in any population, so there is no publish time");
    }
    if subject.needs_subscribers() && !devices().any(|plan| plan.subscribers.count > 0) {
        return Some("nobody receives from any population, so this cannot be measured");
    }
    if subject.needs_queries() && !plans.iter().any(|plan| plan.northbound.is_some()) {
        return Some("without `northbound` nobody asks, so this cannot be measured");
    }
    let connects = plans.iter().any(|plan| plan.load.connects_in_levels());
    if subject.needs_connecting() && !connects {
        return Some("all devices are connected before the first level, so no level can miss this");
    }
    None
}

/// The resolved scenario: what each population has by itself, and what all have in common.
fn written(
    parts: &[Part],
    plans: &[Plan],
    scenarios: &[Json],
    schema: &Json,
    context: &mut Context<'_>,
) -> Json {
    let mut all = match scenarios.first() {
        Some(Json::Object(first)) => first.clone(),
        _ => Map::new(),
    };
    let root = context.root;
    let mut as_written = |key: &str, all: &mut Map<String, Json>| {
        let Some(node) = root.child(key).filter(|node| !node.is_null()) else { return };
        let json = check_at(node, schema, &format!("/properties/{key}"), key, context.found);
        all.insert(key.to_owned(), json);
    };
    as_written("platform", &mut all);
    as_written("subscribers", &mut all);
    if !root.has("populations") {
        // The only population says no more of itself than that its subscribers stand apart.
        if let Some(population) = all.get_mut("population").and_then(Json::as_object_mut) {
            population.remove("subscribers");
        }
        return Json::Object(all);
    }
    all.retain(|key, _| !of_each().any(|own| own == key) && key != "population");
    // Those of the first population would be those of all that have none of their own.
    if let Some(load) = all.get_mut("load").and_then(Json::as_object_mut) {
        load.retain(|key, _| !OF_ARRIVALS.contains(&key.as_str()));
    }
    all.insert("objectives".into(), together(root));
    let populations = parts.iter().zip(plans).zip(scenarios);
    let populations = populations.filter(|((part, _), _)| part.population.name != COMMON);
    let populations = populations.map(|((part, plan), json)| {
        let mut one = Map::from_iter([("name".to_owned(), Json::from(part.population.name.as_str()))]);
        let receives = part.population.receivers == ReceiversPlan::Own;
        let own = json.get("population").and_then(Json::as_object).cloned().unwrap_or_default();
        one.extend(own.into_iter().filter(|(key, _)| receives || key != "subscribers"));
        one.extend(part.platform.clone().map(|platform| ("platform".to_owned(), platform)));
        one.extend(of_each().filter_map(|key| Some((key.to_owned(), json.get(key)?.clone()))));
        one.insert("load".into(), own_load(part, json));
        one.insert("objectives".into(), demanded(plan, json));
        Json::Object(one)
    });
    all.insert("populations".into(), populations.collect());
    Json::Object(all)
}

/// What a population says of its load, and how its messages arrive, also where that is as the scenario says or by default.
fn own_load(part: &Part, scenario: &Json) -> Json {
    let mut load = part.load.as_ref().and_then(Json::as_object).cloned().unwrap_or_default();
    let resolved = scenario.get("load");
    let arrivals =
        OF_ARRIVALS.iter().filter_map(|key| Some(((*key).to_owned(), resolved?.get(*key)?.clone())));
    load.extend(arrivals);
    Json::Object(load)
}

/// What is demanded of a population, and which defaults are not.
fn demanded(plan: &Plan, scenario: &Json) -> Json {
    let known = scenario.get("objectives").and_then(Json::as_object).into_iter().flatten();
    let mut all: BTreeMap<String, Json> = known.map(|(key, _)| (key.clone(), Json::Null)).collect();
    let level = plan.objectives.level.iter();
    all.extend(level.map(|objective| (objective.subject.key(), objective::condition(objective).into())));
    all.remove(&Name::LoadLine.key());
    Json::Object(all.into_iter().collect())
}

/// The objectives of all populations together, as written.
fn together(root: &Node) -> Json {
    let entries = match root.child("objectives").map(|node| &node.value) {
        Some(Value::Map(entries)) => entries.as_slice(),
        _ => &[],
    };
    let of_all = entries.iter().filter(|entry| Name::all().any(|name| name.key() == entry.key));
    Json::Object(
        of_all.filter_map(|entry| Some((entry.key.clone(), text_of(&entry.value)?.into()))).collect(),
    )
}

fn text_of(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar(scalar) if !node.is_null() => Some(&scalar.text),
        _ => None,
    }
}
