//! What the wire said: who called whom, which way messages went, where they stayed and where they were lost.

use crate::html::figure::{self, BLUE, CURVES, Figure, PURPLE};
use crate::html::table::{Column, Tone, count_cell, number_cell, percent, table, time_cell};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::dissection::{DissectionSummary, ServiceSummary, TimesSummary, last_seen};
use plotly::box_plot::BoxPoints;
use plotly::common::{Line, Marker, MarkerSymbol, Mode, Orientation};
use plotly::{BoxPlot, Scatter};
use std::collections::BTreeSet;

/// Services in a chart.
const CHARTED: usize = 12;
/// Services whose bytes are drawn over time.
const DRAWN: usize = 6;
/// Services in the matrix, by side.
const MATRIX: usize = 12;
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
            (times_chart(&services).render(
                "Response time of each service, from the last byte of a request to the last of its response, as captured: the box \
                 holds the middle half, whiskers reach 1.5 box lengths, the dot is the slowest."
            ))
            (service_table(&services))
            (bytes_chart(&services).render(
                "Bytes per second between caller and called: sent by the caller above zero, received below."
            ))
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
    let mut columns = vec![Column::Text("Calls")];
    columns.extend(servers.iter().map(|server| Column::Number(server)));
    let cell = |client: &str, server: &str| {
        let both = services.iter().filter(|service| service.client == client && service.server == server);
        let lines: Vec<String> = both
            .map(|service| {
                let bytes = text::bytes((service.bytes_sent + service.bytes_received) as f64);
                let count = text::count(service.count as f64);
                let (p50, p99) = (text::time(service.p50), text::time(service.p99));
                format!("{}: {count}, {p50}, {p99}, {bytes}", service.protocol)
            })
            .collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    };
    let rows: Vec<Markup> = clients
        .iter()
        .map(|client| {
            html! {
                tr {
                    th scope="row" { (client) }
                    @for server in &servers { (number_cell(cell(client, server))) }
                }
            }
        })
        .collect();
    html! {
        (table(&columns, &rows))
        p.note { "Protocol: requests, median and 99th percentile of the response time, bytes both ways." }
    }
}

fn label(service: &ServiceSummary) -> String {
    format!("{} \u{2192} {} ({})", service.client, service.server, service.protocol)
}

fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e3).max(1e-6)
}

fn times_chart(services: &[&ServiceSummary]) -> Figure {
    let shown: Vec<&&ServiceSummary> =
        services.iter().filter(|service| service.response_time.n > 0).take(CHARTED).collect();
    let times = || shown.iter().map(|service| &service.response_time);
    let part = |pick: fn(&TimesSummary) -> Option<f64>| -> Vec<f64> {
        times().map(|times| milliseconds(pick(times).unwrap_or_default())).collect()
    };
    let whisker = |end: usize| -> Vec<f64> {
        times().map(|times| milliseconds(times.whiskers.map_or(0.0, |ends| ends[end]))).collect()
    };
    let values = times().flat_map(|times| [times.p25, times.p99, times.max]).flatten().map(milliseconds);
    let names: Vec<String> = shown.iter().map(|service| label(service)).collect();
    let layout = figure::layout()
        .x_axis(figure::log_axis("Response time (ms, log scale)", values))
        .y_axis(figure::axis("").show_grid(false));
    let mut chart = Figure::new("chart-services", 120 + 44 * shown.len(), layout);
    let slowest: Vec<Vec<f64>> = part(|times| times.max).into_iter().map(|max| vec![max]).collect();
    let boxes: Box<BoxPlot<Vec<f64>, String>> = BoxPlot::new_xy(slowest, names)
        .orientation(Orientation::Horizontal)
        .lower_fence(whisker(0))
        .q1(part(|times| times.p25))
        .median(part(|times| times.p50))
        .q3(part(|times| times.p75))
        .upper_fence(whisker(1))
        .box_points(BoxPoints::All)
        .jitter(0.0)
        .point_pos(0.0)
        .show_legend(false)
        .marker(Marker::new().color(BLUE).size(5).symbol(MarkerSymbol::CircleOpen))
        .line(Line::new().color(BLUE).width(1.5));
    chart.add(boxes);
    chart
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
                    th scope="row" { (label(service)) }
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

fn bytes_chart(services: &[&ServiceSummary]) -> Figure {
    let mut drawn: Vec<&&ServiceSummary> = services.iter().collect();
    drawn.sort_by_key(|service| std::cmp::Reverse(service.bytes_sent + service.bytes_received));
    drawn.truncate(DRAWN);
    let first = drawn.iter().filter_map(|service| service.seconds.first()).map(|(second, ..)| *second).min();
    let first = first.unwrap_or_default();
    let layout =
        figure::layout().x_axis(figure::axis("Time (s)").show_grid(false)).y_axis(figure::axis("KiB/s"));
    let mut chart = Figure::new("chart-service-bytes", 360, layout);
    for (service, colour) in drawn.iter().zip(CURVES) {
        let at: Vec<i64> = service.seconds.iter().map(|(second, ..)| second - first).collect();
        let sent: Vec<f64> = service.seconds.iter().map(|(_, sent, _)| *sent as f64 / 1024.0).collect();
        let received: Vec<f64> =
            service.seconds.iter().map(|(.., received)| *received as f64 / -1024.0).collect();
        for (direction, values) in [("sent", sent), ("received", received)] {
            chart.add(
                Scatter::new(at.clone(), values)
                    .mode(Mode::Lines)
                    .name(label(service))
                    .legend_group(label(service))
                    .show_legend(direction == "sent")
                    .line(Line::new().color(colour).width(1.5)),
            );
        }
    }
    chart
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
            (residences_chart(dissection).render(
                "Mean stay of messages in each component, by phase: from the passage that brings a message to the first that takes it \
                 on."
            ))
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

fn residences_chart(dissection: &DissectionSummary) -> Figure {
    let phases: Vec<_> =
        dissection.phases.iter().filter(|phase| phase.measured && phase.traces.messages > 0).collect();
    let mut components: Vec<&str> = Vec::new();
    for residence in
        phases.iter().flat_map(|phase| &phase.traces.residences).filter(|residence| residence.times.n > 0)
    {
        if !components.contains(&residence.component.as_str()) {
            components.push(&residence.component);
        }
    }
    let names: Vec<String> = phases
        .iter()
        .map(|phase| if phase.name.is_empty() { "capture".to_owned() } else { phase.name.clone() })
        .collect();
    let layout = figure::layout()
        .bar_mode(plotly::layout::BarMode::Stack)
        .x_axis(figure::axis("").show_grid(false))
        .y_axis(figure::axis("Mean stay (ms)"));
    let mut chart = Figure::new("chart-stays", 380, layout);
    for (place, component) in components.iter().enumerate() {
        let residence = |phase: &&plimsoll_analysis::dissection::PhaseSummary| {
            let residence =
                phase.traces.residences.iter().find(|residence| residence.component == *component);
            residence.and_then(|residence| residence.times.mean).unwrap_or_default() * 1e3
        };
        let colour = CURVES.get(place % CURVES.len()).copied().unwrap_or(PURPLE);
        chart.add(
            plotly::Bar::new(names.clone(), phases.iter().map(residence).collect())
                .name(*component)
                .marker(Marker::new().color(colour)),
        );
    }
    chart
}

fn slowest(dissection: &DissectionSummary) -> Markup {
    let columns = [
        Column::Text("Phase"),
        Column::Text("Component"),
        Column::Number("Messages"),
        Column::Number("Stay p50"),
        Column::Number("Stay p99"),
        Column::Number("Share"),
        Column::Number("Lost"),
    ];
    let told = |phase: &plimsoll_analysis::dissection::PhaseSummary| {
        let residences = phase.traces.residences.iter();
        let name = if phase.name.is_empty() { "capture".to_owned() } else { phase.name.clone() };
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
                        (count_cell(residence.lost, Tone::Violation))
                    }
                }
            })
            .collect::<Vec<_>>()
    };
    let rows: Vec<Markup> = dissection.phases.iter().filter(|phase| phase.measured).flat_map(told).collect();
    html! {
        (table(&columns, &rows))
        p.note { "The slowest component of each phase stands first; the share is its part of all stays." }
    }
}

fn losses(dissection: &DissectionSummary) -> Markup {
    let messages = &dissection.messages;
    html! {
        @if messages.lost > 0 {
            p {
                (text::count(messages.lost as f64)) " of " (text::count(messages.marked as f64))
                " marked messages were lost:"
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
