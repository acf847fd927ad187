//! The page as a whole, on a synthetic run and on what may go wrong with one.

use super::*;
use crate::terminal::Detail;
use crate::text::Colour;
use plimsoll_analysis::level::LevelVerdict;
use plimsoll_analysis::summarize;
use plimsoll_model::record::{LevelOutages, RunEnd};
use plimsoll_model::{Metric, Nanos, Verdict};

/// The page without Plotly's own code.
fn bare(record: &RunRecord) -> String {
    page(record, &summarize(record), &[], "").into_string()
}

/// The JSON of every chart, by its id.
fn charts(page: &str) -> Vec<(String, serde_json::Value)> {
    let chart = |part: &str| {
        let (id, rest) = part.split_once("\",").unwrap();
        let (json, _) = rest.split_once(");</script>").unwrap();
        (id.to_owned(), serde_json::from_str(json).unwrap())
    };
    page.split("Plotly.newPlot(\"").skip(1).map(chart).collect()
}

fn chart_ids(page: &str) -> Vec<String> {
    charts(page).into_iter().map(|(id, _)| id).collect()
}

/// Keeps the file for looking at it where the environment asks for one.
fn keep(name: &str, record: &RunRecord) {
    if let Some(folder) = std::env::var_os("PLIMSOLL_REPORT_SAMPLE") {
        let path = std::path::Path::new(&folder).join(format!("{name}.html"));
        std::fs::write(path, render(record, &summarize(record))).unwrap();
    }
}

#[test]
fn everything_stands_in_its_order() {
    let record = synthetic::record();
    keep("open", &record);
    let page = bare(&record);
    let wanted = [
        "<h1>Bears 4,000 msg/s</h1>",
        "id=\"objectives\"",
        "id=\"chart-load-line\"",
        "id=\"chart-times\"",
        "id=\"chart-percentiles\"",
        "section id=\"sizes\"",
        "section id=\"ledger\"",
        "section id=\"generator\"",
        "id=\"chart-components\"",
        "id=\"chart-timeline\"",
        "section id=\"environment\"",
        "section id=\"scenario\"",
        "arrivals: poisson",
    ];
    let mut rest = page.as_str();
    for part in wanted {
        let found = rest.find(part).unwrap_or_else(|| panic!("{part} is missing or too early"));
        rest = &rest[found + part.len()..];
    }
}

#[test]
fn the_synthetic_run_shows_every_kind_of_level() {
    let summary = summarize(&synthetic::record());
    let verdicts: Vec<LevelVerdict> = summary.levels.iter().map(|level| level.verdict).collect();
    use LevelVerdict::{Invalid, Met, Missed};
    assert_eq!(verdicts, [Met, Met, Met, Met, Missed, Invalid]);
    assert!(summary.levels[4].overload);
}

#[test]
fn losses_and_reasons_are_told() {
    let page = bare(&synthetic::record());
    for part in [
        "What gives way next: at 5,000/s, ",
        "At 4,000/s losses began 4.31 s into the hold, with message 17 of device 41.",
        "The duplicates are legal here: QoS 1 delivers at least once.",
        "the generator was late by",
        "5.00 ms",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_hostile_text_stays_text() {
    let hostile = "</script></pre><script>alert(1)</script><img src=x onerror=alert(2)>";
    let mut record = synthetic::record();
    record.name = hostile.into();
    record.scenario = hostile.into();
    record.end = Some(RunEnd::Failed(hostile.into()));
    record.provenance.command = vec![hostile.into()];
    record.provenance.platform.insert(hostile.into(), hostile.into());
    record.components.iter_mut().for_each(|usage| usage.component = hostile.into());
    record.levels[4].end.as_mut().unwrap().incident = Some(hostile.into());
    let page = bare(&record);
    assert!(!page.contains("alert(1)</script>") && !page.contains("<img"));
    assert_eq!(page.matches("<script>").count(), charts(&page).len() + 1, "one a chart, one for printing");
    // Plotly itself takes `<` in a name for markup, so it must see an entity there.
    let (_, components) = charts(&page).into_iter().find(|(id, _)| id == "chart-components").unwrap();
    assert!(components["data"][0]["name"].as_str().unwrap().starts_with("&lt;/script&gt;"));
}

#[test]
fn the_file_loads_nothing_and_holds_plotly_once() {
    let record = synthetic::record();
    let page = bare(&record);
    for outside in ["src=", "href=\"http", "url(", "@import", "//cdn"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let whole = render(&record, &summarize(&record));
    assert!(whole.contains("default-src 'none'"));
    assert_eq!(whole.matches("* plotly.js v").count(), 1);
    assert!(!whole.contains("MathJax = "), "MathJax came along");
    assert!(whole.len() < 5_500_000, "{} bytes", whole.len());
}

#[test]
fn curves_are_bounded() {
    for (id, chart) in charts(&bare(&synthetic::record())) {
        for curve in chart["data"].as_array().unwrap() {
            let points = curve["x"].as_array().unwrap().len();
            assert!(points <= figure::MOST_POINTS, "{id}: {points}");
        }
    }
}

#[test]
fn every_axis_has_a_title() {
    for (id, chart) in charts(&bare(&synthetic::record())) {
        for (name, axis) in
            chart["layout"].as_object().unwrap().iter().filter(|(name, _)| name.contains("axis"))
        {
            assert!(!axis["title"]["text"].as_str().unwrap_or_default().is_empty(), "{id} {name}");
        }
    }
}

#[test]
fn a_run_without_levels_says_what_happened() {
    let mut record = synthetic::record();
    record.levels.clear();
    record.components.clear();
    record.end = Some(RunEnd::Failed("nobody listens at 127.0.0.1:1883".into()));
    keep("failed", &record);
    let page = bare(&record);
    assert!(page.contains("<h1>The run could not be done</h1>"));
    assert!(page.contains("Nobody listens at 127.0.0.1:1883."));
    assert!(page.contains("were not observed"));
    assert!(page.contains("publish_p99 &lt; 50.0 ms"));
    assert_eq!(chart_ids(&page), [] as [&str; 0]);
}

#[test]
fn a_killed_run_shows_what_there_is() {
    let mut record = synthetic::record();
    record.end = None;
    record.levels.truncate(3);
    record.levels[2].end = None;
    record.levels[2].samples.iter_mut().skip(4).for_each(|sample| *sample = None);
    keep("killed", &record);
    let summary = summarize(&record);
    assert_eq!(summary.verdict, Verdict::Interrupted);
    let page = bare(&record);
    assert!(page.contains("Bears at least 2,000 msg/s") && page.contains("the run ended within this level"));
    assert_eq!(chart_ids(&page).len(), 6);
}

#[test]
fn a_level_cut_off_before_its_first_sample_is_no_trouble() {
    let mut record = synthetic::record();
    record.end = None;
    record.components.clear();
    record.levels.truncate(1);
    record.levels[0].end = None;
    record.levels[0].samples.clear();
    record.levels[0].threads.clear();
    let page = bare(&record);
    assert!(page.contains("The run ended before a load line was found"));
    assert!(page.contains("No message was acknowledged or delivered."));
}

/// What remains where some metrics do not exist.
fn without(metrics: &[Metric], change: impl Fn(&mut RunRecord)) -> RunRecord {
    let mut record = synthetic::record();
    change(&mut record);
    for sample in record.levels.iter_mut().flat_map(|level| level.samples.iter_mut().flatten()) {
        sample.histograms.retain(|metric, _| !metrics.contains(metric));
    }
    record
}

#[test]
fn at_qos_0_there_is_no_publish_time() {
    let acknowledged = [
        Metric::PublishTime,
        Metric::PublishTimeFromSend,
        Metric::AcknowledgedAfterDelivery,
        Metric::DeliveredAfterAcknowledgement,
    ];
    let record = without(&acknowledged, |record| {
        record.terms.qos = 0;
        record.terms.objectives.level.retain(|objective| !objective.subject.needs_acknowledgement());
    });
    keep("qos0", &record);
    let page = bare(&record);
    assert!(page.contains("At QoS 0 nothing is acknowledged"));
    assert!(page.contains("No message was both acknowledged and delivered"));
    let (_, times) = charts(&page).into_iter().find(|(id, _)| id == "chart-times").unwrap();
    assert_eq!(times["data"].as_array().unwrap().len(), 1);
    assert_eq!(times["data"][0]["name"], "subscribe time");
}

#[test]
fn without_subscribers_there_is_no_subscribe_time() {
    let received = [
        Metric::SubscribeTime,
        Metric::SubscribeTimeFromSend,
        Metric::AcknowledgedAfterDelivery,
        Metric::DeliveredAfterAcknowledgement,
    ];
    let record = without(&received, |record| {
        record.terms.subscribers = 0;
        record.terms.objectives.level.retain(|objective| !objective.subject.needs_subscribers());
    });
    let page = bare(&record);
    assert!(page.contains("The scenario has no subscribers"));
    let (_, percentiles) = charts(&page).into_iter().find(|(id, _)| id == "chart-percentiles").unwrap();
    assert!(percentiles["layout"]["xaxis2"].is_null());
}

#[test]
fn the_closed_model_is_drawn_over_operations_in_flight() {
    let record = synthetic::closed();
    keep("closed", &record);
    let page = bare(&record);
    let (_, chart) = charts(&page).into_iter().find(|(id, _)| id == "chart-load-line").unwrap();
    assert_eq!(chart["layout"]["xaxis"]["title"]["text"], "Operations in flight");
    let names: Vec<&str> =
        chart["data"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
    assert!(!names.contains(&"ideal"), "{names:?}");
    assert!(page.contains("operations in flight."));
}

#[test]
fn levels_of_idle_devices_show_connections_and_no_empty_charts() {
    let record = synthetic::devices();
    keep("devices", &record);
    let page = bare(&record);
    for part in [
        "<h1>Bears 5,000 devices</h1>",
        "section id=\"connections\"",
        "at 6,000 devices, connected 83.33 % (objective connected &gt;= 99.9 %)",
        "the devices were idle",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(!chart_ids(&page).contains(&"chart-load-line".to_owned()));
    assert!(!bare(&synthetic::record()).contains("section id=\"connections\""));
}

#[test]
fn how_a_search_went_is_told_and_its_levels_need_not_rise() {
    let mut record = synthetic::record();
    let (warm_up, hold) = (Nanos::from_secs(2), Nanos::from_secs(10));
    record.terms.search = Some(plimsoll_model::search::SearchTerms {
        from: 2000.0,
        to: 50_000.0,
        tolerance: 0.3,
        time: Nanos::from_secs(600),
        warm_up,
        hold,
        drain: Nanos::from_secs(1),
    });
    // 2,000 and 4,000 are met, 5,000 misses, 4,000 is met anew.
    let mut levels = vec![record.levels[1].clone(), record.levels[3].clone(), record.levels[4].clone()];
    levels.push(record.levels[3].clone());
    for (index, level) in (0..).zip(&mut levels) {
        level.start.index = index;
    }
    record.levels = levels;
    let summary = summarize(&record);
    let line = summary.load_line.as_ref().unwrap();
    assert_eq!((line.rate, line.level, line.next_level, line.at_least), (Some(4000.0), 3, Some(2), false));
    let page = bare(&record);
    for part in [
        "<h1>Bears 4,000 msg/s</h1>",
        "Searched in 4 levels, reached within 25 % (30 % asked for): 4,000/s was met again by a fresh hold",
        "What gives way next: at 5,000/s, ",
        "4, searched",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
}

#[test]
fn lost_connections_are_told_with_their_outages() {
    let mut record = synthetic::record();
    assert!(!bare(&record).contains("section id=\"outages\""));
    let sample = record.levels[0].samples[3].as_mut().unwrap();
    sample.counts.disconnected = 30;
    let outage = sample.histograms.entry(Metric::Outage).or_default();
    (1..=30).for_each(|tenths| outage.record(Nanos::from_millis(100 * tenths)));
    let end = record.levels[0].end.as_mut().unwrap();
    end.incident = Some("broker was killed 3.00 s into the hold".into());
    let longest = Some(Nanos::from_secs(3));
    end.outages = Some(LevelOutages { lost: 30, back: 30, away_before: 0, longest });
    keep("storm", &record);
    let page = bare(&record);
    for part in ["section id=\"outages\"", "3.00 s</td>", "broker was killed 3.00 s into the hold"] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(!page.contains("Some clients came back only after their level"));
    // Two come back that were lost before: more outages end than clients were lost, and yet not all are back.
    let sample = record.levels[0].samples[3].as_mut().unwrap();
    sample.histograms.entry(Metric::Outage).or_default().record_n(Nanos::from_secs(9), 2);
    let end = record.levels[0].end.as_mut().unwrap();
    end.outages = Some(LevelOutages { lost: 30, back: 29, away_before: 1, longest });
    assert!(bare(&record).contains("Some clients came back only after their level"));
    let summary = summarize(&record);
    assert_eq!(summary.levels[0].recovery, None);
    let text = crate::terminal::render(&summary, Detail::Full, Colour::Off);
    assert!(text.contains("29 of 30 lost clients came back; 1 lost earlier stayed away"), "{text}");
}

#[test]
fn lives_of_events_are_told_where_a_gateway_tells_them() {
    assert!(!bare(&synthetic::record()).contains("section id=\"lives\""));
    let record = synthetic::gateway();
    keep("gateway", &record);
    let page = bare(&record);
    let (_, section) = page.split_once("section id=\"lives\"").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    assert_eq!(section.matches("<th scope=\"row\">").count(), 5, "the last level tells nothing");
    for (part, time) in [("at device", 1), ("transfer", 2), ("dispatch", 3), ("processing", 4)] {
        let (_, row) = section.split_once(&format!(">{part}</td>")).unwrap();
        let (row, _) = row.split_once("</tr>").unwrap();
        assert!(row.matches(&format!("{time}.00 ms")).count() >= 3, "mean, p50 and p99: {row}");
    }
    assert_eq!(section.matches(">publish time</td>").count(), 5);
    for part in
        ["least known at 5,000/s: by 15 readings", "7.00 ms ahead of ours, ± 34.0 µs", "12.5 ± 1.5 parts"]
    {
        assert!(section.contains(part), "{part} is missing");
    }
}

#[test]
fn lines_of_equal_objectives_have_one_label() {
    let mut record = synthetic::record();
    for objective in &mut record.terms.objectives.level {
        if let plimsoll_model::objective::Subject::Quantile(..) = objective.subject {
            objective.bound = 0.05;
        }
    }
    let (_, times) = charts(&bare(&record)).into_iter().find(|(id, _)| id == "chart-times").unwrap();
    let labels = times["layout"]["annotations"].as_array().unwrap();
    assert_eq!(labels.len(), 1, "{labels:?}");
    let text = labels[0]["text"].as_str().unwrap();
    assert!(text.contains("publish_p99") && text.contains("subscribe_p99"), "{text}");
}
