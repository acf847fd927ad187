//! The page as a whole, on a synthetic run and on what may go wrong with one.

use super::*;
use crate::chart::MOST_POINTS;
use crate::chart::tests::data;
use crate::terminal::Detail;
use crate::text::Colour;
use plimsoll_analysis::experiment::{Estimate, Experiment, Latency, LatencyPart, Path};
use plimsoll_analysis::level::LevelVerdict;
use plimsoll_analysis::limits::{Limit, LimitKind};
use plimsoll_analysis::summarize;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::fault::{FaultKind, FaultRecord, PlannedFault};
use plimsoll_model::record::{LevelOutages, RunEnd};
use plimsoll_model::{Metric, Nanos, Verdict};

fn bare(record: &RunRecord) -> String {
    render(record, &summarize(record))
}

/// The parts of a chart: what is drawn, by the names of series.
fn chart(page: &str, id: &str) -> Vec<serde_json::Value> {
    let (_, parts) = data(page).into_iter().find(|(one, _)| one == id).unwrap_or_else(|| panic!("no {id}"));
    parts.as_array().unwrap().clone()
}

fn chart_ids(page: &str) -> Vec<String> {
    data(page).into_iter().map(|(id, _)| id).collect()
}

/// What is drawn of a chart, without its data.
fn drawing<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("<figure class=\"chart\" id=\"{id}\">")).unwrap();
    rest.split_once("<script").unwrap().0
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
        "<h1>Sustains 4,000/s</h1>",
        "class=\"tiles\"",
        "section id=\"objectives\"",
        "section id=\"time\"",
        "id=\"chart-latency\"",
        "id=\"chart-heat\"",
        "id=\"chart-timeline\"",
        "id=\"chart-load-line\"",
        "id=\"chart-times\"",
        "id=\"chart-percentiles\"",
        "section id=\"sizes\"",
        "section id=\"ledger\"",
        "section id=\"generator\"",
        "id=\"chart-components\"",
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
    assert_eq!(page.matches("<script").count(), data(&page).len() + 1, "one a chart, one for all");
    assert_eq!(chart(&page, "chart-components")[0]["n"], hostile, "its name is whole");
}

#[test]
fn the_file_loads_nothing_and_holds_the_script_once() {
    let page = bare(&synthetic::record());
    for outside in ["src=", "href=\"http", "url(", "@import", "//cdn"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; \
                  font-src data:";
    assert!(page.contains(policy));
    assert_eq!(page.matches("<script>").count(), 1);
}

/// The synthetic run, each level so many times as long.
fn lengthened(times: usize) -> RunRecord {
    let mut record = synthetic::record();
    for level in &mut record.levels {
        let length = level.samples.len() * times;
        level.samples = level.samples.iter().cycle().take(length).cloned().collect();
        level.start.samples = length as u16;
        level.start.hold = level.start.hold * times as i64;
    }
    record
}

/// Most scenarios have six levels of 30 samples or fewer.
#[test]
fn a_report_has_a_megabyte_at_most_and_does_not_grow_with_the_length_of_the_run() {
    let usual = lengthened(3);
    keep("usual", &usual);
    let (usual, long) = (bare(&usual).len(), bare(&lengthened(20)).len());
    assert!(usual < 450_000, "{usual} bytes");
    assert!(long < usual * 13 / 10, "{usual} and {long} bytes");
}

#[test]
fn curves_are_bounded() {
    let page = bare(&synthetic::record());
    for id in chart_ids(&page) {
        for part in chart(&page, &id).iter().filter(|part| part["v"].is_null()) {
            let rows = part["d"][0].as_array().unwrap().len();
            assert!(rows <= MOST_POINTS, "{id}: {rows}");
        }
    }
}

#[test]
fn every_axis_has_a_title() {
    let page = bare(&synthetic::record());
    for id in chart_ids(&page) {
        let drawing = drawing(&page, &id);
        assert!(drawing.matches("class=\"axis\"").count() >= 2, "{id}");
        assert!(!drawing.contains("class=\"axis\" x=\"\"") && !drawing.contains("\"></text>"), "{id}");
    }
}

#[test]
fn latency_over_time_is_that_of_the_samples() {
    let record = synthetic::record();
    let page = bare(&record);
    let parts = chart(&page, "chart-latency");
    let names: Vec<&str> = parts.iter().map(|part| part["n"].as_str().unwrap()).collect();
    assert_eq!(names, ["p50", "p99", "max", "p50", "p99", "max"], "of the publish and of the subscribe time");
    assert_eq!(parts[0]["c"], serde_json::json!(["Time since the run began (s)", "Publish time (ms)"]));
    let of_sample =
        |at: usize| &record.levels[0].samples[at].as_ref().unwrap().histograms[&Metric::PublishTime];
    let together = {
        let mut two = of_sample(1).clone();
        two.merge(of_sample(2));
        two
    };
    let in_ms = |time: Option<Nanos>| time.unwrap().as_secs_f64() * 1e3;
    for (place, (times, middle)) in [(of_sample(0), 4.5), (&together, 6.0)].into_iter().enumerate() {
        let expected = [times.quantile(0.5), times.quantile(0.99), times.max()];
        for (part, expected) in parts.iter().zip(expected) {
            let shown = part["d"][1][place].as_f64().unwrap();
            assert!((shown / in_ms(expected) - 1.0).abs() < 1e-4, "{shown} ms of {expected:?}");
            assert_eq!(
                part["d"][0][place], middle,
                "a sample of less than 1,000 messages has no p99 of its own"
            );
        }
    }
    let points = parts[0]["d"][0].as_array().unwrap();
    assert!(!points.contains(&serde_json::json!(24.5)), "this sample was not taken");
    assert!(points.contains(&serde_json::json!(25.5)));
    let drawing = drawing(&page, "chart-latency");
    assert_eq!(drawing.matches("publish_p99 &lt; 50.0 ms").count(), 1, "one label for the objective");
    assert!(drawing.contains("log scale"));
}

#[test]
fn the_heat_map_counts_every_message() {
    let record = synthetic::record();
    let heat = &chart(&bare(&record), "chart-heat")[0];
    let counts = heat["v"].as_array().unwrap().iter().flat_map(|column| column.as_array().unwrap());
    let counted: u64 = counts.map(|count| count.as_u64().unwrap()).sum();
    let samples = record.levels.iter().flat_map(|level| level.samples.iter().flatten());
    let seen: u64 = samples.map(|sample| sample.histograms[&Metric::PublishTime].count()).sum();
    assert_eq!(counted, seen);
}

#[test]
fn throughput_stands_beside_what_was_offered_and_errors_below() {
    let page = bare(&synthetic::record());
    let parts = chart(&page, "chart-timeline");
    let names: Vec<&str> = parts.iter().map(|part| part["n"].as_str().unwrap()).collect();
    let completed = ["completed, level met", "completed, level missed", "completed, level invalid"];
    assert_eq!(names, [&["offered"], completed.as_slice(), &["lost", "reordered", "duplicated"]].concat());
    assert_eq!(parts[0]["d"][1][0], 1000);
    assert!(drawing(&page, "chart-timeline").contains("class=\"line dashed\""));
    let mut healthy = synthetic::record();
    healthy.levels.truncate(3);
    let page = bare(&healthy);
    assert!(page.contains("No message was lost, refused, late"));
    assert!(!drawing(&page, "chart-timeline").contains("Errors"));
}

#[test]
fn rates_that_span_decades_have_logarithmic_axes() {
    let mut record = synthetic::record();
    record.levels[0].start.load = plimsoll_model::Load::Rate(10.0);
    let page = bare(&record);
    assert!(drawing(&page, "chart-load-line").contains("Offered load (/s), log scale"));
    assert!(drawing(&page, "chart-timeline").contains("Throughput (/s), log scale"));
    assert!(!drawing(&bare(&synthetic::record()), "chart-load-line").contains("log scale"));
}

#[test]
fn rates_are_written_one_way() {
    let page = bare(&synthetic::record());
    for other in ["msg/s", "operations/s", "ops/s"] {
        assert!(!page.contains(other), "{other}");
    }
}

#[test]
fn goodput_is_explained_where_it_stands() {
    let page = bare(&synthetic::record());
    assert!(page.contains("Goodput is the content of one message divided by the time of one message"));
}

#[test]
fn tables_have_few_columns() {
    let page = bare(&synthetic::record());
    for table in page.split("<thead>").skip(1) {
        let (head, _) = table.split_once("</thead>").unwrap();
        assert!(head.matches("<th").count() <= 11, "{head}");
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
    assert!(page.contains("Sustains at least 2,000/s") && page.contains("the run ended within this level"));
    let shown =
        ["latency", "heat", "timeline", "load-line", "times", "percentiles", "parts", "components", "laws"];
    assert_eq!(chart_ids(&page), shown.map(|name| format!("chart-{name}")));
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
    assert!(page.contains("Nothing is acknowledged here, as at QoS 0"));
    assert!(page.contains("No message was both acknowledged and delivered"));
    let times = chart(&page, "chart-times");
    assert_eq!((times.len(), &times[0]["n"]), (1, &"subscribe time".into()));
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
    let percentiles = drawing(&page, "chart-percentiles");
    assert!(percentiles.contains("Publish time (ms)") && !percentiles.contains("Subscribe time (ms)"));
}

#[test]
fn the_closed_model_is_drawn_over_operations_in_flight() {
    let record = synthetic::closed();
    keep("closed", &record);
    let page = bare(&record);
    let drawing = drawing(&page, "chart-load-line");
    assert!(drawing.contains("Operations in flight") && !drawing.contains("ideal"));
    assert!(page.contains("operations in flight."));
}

#[test]
fn levels_of_idle_devices_show_connections_and_no_empty_charts() {
    let record = synthetic::devices();
    keep("devices", &record);
    let page = bare(&record);
    for part in [
        "<h1>Sustains 5,000 devices</h1>",
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
        "<h1>Sustains 4,000/s</h1>",
        "Searched in 4 levels, reached within 25 % (30 % asked for): 4,000/s was met again by a fresh hold",
        "What gives way next: at 5,000/s, ",
        "4, searched",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
}

#[test]
fn a_planned_fault_is_told_with_its_recovery_and_its_ledger() {
    let mut record = synthetic::record();
    assert!(!bare(&record).contains("section id=\"faults\""));
    let level = &mut record.levels[0];
    let (at, length) = (Nanos::from_secs(4), Nanos::from_secs(1));
    level.start.faults =
        vec![PlannedFault { component: "broker".into(), kind: FaultKind::Pause, at, length }];
    let span = (level.start.hold_start + at, level.start.hold_start + at + length);
    level.end.as_mut().unwrap().faults = vec![FaultRecord {
        began: Some(span.0),
        ended: Some(span.1),
        means: "by SIGSTOP".into(),
        failed: None,
    }];
    let sample = level.samples[4].as_mut().unwrap();
    sample.counts.delivered -= 7;
    keep("fault", &record);
    let page = bare(&record);
    for part in ["section id=\"faults\"", "broker is stopped", "by SIGSTOP", "recovered", "during", ">7</td>"]
    {
        assert!(page.contains(part), "{part} is missing");
    }
    let summary = plimsoll_analysis::summarize(&record);
    let told = crate::terminal::render(&summary, Detail::Short, Colour::Off);
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("broker is stopped from 4.00 s to 5.00 s: recovered within 1.00 s of its end"),
        "{told}"
    );
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
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
    let page = bare(&record);
    let times = drawing(&page, "chart-times");
    assert_eq!(times.matches("class=\"named").count(), 1);
    assert!(times.contains("publish_p99 &lt; 50.0 ms, subscribe_p99 &lt; 50.0 ms"));
}

/// It has no load line, and no level that missed anything.
#[test]
fn the_headline_of_an_experiment_is_what_limits() {
    let mut record = synthetic::record();
    record.levels.clear();
    let mut summary = summarize(&record);
    summary.load_line = None;
    let capacity = Estimate { mean: 191.2, ci95: None };
    let (parts, faster, open) = (Vec::new(), Vec::new(), vec!["it is open whether a limits the load".into()]);
    summary.experiment = Some(Experiment {
        in_turn: Vec::new(),
        capacity,
        in_flight: 98,
        alone: None,
        stop: 0.3,
        parts,
        paths: Vec::new(),
        faster,
        latencies: Vec::new(),
        open,
    });
    summary.verdict = Verdict::Invalid;
    assert!(render(&record, &summary).contains("<h1>It is open what limits the load</h1>"));
    summary.verdict = Verdict::Met;
    summary.limits = vec![Limit {
        component: Some("store".into()),
        components: Vec::new(),
        kind: LimitKind::Waiting,
        evidence: Vec::new(),
        elasticity: None,
    }];
    let page = render(&record, &summary);
    assert!(page.contains("<h1>store limits the load at 191/s: its workers"), "{page:.3000}");
    let with_levels = summarize(&synthetic::record());
    let summary_with =
        Summary { levels: with_levels.levels, load_line: with_levels.load_line, ..summary.clone() };
    let told = crate::terminal::render(&summary_with, Detail::Short, Colour::Off);
    let first = told.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(first.contains("load line") && first.contains("store limits the load at 191/s"), "{told}");
    assert!(
        render(&synthetic::record(), &summary_with).contains("store limits the load at 191/s: its workers")
    );
    assert!(!page.contains("No load line"));
}

#[test]
fn what_slower_components_do_to_latency_stands_with_the_limits() {
    let mut record = synthetic::record();
    record.levels.clear();
    let mut summary = summarize(&record);
    let estimate = |mean: f64| Estimate { mean, ci95: Some([mean - 0.1, mean + 0.1]) };
    let latency = Latency {
        objective: "publish_p99".into(),
        rate: 114.0,
        untouched: estimate(0.25),
        parts: vec![LatencyPart { component: "front".into(), elasticity: estimate(1.4) }],
    };
    let path = |name: &str, at_once| Path {
        component: name.into(),
        callers: vec!["front".into()],
        delays: vec![0.005, 0.02],
        blocks: 12,
        at_once,
        at_least: Some(84.0),
    };
    summary.experiment = Some(Experiment {
        in_turn: Vec::new(),
        capacity: Estimate { mean: 190.0, ci95: None },
        in_flight: 98,
        alone: None,
        stop: 0.3,
        parts: Vec::new(),
        paths: vec![path("store", Some(estimate(3.0))), path("disk", None)],
        faster: Vec::new(),
        latencies: vec![latency],
        open: Vec::new(),
    });
    let page = render(&record, &summary);
    assert!(page.contains("publish_p99") && page.contains("Latency at 114"), "{page:.3000}");
    assert!(
        page.contains("5.00 ms, 20.0 ms") && page.contains("no bound up to 84 operations"),
        "{page:.3000}"
    );
    summary.reason = "a and b decide".into();
    let experiment = summary.experiment.as_mut().unwrap();
    experiment.open = vec!["a and b decide".into(), "c may".into()];
    let told = crate::terminal::limits::render(&summary, Detail::Short);
    assert!(!told.contains("a and b decide") && told.contains("c may"), "the reason stands above: {told}");
    summary.verdict = Verdict::Invalid;
    assert_eq!(render(&record, &summary).to_lowercase().matches("a and b decide").count(), 1);
    assert!(told.contains("round trips to store: 3.0 places (2.9 to 3.1)"), "{told}");
    assert!(told.contains("round trips to disk: no bound up to 84 operations"), "{told}");
    assert!(told.contains("front") && told.contains("1.30 to 1.50") && told.contains("at 114/s"), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
}
