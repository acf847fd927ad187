//! A learned scenario as YAML with comments. The same description gives the same text.

use plimsoll_analysis::learning::{
    Learned, LearnedArrivals, LearnedPoint, LearnedPopulation, LearnedService, LearnedSizes,
    LearnedSubscribers,
};
use std::fmt::Write;

/// Columns of comments.
const WIDTH: usize = 110;
/// Largest content that a scenario can have, bytes.
const LARGEST: u32 = 1 << 20;
/// Seconds of a hold, where the rates do not follow the day: long enough for so many messages.
const SHORTEST_HOLD: f64 = 60.0;
const LONGEST_HOLD: f64 = 600.0;
const MESSAGES: f64 = 1_000.0;
/// An hour without a message has one: no level is empty.
const LEAST_RATE: f64 = 1.0 / 3_600.0;

/// Samples of each hour of a curve.
const SAMPLES_OF_HOUR: usize = 4;

/// Writes the scenario. `trace` is the name of the file beside it that has the exact times, where there is one.
pub fn scenario(learned: &Learned, trace: Option<&str>) -> String {
    let mut out = head(learned);
    let Some(first) = learned.populations.first() else {
        comment(&mut out, 0, "No client published anything that Plimsoll can send: there is no scenario.");
        return out;
    };
    out += "name: learned\n";
    let _ = writeln!(out, "platform:\n{}", platform(first, None, 2));
    if learned.populations.len() == 1 {
        alone(&mut out, learned, first, trace);
    } else {
        several(&mut out, learned, first, trace);
    }
    out
}

fn head(learned: &Learned) -> String {
    let mut out = String::new();
    let Learned { messages, duration, times, .. } = learned;
    comment(&mut out, 0, &format!("Learned by plimsoll from {messages} messages in {}.", span(*duration)));
    comment(
        &mut out,
        0,
        "Before you run it, replace each host `platform.invalid` by that of your platform, or give --set platform.address=ADDRESS.",
    );
    if *times != 1.0 {
        comment(
            &mut out,
            0,
            &format!(
                "It has {} times the load of the capture: so many times the devices, each as often as before.",
                number(*times)
            ),
        );
    }
    for note in &learned.notes {
        comment(&mut out, 0, &format!("- {}.", capital(note)));
    }
    out
}

fn span(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 7_200.0 => format!("{:.1} hours", seconds / 3_600.0),
        seconds if seconds >= 120.0 => format!("{:.1} minutes", seconds / 60.0),
        seconds => format!("{seconds:.1} s"),
    }
}

/// A scenario of one population.
fn alone(out: &mut String, learned: &Learned, population: &LearnedPopulation, trace: Option<&str>) {
    evidence(out, 0, learned, population);
    let _ = writeln!(out, "population:\n  devices: {}", devices(population, learned.times));
    if let Some(subscribers) = &learned.subscribers {
        let _ = writeln!(out, "  subscribers:\n{}", receivers(subscribers, population, 4));
    }
    protocol(out, 0, population);
    message(out, 0, population);
    out.push_str("load:\n");
    let _ = writeln!(out, "{}", process(population, trace, false, 2));
    match population.trace.filter(|_| learned.times == 1.0) {
        Some(played) => {
            let told = format!(
                "Without levels, the trace is played as it was taken: {} s at {}/s.",
                number(played.length),
                number(played.rate)
            );
            comment(out, 2, &told);
        }
        None => rest_of_load(out, learned, || rates(population, learned).join(", ")),
    }
}

/// Levels, or the curve in their place, and the hold.
fn rest_of_load(out: &mut String, learned: &Learned, levels: impl FnOnce() -> String) {
    if learned.curve.is_empty() {
        hours(out, learned);
        let _ = writeln!(out, "  levels: [{}]", levels());
        let _ = writeln!(out, "  hold: {}", hold(learned));
    } else {
        curve(out, learned);
    }
}

/// How the load changes, in the time of the capture or of the day.
fn curve(out: &mut String, learned: &Learned) {
    if !learned.hours.is_empty() {
        comment(
            out,
            2,
            "The hours of the day (UTC), in as much time as they take. With --set load.hold=24m a day goes by 60 times as fast.",
        );
    }
    out.push_str("  curve:\n    points:\n");
    for LearnedPoint { at, rate } in &learned.curve {
        let _ = writeln!(out, "      - {{ at: {}, rate: {} }}", clock(*at), number(rate * learned.times));
    }
    if !learned.hours.is_empty() {
        let _ = writeln!(out, "  samples: {}", SAMPLES_OF_HOUR * learned.hours.len());
    }
}

/// A time as scenarios have it: `22h30m`, or seconds where it is no whole number of minutes.
fn clock(seconds: f64) -> String {
    let whole = seconds.round();
    if (seconds - whole).abs() > 1e-6 || whole % 60.0 != 0.0 {
        return format!("{}s", number(seconds));
    }
    let minutes = whole as u64 / 60;
    match (minutes / 60, minutes % 60) {
        (hours, 0) => format!("{hours}h"),
        (0, minutes) => format!("{minutes}m"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}

/// A scenario of several populations.
fn several(out: &mut String, learned: &Learned, first: &LearnedPopulation, trace: Option<&str>) {
    out.push_str("populations:\n");
    for population in &learned.populations {
        evidence(out, 2, learned, population);
        let _ = writeln!(
            out,
            "  - name: {}\n    devices: {}",
            population.name,
            devices(population, learned.times)
        );
        if population.name != first.name && is_elsewhere(population, first) {
            let _ = writeln!(out, "    platform:\n{}", platform(population, Some(first), 6));
        }
        protocol(out, 4, population);
        message(out, 4, population);
        out.push_str("    load:\n");
        let rates = rates(population, learned);
        let _ = match has_levels_of_its_own(learned) {
            false => writeln!(out, "      share: {}", rates.join(", ")),
            true => writeln!(out, "      levels: [{}]", rates.join(", ")),
        };
        let _ = writeln!(out, "{}", process(population, trace, true, 6));
    }
    if let Some(subscribers) = &learned.subscribers {
        let speaks = |population: &&LearnedPopulation| {
            is_messaging(population)
                && subscribers.protocol.as_ref().is_none_or(|protocol| *protocol == population.protocol)
        };
        // What is published over one protocol may be received over another one.
        let any = || learned.populations.iter().find(|population| is_messaging(population));
        let listened = learned.populations.iter().find(speaks).or_else(any);
        let _ = writeln!(out, "subscribers:\n{}", receivers(subscribers, listened.unwrap_or(first), 2));
        if let Some(listened) = listened.filter(|listened| is_elsewhere(listened, first)) {
            let _ = writeln!(out, "  platform:\n{}", platform(listened, Some(first), 4));
        }
        if let Some(prefix) = listened.and_then(|listened| listened.prefix.as_ref()) {
            let _ = writeln!(out, "  amqp1: {{ prefix: {} }}", quoted(prefix));
        }
        if let Some(topic) = listened.and_then(|listened| listened.topic.as_ref()) {
            let _ = writeln!(out, "  kafka: {{ topic: {} }}", quoted(topic));
        }
    }
    out.push_str("load:\n");
    if has_levels_of_its_own(learned) {
        hours(out, learned);
        let _ = writeln!(out, "  hold: {}", hold(learned));
        return;
    }
    if learned.curve.is_empty() {
        comment(
            out,
            2,
            "The sum of the shares above, which are messages per second: other levels keep the mix.",
        );
    }
    rest_of_load(out, learned, || {
        let of = |population: &LearnedPopulation| rates(population, learned).first()?.parse::<f64>().ok();
        let sum: f64 = learned.populations.iter().filter_map(of).sum();
        if learned.rows.is_empty() { number(sum) } else { exact(sum) }
    });
}

/// Whether each population has a rate of its own in each hour.
fn has_levels_of_its_own(learned: &Learned) -> bool {
    !learned.hours.is_empty() && learned.curve.is_empty()
}

fn hours(out: &mut String, learned: &Learned) {
    if !has_levels_of_its_own(learned) {
        return;
    }
    let hours: Vec<String> = learned.hours.iter().map(|hour| format!("{hour:02}")).collect();
    comment(
        out,
        2,
        &format!(
            "A level for each hour of the day (UTC): {}. With --set load.hold=1m the day goes by 60 times as fast.",
            hours.join(", ")
        ),
    );
}

fn hold(learned: &Learned) -> String {
    if has_levels_of_its_own(learned) {
        return "1h".to_owned();
    }
    // All traces have one length, and each is played to its end.
    if let Some(trace) = learned.populations.iter().find_map(|population| population.trace) {
        let speed = if is_copied(learned.times) { 1.0 } else { learned.times };
        return format!("{:.0}s", (trace.length / speed).ceil().max(1.0));
    }
    let rate = learned.times * learned.populations.iter().map(|population| population.rate).sum::<f64>();
    format!("{:.0}s", (MESSAGES / rate.max(1e-9)).clamp(SHORTEST_HOLD, LONGEST_HOLD))
}

/// Whether it needs a platform of its own.
fn is_elsewhere(population: &LearnedPopulation, first: &LearnedPopulation) -> bool {
    population.service != first.service || profile(population) != profile(first)
}

fn is_messaging(population: &LearnedPopulation) -> bool {
    matches!(
        population.service.scheme,
        "mqtt" | "mqtts" | "ws" | "wss" | "nats" | "amqp" | "amqps" | "amqp1" | "amqps1" | "kafka" | "kafkas"
    )
}

/// Profile and mapping: a method other than POST needs a profile that can say it.
fn profile(population: &LearnedPopulation) -> (&'static str, Option<&'static str>) {
    match (population.service.scheme, population.method.as_str()) {
        (_, "POST") => ("existing", None),
        ("http" | "https", _) => ("http", Some("put")),
        ("coap" | "coap+tcp" | "coaps+tcp", _) => ("coap", Some("put")),
        _ => ("existing", None),
    }
}

fn platform(population: &LearnedPopulation, first: Option<&LearnedPopulation>, indent: usize) -> String {
    let (name, mapping) = profile(population);
    let mut lines = Vec::new();
    if first.is_none_or(|first| profile(first).0 != name) {
        lines.push(format!("profile: {name}"));
    }
    if let Some(host) = &population.service.host {
        lines.push(format!("# In the capture: {host}"));
    }
    lines.push(format!("address: {}", quoted(&address(&population.service))));
    if let Some(mapping) = mapping {
        lines.push(format!("mapping: {mapping}"));
        lines.push(format!("with: {{ path: {} }}", quoted(&slashed(&population.target))));
    }
    indented(&lines, indent)
}

/// A host that no name server knows (RFC 6761, section 6.4): nobody is loaded by mistake.
fn address(service: &LearnedService) -> String {
    let number = if service.number == 1 { String::new() } else { format!("-{}", service.number) };
    let path = if service.scheme.starts_with("ws") { "/mqtt" } else { "" };
    format!("{}://platform{number}.invalid:{}{path}", service.scheme, service.port)
}

fn slashed(path: &str) -> String {
    format!("/{}", path.trim_start_matches('/'))
}

/// Devices of a run. Each device of a trace has equally many of them.
fn devices(population: &LearnedPopulation, times: f64) -> u64 {
    let times = if population.trace.is_some() && !is_copied(times) { 1.0 } else { times };
    (f64::from(population.devices) * times).round().max(1.0) as u64
}

/// Whether a trace is played by so many times its devices, and not so many times as fast.
fn is_copied(times: f64) -> bool {
    times.fract() == 0.0
}

/// Messages per second: of each hour, or at all.
fn rates(population: &LearnedPopulation, learned: &Learned) -> Vec<String> {
    let times = learned.times;
    let written = |rate: f64| number((rate * times).max(LEAST_RATE * times));
    if let Some(trace) = population.trace {
        return vec![exact(trace.rate * times)];
    }
    if !has_levels_of_its_own(learned) {
        return vec![written(population.rate)];
    }
    population.hourly.iter().map(|&rate| written(rate)).collect()
}

fn protocol(out: &mut String, indent: usize, population: &LearnedPopulation) {
    let mut lines = Vec::new();
    let scheme = population.service.scheme;
    if population.protocol == "mqtt" {
        lines.push(format!("qos: {}", population.qos));
        if population.retained {
            lines.push("retain: true".to_owned());
        }
        match population.session {
            None => comment(
                out,
                indent,
                "The capture has no CONNECT of these clients: version, keep-alive and session are defaults.",
            ),
            Some(session) => {
                lines.push(format!("version: \"{}\"", if session.version == 5 { "5" } else { "3.1.1" }));
                lines.push(format!("keep_alive: {}s", session.keep_alive));
                if !session.clean {
                    lines.push("session: persistent".to_owned());
                }
                if session.username {
                    comment(
                        out,
                        indent,
                        "The clients give a user name: add `username` and `password: { env: NAME }`.",
                    );
                }
                if session.will {
                    comment(
                        out,
                        indent,
                        "The clients leave a will, which this scenario does not have: add `will`.",
                    );
                }
            }
        }
        let _ = writeln!(out, "{:indent$}mqtt:\n{}", "", indented(&lines, indent + 2));
    } else if matches!(scheme, "amqp1" | "amqps1") {
        amqp1(out, indent, population);
    } else if scheme.starts_with("amqp") {
        comment(
            out,
            indent,
            "Messages go to the exchange `amq.topic`; if yours is another one, add `amqp: { exchange: NAME }`.",
        );
        if population.qos == 0 {
            let lines = ["confirms: false".to_owned()];
            let _ = writeln!(out, "{:indent$}amqp:\n{}", "", indented(&lines, indent + 2));
        }
    } else if scheme.starts_with("kafka") {
        kafka(out, indent, population);
    } else if scheme.starts_with("coap") && population.qos == 0 {
        let _ = writeln!(
            out,
            "{:indent$}coap:\n{}",
            "",
            indented(&["confirmable: false".to_owned()], indent + 2)
        );
    }
    if matches!(population.method.as_str(), "PATCH" | "iPATCH") {
        comment(
            out,
            indent,
            &format!(
                "The requests are {}; a scenario without a profile of your own has PUT.",
                population.method
            ),
        );
    }
}

fn amqp1(out: &mut String, indent: usize, population: &LearnedPopulation) {
    let mut lines = Vec::new();
    match &population.prefix {
        Some(prefix) => lines.push(format!("prefix: {}", quoted(prefix))),
        None => comment(
            out,
            indent,
            "Addresses have dots between their levels, and nothing before them; `amqp1` has keys for what your broker wants.",
        ),
    }
    if population.qos == 0 {
        lines.push("acknowledged: false".to_owned());
    }
    if !lines.is_empty() {
        let _ = writeln!(out, "{:indent$}amqp1:\n{}", "", indented(&lines, indent + 2));
    }
}

fn kafka(out: &mut String, indent: usize, population: &LearnedPopulation) {
    let mut lines = Vec::new();
    match &population.topic {
        Some(topic) => lines.push(format!("topic: {}", quoted(topic))),
        None => comment(
            out,
            indent,
            "Messages go to a topic that is made for the run; if yours exists, add `kafka: { topic: NAME }`.",
        ),
    }
    match population.qos {
        0 => lines.push("acks: none".to_owned()),
        1 => lines.push("acks: leader".to_owned()),
        _ => {}
    }
    if !lines.is_empty() {
        let _ = writeln!(out, "{:indent$}kafka:\n{}", "", indented(&lines, indent + 2));
    }
}

fn message(out: &mut String, indent: usize, population: &LearnedPopulation) {
    let sizes = &population.sizes;
    let bounded = |size: u32| size.clamp(population.least_size, LARGEST);
    if sizes.min < population.least_size {
        comment(
            out,
            indent,
            &format!(
                "The smallest content has {} bytes; that of a run has {} at least, which its marker takes.",
                sizes.min, population.least_size
            ),
        );
    }
    if sizes.max > LARGEST {
        comment(
            out,
            indent,
            &format!("The largest content has {} bytes; that of a run has 1 MiB at most.", sizes.max),
        );
    }
    let mut lines = Vec::new();
    if profile(population).1.is_none() {
        lines.push(format!("target: {}", quoted(&population.target)));
    }
    lines.push(format!("size: {}", size(sizes, bounded)));
    let _ = writeln!(out, "{:indent$}message:\n{}", "", indented(&lines, indent + 2));
}

fn size(sizes: &LearnedSizes, bounded: impl Fn(u32) -> u32) -> String {
    let (min, max) = (bounded(sizes.min), bounded(sizes.max));
    let mean = bounded(sizes.mean.round().clamp(0.0, f64::from(u32::MAX)) as u32);
    match sizes.kind {
        "uniform" => format!("{{ uniform: {{ min: {min}, max: {max} }} }}"),
        "normal" => {
            let deviation = sizes.deviation.unwrap_or(1.0).round().max(1.0);
            format!("{{ normal: {{ mean: {mean}, deviation: {deviation}, min: {min}, max: {max} }} }}")
        }
        "choice" => {
            let list: Vec<String> = sizes
                .list
                .iter()
                .map(|&(size, weight)| format!("{{ size: {}, weight: {} }}", bounded(size), number(weight)))
                .collect();
            format!("{{ choice: [{}] }}", list.join(", "))
        }
        _ => max.to_string(),
    }
}

/// Arrivals by their law, or by the trace in that file, which names its populations if they are several.
fn process(population: &LearnedPopulation, trace: Option<&str>, several: bool, indent: usize) -> String {
    if let (Some(_), Some(file)) = (population.trace, trace) {
        let own = if several { format!(", population: {}", population.name) } else { String::new() };
        let file = quoted(file);
        return indented(&[format!("arrivals: {{ trace: {{ file: {file}{own} }} }}")], indent);
    }
    let arrivals = &population.arrivals;
    let parameter = number(arrivals.parameter.unwrap_or(1.0));
    let law = match arrivals.law {
        "uniform" => format!("{{ uniform: {{ spread: {parameter} }} }}"),
        "normal" => format!("{{ normal: {{ cv: {parameter} }} }}"),
        "gamma" => format!("{{ gamma: {{ shape: {parameter} }} }}"),
        law => law.to_owned(),
    };
    indented(&[format!("arrivals: {law}"), format!("per: {}", arrivals.per)], indent)
}

/// Subscribers to what a population publishes.
fn receivers(subscribers: &LearnedSubscribers, listened: &LearnedPopulation, indent: usize) -> String {
    let mut lines = vec![
        format!(
            "# Clients received {:.2} messages for each that was published.",
            subscribers.deliveries_per_message
        ),
        format!("count: {}", subscribers.count),
    ];
    if let Some(qos) = subscribers.qos.filter(|_| listened.protocol == "mqtt") {
        lines.push(format!("qos: {qos}"));
    }
    if subscribers.filters.is_empty() {
        lines.push("# The capture does not show their filters: they receive everything.".to_owned());
    } else {
        let filters: Vec<String> = subscribers.filters.iter().map(|filter| quoted(filter)).collect();
        lines.push(format!("filters: [{}]", filters.join(", ")));
    }
    indented(&lines, indent)
}

/// What a population was learned from.
fn evidence(out: &mut String, indent: usize, learned: &Learned, population: &LearnedPopulation) {
    let LearnedPopulation { messages, devices, rate, rate_interval: [lo, hi], sizes, arrivals, .. } =
        population;
    comment(
        out,
        indent,
        &format!(
            "{messages} messages ({:.1} %) of {}: {}/s (95 %: {} to {}).",
            100.0 * population.share,
            match (*devices, population.device_by) {
                (1, _) => "one device".to_owned(),
                (_, "target") => format!("{devices} devices, which differ by a part of the target"),
                (_, by) => format!("{devices} devices, which differ by the {by}"),
            },
            number(*rate),
            number(*lo),
            number(*hi)
        ),
    );
    comment(out, indent, &capital(&law_text(arrivals)));
    comment(out, indent, &size_text(sizes));
    if learned.times != 1.0 && population.trace.is_some() {
        let told = match is_copied(learned.times) {
            true => "Each device of the trace has so many copies, which are shifted in time.",
            false => {
                "Its devices cannot be so many times as many. The trace is played so many times as fast."
            }
        };
        comment(out, indent, told);
    } else if learned.times != 1.0 && arrivals.per == "population" {
        comment(
            out,
            indent,
            "All devices share one process, whose gaps become shorter where the load is larger.",
        );
    }
    let exactly = f64::from(population.devices) * learned.times;
    let is_rounded = (exactly - self::devices(population, learned.times) as f64).abs() > 1e-9;
    if is_rounded && population.trace.is_none() {
        let text = format!(
            "So many times the devices are {}, which is rounded: the rate is exact, that of a device is not.",
            number(exactly)
        );
        comment(out, indent, &text);
    }
    for note in &population.notes {
        comment(out, indent, &format!("{}.", capital(note)));
    }
}

/// What is known of the arrivals, in a sentence.
pub(super) fn law_text(arrivals: &LearnedArrivals) -> String {
    let whose = if arrivals.per == "device" { "gaps of each device" } else { "gaps of all devices together" };
    if !arrivals.tested {
        return format!("{whose}: too few to be judged.");
    }
    let named = |law: &str, parameter: Option<f64>| match parameter {
        Some(parameter) => format!("{law} {}", number(parameter)),
        None => law.to_owned(),
    };
    let mut text = format!("{} {whose}, {}", arrivals.gaps, named(arrivals.law, arrivals.parameter));
    match (arrivals.law, arrivals.cv) {
        ("constant", Some(cv)) => {
            let _ = write!(text, " (coefficient of variation {})", number(cv));
        }
        _ => {
            let [statistic, p] =
                [arrivals.statistic, arrivals.p].map(|value| number(value.unwrap_or(f64::NAN)));
            let _ = write!(text, " (A² {statistic}, p {p})");
        }
    }
    if !arrivals.others.is_empty() {
        let others: Vec<String> = arrivals
            .others
            .iter()
            .map(|other| {
                format!(
                    "{} (A² {}, p {})",
                    named(other.law, other.parameter),
                    number(other.statistic),
                    number(other.p)
                )
            })
            .collect();
        let _ = write!(text, "; against {}", others.join(", "));
    }
    text.push('.');
    text
}

fn size_text(sizes: &LearnedSizes) -> String {
    let LearnedSizes { min, max, mean, .. } = sizes;
    let fit = match (sizes.kind, sizes.p) {
        ("fixed", _) => return format!("All contents have {max} bytes."),
        (_, Some(p)) => format!("{} (p {})", sizes.kind, number(p)),
        (_, None) if sizes.classes => "neither uniform nor normal: classes of equal probability".to_owned(),
        _ => "a list".to_owned(),
    };
    format!("Contents have {min} to {max} bytes, {mean:.1} on average: {fit}.")
}

/// Five significant digits, without an exponent.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let size = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = (4 - size).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A rate as it is, so that a trace is played neither faster nor slower.
fn exact(rate: f64) -> String {
    rate.to_string()
}

/// As JSON writes a text, which YAML reads, too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn indented(lines: &[String], indent: usize) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("{:indent$}{line}", "")).collect();
    lines.join("\n")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// A comment in lines that are not too long.
fn comment(out: &mut String, indent: usize, text: &str) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + 3 + line.len() + word.len() > WIDTH {
            let _ = writeln!(out, "{:indent$}#{line}", "");
            line.clear();
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(out, "{:indent$}#{line}", "");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_five_digits_and_no_exponent() {
        for (value, text) in [
            (12.345_678, "12.346"),
            (0.000_123_456, "0.00012346"),
            (1_234_567.8, "1234568"),
            (5.0, "5"),
            (0.0, "0"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn times_are_clocks_or_seconds() {
        let times = [0.0, 1_800.0, 81_000.0, 86_400.0, 12.5, 90.0].map(clock);
        assert_eq!(times, ["0h", "30m", "22h30m", "24h", "12.5s", "90s"]);
    }

    #[test]
    fn comments_are_broken() {
        let mut out = String::new();
        comment(&mut out, 2, &"word ".repeat(40));
        assert!(out.lines().all(|line| line.len() <= WIDTH && line.starts_with("  # word")), "{out}");
    }
}
