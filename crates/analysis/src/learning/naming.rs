//! Names in a learned scenario: which parts of a target stand in it as they are, and what stands for the others.

use super::shape::{Part, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// So many devices that share a word show that it names none of them.
const SHARED: usize = 3;
/// Longer words, and words so long that have letters and digits, are keys and tokens.
const LONGEST: usize = 32;
const TOKEN: usize = 16;

/// What brokers have before addresses of AMQP 1.0.
const PREFIXES: [&str; 4] = ["/topic/", "/queue/", "/amq/queue/", "/exchange/amq.topic/"];

/// What stands for names, the same for the same.
#[derive(Debug)]
pub(super) struct Names {
    keep: bool,
    aliases: BTreeMap<String, String>,
    /// Words that stand in the scenario as they are.
    words: BTreeSet<String>,
}

/// How a target was written down.
pub(super) struct Written {
    /// With `{device}` and `{sequence}`.
    pub target: String,
    /// What of it is not as it was, for people.
    pub notes: Vec<String>,
}

impl Names {
    pub fn new(keep: bool) -> Names {
        Names { keep, aliases: BTreeMap::new(), words: BTreeSet::new() }
    }

    /// What stands for a name: always the same for the same one.
    fn alias(&mut self, name: &str) -> String {
        let next = format!("name{}", self.aliases.len() + 1);
        self.aliases.entry(name.to_owned()).or_insert(next).clone()
    }

    /// A word that so many devices share.
    fn word(&mut self, part: &Part, devices: usize) -> String {
        let harmless = devices >= SHARED && !part.is_value && !is_token(&part.text);
        if self.keep || harmless || part.text.is_empty() {
            self.words.insert(part.text.clone());
            return part.text.clone();
        }
        self.alias(&part.text)
    }

    /// Writes the target of a shape that so many devices have. `sequence` are the places of parts that differ from message to
    /// message, `device` the place of the part that stands for the device.
    pub fn write(
        &mut self,
        shape: &Shape,
        devices: usize,
        device: Option<usize>,
        sequence: &BTreeSet<usize>,
    ) -> Written {
        let mut written = Written { target: String::new(), notes: Vec::new() };
        let parts = shape.members.first().map(|member| member.parts.clone()).unwrap_or_default();
        for (place, part) in parts.iter().enumerate() {
            written.target.push_str(part.separator);
            let varies = shape.varying.contains(&place);
            if device == Some(place) {
                written.target.push_str("{device}");
            } else if sequence.contains(&place) {
                written.target.push_str("{sequence}");
            } else if varies {
                let values: BTreeSet<&str> =
                    shape.members.iter().map(|member| member.parts[place].text.as_str()).collect();
                let name = format!("any{}", place + 1);
                written.notes.push(format!(
                    "part {} of the target has {} values beside that of the device; a scenario has one: `{name}`",
                    place + 1,
                    values.len()
                ));
                written.target.push_str(&name);
            } else {
                let word = self.word(part, devices);
                // A brace before a letter begins a variable.
                written.target.push_str(&word.replace('{', "{{"));
            }
        }
        written
    }

    /// Writes a filter: wildcards and the words of targets as they are, and what stands for the others.
    pub fn filter(&mut self, filter: &str) -> String {
        let level = |level: &str| match level {
            "" | "+" | "#" => level.to_owned(),
            level if self.keep || self.words.contains(level) => level.replace('{', "{{"),
            level => self.alias(level),
        };
        filter.split('/').map(level).collect::<Vec<_>>().join("/")
    }

    /// What stands before the levels of an address of AMQP 1.0: the words of brokers, and others only where names are kept.
    pub fn prefix(&self, prefix: &str) -> Option<String> {
        (!prefix.is_empty() && (self.keep || PREFIXES.contains(&prefix))).then(|| prefix.to_owned())
    }

    /// A topic of Kafka that can be named: in a run without it, one is made for the run.
    pub fn topic(&self, topic: &str) -> Option<String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        (self.keep && !topic.is_empty() && topic.chars().all(fits)).then(|| topic.to_owned())
    }

    /// How many names have another in their place.
    pub fn replaced(&self) -> usize {
        self.aliases.len()
    }
}

/// Whether a word looks like a key: long, or rather long with letters and digits. What could not stand in a topic is replaced, too.
fn is_token(word: &str) -> bool {
    if word.contains(|c: char| c.is_control() || "+#".contains(c)) {
        return true;
    }
    let mixed = word.contains(|c: char| c.is_ascii_digit()) && word.contains(|c: char| c.is_alphabetic());
    word.chars().count() > LONGEST || word.len() >= TOKEN && mixed
}

#[cfg(test)]
mod tests {
    use super::super::shape::{Shaped, parts};
    use super::*;

    fn shape(targets: &[&str], varying: &[usize]) -> Shape {
        let member =
            |(source, target): (usize, &&str)| Shaped { source, parts: parts(target), client: source as u32 };
        Shape {
            members: targets.iter().enumerate().map(member).collect(),
            varying: varying.iter().copied().collect(),
        }
    }

    #[test]
    fn words_that_three_devices_share_stay_and_names_do_not() {
        let mut names = Names::new(false);
        let shape_of_three = shape(&["city/a1/temp", "city/a2/temp", "city/a3/temp"], &[1]);
        assert_eq!(names.write(&shape_of_three, 3, Some(1), &BTreeSet::new()).target, "city/{device}/temp");
        let alone = shape(&["home/alice/door"], &[]);
        assert_eq!(names.write(&alone, 1, None, &BTreeSet::new()).target, "name1/name2/name3");
        let tenant = shape(&["t/3f2a9c1b7d5e4f60/x"], &[]);
        assert_eq!(names.write(&tenant, 50, None, &BTreeSet::new()).target, "t/name4/x");
        let query = shape(&["/in?k=secret&d=1", "/in?k=secret&d=2"], &[5]);
        assert_eq!(names.write(&query, 20, Some(5), &BTreeSet::new()).target, "/in?k=name5&d={device}");
        assert_eq!(names.replaced(), 5);
    }

    #[test]
    fn a_part_that_varies_with_something_else_is_named() {
        let mut names = Names::new(false);
        let written =
            names.write(&shape(&["a/z1/d1", "a/z1/d2", "a/z2/d3"], &[1, 2]), 3, Some(2), &BTreeSet::new());
        assert_eq!((written.target.as_str(), written.notes.len()), ("a/any2/{device}", 1));
        let each = names.write(&shape(&["/r/1", "/r/2"], &[2]), 9, None, &BTreeSet::from([2]));
        assert_eq!(each.target, "/r/{sequence}");
    }

    #[test]
    fn filters_keep_words_and_lose_names() {
        let mut names = Names::new(false);
        names.write(&shape(&["city/a1/temp"], &[1]), 3, Some(1), &BTreeSet::new());
        names.write(&shape(&["home/alice"], &[]), 1, None, &BTreeSet::new());
        for (filter, written) in
            [("city/+/temp", "city/+/temp"), ("home/alice", "name1/name2"), ("home/x/#", "name1/name3/#")]
        {
            assert_eq!(names.filter(filter), written);
        }
        assert_eq!(Names::new(true).filter("x/y"), "x/y");
    }

    #[test]
    fn a_brace_is_no_variable() {
        let mut names = Names::new(true);
        assert_eq!(
            names.write(&shape(&["a/{device}"], &[]), 1, None, &BTreeSet::new()).target,
            "a/{{device}"
        );
    }
}
