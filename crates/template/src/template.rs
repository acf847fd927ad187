//! Templates: texts with variables such as `{device}`, compiled once and rendered for each message.

use crate::captures::Captures;
use crate::cbor;
use std::io::Write;

/// A text with variables, compiled once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// The pieces, in order.
    pub pieces: Vec<Piece>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Text as it stands.
    Text(String),
    /// `{run}`: the run id.
    Run,
    /// `{device}`: the device's number.
    Device,
    /// `{subscriber}`: the subscriber's number.
    Subscriber,
    /// `{querier}`: the number of who asks.
    Querier,
    /// `{sequence}`: the message's number within its device.
    Sequence,
    /// `{item}`: the number of what a platform is filled with.
    Item,
    /// `{marker}`: the marker in the scenario's form.
    Marker,
    /// `{time}`: wall-clock time of sending, milliseconds since 1970.
    Time,
    /// `{random:LOW..HIGH}`: a whole number, both ends included, drawn anew for each message from the seed.
    RandomInteger(i64, i64),
    /// `{random:LOW..HIGH:DECIMALS}`: a decimal number.
    RandomDecimal(f64, f64, u8),
    /// `{message}` and `{message:json}`: the scenario's message as it is, or as it stands within a string of JSON.
    Message(Escape),
    /// `{feed:COLUMN}`: a column of the row that this message has, by the column's position and name.
    Column(usize, String),
    /// `{listener}`: the address at which a subscriber listens, such as `http://127.0.0.1:40123`.
    Listener,
    /// `{id}`: the name of the notification that is answered, escaped as within a string of JSON.
    Id,
    /// `{since}`: where the last answer to a poll ended.
    Since,
    /// `{token}`: the access token.
    Token,
    /// A value that a set-up step captured, by its slot and name.
    Captured(usize, String),
    /// Bytes as they stand.
    Bytes(Vec<u8>),
    /// A text of CBOR, which these make.
    CborText(Vec<Piece>),
    /// A value of CBOR: what these make is read as JSON, or is a text where it is none.
    CborValue(Vec<Piece>),
}

/// How a text is written into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// As it is.
    None,
    /// As the inside of a string of JSON (RFC 8259 section 7).
    Json,
}

/// What the variables of a template stand for in one message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variables<'a> {
    /// The run id.
    pub run: &'a str,
    /// The device's number.
    pub device: u32,
    /// The subscriber's number; of use in filters only.
    pub subscriber: u32,
    /// The number of who asks.
    pub querier: u32,
    /// The message's number within its device.
    pub sequence: u32,
    /// Of what a platform is filled with: its number.
    pub item: u32,
    /// The marker, encoded already.
    pub marker: &'a [u8],
    /// Wall-clock time of sending, milliseconds since 1970.
    pub time_ms: u64,
    /// The scenario's message, where the template is what stands around it.
    pub message: &'a [u8],
    /// Where the subscriber listens.
    pub listener: &'a str,
    /// The name of the notification that is answered.
    pub id: &'a str,
    /// Where the last answer to a poll ended.
    pub since: &'a str,
    /// The access token.
    pub token: &'a str,
    /// What set-up steps captured.
    pub captures: Option<&'a Captures>,
    /// The rows of the feed.
    pub feed: Option<&'a dyn Columns>,
}

/// Gives each message a row of values.
pub trait Columns: std::fmt::Debug + Send + Sync {
    /// Appends the value that a message has in a column.
    fn write(&self, column: usize, device: u32, sequence: u32, out: &mut Vec<u8>);
    /// The most bytes of a value in a column.
    fn longest(&self, column: usize) -> usize;
}

/// The names that may stand in a template.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// Variables of this program.
    pub built_in: &'a [&'a str],
    /// Values that set-up steps capture, by slot.
    pub captured: &'a [&'a str],
    /// Columns of the feed, by position; `None` takes any.
    pub columns: Option<&'a [String]>,
}

/// A text that is no template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
    /// The variable as it is written.
    pub written: String,
}

/// Longest captured value that is reckoned with where sizes are foreseen, in bytes.
const LONGEST_CAPTURED: usize = 2048;
/// Longest access token that is reckoned with where sizes are foreseen, in bytes.
const LONGEST_TOKEN: usize = 8192;
/// Longest address of a listener, in bytes.
const LONGEST_LISTENER: usize = 64;
/// Most decimals that `{random:..}` may ask for.
const MOST_DECIMALS: u8 = 9;

impl Piece {
    fn tells_time(&self) -> bool {
        match self {
            Piece::Time => true,
            Piece::CborText(pieces) | Piece::CborValue(pieces) => pieces.iter().any(Piece::tells_time),
            _ => false,
        }
    }
}

impl Template {
    /// Whether the time stands in it.
    pub fn tells_time(&self) -> bool {
        self.pieces.iter().any(Piece::tells_time)
    }

    /// Compiles a text. A variable is a brace followed by a letter; `{{` stands for a brace itself, and any other
    /// brace is text, so that JSON needs no escapes. Only the variables named in `allowed` may stand in it.
    pub fn compile(text: &str, allowed: &[&str]) -> Result<Template, TemplateError> {
        Template::compile_with(text, &Names { built_in: allowed, ..Names::default() })
    }

    /// The same with names beside those of this program.
    pub fn compile_with(text: &str, names: &Names<'_>) -> Result<Template, TemplateError> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (before, from_brace) = rest.split_at(open);
            plain.push_str(before);
            let after = from_brace.strip_prefix('{').unwrap_or_default();
            if let Some(escaped) = after.strip_prefix('{') {
                plain.push('{');
                rest = escaped;
            } else if !after.starts_with(|first: char| first.is_ascii_alphabetic()) {
                plain.push('{');
                rest = after;
            } else {
                let (name, remaining) = variable(after)?;
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(piece(name, names).map_err(|(message, help)| TemplateError {
                    message,
                    help,
                    written: format!("{{{name}}}"),
                })?);
                rest = remaining;
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template { pieces })
    }

    /// Appends the text of one message to `out`. Allocates nothing but what `out` needs. `random` gives sixty-four
    /// random bits a call.
    pub fn render(&self, variables: &Variables<'_>, random: &mut dyn FnMut() -> u64, out: &mut Vec<u8>) {
        render(&self.pieces, variables, random, out);
    }

    /// The most bytes that the template can render to, with a marker of that length.
    pub fn longest(&self, marker: usize) -> usize {
        self.longest_with(marker, 0, None)
    }

    /// The same with a message of that length and the columns of that feed. Captured values count as 2 KiB.
    pub fn longest_with(&self, marker: usize, message: usize, feed: Option<&dyn Columns>) -> usize {
        // A control character becomes six within a string of JSON.
        self.longest_around(marker, (message, 6 * message), feed)
    }

    /// The same with a message of that length as it is, and of that length within a string of JSON.
    pub fn longest_around(
        &self,
        marker: usize,
        (plain, escaped): (usize, usize),
        feed: Option<&dyn Columns>,
    ) -> usize {
        let longest = |inner: &[Piece]| {
            let inner = Template { pieces: inner.to_vec() };
            inner.longest_around(marker, (plain, escaped), feed)
        };
        let length = |piece: &Piece| match *piece {
            Piece::Text(ref text) => text.len(),
            Piece::Bytes(ref bytes) => bytes.len(),
            Piece::CborText(ref inner) => cbor::LONGEST_HEAD + longest(inner),
            // A number with a fraction, which has three characters at least, may take nine bytes.
            Piece::CborValue(ref inner) => cbor::LONGEST_HEAD + 3 * longest(inner),
            Piece::Run => 8,
            Piece::Device | Piece::Subscriber | Piece::Querier | Piece::Sequence | Piece::Item => 10,
            Piece::Marker => marker,
            Piece::Time => 20,
            Piece::RandomInteger(low, high) => low.to_string().len().max(high.to_string().len()),
            Piece::RandomDecimal(low, high, decimals) => {
                let decimals = usize::from(decimals);
                format!("{low:.decimals$}").len().max(format!("{high:.decimals$}").len()) + 1
            }
            Piece::Message(Escape::None) => plain,
            Piece::Message(Escape::Json) => escaped,
            Piece::Column(column, _) => feed.map_or(0, |feed| feed.longest(column)),
            Piece::Listener => LONGEST_LISTENER,
            Piece::Token => LONGEST_TOKEN,
            Piece::Captured(..) | Piece::Id | Piece::Since => LONGEST_CAPTURED,
        };
        self.pieces.iter().map(length).sum()
    }

    /// Whether it is another text for each message of a device.
    pub fn is_of_each_message(&self) -> bool {
        self.has(&|piece| *piece == Piece::Sequence)
    }

    /// Whether one of its pieces is such a one, also within a text.
    pub fn has(&self, is_such: &dyn Fn(&Piece) -> bool) -> bool {
        fn any(pieces: &[Piece], is_such: &dyn Fn(&Piece) -> bool) -> bool {
            pieces.iter().any(|piece| match piece {
                Piece::CborText(inner) | Piece::CborValue(inner) => any(inner, is_such),
                piece => is_such(piece),
            })
        }
        any(&self.pieces, is_such)
    }

    /// One of the texts that it renders to.
    pub fn example(&self) -> String {
        let variables = Variables { run: "00000000", ..Variables::default() };
        let mut out = Vec::new();
        self.render(&variables, &mut || 0, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The text from which the template compiles; of bytes and CBOR, what stands in it.
    pub fn text(&self) -> String {
        let inner = |pieces: &[Piece]| Template { pieces: pieces.to_vec() }.text();
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Piece::CborText(pieces) | Piece::CborValue(pieces) => inner(pieces),
                Piece::Text(text) => text.replace('{', "{{"),
                Piece::Run => "{run}".to_owned(),
                Piece::Device => "{device}".to_owned(),
                Piece::Subscriber => "{subscriber}".to_owned(),
                Piece::Querier => "{querier}".to_owned(),
                Piece::Item => "{item}".to_owned(),
                Piece::Sequence => "{sequence}".to_owned(),
                Piece::Marker => "{marker}".to_owned(),
                Piece::Time => "{time}".to_owned(),
                Piece::RandomInteger(low, high) => format!("{{random:{low}..{high}}}"),
                Piece::RandomDecimal(low, high, decimals) => format!("{{random:{low}..{high}:{decimals}}}"),
                Piece::Message(Escape::None) => "{message}".to_owned(),
                Piece::Message(Escape::Json) => "{message:json}".to_owned(),
                Piece::Listener => "{listener}".to_owned(),
                Piece::Id => "{id}".to_owned(),
                Piece::Since => "{since}".to_owned(),
                Piece::Token => "{token}".to_owned(),
                Piece::Column(_, name) => format!("{{feed:{name}}}"),
                Piece::Captured(_, name) => format!("{{{name}}}"),
            })
            .collect()
    }

    /// The filter that matches the topics that this template renders to in one run: each level in which something
    /// other than the run varies becomes `+`.
    pub fn as_filter(&self) -> Template {
        let mut levels: Vec<Option<Vec<Piece>>> = vec![Some(Vec::new())];
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => {
                    for (position, part) in text.split('/').enumerate() {
                        if position > 0 {
                            levels.push(Some(Vec::new()));
                        }
                        if let Some(Some(level)) = levels.last_mut()
                            && !part.is_empty()
                        {
                            level.push(Piece::Text(part.to_owned()));
                        }
                    }
                }
                Piece::Run => {
                    if let Some(Some(level)) = levels.last_mut() {
                        level.push(Piece::Run);
                    }
                }
                _ => {
                    if let Some(level) = levels.last_mut() {
                        *level = None;
                    }
                }
            }
        }
        let mut pieces: Vec<Piece> = Vec::new();
        let mut append = |piece: Piece| match (pieces.last_mut(), piece) {
            (Some(Piece::Text(text)), Piece::Text(more)) => text.push_str(&more),
            (_, piece) => pieces.push(piece),
        };
        for (position, level) in levels.into_iter().enumerate() {
            if position > 0 {
                append(Piece::Text("/".to_owned()));
            }
            level.unwrap_or_else(|| vec![Piece::Text("+".to_owned())]).into_iter().for_each(&mut append);
        }
        Template { pieces }
    }
}

/// Appends what pieces stand for.
fn render(pieces: &[Piece], variables: &Variables<'_>, random: &mut dyn FnMut() -> u64, out: &mut Vec<u8>) {
    for piece in pieces {
        // Writing to a Vec cannot fail.
        let _ = match *piece {
            Piece::Text(ref text) => out.write_all(text.as_bytes()),
            Piece::Run => out.write_all(variables.run.as_bytes()),
            Piece::Device => write!(out, "{}", variables.device),
            Piece::Subscriber => write!(out, "{}", variables.subscriber),
            Piece::Querier => write!(out, "{}", variables.querier),
            Piece::Item => write!(out, "{}", variables.item),
            Piece::Sequence => write!(out, "{}", variables.sequence),
            Piece::Marker => out.write_all(variables.marker),
            Piece::Time => write!(out, "{}", variables.time_ms),
            Piece::RandomInteger(low, high) => {
                let span = high.wrapping_sub(low) as u64;
                write!(out, "{}", low.wrapping_add(up_to(random(), span) as i64))
            }
            Piece::RandomDecimal(low, high, decimals) => {
                // Drawn from the grid of that many decimals, so that both ends are as likely as the rest.
                let grid = 10f64.powi(i32::from(decimals));
                let steps = ((high - low) * grid).round().max(0.0);
                let value = ((low * grid).round() + up_to(random(), steps as u64) as f64) / grid;
                // Adding zero turns a negative zero into a positive one.
                write!(out, "{:.*}", usize::from(decimals), value + 0.0)
            }
            Piece::Message(Escape::None) => out.write_all(variables.message),
            Piece::Message(Escape::Json) => {
                escape_json(variables.message, out);
                Ok(())
            }
            Piece::Column(column, _) => {
                if let Some(feed) = variables.feed {
                    feed.write(column, variables.device, variables.sequence, out);
                }
                Ok(())
            }
            Piece::Listener => out.write_all(variables.listener.as_bytes()),
            Piece::Id => {
                escape_json(variables.id.as_bytes(), out);
                Ok(())
            }
            Piece::Since => out.write_all(variables.since.as_bytes()),
            Piece::Token => out.write_all(variables.token.as_bytes()),
            Piece::Captured(slot, _) => {
                let value = variables
                    .captures
                    .map(|captures| captures.get(slot, variables.device, variables.subscriber));
                out.write_all(value.unwrap_or_default().as_bytes())
            }
            Piece::Bytes(ref bytes) => out.write_all(bytes),
            Piece::CborText(ref inner) => {
                let begin = out.len();
                render(inner, variables, random, out);
                cbor::become_text(begin, out);
                Ok(())
            }
            Piece::CborValue(ref inner) => {
                let begin = out.len();
                render(inner, variables, random, out);
                cbor::become_value(begin, out);
                Ok(())
            }
        };
    }
}

/// A whole number from 0 to `high`, both included, from random bits (multiply and shift; the bias is below 2^-64
/// of a draw for each value).
fn up_to(bits: u64, high: u64) -> u64 {
    ((u128::from(bits) * (u128::from(high) + 1)) >> 64) as u64
}

/// Splits what follows a brace into the variable's words and what comes after its closing brace.
fn variable(after: &str) -> Result<(&str, &str), TemplateError> {
    let within = |c: char| c.is_ascii_alphanumeric() || "_:.+-".contains(c);
    let end = after.find(|c| !within(c)).unwrap_or(after.len());
    let (name, remaining) = after.split_at(end);
    match remaining.strip_prefix('}') {
        Some(remaining) => Ok((name, remaining)),
        None => Err(TemplateError {
            message: format!("the variable `{{{name}` has no closing brace"),
            help: "write `}` after its name, or `{{` where you mean a brace itself".to_owned(),
            written: format!("{{{name}"),
        }),
    }
}

/// The piece that a variable's words stand for, or what is wrong and what to do.
fn piece(words: &str, names: &Names<'_>) -> Result<Piece, (String, String)> {
    let (name, range) = words.split_once(':').map_or((words, None), |(name, range)| (name, Some(range)));
    if let (Some(slot), None) = (names.captured.iter().position(|known| *known == name), range) {
        return Ok(Piece::Captured(slot, name.to_owned()));
    }
    if !names.built_in.contains(&name) {
        let all = names.built_in.iter().chain(names.captured);
        let listed: Vec<String> = all.map(|name| format!("{{{name}}}")).collect();
        return Err((
            format!("there is no variable `{{{name}}}` here"),
            format!("allowed here: {}; write `{{{{` where you mean a brace itself", listed.join(", ")),
        ));
    }
    let simple = match name {
        "run" => Piece::Run,
        "device" => Piece::Device,
        "subscriber" => Piece::Subscriber,
        "querier" => Piece::Querier,
        "sequence" => Piece::Sequence,
        "item" => Piece::Item,
        "marker" => Piece::Marker,
        "time" => Piece::Time,
        "listener" => Piece::Listener,
        "id" => Piece::Id,
        "since" => Piece::Since,
        "token" => Piece::Token,
        "message" => match range {
            None => return Ok(Piece::Message(Escape::None)),
            Some("json") => return Ok(Piece::Message(Escape::Json)),
            Some(other) => {
                let help =
                    "write `{message}` for the message as it is, `{message:json}` within a string of JSON";
                return Err((format!("a message is not written as `{other}`"), help.to_owned()));
            }
        },
        "feed" => return column_piece(range.unwrap_or_default(), names.columns),
        _ => return random_piece(range.unwrap_or_default()),
    };
    match range {
        None => Ok(simple),
        Some(_) => Err((
            format!("`{{{words}}}`: `{name}` takes nothing after a colon"),
            format!("write `{{{name}}}`"),
        )),
    }
}

fn column_piece(name: &str, columns: Option<&[String]>) -> Result<Piece, (String, String)> {
    let piece = |position| Piece::Column(position, name.to_owned());
    let Some(columns) = columns else { return Ok(piece(0)) };
    let found = columns.iter().position(|column| column == name).map(piece);
    found.ok_or_else(|| match columns {
        [] => (
            format!("`{{feed:{name}}}`, but the message has no feed"),
            "give it rows with `message.feed`".to_owned(),
        ),
        _ => (format!("the feed has no column `{name}`"), format!("its columns: {}", columns.join(", "))),
    })
}

/// Writes a text as the inside of a string of JSON (RFC 8259 section 7).
fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0..0x20 => {
                // Writing to a Vec cannot fail.
                let _ = write!(out, "\\u{byte:04x}");
            }
            _ => out.push(byte),
        }
    }
}

fn random_piece(range: &str) -> Result<Piece, (String, String)> {
    let wrong = |what: &str| {
        Err((
            format!("`{{random:{range}}}`: {what}"),
            "write `{random:1..6}` for whole numbers or `{random:18.5..25.0:1}` for one decimal".to_owned(),
        ))
    };
    let Some((low, high)) = range.split_once("..") else { return wrong("expected two bounds") };
    let Some((high, decimals)) = high.split_once(':') else {
        return match (low.parse::<i64>(), high.parse::<i64>()) {
            (Ok(low), Ok(high)) if low <= high => Ok(Piece::RandomInteger(low, high)),
            (Ok(_), Ok(_)) => wrong("the first bound is above the second"),
            _ => wrong("the bounds are not whole numbers, and no number of decimals is given"),
        };
    };
    // Decimal bounds are kept within 10^9, where nine decimals are still exact to a double.
    let bound = |text: &str| text.parse::<f64>().ok().filter(|value| value.abs() <= 1e9);
    match (bound(low), bound(high), decimals.parse::<u8>()) {
        (Some(low), Some(high), Ok(decimals)) if low <= high && decimals <= MOST_DECIMALS => {
            Ok(Piece::RandomDecimal(low, high, decimals))
        }
        (Some(low), Some(high), Ok(decimals)) if decimals <= MOST_DECIMALS && low > high => {
            wrong("the first bound is above the second")
        }
        (Some(_), Some(_), _) => wrong("the number of decimals is not one from 0 to 9"),
        _ => wrong("the bounds are not numbers from -10^9 to 10^9"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: &[&str] = &["run", "device", "subscriber", "sequence", "marker", "time", "random"];

    fn render(text: &str, bits: u64) -> String {
        let mut out = Vec::new();
        let variables = Variables {
            run: "0123abcd",
            device: 7,
            subscriber: 3,
            sequence: 42,
            marker: b"MARK",
            time_ms: 1_700_000_000_123,
            ..Variables::default()
        };
        Template::compile(text, ALL).unwrap().render(&variables, &mut || bits, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn variables_are_replaced_and_json_stays_as_it_is() {
        assert_eq!(
            render(
                r#"{"id":"{marker}","d":{"n":{device},"s":{sequence}},"t":{time},"r":"{run}/{subscriber}"}"#,
                0
            ),
            r#"{"id":"MARK","d":{"n":7,"s":42},"t":1700000000123,"r":"0123abcd/3"}"#
        );
        assert_eq!(render("{{device} {} { {1}", 0), "{device} {} { {1}");
    }

    #[test]
    fn random_numbers_reach_both_ends_of_their_range_and_not_beyond() {
        for (text, lowest, highest) in [
            ("{random:1..6}", "1", "6"),
            ("{random:-5..-5}", "-5", "-5"),
            (
                "{random:-9223372036854775808..9223372036854775807}",
                "-9223372036854775808",
                "9223372036854775807",
            ),
            ("{random:-0.5..1:1}", "-0.5", "1.0"),
            ("{random:18.25..25.75:2}", "18.25", "25.75"),
        ] {
            assert_eq!(render(text, 0), lowest, "{text}");
            assert_eq!(render(text, u64::MAX), highest, "{text}");
        }
        assert_eq!(render("{random:-0.1..0.1:1}", 1 << 63), "0.0");
    }

    #[test]
    fn wrong_variables_are_told_as_they_are_written() {
        for (text, expected) in [
            ("{devise}", "no variable `{devise}`"),
            ("{marker", "no closing brace"),
            ("{device:3}", "takes nothing"),
            ("{random}", "two bounds"),
            ("{random:6..1}", "above the second"),
            ("{random:0.5..1}", "number of decimals"),
            ("{random:0.5..1:10}", "0 to 9"),
            ("{random:0..1e300:1}", "10^9"),
        ] {
            let error = Template::compile(&format!("ä {{}} {text}"), ALL).unwrap_err();
            assert!(error.message.contains(expected), "{text}: {}", error.message);
            assert_eq!(error.written, text);
        }
        assert!(Template::compile("{time}", &["run"]).is_err());
    }

    #[test]
    fn a_topic_becomes_the_filter_that_matches_it_in_one_run() {
        for (topic, filter) in [
            ("plimsoll/{run}/{device}", "plimsoll/{run}/+"),
            ("a/b-{device}-c/d/{sequence}", "a/+/d/+"),
            ("{device}", "+"),
            ("/a/", "/a/"),
            ("x{run}y/{device}/z", "x{run}y/+/z"),
        ] {
            let compiled = Template::compile(topic, ALL).unwrap();
            assert_eq!(compiled.as_filter().text(), filter, "{topic}");
        }
    }

    proptest! {
        #[test]
        fn what_compiles_renders_within_its_longest_length_and_reads_back(
            text in "([{}:a\"/ ]|\\{(run|device|sequence|time|marker)\\}|\\{random:-?[0-9]{1,3}\\.\\.[0-9]{3,5}(:[0-9])?\\}){0,12}",
            bits: u64,
        ) {
            if let Ok(template) = Template::compile(&text, ALL) {
                prop_assert!(render(&text, bits).len() <= template.longest(4));
                prop_assert_eq!(Template::compile(&template.text(), ALL), Ok(template));
            }
        }
    }
}
