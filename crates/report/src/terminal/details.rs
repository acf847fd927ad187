//! What stands below the table of levels where everything is to be said.

use super::{connections, leniency, reason};
use crate::text::{bytes, count, floor_percent, rate, time, wrapped};
use crate::{cost, plain};
use plimsoll_analysis::clocks::{ClockStanding, ClockSummary};
use plimsoll_analysis::event_life::EventLife;
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::summary::{ComponentSummary, IdleUsage, Summary};
use plimsoll_model::Metric;

/// What was due is said beside what was asked for where it differs by more than this share.
const FAR: f64 = 0.05;

/// How the levels were chosen, and why the next one is not met.
pub fn notes(summary: &Summary) -> String {
    let limited = summary.load_line.as_ref().and_then(|line| line.limited_by.as_ref());
    let next = limited.map(|limited_by| format!("next level: {limited_by}"));
    let leniency = leniency(summary);
    // What the headline says, stands there.
    let notes = summary.notes.iter().filter(|note| !summary.reason.contains(note.as_str()));
    let lines = notes.chain(&next).chain(&leniency).flat_map(|note| wrapped(note, "  "));
    lines.map(|line| line + "\n").collect()
}

/// Reasons of each level, connections, ledger where it is not clean, generator, components, the wire, objectives.
pub fn render(summary: &Summary) -> String {
    let mut out = reasons(summary);
    out += &connections(summary);
    out += &outages(summary);
    out += &northbound(summary);
    out += &event_lives(summary);
    out += &wire(summary);
    out += &management(summary);
    out += &sizes(summary);
    out += &rises(summary);
    out += &ledger(summary);
    out += &format!("\n{}\n", generator(summary));
    out += &clocks(summary);
    for component in &summary.components {
        out += &format!(
            "{:<10} cpu mean {:.0} % max {:.0} %{}{}{}, memory {}{}\n",
            plain::line(&component.name),
            component.cpu_mean * 100.0,
            component.cpu_max * 100.0,
            idle(component),
            component.run_delay.map(|wait| format!(", waits {:.0} %", wait * 100.0)).unwrap_or_default(),
            throttled(component),
            bytes(component.rss_max as f64),
            component.descriptors_max.map(|count| format!(", {count} files")).unwrap_or_default()
        );
    }
    out += &cost_and_energy(summary);
    if let Some(dissection) = &summary.dissection {
        out += &format!("\nthe wire\n{}", crate::dissection::terminal::render(dissection));
    }
    for line in wrapped(&format!("objectives: {}", summary.objectives.join(", ")), "") {
        out += &format!("{line}\n");
    }
    out
}

/// What the platform costs, and what its host's processors take in energy.
fn cost_and_energy(summary: &Summary) -> String {
    let cost = summary.cost.as_ref().map(cost::in_words);
    let energy = summary.energy.as_ref().map(cost::energy_in_words);
    let lines = cost.iter().chain(&energy).flat_map(|said| wrapped(&plain::line(said).to_string(), ""));
    lines.map(|line| line + "\n").collect()
}

fn throttled(component: &ComponentSummary) -> String {
    let share = component.throttled * 100.0;
    if share < 1.0 {
        String::new()
    } else {
        format!(", kept from running by its quota {share:.0} % of the run")
    }
}

/// What it used without load, where that was recorded.
fn idle(component: &ComponentSummary) -> String {
    let told = |idle: &IdleUsage| format!(" idle {:.1} %", idle.cpu_mean * 100.0);
    component.idle.as_ref().map(told).unwrap_or_default()
}

fn reasons(summary: &Summary) -> String {
    let mut out = String::new();
    for level in summary.levels.iter().filter(|level| level.verdict != LevelVerdict::Met) {
        out += &reason(level);
    }
    for text in summary.levels.iter().filter_map(few_due) {
        out += &wrapped(&text, "  ").join("\n");
        out.push('\n');
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// Where clearly more or less was due than was asked for, as random arrivals fall, or those of a part of a trace.
pub fn few_due(level: &LevelSummary) -> Option<String> {
    let offered = level.load.offered().filter(|_| level.finished && level.hold > 0.0)?;
    let due = level.due as f64 / level.hold;
    // Between the first and the last of a number that is given, there is one gap less.
    let is_more_than_one = (level.due as f64 - offered * level.hold).abs() > 1.5;
    (is_more_than_one && (due / offered - 1.0).abs() > FAR).then(|| {
        format!(
            "{}: {} were due in {}, {}/s, as arrivals fell",
            level.load,
            level.due,
            time(Some(level.hold)),
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
        let mut text = format!("{}: {back} of {lost} lost clients came back", level.load);
        if level.disconnected > u64::from(level.clients_lost.unwrap_or(0)) {
            text = format!(
                "{}: {lost} clients lost their connection {} times, and {back} of them were back at the end",
                level.load,
                count(level.disconnected as f64)
            );
        }
        if let Some(recovery) = level.recovery {
            text += &format!(", all within {}", time(Some(recovery)));
        }
        if level.clients_away_before.is_some_and(|away| away > 0) {
            text += &format!("; {} lost earlier stayed away", number(level.clients_away_before));
        }
        if let Some(p50) = level.times[Metric::Outage].p50 {
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
            level.load,
            count(level.queries as f64),
            count(unanswered as f64),
            time(level.times[Metric::QueryTime].p50),
            time(level.times[Metric::QueryTime].p99),
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
            level.load,
            time(level.times[Metric::PublishTime].p50),
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
    let levels = summary.levels.iter().map(|level| (level.load.to_string(), &level.wire));
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

/// Device management beside messages, where devices are managed.
fn management(summary: &Summary) -> String {
    let mut out = String::new();
    for level in &summary.levels {
        let told = level.management.as_ref().map(|own| own.in_words(time)).unwrap_or_default();
        if !told.is_empty() {
            out += &wrapped(&format!("{}: {}", level.load, told.join("; ")), "  ").join("\n");
            out.push('\n');
        }
    }
    if out.is_empty() { out } else { format!("\ndevice management\n{out}") }
}

/// What a message weighs at the lowest level: levels rarely differ in that.
fn sizes(summary: &Summary) -> String {
    let sent = summary.levels.iter().filter(|level| level.sizes.request.is_some());
    let Some(level) = sent.min_by(|a, b| a.load.amount().total_cmp(&b.load.amount())) else {
        return String::new();
    };
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

/// Why times rose over the level that they are compared with.
fn rises(summary: &Summary) -> String {
    let mut out = String::new();
    for level in &summary.levels {
        let Some(inference) = &level.inference else { continue };
        let told = inference.in_words(level, |seconds| time(Some(seconds)));
        if !told.is_empty() {
            out += &wrapped(&format!("{}: {}", level.load, told.join("; ")), "  ").join("\n");
            out.push('\n');
        }
    }
    let reference = summary.levels.iter().find_map(|level| level.inference.as_ref()).map(|one| one.reference);
    let reference = summary.levels.iter().find(|level| Some(level.index) == reference);
    let over = reference.map_or_else(|| "the lowest level".to_owned(), |level| level.load.to_string());
    if out.is_empty() { out } else { format!("\nwhy times rose over {over}\n{out}") }
}

/// Only what is not as it should be.
fn ledger(summary: &Summary) -> String {
    let mut out = String::new();
    for level in &summary.levels {
        let mut told: Vec<String> = [
            ("unsent", level.unsent),
            ("not acknowledged", level.unacknowledged()),
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
            let text = format!("{}: {}", level.load, told.join(", "));
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

/// How the clocks of workers stood, and how uncertain that makes times from one of them to another one.
fn clocks(summary: &Summary) -> String {
    let mut out = String::new();
    for level in summary.levels.iter().filter(|level| !level.clocks.is_empty()) {
        let text = format!("{}: {}", level.load, clocks_in_words(level));
        out += &wrapped(&plain::line(&text), "  ").join("\n");
        out.push('\n');
    }
    if out.is_empty() { out } else { format!("\nclocks of workers\n{out}") }
}

/// Each clock at the end of a level, and what went from one to another one.
pub fn clocks_in_words(level: &LevelSummary) -> String {
    let clock = |clock: &ClockSummary| {
        let ClockStanding { offset, within, drift, by_wall_clock, .. } = clock.ended;
        let by = if by_wall_clock { " by clock_bound" } else { "" };
        let within = time(Some(clock.began.within.max(within)));
        format!("{} ahead by {offset:.6} s, within {within}{by}, drift {drift:.1} ppm", clock.worker)
    };
    let clocks: Vec<String> = level.clocks.iter().map(clock).collect();
    let crossed = level.crossed.map(|crossed| {
        let deliveries = count(crossed.deliveries as f64);
        format!("; {deliveries} deliveries from one to another, each within {}", time(Some(crossed.within)))
    });
    format!("{}{}", clocks.join("; "), crossed.unwrap_or_default())
}

fn generator(summary: &Summary) -> String {
    let generator = &summary.generator;
    let cpu: Vec<String> =
        generator.cpu.iter().flatten().map(|share| format!("{:.0} %", share * 100.0)).collect();
    let late = &generator.lateness;
    let mut line = match (late.n, late.p99) {
        (0, _) => "generator  nothing was due".to_owned(),
        (_, None) => format!("generator  late by {} at most", time(late.max)),
        // As the column of the table is called.
        (_, p99) => format!("generator  late p99 {} (from due to ready)", time(p99)),
    };
    if !cpu.is_empty() {
        line += &format!(", cpu {}", cpu.join(" "));
    }
    if let Some(cost) = generator.cpu_per_million {
        line += &format!(", {cost:.1} cpu s per million messages");
    }
    line
}
