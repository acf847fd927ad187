//! What a platform costs: a price for each of its components, by what it runs on.

use super::component;
use crate::check::near_miss;
use crate::config::{InstanceType, PriceOf, Prices, SizedType};
use crate::context::Context;
use crate::plan::{EnginePlan, PlatformPlan, QuotaPlan};
use crate::quantity::{AsText, Memory, Quantity};
use plimsoll_model::cost::{self, Cost, Priced};
use plimsoll_template::read_texts;
use std::collections::BTreeMap;

/// Above this a price is a slip of the pen.
const MOST: f64 = 1e12;
/// The time that prices in profiles are for.
const OF_PROFILES: &str = "month";

type Types = BTreeMap<String, InstanceType>;

pub(super) fn resolve(
    written: Option<&Prices>,
    platform: Option<&PlatformPlan>,
    context: &mut Context<'_>,
) -> Option<Cost> {
    let (written, platform) = (written?, platform?);
    let mut types = written.file.as_ref().map(|file| of_file(file, context)).unwrap_or_default();
    types.extend(written.types.clone());
    check(written, &types, platform, context);
    let one = |price: &PriceOf| match price {
        PriceOf::Price(price) => Some((None, *price)),
        PriceOf::Type(name) => Some((Some(name.clone()), types.get(name)?.price())),
    };
    let (mut priced, mut unpriced) = (Vec::new(), Vec::new());
    for (name, of_profile) in components(written, platform) {
        let of_quota = || cheapest(&types, quota(platform, name)?);
        let of_profile = || of_profile.filter(|_| written.per == OF_PROFILES).map(|price| (None, price));
        match written.components.get(name).and_then(one).or_else(of_quota).or_else(of_profile) {
            Some((on, price)) => {
                priced.push(Priced { name: name.clone(), on, count: count(platform, name), price });
            }
            None => unpriced.push(name.clone()),
        }
    }
    let others = written.others.iter().filter_map(|(name, price)| Some((name, one(price)?)));
    priced.extend(others.map(|(name, (on, price))| Priced { name: name.clone(), on, count: 1, price }));
    let (currency, per) = (written.currency.clone(), written.per.clone());
    Some(Cost { currency, per, priced, unpriced, types: sized(&types) })
}

/// The instance types of known size, the cheapest first.
fn sized(types: &Types) -> Vec<cost::InstanceType> {
    let of = |(name, kind): (&String, &InstanceType)| match kind {
        InstanceType::Price(_) => None,
        InstanceType::Sized(kind) => Some(cost::InstanceType {
            name: name.clone(),
            price: kind.price,
            processors: kind.processors,
            memory: kind.memory.as_ref().map(|memory| memory.0.0),
        }),
    };
    let mut sized: Vec<cost::InstanceType> = types.iter().filter_map(of).collect();
    sized.sort_by(|one, other| one.price.total_cmp(&other.price));
    sized
}

/// The components of a platform by name, each with the price in its profile. Of what commands or an engine bring up, those are
/// known that the scenario names.
fn components<'a>(written: &'a Prices, platform: &'a PlatformPlan) -> Vec<(&'a String, Option<f64>)> {
    let running = platform.components.iter().map(|running| (&running.name, None));
    if platform.command.is_none() {
        let started = platform.profile.components.iter();
        return started.map(|own| (&own.name, own.cost_per_month)).chain(running).collect();
    }
    let of_engine = engine(platform).map(|engine| engine.counts.keys().chain(engine.quotas.keys()));
    let named = written.components.keys().chain(of_engine.into_iter().flatten()).map(|name| (name, None));
    named.chain(running).collect::<BTreeMap<_, _>>().into_iter().collect()
}

fn engine(platform: &PlatformPlan) -> Option<&EnginePlan> {
    platform.command.as_ref()?.engine.as_ref()
}

fn quota(platform: &PlatformPlan, name: &str) -> Option<QuotaPlan> {
    engine(platform).map_or(&platform.quotas, |engine| &engine.quotas).get(name).copied()
}

/// How many of a component there are, as far as the scenario says.
fn count(platform: &PlatformPlan, name: &str) -> usize {
    match engine(platform) {
        Some(engine) => engine.counts.get(name).copied().unwrap_or(1).into(),
        None => platform.replicas_of(name),
    }
}

/// The instance types of a file. What is wrong with it is reported.
fn of_file(file: &str, context: &mut Context<'_>) -> Types {
    let text = (context.environment.profile)(file);
    let text = text.map_err(|reason| format!("cannot read the prices `{file}`: {reason}"));
    let found = text.and_then(|text| read_texts(file, &text)).and_then(|texts| {
        let place = |name: &str| texts.columns.iter().position(|column| column.trim() == name);
        let needed = |name: &str| place(name).ok_or_else(|| format!("{file} has no column `{name}`"));
        let (kind, price) = (needed("type")?, needed("price")?);
        let (processors, memory) = (place("processors"), place("memory"));
        let mut types = Types::new();
        for (number, row) in texts.rows().iter().enumerate() {
            let at = |column: usize| row.get(column).map(|text| text.trim()).unwrap_or_default();
            let filled = |column: Option<usize>| column.map(at).filter(|text| !text.is_empty());
            // The header is the first line.
            let wrong = |what: &str, text: &str| format!("{file}, row {}: {what}, not `{text}`", number + 2);
            let amount = |text: &str, what: &str| text.parse().map_err(|_| wrong(what, text));
            let price: f64 = amount(at(price), "a price is a number")?;
            let name = at(kind);
            if name.is_empty() || types.contains_key(name) {
                return Err(wrong("each type has a name of its own", name));
            }
            let found = match filled(processors) {
                Some(processors) => {
                    let memory = filled(memory).map(|text| {
                        Memory::parse(text)
                            .map_err(|why| wrong(&format!("a memory is {}: {why}", Memory::FORM.how), text))
                    });
                    InstanceType::Sized(SizedType {
                        price,
                        processors: amount(processors, "processors are a number")?,
                        memory: memory.transpose()?.map(AsText),
                    })
                }
                None => InstanceType::Price(price),
            };
            types.insert(name.to_owned(), found);
        }
        Ok(types)
    });
    found.unwrap_or_else(|reason| {
        let help =
            "the file is like this: a line `type,price,processors,memory`, then `m4.large,94.43,2,8 GiB`";
        context.error_with_help("prices.file", reason, help);
        Types::new()
    })
}

/// The cheapest instance type that has as much as a quota allows. Of equal ones it is the first by name.
fn cheapest(types: &Types, quota: QuotaPlan) -> Option<(Option<String>, f64)> {
    let suits = |kind: &InstanceType| match kind {
        InstanceType::Price(_) => false,
        InstanceType::Sized(kind) => {
            let memory = kind.memory.as_ref().map(|memory| memory.0.0);
            quota.processors.is_some_and(|wanted| kind.processors >= wanted)
                && quota.memory.is_none_or(|wanted| memory.is_none_or(|memory| memory >= wanted))
        }
    };
    let suiting = types.iter().filter(|(_, kind)| suits(kind));
    let (name, kind) = suiting.min_by(|(_, one), (_, other)| one.price().total_cmp(&other.price()))?;
    Some((Some(name.clone()), kind.price()))
}

impl InstanceType {
    fn price(&self) -> f64 {
        match self {
            InstanceType::Price(price) => *price,
            InstanceType::Sized(kind) => kind.price,
        }
    }
}

fn check(written: &Prices, types: &Types, platform: &PlatformPlan, context: &mut Context<'_>) {
    let is_price = |price: f64| (0.0..=MOST).contains(&price);
    for (name, kind) in types {
        let is_written = written.types.contains_key(name);
        let path = if is_written { format!("prices.types.{name}") } else { "prices.file".to_owned() };
        let of = if is_written { String::new() } else { format!(": `{name}`") };
        if !is_price(kind.price()) {
            context.error(&path, format!("a price is a number from 0 to {MOST:e}{of}"));
        }
        if let InstanceType::Sized(kind) = kind
            && !(kind.processors > 0.0 && kind.processors.is_finite())
        {
            context.error(&path, format!("an instance has more than no processors{of}"));
        }
    }
    let known = components(written, platform);
    for name in written.components.keys().filter(|name| !known.iter().any(|(own, _)| own == name)) {
        component::of_name(name, &format!("prices.components.{name}"), &platform.profile, context);
    }
    let all = [("components", &written.components), ("others", &written.others)];
    for (key, (name, price)) in all.iter().flat_map(|(key, own)| own.iter().map(move |own| (key, own))) {
        let path = format!("prices.{key}.{name}");
        match price {
            PriceOf::Price(price) if !is_price(*price) => {
                context.error(&path, format!("a price is a number from 0 to {MOST:e}"));
            }
            PriceOf::Type(kind) if !types.contains_key(kind) => {
                let message = format!("there is no instance type `{kind}`");
                let help = match types.is_empty() {
                    true => "write what it costs, or `prices.types` or `prices.file` with the instance types"
                        .to_owned(),
                    false => near_miss(kind, types.keys().map(String::as_str)),
                };
                context.error_with_help(&path, message, help);
            }
            _ => {}
        }
    }
}
