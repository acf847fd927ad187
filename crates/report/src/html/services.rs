//! What the wire said: who called whom, which way messages went, where they stayed and where they were lost.

use crate::chart::{
    Axis, BoxOf, Chart, Ink, Interval, MOST_POINTS, Mark, Panel, Path, Series, Symbol, shortened,
};
use crate::html::level;
use crate::html::sides::{self, Side};
use crate::html::table::{Column, Tone, count_cell, in_pieces, number_cell, percent, table, time_cell};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::dissection::{DissectionSummary, PhaseSummary, ServiceSummary, last_seen};
use std::collections::{BTreeMap, BTreeSet};

/// Services in a chart.
const CHARTED: usize = 12;
/// Services whose bytes are drawn over time.
const DRAWN: usize = 6;
/// Services in the matrix, by side.
const MATRIX: usize = 12;
/// Most characters of a service in a legend.
const NAME: usize = 60;
/// Lost messages in the table.
const NAMED: usize = 20;

/// Those that asked for anything, the most first.
fn asking(dissection: &DissectionSummary) -> Vec<&ServiceSummary> {
    dissection.services.iter().filter(|service| service.count > 0).collect()
}

/// Calls: matrix, times, bytes over time, and what was not understood.
pub fn calls(dissection: &DissectionSummary) -> Markup {
    let services = asking(dissection);
    html! {
        p {
            (text::count(dissection.packets as f64)) " packets, "
            (text::bytes(dissection.bytes as f64)) "; "
            (text::count(dissection.retransmissions as f64)) " TCP segments were sent again."
        }
        @if services.is_empty() {
            p.empty { "No requests were seen." }
        } @else {
            (matrix(&services))
            (times_chart(&services).render())
            (service_table(&services))
            (bytes_chart(&services).render())
        }
        (doubts(dissection))
    }
}

/// Callers down, called across.
fn matrix(services: &[&ServiceSummary]) -> Markup {
    let few = |name: fn(&ServiceSummary) -> &str| -> Vec<String> {
        let mut seen = BTreeSet::new();
        let names = services.iter().map(|service| name(service).to_owned());
        names.filter(|name| seen.insert(name.clone())).take(MATRIX).collect()
    };
    let (clients, servers) = (few(|service| &service.client), few(|service| &service.server));
    let columns: Vec<Column> = servers.iter().map(|server| Column::Number(server)).collect();
    let cell = |client: &str, server: &str| {
        let both = services.iter().filter(|service| service.client == client && service.server == server);
        let lines = both.map(|service| {
            let bytes = text::bytes((service.bytes_sent + service.bytes_received) as f64);
            let (p50, p99) = (text::time(service.p50), text::time(service.p99));
            html! {
                span { (service.protocol) ": " (text::count(service.count as f64)) }
                span { (p50) }
                span { (p99) }
                span { (bytes) }
            }
        });
        let lines: Vec<Markup> = lines.collect();
        html! { td.num.lines { @for line in lines { (line) } } }
    };
    let row = |client: &String| {
        let cells = servers.iter().map(|server| cell(client, server));
        (html! { th scope="row" { (client) } }, cells.collect())
    };
    let rows: Vec<_> = clients.iter().map(row).collect();
    html! {
        (in_pieces(Column::Text("Calls"), &columns, &rows))
        p.note { "Protocol with requests, median and 99th percentile of the response time, bytes both ways." }
    }
}

fn label(service: &ServiceSummary) -> String {
    format!("{} \u{2192} {} ({})", service.client, service.server, service.protocol)
}

fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e3).max(1e-6)
}

fn times_chart(services: &[&ServiceSummary]) -> Chart {
    let shown: Vec<&&ServiceSummary> =
        services.iter().filter(|service| service.response_time.n > 0).take(CHARTED).collect();
    let boxes = shown.iter().enumerate().map(|(place, service)| {
        let times = &service.response_time;
        let [low, high] = times.whiskers.unwrap_or_default();
        let quartile = |time: Option<f64>| time.unwrap_or_default();
        let quartiles = [low, quartile(times.p25), quartile(times.p50), quartile(times.p75), high];
        let max = milliseconds(times.max.unwrap_or_default());
        BoxOf { at: place as f64, quartiles: quartiles.map(milliseconds), max }
    });
    let boxes: Vec<BoxOf> = boxes.collect();
    let values = boxes.iter().flat_map(|one| [one.quartiles[1], one.quartiles[4], one.max]);
    let x = Axis::log("Response time (ms)", values);
    let y = Axis::places("Service", shown.iter().map(|service| label(service)));
    let panel = Panel::new(x, y).height(20.0 + 40.0 * shown.len() as f64);
    let caption = "Response time of each service, from the last byte of a request to the last of its response, as captured. The box \
                   holds the middle half, whiskers reach 1.5 box lengths, the ring is the slowest.";
    let series = Series::new("response time", Ink::Curve(0)).with(Mark::Boxes(boxes)).unlisted();
    Chart::new("chart-services", caption).panel(panel.series(series))
}

fn service_table(services: &[&ServiceSummary]) -> Markup {
    let columns = [
        Column::Text("Service"),
        Column::Number("Requests"),
        Column::Number("Unanswered"),
        Column::Number("Errors"),
        Column::Number("p50"),
        Column::Number("p99"),
        Column::Number("First byte p50"),
        Column::Number("Sent"),
        Column::Number("Received"),
        Column::Number("Sent again"),
    ];
    let rows: Vec<Markup> = services
        .iter()
        .map(|service| {
            let again = service.retransmitted_by_client + service.retransmitted_by_server;
            html! {
                tr {
                    th.free scope="row" { (label(service)) }
                    (count_cell(service.count, Tone::Plain))
                    (count_cell(service.unanswered, Tone::Violation))
                    (count_cell(service.errors, Tone::Violation))
                    (time_cell(service.p50))
                    (time_cell(service.p99))
                    (time_cell(service.first_byte_time.p50))
                    (number_cell(Some(text::bytes(service.bytes_sent as f64))))
                    (number_cell(Some(text::bytes(service.bytes_received as f64))))
                    (count_cell(again, Tone::Plain))
                }
            }
        })
        .collect();
    table(&columns, &rows)
}

fn bytes_chart(services: &[&ServiceSummary]) -> Chart {
    let mut drawn: Vec<&&ServiceSummary> = services.iter().collect();
    drawn.sort_by_key(|service| std::cmp::Reverse(service.bytes_sent + service.bytes_received));
    drawn.truncate(DRAWN);
    let seconds = || drawn.iter().flat_map(|service| &service.seconds);
    let first = seconds().map(|(second, ..)| *second).min().unwrap_or_default();
    let last = seconds().map(|(second, ..)| *second).max().unwrap_or_default();
    let together = (last - first) / MOST_POINTS as i64 + 1;
    // Seconds in which nothing was sent are zeroes, not gaps.
    let curve = |service: &ServiceSummary, of: fn(&(i64, u64, u64)) -> u64| -> Path {
        let mut sums = BTreeMap::new();
        for second in &service.seconds {
            *sums.entry((second.0 - first) / together).or_insert(0) += of(second);
        }
        let rate = |place: i64| {
            sums.get(&place).copied().unwrap_or(0) as f64 / together.min(last - first + 1) as f64 / 1024.0
        };
        (0..=(last - first) / together).map(|place| ((place * together) as f64, Some(rate(place)))).collect()
    };
    let panel = |name: &str, of: fn(&(i64, u64, u64)) -> u64| {
        let curves: Vec<Path> = drawn.iter().map(|service| curve(service, of)).collect();
        let rates = curves.iter().flatten().filter_map(|(_, rate)| *rate).filter(|rate| *rate > 0.0);
        let x = Axis::span("Time since the capture began (s)", 0.0, (last - first) as f64);
        let panel = Panel::new(x, Axis::fitting(name, rates)).height(190.0);
        panel.all(drawn.iter().zip(curves).enumerate().map(|(number, (service, curve))| {
            let name = shortened(&label(service), NAME);
            Series::new(&name, Ink::Curve(number)).symbol(Symbol::of_curve(number)).line(curve)
        }))
    };
    let caption = "Bytes of content per second between caller and server: above what callers sent, below what they \
                   received. Zeroes stand at the foot of a logarithmic axis.";
    Chart::new("chart-service-bytes", caption)
        .panel(panel("Sent (KiB/s)", |(_, sent, _)| *sent))
        .panel(panel("Received (KiB/s)", |(_, _, received)| *received))
}

/// What stands between the capture and the truth.
fn doubts(dissection: &DissectionSummary) -> Markup {
    let (told, tls) = (dissection.doubts(), &dissection.tls);
    html! {
        @if tls.conversations > 0 {
            p.note { (tls.conversations) " conversations under TLS, " (tls.opened) " of them opened." }
        }
        @if !told.is_empty() {
            ul.note { @for doubt in told { li { (doubt) } } }
        }
    }
}

/// Traces: the path with the times on it, the slowest component of each phase, and the losses.
pub fn traces(dissection: &DissectionSummary) -> Markup {
    let phases: Vec<_> =
        dissection.phases.iter().filter(|phase| phase.measured && phase.traces.messages > 0).collect();
    let busiest = phases.iter().max_by_key(|phase| phase.traces.messages);
    html! {
        @if let Some(phase) = busiest {
            p {
                "The way of " (text::count(phase.traces.messages as f64)) " messages"
                @if !phase.name.is_empty() { " of " (phase.name) }
                ", with the median of the time since the first passage:"
            }
            ol.way {
                @for step in &phase.traces.path {
                    li {
                        (step.from) " \u{2192} " strong { (step.to) } " "
                        (step.protocol) " " (step.verb) " after " (text::time(step.since_first))
                        @if step.share < 0.9999 { ", " (percent(step.share)) " of them" }
                    }
                }
            }
            (residences_chart(&phases).render())
            (slowest(dissection))
        } @else {
            p.empty { "No marked message was seen on the wire." }
        }
        (losses(dissection))
        @if !dissection.errors.is_empty() {
            h3 { "Errors, by who answered so first" }
            ul { @for error in &dissection.errors { li { (error.told()) } } }
        }
        @if !dissection.stalls.is_empty() {
            h3 { "Stood still" }
            ul { @for stall in &dissection.stalls { li { (stall.told()) } } }
        }
    }
}

fn residences_chart(phases: &[&PhaseSummary]) -> Chart {
    let mut components: Vec<&str> = Vec::new();
    for residence in
        phases.iter().flat_map(|phase| &phase.traces.residences).filter(|residence| residence.times.n > 0)
    {
        if !components.contains(&residence.component.as_str()) {
            components.push(&residence.component);
        }
    }
    let side = |component: &&str| {
        let stay = |(place, phase): (usize, &&PhaseSummary)| {
            let mut own = phase.traces.residences.iter();
            let stay = own.find(|residence| residence.component == *component)?.times.mean?;
            Some(Interval { at: place as f64, value: stay * 1e3, ends: None })
        };
        Side { name: (*component).to_owned(), values: phases.iter().enumerate().filter_map(stay).collect() }
    };
    let sides: Vec<Side> = components.iter().map(side).collect();
    let x = Axis::places("Phase", phases.iter().map(|phase| phase_name(phase)));
    let y = Axis::fitting("Mean stay (ms)", sides::extent(&sides));
    let panel = sides::panel(x, y, sides);
    let caption = "Mean stay of messages in each component, by phase: from the passage that brings a message to the first that takes \
                   it on.";
    Chart::new("chart-stays", caption).panel(panel)
}

fn phase_name(phase: &PhaseSummary) -> String {
    if phase.name.is_empty() { "capture".to_owned() } else { phase.name.clone() }
}

fn slowest(dissection: &DissectionSummary) -> Markup {
    let columns = [
        Column::Text("Phase"),
        Column::Text("Component"),
        Column::Number("Messages"),
        Column::Number("Stay p50"),
        Column::Number("Stay p99"),
        Column::Number("Share"),
        Column::Number("At once"),
        Column::Number("Lost"),
    ];
    let told = |phase: &PhaseSummary| {
        let residences = phase.traces.residences.iter();
        let name = phase_name(phase);
        residences
            .map(|residence| {
                html! {
                    tr {
                        th scope="row" { (name) }
                        td { (residence.component) }
                        (count_cell(residence.times.n, Tone::Plain))
                        (time_cell(residence.times.p50))
                        (time_cell(residence.times.p99))
                        (number_cell(Some(percent(residence.share))))
                        (number_cell(residence.present.map(level::rate)))
                        (count_cell(residence.lost, Tone::Violation))
                    }
                }
            })
            .collect::<Vec<_>>()
    };
    let rows: Vec<Markup> = dissection.phases.iter().filter(|phase| phase.measured).flat_map(told).collect();
    html! {
        (table(&columns, &rows))
        p.note { "The slowest component of each phase stands first; the share is its part of all stays. At once are the messages in it on \
                  average: how many came per second times their mean stay (Little\u{2019}s law)." }
    }
}

fn losses(dissection: &DissectionSummary) -> Markup {
    let messages = &dissection.messages;
    let is_run = dissection.phases.iter().any(|phase| !phase.name.is_empty());
    html! {
        @if messages.duplicated > 0 {
            p {
                (text::count(messages.duplicated as f64)) " of " (text::count(messages.marked as f64))
                " marked messages came to subscribers more often than they should."
            }
            ul {
                @for (component, doubled) in &dissection.duplicates_by_component {
                    li { (text::count(*doubled as f64)) " were first passed on once more by " strong { (component) } }
                }
            }
        }
        @if messages.lost > 0 {
            p {
                (text::count(messages.lost as f64)) " of " (text::count(messages.marked as f64))
                " marked messages were lost."
                @if is_run { " Those of warm-ups count here; the ledger counts what was due in the holds." }
            }
            ul {
                @for (component, lost) in &dissection.losses_by_component {
                    li { (text::count(*lost as f64)) " were " strong { (last_seen(component)) } }
                }
            }
            (table(
                &[Column::Number("Device"), Column::Number("Message"), Column::Text("Last at"), Column::Text("Seen last")],
                &dissection.lost.iter().take(NAMED).map(|lost| html! {
                    tr {
                        (number_cell(Some(lost.device.clone())))
                        (number_cell(Some(lost.sequence.to_string())))
                        td { (lost.component) }
                        td { (lost.last) }
                    }
                }).collect::<Vec<_>>(),
            ))
        }
    }
}
