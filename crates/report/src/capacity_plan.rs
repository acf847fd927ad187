//! What runs of one configuration say of others, for `plimsoll plan`.

use crate::plain;
use crate::sweep::money;
use crate::text::{bytes, count, hanging, hundredths, time, wrapped};
use plimsoll_analysis::capacity_plan::{
    Bounds, CapacityPlan, Configuration, DeviceBound, DeviceQuantity, Rule, Searched, TimesAt,
};

/// Most characters of a configuration in the table.
const NAME: usize = 20;

/// The plan as JSON, by its published schema.
pub fn json(plan: &CapacityPlan) -> String {
    serde_json::to_string_pretty(plan).unwrap_or_default() + "\n"
}

/// The JSON Schema (draft 2020-12) of [`json`].
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(CapacityPlan).to_value()
}

/// The plan for the terminal, at most 80 columns wide.
pub fn terminal(plan: &CapacityPlan) -> String {
    let mut out = String::new();
    let mut say = |first: &str, text: &str, indent: &str| {
        out += &hanging(first, &plain::line(text), indent).join("\n");
        out.push('\n');
    };
    let (runs, predict) = if plan.runs.len() == 1 { ("run", "predicts") } else { ("runs", "predict") };
    say("", &format!("{}: what {runs} {} {predict}", plan.name, plan.runs.join(", ")), "  ");
    say("  ", &format!("measured: {}/s, and {} limits", bounds(plan.load_line), plan.limited_by), "    ");
    let used = plan.components.iter().map(|own| {
        let most = own.at_most.map(|most| format!(", {:.0} % at most", most * 100.0)).unwrap_or_default();
        format!("{} {:.0} %{most}", own.component, own.used * 100.0)
    });
    say("  ", &format!("used at it: {}", used.collect::<Vec<_>>().join("; ")), "    ");
    if !plan.objectives.is_empty() {
        say("  ", &format!("objectives: {}", plan.objectives.join(", ")), "    ");
    }
    out.push('\n');
    if !plan.configurations.is_empty() {
        out += &table(plan);
        out.push('\n');
    }
    let times = plan.configurations.iter().flat_map(times);
    let found =
        times.chain(plan.configurations.iter().filter_map(checked)).chain(enough(plan)).chain(needed(plan));
    for sentence in found.chain(plan.device_bounds.iter().map(|bound| of_devices(bound, plan))) {
        out += &wrapped(&plain::line(&sentence), "").join("\n");
        out.push('\n');
    }
    for (title, sentences) in [("assumed", &plan.assumptions), ("not predicted", &plan.open)] {
        if sentences.is_empty() {
            continue;
        }
        out += &format!("{title}\n");
        for sentence in sentences {
            out += &hanging("  ", &plain::line(sentence), "    ").join("\n");
            out.push('\n');
        }
    }
    out
}

fn table(plan: &CapacityPlan) -> String {
    let money_head =
        plan.money.as_ref().map(|[currency, per]| format!("{currency} a {per}")).unwrap_or_default();
    let row = |name: &str, line: &str, ratio: &str, limit: &str, cost: &str| {
        let line = format!("  {name:<NAME$} {line:>17}  {ratio:<14} {limit:<10} {cost}");
        format!("{}\n", line.trim_end())
    };
    let mut out = row("configuration", "load line, /s", "of the present", "limits", &money_head);
    for own in &plan.configurations {
        let ratio = match (own.ratio.least, own.ratio.most) {
            (Some(least), Some(most)) if least == most => format!("x {}", hundredths(least)),
            (Some(least), Some(most)) => format!("x {} to {}", hundredths(least), hundredths(most)),
            (None, Some(most)) => format!("at most x {}", hundredths(most)),
            _ => String::new(),
        };
        let cost = own.cost.map(money).unwrap_or_default();
        let name = plain::line(&own.change.in_words());
        out += &row(&name, &bounds(own.load_line), &ratio, &plain::line(&own.limited_by), &cost);
    }
    out
}

fn bounds(bounds: Bounds) -> String {
    match (bounds.least.map(count), bounds.most.map(count)) {
        (Some(least), Some(most)) if least == most => least,
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => "not known".to_owned(),
    }
}

/// Its times at the loads that were asked for.
fn times(own: &Configuration) -> Vec<String> {
    let of = |at: &TimesAt| {
        let quantiles = at.quantiles.iter().map(|own| {
            let [least, most] = [own.least, own.most].map(|seconds| time(Some(seconds)));
            format!("{} % within {least} to {most}", own.share * 100.0)
        });
        let quantiles: Vec<String> = quantiles.collect();
        let judged = match at.is_within {
            Some(true) => "; that meets the objective",
            Some(false) => "; that misses the objective",
            None => "",
        };
        let (name, rate) = (own.change.in_words(), count(at.rate));
        format!("{name} at {rate}/s: {} {}{judged}", at.time, quantiles.join(", "))
    };
    own.times_at.iter().map(of).collect()
}

/// How a prediction compares with what was measured.
fn checked(own: &Configuration) -> Option<String> {
    let measured = bounds(own.measured?);
    let verdict = match own.is_as_predicted {
        Some(true) => "as predicted",
        Some(false) => "other than predicted",
        None => "whether that is as predicted is not known",
    };
    Some(format!("{} was measured: {measured}/s, {verdict}", own.change.in_words()))
}

/// The configuration that sustains what is wanted, and of how many it is the cheapest.
fn enough(plan: &CapacityPlan) -> Option<String> {
    let (demand, enough) = (plan.demand?, plan.enough.as_ref()?);
    let how = plan.searched.as_ref().map(|searched| format!(": {}", searched_in_words(searched)));
    Some(format!(
        "enough for {}/s: {} ({}/s){}{}",
        count(demand),
        enough.change.in_words(),
        bounds(enough.load_line),
        price(plan, enough),
        how.unwrap_or_default()
    ))
}

/// The least that may sustain the messages of more devices than anybody saw.
fn needed(plan: &CapacityPlan) -> Option<String> {
    let (demand, needed) = (plan.demand?, plan.needed.as_ref()?);
    let how = plan.searched.as_ref().map(|searched| format!(": {}", searched_in_words(searched)));
    Some(format!(
        "needed for {}/s at least, whatever so many devices take beside their messages: {}{}{}",
        count(demand),
        needed.change.in_words(),
        price(plan, needed),
        how.unwrap_or_default()
    ))
}

fn price(plan: &CapacityPlan, own: &Configuration) -> String {
    let cost = own.cost.zip(plan.money.as_ref());
    cost.map(|(cost, [currency, per])| format!(", for {} {currency} a {per}", money(cost)))
        .unwrap_or_default()
}

fn searched_in_words(searched: &Searched) -> String {
    let Searched { by, components, predicted, is_certain } = searched;
    let (predicted, names) = (count(*predicted as f64), components.join(", "));
    let least = match by {
        Rule::Price => "costs less",
        Rule::Additions => "has fewer additions",
    };
    match is_certain {
        true => format!(
            "no other one with more of {names} {least} ({predicted} were predicted, the others excluded)"
        ),
        false => format!(
            "of {predicted} that were predicted with more of {names}, none {least}; others were not looked at"
        ),
    }
}

/// What devices that nobody saw take at least.
fn of_devices(bound: &DeviceBound, plan: &CapacityPlan) -> String {
    let DeviceBound { component, quantity, between: [fewest, most], each, least, limit, most_devices } =
        bound;
    let shown = |amount: f64| match quantity {
        DeviceQuantity::Memory => bytes(amount),
        DeviceQuantity::Descriptors => format!("{amount:.2}").trim_end_matches(".00").to_owned(),
    };
    let whole = match quantity {
        DeviceQuantity::Memory => format!("{} of memory", bytes(*least)),
        DeviceQuantity::Descriptors => format!("{} descriptors", count(*least)),
    };
    let devices = count(f64::from(plan.devices.unwrap_or_default()));
    let mut said = format!(
        "{component} as it is: at least {whole} for {devices} devices, by {} for each further one between {} and {}",
        shown(*each),
        count(f64::from(*fewest)),
        count(f64::from(*most))
    );
    match limit.zip(*most_devices) {
        Some((limit, most)) => {
            said += &format!(
                "; its limit of {} is reached with {} devices at most",
                shown(limit),
                count(f64::from(most))
            );
        }
        None => said += "; its limit is not known",
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_analysis::capacity_plan::{Change, ComponentUse, ModelError, SCHEMA};
    use std::collections::BTreeMap;

    fn known(least: f64, most: f64) -> Bounds {
        Bounds { least: Some(least), most: Some(most) }
    }

    fn plan() -> CapacityPlan {
        let configuration = |times: f64| Configuration {
            change: Change::of(&BTreeMap::from([("store".to_owned(), times)])),
            ratio: known(times, times * 1.1),
            load_line: known(480.0 * times, 540.0 * times),
            limited_by: "store".into(),
            cost: Some(100.0 * times),
            is_enough: None,
            times_at: Vec::new(),
            measured: (times == 2.0).then(|| known(970.0, 990.0)),
            is_as_predicted: (times == 2.0).then_some(true),
            without_error: known(480.0 * times, 540.0 * times),
        };
        let component = |name: &str, used, at_most| ComponentUse { component: name.into(), used, at_most };
        CapacityPlan {
            schema: SCHEMA,
            name: "chain".into(),
            platform: "chain".into(),
            objectives: vec!["publish_p99 < 50.0 ms".into()],
            runs: vec!["3vk1".into(), "a81x".into()],
            load_line: known(478.0, 490.0),
            limited_by: "store".into(),
            components: vec![component("store", 0.8, None), component("front", 0.2, Some(0.4))],
            demand: Some(2000.0),
            configurations: vec![configuration(2.0), configuration(3.0)],
            enough: Some(configuration(5.0)),
            needed: None,
            searched: Some(Searched {
                by: Rule::Price,
                components: vec!["store".into(), "front".into()],
                predicted: 1200,
                is_certain: true,
            }),
            devices: None,
            device_bounds: Vec::new(),
            model_error: ModelError::default(),
            money: Some(["USD".into(), "month".into()]),
            assumptions: vec!["what is added works beside what is there".into()],
            open: vec!["something is not known".into()],
        }
    }

    #[test]
    fn a_plan_says_what_was_measured_what_is_predicted_and_on_what_that_rests() {
        let expected = "\
chain: what runs 3vk1, a81x predict
  measured: 478 to 490/s, and store limits
  used at it: store 80 %; front 20 %, 40 % at most
  objectives: publish_p99 < 50.0 ms

  configuration            load line, /s  of the present limits     USD a month
  store x 2                 960 to 1,080  x 2.00 to 2.20 store      200.00
  store x 3               1,440 to 1,620  x 3.00 to 3.30 store      300.00

store x 2 was measured: 970 to 990/s, as predicted
enough for 2,000/s: store x 5 (2,400 to 2,700/s), for 500.00 USD a month: no
other one with more of store, front costs less (1,200 were predicted, the others
excluded)
assumed
  what is added works beside what is there
not predicted
  something is not known
";
        let found = terminal(&plan());
        assert_eq!(found, expected, "{found}");
        assert!(found.lines().all(|line| line.chars().count() <= 80), "{found}");
    }

    #[test]
    fn devices_that_nobody_saw_are_bounded_and_what_they_need_is_no_promise() {
        let memory = DeviceBound {
            component: "store".into(),
            quantity: DeviceQuantity::Memory,
            between: [500, 4000],
            each: 3355.0,
            least: 3.1 * 1024.0 * 1024.0 * 1024.0,
            limit: Some(2.0 * 1024.0 * 1024.0 * 1024.0),
            most_devices: Some(640_000),
        };
        let descriptors = DeviceBound {
            quantity: DeviceQuantity::Descriptors,
            each: 1.0,
            least: 1_000_020.0,
            limit: None,
            most_devices: None,
            ..memory.clone()
        };
        let mut plan = plan();
        plan.devices = Some(1_000_000);
        plan.device_bounds = vec![memory, descriptors];
        plan.needed = plan.enough.take();
        if let Some(searched) = &mut plan.searched {
            (searched.by, searched.is_certain) = (Rule::Additions, false);
        }
        let found = terminal(&plan);
        let expected = "\
needed for 2,000/s at least, whatever so many devices take beside their
messages: store x 5, for 500.00 USD a month: of 1,200 that were predicted with
more of store, front, none has fewer additions; others were not looked at
store as it is: at least 3.1 GiB of memory for 1,000,000 devices, by 3.3 KiB for
each further one between 500 and 4,000; its limit of 2.0 GiB is reached with
640,000 devices at most
store as it is: at least 1,000,020 descriptors for 1,000,000 devices, by 1 for
each further one between 500 and 4,000; its limit is not known
";
        assert!(found.contains(expected), "{found}");
        assert!(found.lines().all(|line| line.chars().count() <= 80), "{found}");
    }
}
