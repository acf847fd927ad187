//! A page of prose on how a run was measured, for the methods section of a paper. Each sentence follows from the run's record; what a
//! record does not hold is not claimed.

use crate::text::{broken, count, rate, time};
use plimsoll_analysis::level::LevelVerdict;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::record::{LevelRecord, RunEnd, RunRecord};
use plimsoll_model::{Load, Validity};
use std::fmt::Write;

/// The page, in Markdown.
pub fn methods(record: &RunRecord, summary: &Summary) -> String {
    let mut out = format!("# Methods: {}\n", record.name);
    for (title, text) in [
        ("Platform and host", platform(record)),
        ("Load", load(record)),
        ("What is measured", measured(record)),
        ("Intervals", intervals(record)),
        ("Whose limit it was", validity(record, summary)),
        ("Judgement", judgement(record, summary)),
        ("Result", result(record, summary)),
    ] {
        let _ = write!(out, "\n## {title}\n\n{}", paragraphs(&text));
    }
    out
}

/// Lines of at most 100 columns.
fn paragraphs(sentences: &[String]) -> String {
    broken("", &sentences.join(" "), "", 100).join("\n") + "\n"
}

/// Facts by name, as words.
fn facts<'a>(facts: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    facts.into_iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("; ")
}

fn platform(record: &RunRecord) -> Vec<String> {
    let provenance = &record.provenance;
    let mut text = vec![
        format!(
            "Plimsoll {} loaded the platform on {} (run {}).",
            provenance.plimsoll, provenance.started, record.id
        ),
        format!("Facts about the platform: {}.", facts(&provenance.platform)),
    ];
    let host = provenance.host.iter().filter(|(name, _)| !name.starts_with("not observed"));
    text.push(format!("The load was generated on this host: {}.", facts(host)));
    text.push(match record.terms.local {
        true => {
            "The platform was reached at an address of the same host, so no network lies between.".to_owned()
        }
        false => "The platform was reached over a network, which is part of every time.".to_owned(),
    });
    if !provenance.placement.is_empty() {
        text.push(format!("Processors: {}.", facts(&provenance.placement)));
    }
    text
}

fn load(record: &RunRecord) -> Vec<String> {
    let terms = &record.terms;
    let mut text = vec![format!(
        "{} sent messages, and {} received them.",
        several(terms.devices, "simulated device"),
        several(terms.subscribers, "subscriber")
    )];
    if terms.populations.is_empty() {
        let spoken = record.provenance.platform.get("protocol").map_or("", String::as_str);
        text.push(match (spoken, terms.qos) {
            ("MQTT", qos) => format!("Devices spoke MQTT and published at QoS {qos}."),
            (spoken, 0) => format!("Devices spoke {spoken}; the platform acknowledges no message."),
            (spoken, _) => format!("Devices spoke {spoken}; the platform acknowledges each message."),
        });
    } else {
        let all: Vec<String> = terms
            .populations
            .iter()
            .map(|own| format!("{} ({}, {})", own.name, several(own.terms.devices, "device"), own.protocol))
            .collect();
        text.push(format!("The devices are of {} populations: {}.", all.len(), all.join(", ")));
    }
    let Some(first) = record.levels.first() else {
        text.push("No level of load was begun.".to_owned());
        return text;
    };
    let loads: Vec<String> = record.levels.iter().map(|level| amount(level.start.load)).collect();
    text.push(match first.start.load {
        Load::Rate(_) => format!(
            "The load model is open: messages are due at times that the scenario and the seed {} fix, whatever becomes of earlier ones.",
            record.provenance.seed
        ),
        Load::InFlight(_) => "The load model is closed: so many operations are kept in flight.".to_owned(),
        Load::Devices { .. } => "Each level connects so many devices.".to_owned(),
        Load::ConnectRate { .. } => "Each level connects all devices again at a rate.".to_owned(),
    });
    text.push(format!("The levels were, in the order of running: {}.", loads.join(", ")));
    if let Some(curve) = record.levels.iter().find_map(|level| level.start.curve.as_ref()) {
        text.push(format!(
            "Within the level, the load followed a curve through {} points, from {}/s to {}/s; the rate of the level is its mean. Due times were drawn at that mean and moved to where the curve had offered as much, which is exact for Poisson arrivals.",
            curve.points().len(),
            rate(curve.lowest()),
            rate(curve.highest())
        ));
    }
    if record.levels.iter().any(|level| level.start.falling) {
        text.push("After the highest level, the others were run again in reverse order, and compared with those of the way up.".to_owned());
    }
    text.push(holds(&record.levels));
    if terms.search.is_some() {
        text.push("A search chose the levels: it doubled the load, halved the bracket, and confirmed the answer by a fresh hold.".to_owned());
    }
    text
}

/// A number of things.
fn several(number: u32, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(f64::from(number)))
}

fn amount(load: Load) -> String {
    match load {
        Load::Rate(value) => format!("{}/s", rate(value)),
        Load::InFlight(number) => format!("{number} in flight"),
        Load::Devices { devices, .. } => format!("{} devices", count(f64::from(devices))),
        Load::ConnectRate { rate: value, .. } => format!("{} connections/s", rate(value)),
    }
}

fn holds(levels: &[LevelRecord]) -> String {
    let held: Vec<f64> = levels.iter().map(|level| level.start.hold.as_secs_f64()).collect();
    let samples: Vec<u16> = levels.iter().map(|level| level.start.samples).collect();
    let (least, most) =
        held.iter().fold((f64::MAX, 0.0_f64), |(least, most), &hold| (least.min(hold), most.max(hold)));
    let (fewest, largest) = (samples.iter().min().unwrap_or(&0), samples.iter().max().unwrap_or(&0));
    let hold = match most - least < 1e-9 {
        true => time(Some(most)),
        false => format!("{} to {}", time(Some(least)), time(Some(most))),
    };
    let samples = if fewest == largest { largest.to_string() } else { format!("{fewest} to {largest}") };
    format!(
        "After a warm-up that does not count, each level was held for {hold}, divided into {samples} equal samples."
    )
}

fn measured(record: &RunRecord) -> Vec<String> {
    let mut text = vec![
        "Each message carries a marker with run, device and sequence, by which its deliveries are recognised.".to_owned(),
        "The publish time of a message runs from the moment when it was due to its acknowledgement, where it has one; the subscribe time from the same moment to its delivery.".to_owned(),
        "Times from due include the generator's own delay, so that a platform that stalls cannot hide it (no coordinated omission); times from sending are reported beside them.".to_owned(),
        "Every message of a level is accounted for: due = sent + unsent, and expected deliveries = delivered + late + superseded + lost.".to_owned(),
    ];
    if !record.components.is_empty() {
        text.push(
            "Processor time and memory of the platform's components were read once a second.".to_owned(),
        );
    }
    if record.dissection.is_some() {
        text.push("The packets between the components were captured, and the way of each marked message was followed in them.".to_owned());
    }
    text
}

fn intervals(_: &RunRecord) -> Vec<String> {
    vec![
        "Intervals are nominal 95 %.".to_owned(),
        "Means have intervals of Student's t over samples, which are joined into larger batches until their lag-1 correlation is insignificant.".to_owned(),
        "Quantiles have intervals by inversion of a test on the share of observations below a bound; a quantile q with fewer than 10/(1-q) observations is not reported.".to_owned(),
        "Histograms of all load threads are merged; percentiles are never averaged.".to_owned(),
    ]
}

fn validity(record: &RunRecord, summary: &Summary) -> Vec<String> {
    let valid = summary.levels.iter().filter(|level| level.validity == Validity::Valid).count();
    let lateness = &summary.generator.lateness;
    let mut text = vec![
        "A level is invalid if the generator, the receivers or the host were its limit: lateness of the generator, lag of its readers, or time that the host withheld beyond stated bounds.".to_owned(),
        format!("Of {} levels, {valid} are valid.", summary.levels.len()),
    ];
    if let Some(p99) = lateness.p99 {
        text.push(format!(
            "The 99th percentile of the generator's lateness over all levels is {}.",
            time(Some(p99))
        ));
    }
    if record.terms.precision.0 > 0 {
        text.push(format!("By design, sending may lag behind due by {}.", record.terms.precision));
    }
    text
}

fn judgement(record: &RunRecord, summary: &Summary) -> Vec<String> {
    let mut text = Vec::new();
    if !summary.objectives.is_empty() {
        text.push(format!("The objectives of each level were: {}.", summary.objectives.join("; ")));
    }
    text.push("A level is met if the interval of each objective lies inside its bound, missed if one is missed clearly, and undecided otherwise.".to_owned());
    text.push("The load line is the top of the unbroken run of met levels from the lowest.".to_owned());
    if record.terms.search.is_none() && record.terms.stop_after_missed.is_none() {
        text.push(
            "Listed levels that decided nothing were held again within a limit of time; each hold is listed."
                .to_owned(),
        );
    }
    text
}

fn result(record: &RunRecord, summary: &Summary) -> Vec<String> {
    let of = |verdict| summary.levels.iter().filter(|level| level.verdict == verdict).count();
    let mut text = vec![format!(
        "The verdict is: {}. Levels that are met: {}; missed: {}; undecided: {}; invalid: {}.",
        summary.verdict_word(),
        of(LevelVerdict::Met),
        of(LevelVerdict::Missed),
        of(LevelVerdict::Undecided),
        of(LevelVerdict::Invalid)
    )];
    match &summary.load_line {
        Some(line) => {
            let least = if line.at_least { "at least " } else { "" };
            let amount = line.amount().map_or("not a number".to_owned(), rate);
            let unit = if line.rate.is_some() {
                "/s"
            } else if line.devices.is_some() {
                " devices"
            } else {
                " connections/s"
            };
            text.push(format!("The load line is {least}{amount}{unit}."));
        }
        None => text.push("No load line was found.".to_owned()),
    }
    match &record.end {
        Some(RunEnd::Complete) => {}
        Some(RunEnd::PlatformDied(death)) => text.push(format!(
            "The component {} ended by itself ({}), which ended the run.",
            death.component, death.status
        )),
        Some(RunEnd::Interrupted | RunEnd::Killed) => {
            text.push("The run was interrupted; what it had measured is reported.".to_owned())
        }
        Some(RunEnd::Failed(_) | RunEnd::WorkerLost(_)) => {
            text.push("The run failed; what it had measured is reported.".to_owned())
        }
        None => text.push("The run did not come to its end; what it had measured is reported.".to_owned()),
    }
    text.extend(summary.notes.iter().map(|note| format!("{}.", note.trim_end_matches('.'))));
    text.extend(record.provenance.notes.iter().map(|note| format!("{}.", note.trim_end_matches('.'))));
    text
}
