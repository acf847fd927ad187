//! What runs of one configuration say of others, for `plimsoll plan`.

use crate::plain;
use crate::sweep::money;
use crate::text::{count, hanging, hundredths, time, wrapped};
use plimsoll_analysis::capacity_plan::{Bounds, CapacityPlan, Configuration, TimesAt, in_words};

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
    out.push('\n');
    if !plan.configurations.is_empty() {
        out += &table(plan);
        out.push('\n');
    }
    let times = plan.configurations.iter().flat_map(times);
    for sentence in times.chain(plan.configurations.iter().filter_map(checked)).chain(enough(plan)) {
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
        let name = plain::line(&in_words(&own.times));
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
        format!("{} at {}/s: {} {}", in_words(&own.times), count(at.rate), at.time, quantiles.join(", "))
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
    Some(format!("{} was measured: {measured}/s, {verdict}", in_words(&own.times)))
}

/// The configuration that sustains what is wanted.
fn enough(plan: &CapacityPlan) -> Option<String> {
    let (demand, enough) = (plan.demand?, plan.enough.as_ref()?);
    let cost = enough.cost.zip(plan.money.as_ref());
    let cost = cost.map(|(cost, [currency, per])| format!(", for {} {currency} a {per}", money(cost)));
    Some(format!(
        "enough for {}/s: {} ({}/s){}",
        count(demand),
        in_words(&enough.times),
        bounds(enough.load_line),
        cost.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_analysis::capacity_plan::{ComponentUse, SCHEMA};
    use std::collections::BTreeMap;

    fn known(least: f64, most: f64) -> Bounds {
        Bounds { least: Some(least), most: Some(most) }
    }

    fn plan() -> CapacityPlan {
        let configuration = |times: f64| Configuration {
            times: BTreeMap::from([("store".to_owned(), times)]),
            ratio: known(times, times * 1.1),
            load_line: known(480.0 * times, 540.0 * times),
            limited_by: "store".into(),
            cost: Some(100.0 * times),
            is_enough: None,
            times_at: Vec::new(),
            measured: (times == 2.0).then(|| known(970.0, 990.0)),
            is_as_predicted: (times == 2.0).then_some(true),
        };
        let component = |name: &str, used, at_most| ComponentUse { component: name.into(), used, at_most };
        CapacityPlan {
            schema: SCHEMA,
            name: "chain".into(),
            runs: vec!["3vk1".into(), "a81x".into()],
            load_line: known(478.0, 490.0),
            limited_by: "store".into(),
            components: vec![component("store", 0.8, None), component("front", 0.2, Some(0.4))],
            demand: Some(2000.0),
            configurations: vec![configuration(2.0), configuration(3.0)],
            enough: Some(configuration(5.0)),
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

  configuration            load line, /s  of the present limits     USD a month
  store x 2                 960 to 1,080  x 2.00 to 2.20 store      200.00
  store x 3               1,440 to 1,620  x 3.00 to 3.30 store      300.00

store x 2 was measured: 970 to 990/s, as predicted
enough for 2,000/s: store x 5 (2,400 to 2,700/s), for 500.00 USD a month
assumed
  what is added works beside what is there
not predicted
  something is not known
";
        let found = terminal(&plan());
        assert_eq!(found, expected, "{found}");
        assert!(found.lines().all(|line| line.chars().count() <= 80), "{found}");
    }
}
