//! The result on 80 columns, with or without colour.

use crate::plain;
use plimsoll_analysis::blame::Blame;
use plimsoll_analysis::event_life::EventLife;
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::summary::{LoadLine, Summary};
use plimsoll_model::{Nanos, Verdict};

pub(crate) const WIDTH: usize = 80;

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// ANSI colours.
    On,
    /// Plain text.
    Off,
}

/// What was due is said beside what was asked for where it differs by more than this share.
const FAR: f64 = 0.05;

/// Verdict, load line, table of levels, reasons, ledger where it is not clean, generator and components.
pub fn render(summary: &Summary, colour: Colour) -> String {
    let mut out = format!("{}\n", headline(summary, colour));
    for line in wrapped(&summary.reason, "  ") {
        out += &format!("{line}\n");
    }
    for line in summary.notes.iter().flat_map(|note| wrapped(note, "  ")) {
        out += &format!("{line}\n");
    }
    if let Some(limited_by) = summary.load_line.as_ref().and_then(|line| line.limited_by.as_ref()) {
        for line in wrapped(&format!("next level: {limited_by}"), "  ") {
            out += &format!("{line}\n");
        }
    }
    if summary.levels.is_empty() {
        return out;
    }
    out += &format!("\n{}\n", table_header());
    for level in &summary.levels {
        out += &format!("{}\n", table_row(level, colour));
    }
    out += &reasons(summary);
    out += &connections(summary);
    out += &outages(summary);
    out += &northbound(summary);
    out += &event_lives(summary);
    out += &wire(summary);
    out += &sizes(summary);
    out += &rises(summary);
    out += &ledger(summary);
    out += &format!("\n{}\n", generator(summary));
    for component in &summary.components {
        out += &format!(
            "{:<10} cpu mean {:.0} % max {:.0} %{}, memory {}, {} files\n",
            plain::line(&component.name),
            component.cpu_mean * 100.0,
            component.cpu_max * 100.0,
            component.run_delay.map(|wait| format!(", waits {:.0} %", wait * 100.0)).unwrap_or_default(),
            bytes(component.rss_max as f64),
            component.descriptors_max
        );
    }
    if let Some(dissection) = &summary.dissection {
        out += &format!("\nthe wire\n{}", crate::dissection::terminal::render(dissection));
    }
    for line in wrapped(&format!("objectives: {}", summary.objectives.join(", ")), "") {
        out += &format!("{line}\n");
    }
    out
}

/// One line about a level that has just ended.
pub fn level_line(level: &LevelSummary, colour: Colour) -> String {
    table_row(level, colour)
}

/// The head of the table of levels.
pub fn table_header() -> String {
    format!(
        "{:>9}{:>10}{:>10}{:>9}{:>9}{:>9}{:>10}  {}",
        "offered", "achieved", "delivered", "pub p50", "pub p99", "sub p99", "late p99", "verdict"
    )
}

fn headline(summary: &Summary, colour: Colour) -> String {
    let name = summary.verdict.name().to_uppercase();
    let verdict = paint(&name, verdict_colour(summary.verdict), colour);
    let line = match &summary.load_line {
        Some(line) => {
            let at_least = if line.at_least { "at least " } else { "" };
            format!(
                "load line: {at_least}{} (level {} of {})",
                load_line(line),
                line.level + 1,
                summary.levels.len()
            )
        }
        None => "no load line".to_owned(),
    };
    format!("{verdict}  {line}  [{} run {}]", plain::line(&summary.name), summary.run)
}

/// The load line with its unit: `64,000 msg/s`, `5,000 devices` or `500 connections/s`.
pub fn load_line(line: &LoadLine) -> String {
    match (line.connect_rate, line.devices, line.rate) {
        (Some(connects), ..) => format!("{} connections/s", rate(connects)),
        (None, Some(devices), _) => format!("{} devices", count(f64::from(devices))),
        (None, None, Some(offered)) => format!("{} msg/s", rate(offered)),
        (None, None, None) => "nothing".to_owned(),
    }
}

fn table_row(level: &LevelSummary, colour: Colour) -> String {
    let offered = match (level.offered, level.in_flight, level.connect_rate) {
        (Some(rate), ..) => format!("{}/s", self::rate(rate)),
        (None, Some(in_flight), _) => format!("{in_flight} open"),
        (None, None, Some(connects)) => format!("{} con/s", self::rate(connects)),
        (None, None, None) => format!("{} dev", count(f64::from(level.devices.unwrap_or(0)))),
    };
    let achieved = level.achieved.map(|rate| format!("{}/s", self::rate(rate))).unwrap_or_default();
    let delivered = match level.expected_deliveries {
        0 => "-".to_owned(),
        _ => level.delivered_ratio().map_or("-".into(), |share| format!("{} %", floor_percent(share))),
    };
    let tint = match level.verdict {
        LevelVerdict::Met => Tint::Green,
        LevelVerdict::Missed => Tint::Red,
        LevelVerdict::Undecided | LevelVerdict::Invalid | LevelVerdict::Unfinished => Tint::Yellow,
    };
    format!(
        "{offered:>9}{achieved:>10}{delivered:>10}{:>9}{:>9}{:>9}{:>10}  {}",
        time(level.publish_time.p50),
        time(level.publish_time.p99),
        time(level.subscribe_time.p99),
        time(level.generator.lateness.p99),
        paint(level.verdict.name(), tint, colour),
    )
    .trim_end()
    .to_owned()
}

fn reasons(summary: &Summary) -> String {
    let mut out = String::new();
    for level in summary.levels.iter().filter(|level| level.verdict != LevelVerdict::Met) {
        let text = format!("{} {}: {}", level.label(), level.verdict.name(), level.why());
        out += &wrapped(&text, "  ").join("\n");
        out.push('\n');
        for line in level.blame.iter().flat_map(|blame| wrapped(&blamed(level, blame), "    ")) {
            out += &format!("{line}\n");
        }
    }
    for text in summary.levels.iter().filter_map(few_due) {
        out += &wrapped(&text, "  ").join("\n");
        out.push('\n');
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// Who is to blame, and what shows it where the reasons of the level do not.
pub fn blamed(level: &LevelSummary, blame: &Blame) -> String {
    let who = blame.component.clone().unwrap_or_else(|| blame.culprit.name().to_owned());
    let is_new = !level.reasons.contains(&blame.evidence) && !blame.evidence.is_empty();
    if is_new { format!("blamed: {who}: {}", blame.evidence) } else { format!("blamed: {who}") }
}

/// Where clearly more or less was due than was asked for, as random arrivals fall.
fn few_due(level: &LevelSummary) -> Option<String> {
    let offered = level.offered.filter(|_| level.finished && level.hold > 0.0)?;
    let due = level.due as f64 / level.hold;
    ((due / offered - 1.0).abs() > FAR).then(|| {
        format!(
            "{}: {} were due in {} s, {}/s, as random arrivals fell",
            level.label(),
            level.due,
            level.hold,
            rate(due)
        )
    })
}

/// Levels in which connections were lost and made again.
fn outages(summary: &Summary) -> String {
    let mut out = String::new();
    for level in summary.levels.iter().filter(|level| level.has_outages()) {
        let number = |clients: Option<u32>| count(clients.unwrap_or(0).into());
        let (back, lost) = (number(level.clients_back), number(level.clients_lost));
        let mut text = format!("{}: {back} of {lost} lost clients came back", level.label());
        if let Some(recovery) = level.recovery {
            text += &format!(", all within {}", time(Some(recovery)));
        }
        if level.clients_away_before.is_some_and(|away| away > 0) {
            text += &format!("; {} lost earlier stayed away", number(level.clients_away_before));
        }
        if let Some(p50) = level.outage.p50 {
            text += &format!("; outages of {} at p50", time(Some(p50)));
        }
        out += &wrapped(&text, "  ").join("\n");
        out.push('\n');
    }
    if out.is_empty() { out } else { format!("\noutages\n{out}") }
}

/// What the platform's users met meanwhile.
fn northbound(summary: &Summary) -> String {
    let mut out = String::new();
    for level in summary.levels.iter().filter(|level| level.queries > 0) {
        let unanswered = level.queries - level.queries_answered.min(level.queries);
        let told = format!(
            "{}: {} queries, {} unanswered or refused; query time p50 {}, p99 {}",
            level.label(),
            count(level.queries as f64),
            count(unanswered as f64),
            time(level.query_time.p50),
            time(level.query_time.p99),
        );
        out += &wrapped(&told, "  ").join("\n");
        out.push('\n');
    }
    if out.is_empty() { out } else { format!("\nnorthbound\n{out}") }
}

/// Where events spent their lives at a gateway and before it.
fn event_lives(summary: &Summary) -> String {
    let lives = summary.levels.iter().filter_map(|level| Some((level, level.event_life.as_ref()?)));
    let row = |(level, life): (&LevelSummary, &EventLife)| {
        let load = life.load.map_or("-".into(), |load| format!("{} %", floor_percent(load.min(1.0))));
        format!(
            "{:>9}{load:>10}{:>11}{:>11}{:>11}{:>11}{:>12}\n",
            level.label(),
            time(level.publish_time.p50),
            time(life.wait.p50),
            time(life.transfer.p50),
            time(life.dispatch.p50),
            time(life.processing.p50),
        )
    };
    let rows: String = lives.map(row).collect();
    if rows.is_empty() {
        return rows;
    }
    format!(
        "\nlives of events (medians)\n{:>9}{:>10}{:>11}{:>11}{:>11}{:>11}{:>12}\n{rows}",
        "level", "done", "response", "at device", "transfer", "dispatch", "processing"
    )
}

/// What connections cost below the protocol, where there is anything to tell.
fn wire(summary: &Summary) -> String {
    let levels = summary.levels.iter().map(|level| (level.label(), &level.wire));
    let mut out = String::new();
    for (label, wire) in std::iter::once(("set-up".to_owned(), &summary.wire)).chain(levels) {
        let told = wire.in_words(time);
        if !told.is_empty() {
            out += &wrapped(&format!("{label}: {}", told.join("; ")), "  ").join("\n");
            out.push('\n');
        }
    }
    if out.is_empty() { out } else { format!("\nconnections\n{out}") }
}

/// What a message weighs at the lowest level: levels rarely differ in that.
fn sizes(summary: &Summary) -> String {
    let sent = summary.levels.iter().filter(|level| level.sizes.request.is_some());
    let Some(level) = sent.min_by(|a, b| a.load().total_cmp(&b.load())) else { return String::new() };
    let sizes = &level.sizes;
    let parts =
        [("request", sizes.request), ("response", sizes.response), ("notification", sizes.notification)];
    let told = parts.into_iter().filter_map(|(name, parts)| {
        let parts = parts?;
        let (header, content) = (bytes(parts.application_header), bytes(parts.content));
        Some(format!("{name} {header} + {content}"))
    });
    let mut told: Vec<String> = told.collect();
    told.extend(sizes.data_per_message.map(|data| format!("{} on the wire per message", bytes(data))));
    let text = format!("sizes (header + content): {}", told.join(", "));
    format!("\n{}\n", wrapped(&text, "").join("\n"))
}

/// Why times rose over the lowest level.
fn rises(summary: &Summary) -> String {
    let mut out = String::new();
    for level in &summary.levels {
        let Some(inference) = &level.inference else { continue };
        let told = inference.in_words(level, |seconds| time(Some(seconds)));
        if !told.is_empty() {
            out += &wrapped(&format!("{}: {}", level.label(), told.join("; ")), "  ").join("\n");
            out.push('\n');
        }
    }
    if out.is_empty() { out } else { format!("\nwhy times rose over the lowest level\n{out}") }
}

/// Levels that connect devices: a table of their own.
fn connections(summary: &Summary) -> String {
    if summary.levels.iter().all(|level| level.devices.is_none()) {
        return String::new();
    }
    let mut out = format!(
        "\n{:>9}{:>11}{:>9}{:>8}{:>12}{:>12}{:>12}\n",
        "devices", "connected", "begun/s", "failed", "connect p50", "connect p99", "memory"
    );
    for level in &summary.levels {
        let rate = level.connect_rate.map_or("-".to_owned(), self::rate);
        out += &format!(
            "{:>9}{:>11}{rate:>9}{:>8}{:>12}{:>12}{:>12}\n",
            level.devices.map_or("-".to_owned(), |devices| count(f64::from(devices))),
            level.connected.map_or("-".to_owned(), |connected| count(f64::from(connected))),
            count(level.connect_failed as f64),
            time(level.connect_time.p50),
            time(level.connect_time.p99),
            level.platform_memory.map_or("-".to_owned(), |memory| bytes(memory as f64)),
        );
    }
    if let Some(memory) = summary.memory_per_connection.filter(|memory| *memory > 0.0) {
        out += &format!("each further connection takes {} of the platform's memory\n", bytes(memory));
    }
    out
}

/// Messages sent that were neither acknowledged nor refused; none where messages are not acknowledged.
fn unacknowledged(level: &LevelSummary) -> u64 {
    level.acknowledged.map_or(0, |acknowledged| level.sent.saturating_sub(acknowledged + level.refused))
}

/// Only what is not as it should be.
fn ledger(summary: &Summary) -> String {
    let mut out = String::new();
    for level in &summary.levels {
        let mut told: Vec<String> = [
            ("unsent", level.unsent),
            ("not acknowledged", unacknowledged(level)),
            ("refused", level.refused),
            ("sent again", level.repeated),
            ("retransmitted", level.retransmitted),
            ("superseded", level.superseded),
            ("lost", level.lost),
            ("late", level.late),
            ("duplicated", level.duplicated),
            ("reordered", level.reordered),
            ("foreign", level.foreign),
            ("unknown acknowledgements", level.unknown_acks),
            ("wills", level.wills),
            ("connections lost", level.disconnected),
            ("reconnected", level.reconnects),
            ("connecting failed", level.connect_failed),
        ]
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, number)| match (*name, level.lost_acknowledged, level.lost_unacknowledged) {
            ("lost", Some(taken), Some(not_taken)) => {
                let (all, taken) = (count(*number as f64), count(taken as f64));
                format!("lost {all} ({taken} acknowledged, {} not)", count(not_taken as f64))
            }
            _ => format!("{name} {}", count(*number as f64)),
        })
        .collect();
        if let Some(loss) = level.first_loss {
            told.push(format!(
                "first loss {} into the hold: message {} of device {}",
                loss.due_in_hold, loss.message_number, loss.device
            ));
        }
        // Where the level is not met, its reasons tell the incident.
        told.extend(level.incident.clone().filter(|_| level.verdict == LevelVerdict::Met));
        if !told.is_empty() {
            let text = format!("{}: {}", level.label(), told.join(", "));
            out += &wrapped(&text, "  ").join("\n");
            out += "\n";
        }
    }
    if out.is_empty() {
        let sent: u64 = summary.levels.iter().map(|level| level.sent).sum();
        let expected: u64 = summary.levels.iter().map(|level| level.expected_deliveries).sum();
        let (sent, told) = (count(sent as f64), count(expected as f64));
        let text = if expected == 0 {
            format!("ledger: {sent} sent; without subscribers no delivery is expected")
        } else {
            format!("ledger: {sent} sent, {told} deliveries expected, none lost, duplicated or out of order")
        };
        return format!("\n{}\n", wrapped(&text, "").join("\n"));
    }
    format!("\nledger\n{out}")
}

fn generator(summary: &Summary) -> String {
    let generator = &summary.generator;
    let cpu: Vec<String> =
        generator.cpu.iter().flatten().map(|share| format!("{:.0} %", share * 100.0)).collect();
    let mut line = format!("generator  late by {} at p99", time(generator.lateness.p99));
    if !cpu.is_empty() {
        line += &format!(", cpu {}", cpu.join(" "));
    }
    if let Some(cost) = generator.cpu_per_million {
        line += &format!(", {cost:.1} cpu s per million messages");
    }
    line
}

enum Tint {
    Green,
    Red,
    Yellow,
}

fn verdict_colour(verdict: Verdict) -> Tint {
    match verdict {
        Verdict::Met => Tint::Green,
        Verdict::Missed | Verdict::Failed => Tint::Red,
        Verdict::Invalid | Verdict::Interrupted | Verdict::Running => Tint::Yellow,
    }
}

fn paint(text: &str, tint: Tint, colour: Colour) -> String {
    let code = match tint {
        Tint::Green => 32,
        Tint::Red => 31,
        Tint::Yellow => 33,
    };
    match colour {
        Colour::On => format!("\x1b[1;{code}m{text}\x1b[0m"),
        Colour::Off => text.to_owned(),
    }
}

/// A time in seconds, for people; `-` where it does not exist.
pub fn time(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_owned(), |seconds| Nanos::from_secs_f64(seconds).to_string())
}

/// A rate: with thousands set apart, and with decimals where it is small.
pub fn rate(number: f64) -> String {
    if number >= 100.0 || number.fract() == 0.0 { count(number) } else { format!("{number:.2}") }
}

/// A whole number with thousands set apart.
pub fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}")
}

/// A share in percent with two digits, never rounded up to all of it.
pub fn floor_percent(share: f64) -> f64 {
    (share * 1e4 + 1e-6).floor() / 100.0
}

/// A size for people.
pub fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (bytes.max(1.0).log2() / 10.0).floor().min(4.0) as usize;
    let value = bytes / 1024f64.powi(power as i32);
    let unit = units.get(power).copied().unwrap_or("B");
    if power == 0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// Words on lines of the terminal's width, each line with an indent.
pub fn wrapped(text: &str, indent: &str) -> Vec<String> {
    let mut lines = vec![indent.to_owned()];
    for word in text.split_whitespace() {
        let fits = lines.last().is_some_and(|line| line.chars().count() + 1 + word.chars().count() <= WIDTH);
        match lines.last_mut() {
            Some(line) if line.len() == indent.len() => line.push_str(word),
            Some(line) if fits => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!([0.0, 999.0, 1000.0, 1_234_567.0].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([10.0, 2048.0, 3.5 * 1024.0 * 1024.0].map(bytes), ["10 B", "2.0 KiB", "3.5 MiB"]);
        assert_eq!(floor_percent(0.99999), 99.99);
    }

    #[test]
    fn long_texts_are_wrapped_and_indented() {
        let lines = wrapped(&"word ".repeat(40), "  ");
        assert!(lines.len() > 2 && lines.iter().all(|line| line.len() <= WIDTH && line.starts_with("  ")));
    }
}
