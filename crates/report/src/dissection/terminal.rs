//! A capture's summary on 80 columns.

use crate::text::{bytes, count, time, wrapped};
use plimsoll_analysis::dissection::{DissectionSummary, PhaseSummary, ServiceSummary, last_seen};

/// Services that are listed.
const SERVICES: usize = 20;
/// Lost messages that are named.
const NAMED: usize = 5;
/// Stalls that are listed.
const STALLS: usize = 10;
/// Origins of errors that are listed.
const ERRORS: usize = 10;

/// Packets, protocols, services, the way of messages, and what was lost or not understood.
pub fn render(summary: &DissectionSummary) -> String {
    let mut out = head(summary);
    out += &protocols(summary);
    out += &services(&summary.services);
    out += &traces(&summary.phases);
    out += &losses(summary);
    out += &errors(summary);
    out += &stalls(summary);
    out += &doubts(summary);
    out
}

fn lines(out: &mut String, text: &str, indent: &str) {
    for line in wrapped(text, indent) {
        *out += &format!("{line}\n");
    }
}

fn head(summary: &DissectionSummary) -> String {
    let mut out = String::new();
    let text = format!(
        "{} packets, {} in {}; {} segments sent again{}",
        count(summary.packets as f64),
        bytes(summary.bytes as f64),
        time(Some(summary.duration)),
        count(summary.retransmissions as f64),
        match summary.retransmission_delay.p50 {
            Some(delay) => format!(" ({} later, median)", time(Some(delay))),
            None => String::new(),
        }
    );
    lines(&mut out, &text, "");
    let tls = &summary.tls;
    if tls.conversations > 0 {
        let [all, opened] = [tls.conversations, tls.opened].map(|number| count(number as f64));
        lines(&mut out, &format!("{all} conversations under TLS, {opened} of them opened"), "");
    }
    out
}

fn protocols(summary: &DissectionSummary) -> String {
    if summary.protocols.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "\n{:<11}{:>10}{:>10}{:>11}{:>8}{:>9}{:>10}{:>11}\n",
        "protocol", "requests", "answered", "unanswered", "errors", "one-way", "notices", "bytes"
    );
    for (name, protocol) in &summary.protocols {
        out += &format!(
            "{:<11}{:>10}{:>10}{:>11}{:>8}{:>9}{:>10}{:>11}\n",
            name,
            count(protocol.requests as f64),
            count(protocol.responses as f64),
            count(protocol.unanswered as f64),
            count(protocol.errors as f64),
            count(protocol.one_way as f64),
            count(protocol.notices as f64),
            bytes(protocol.bytes as f64)
        );
    }
    out
}

fn services(services: &[ServiceSummary]) -> String {
    let told: Vec<&ServiceSummary> = services.iter().filter(|service| service.count > 0).collect();
    if told.is_empty() {
        return String::new();
    }
    let mut out =
        format!("\n{:<40}{:>10}{:>10}{:>10}{:>10}\n", "who calls whom", "count", "p50", "p99", "bytes");
    for service in told.iter().take(SERVICES) {
        let who = format!("{} > {} {}", service.client, service.server, service.protocol);
        let numbers = format!(
            "{:>10}{:>10}{:>10}{:>10}",
            count(service.count as f64),
            time(service.p50),
            time(service.p99),
            bytes((service.bytes_sent + service.bytes_received) as f64)
        );
        if who.chars().count() > 39 {
            lines(&mut out, &who, "");
            out += &format!("{:<40}{numbers}\n", "");
        } else {
            out += &format!("{who:<40}{numbers}\n");
        }
    }
    if told.len() > SERVICES {
        out += &format!("and {} more: --summary-json lists all\n", told.len() - SERVICES);
    }
    out
}

/// The way of most messages of the busiest phase, and where those of each phase that is measured stayed.
fn traces(phases: &[PhaseSummary]) -> String {
    let told: Vec<&PhaseSummary> =
        phases.iter().filter(|phase| phase.measured && phase.traces.messages > 0).collect();
    let Some(busiest) = told.iter().max_by_key(|phase| phase.traces.messages) else { return String::new() };
    let mut out = String::from("\n");
    let when = if busiest.name.is_empty() { String::new() } else { format!("{}: ", busiest.name) };
    let text = format!(
        "{when}the way of {} marked messages; {} from the first passage to the last (median)",
        count(busiest.traces.messages as f64),
        time(busiest.traces.total.p50)
    );
    lines(&mut out, &text, "");
    for step in &busiest.traces.path {
        let share = if step.share < 0.9999 {
            format!(", {:.1} % of them", step.share * 100.0)
        } else {
            String::new()
        };
        let verb = if step.verb.is_empty() {
            step.protocol.clone()
        } else {
            format!("{} {}", step.protocol, step.verb)
        };
        let text = format!("{} > {} ({verb}) after {}{share}", step.from, step.to, time(step.since_first));
        lines(&mut out, &text, "  ");
    }
    for phase in told {
        out += &residences(phase);
    }
    out
}

fn residences(phase: &PhaseSummary) -> String {
    let residences: Vec<_> =
        phase.traces.residences.iter().filter(|residence| residence.times.n > 0).collect();
    if residences.is_empty() {
        return String::new();
    }
    let when =
        if phase.name.is_empty() { "stayed in".to_owned() } else { format!("{}: stayed in", phase.name) };
    let mut out = format!("{when:<50}{:>10}{:>10}{:>9}\n", "p50", "p99", "share");
    for residence in residences {
        let numbers = format!(
            "{:>10}{:>10}{:>7.1} %",
            time(residence.times.p50),
            time(residence.times.p99),
            residence.share * 100.0
        );
        let name = format!("  {}", residence.component);
        if name.chars().count() > 49 {
            lines(&mut out, &residence.component, "  ");
            out += &format!("{:<50}{numbers}\n", "");
        } else {
            out += &format!("{name:<50}{numbers}\n");
        }
    }
    out
}

fn losses(summary: &DissectionSummary) -> String {
    let messages = &summary.messages;
    let mut out = duplicates(summary);
    if messages.lost == 0 {
        return out;
    }
    out += "\n";
    lines(
        &mut out,
        &format!("{} of {} marked messages lost", count(messages.lost as f64), count(messages.marked as f64)),
        "",
    );
    for (component, lost) in &summary.losses_by_component {
        lines(&mut out, &format!("{} were {}", count(*lost as f64), last_seen(component)), "  ");
    }
    for lost in summary.lost.iter().take(NAMED) {
        lines(
            &mut out,
            &format!("device {} message {}: last {}", lost.device, lost.sequence, lost.last),
            "    ",
        );
    }
    if summary.lost.len() > NAMED {
        out += "    and more: --summary-json names them\n";
    }
    out
}

fn duplicates(summary: &DissectionSummary) -> String {
    let messages = &summary.messages;
    if messages.duplicated == 0 {
        return String::new();
    }
    let mut out = String::from("\n");
    let told = format!(
        "{} of {} marked messages came more often than they should",
        count(messages.duplicated as f64),
        count(messages.marked as f64)
    );
    lines(&mut out, &told, "");
    for (component, doubled) in &summary.duplicates_by_component {
        lines(
            &mut out,
            &format!("{} were first passed on once more by {component}", count(*doubled as f64)),
            "  ",
        );
    }
    out
}

/// Who answered with errors that were nobody else's.
fn errors(summary: &DissectionSummary) -> String {
    let mut out = String::new();
    for error in summary.errors.iter().take(ERRORS) {
        lines(&mut out, &error.told(), "  ");
    }
    if summary.errors.len() > ERRORS {
        out += &format!("  and {} more: --summary-json lists them\n", summary.errors.len() - ERRORS);
    }
    if out.is_empty() { out } else { format!("\nerrors, by who answered so first\n{out}") }
}

/// When nothing was answered, and by whom.
fn stalls(summary: &DissectionSummary) -> String {
    let mut out = String::new();
    for stall in summary.stalls.iter().take(STALLS) {
        lines(&mut out, &stall.told(), "  ");
    }
    if summary.stalls.len() > STALLS {
        out += &format!("  and {} more: --summary-json lists them\n", summary.stalls.len() - STALLS);
    }
    if out.is_empty() { out } else { format!("\nstood still\n{out}") }
}

/// What stands between the capture and the truth.
fn doubts(summary: &DissectionSummary) -> String {
    let mut out = String::new();
    for doubt in summary.doubts() {
        lines(&mut out, &doubt, "  ");
    }
    if out.is_empty() { out } else { format!("\nbeside that\n{out}") }
}

/// Lines are no wider than the terminal, where no name is.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::WIDTH;
    use plimsoll_analysis::dissection::{PathStep, ResidenceSummary, TimesSummary, TraceSummary};

    #[test]
    fn it_reads_on_80_columns() {
        let long = "127.0.0.1, from 127.0.0.1:1883 to 127.0.0.1:6379".to_owned();
        let times = TimesSummary { n: 3, p50: Some(0.0081234), p99: Some(0.025), ..TimesSummary::default() };
        let service = ServiceSummary {
            client: long.clone(),
            server: "127.0.0.1:6379".into(),
            protocol: "redis".into(),
            count: 1_234_567,
            p50: Some(1.5e-5),
            ..ServiceSummary::default()
        };
        let step =
            PathStep { from: long.clone(), to: "127.0.0.1:6379".into(), share: 0.5, ..PathStep::default() };
        let residence =
            ResidenceSummary { component: long, times, share: 0.7, asks: None, lost: 3, present: None };
        let traces = TraceSummary {
            messages: 600,
            residences: vec![residence],
            path: vec![step],
            ..TraceSummary::default()
        };
        let summary = DissectionSummary {
            packets: 790_170,
            missing_bytes: 7000,
            services: vec![service],
            phases: vec![PhaseSummary { traces, measured: true, ..PhaseSummary::default() }],
            ..DissectionSummary::default()
        };
        let text = render(&summary);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("beside that") && text.contains("70.0 %"), "{text}");
    }
}
