//! When a value is worth a notification (1.1 core, section 5.1.2): what was notified last, what there is now, and the attributes
//! that a server wrote.

use plimsoll_codec::lwm2m::{Attributes, Path, Value};
use plimsoll_model::Nanos;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What an observation has at a time, as far as changes show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    /// One number.
    Number(f64),
    /// Anything else, by a number that other contents hardly have.
    Other(u64),
}

impl Content {
    /// Of these values, written as that payload.
    pub fn of(values: &[(Path, Value<'_>)], payload: &[u8]) -> Content {
        match values {
            [(_, value)] if value.number().is_some() => Content::Number(value.number().unwrap_or_default()),
            _ => Content::Other(fingerprint(payload)),
        }
    }

    /// Whether the step from this content to the next one is worth a notification.
    fn is_left(self, next: Content, attributes: &Attributes) -> bool {
        let Attributes { gt, lt, st, .. } = *attributes;
        match (self, next) {
            (Content::Number(before), Content::Number(next)) if gt.or(lt).or(st).is_some() => {
                let crosses = |bound: f64| (before > bound) != (next > bound);
                let passes = |bound: f64| (before < bound) != (next < bound);
                gt.is_some_and(crosses)
                    || lt.is_some_and(passes)
                    || st.is_some_and(|step| (next - before).abs() >= step)
            }
            _ => self != next,
        }
    }
}

/// A number that other bytes hardly have.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// What is to be done about an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To notify now.
    Notify,
    /// To notify at that time, whatever there is then: it changed in the shortest period.
    NotifyAt(Nanos),
    /// To look again at that time, or when the value changes.
    LookAt(Nanos),
}

/// What is to be done about content that was notified at a time and has become another one since. `owed` says whether it was another one in
/// between, in the shortest period (1.1 core, section 5.1.2).
pub fn next(
    attributes: &Attributes,
    (before, notified_at): (Content, Nanos),
    (content, now): (Content, Nanos),
    owed: bool,
) -> Next {
    let after = |seconds: u32| notified_at + Nanos::from_secs(i64::from(seconds));
    let shortest = attributes.pmin.unwrap_or(0);
    // One that is not longer than the shortest period is ignored.
    let (least, most) = (after(shortest), attributes.pmax.filter(|longest| *longest > shortest).map(after));
    if most.is_some_and(|most| most <= now) {
        return Next::Notify;
    }
    let most = most.unwrap_or(Nanos::MAX);
    match owed || before.is_left(content, attributes) {
        true if least <= now => Next::Notify,
        true => Next::NotifyAt(least.min(most)),
        false => Next::LookAt(most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(text: &str) -> Attributes {
        let mut attributes = Attributes::default();
        text.split('&').filter(|part| !part.is_empty()).for_each(|part| attributes.write(part).unwrap());
        attributes
    }

    /// What is done a second after a notification of the first number, where there is the second one.
    fn done(text: &str, before: f64, content: f64) -> Next {
        let (at, now) = (Nanos::from_secs(10), Nanos::from_secs(11));
        next(&attributes(text), (Content::Number(before), at), (Content::Number(content), now), false)
    }

    #[test]
    fn conditions_say_which_change_is_worth_a_notification() {
        let silent = Next::LookAt(Nanos::MAX);
        for (text, before, content, expected) in [
            ("", 1.0, 2.0, Next::Notify),
            ("", 1.0, 1.0, silent),
            ("gt=20", 19.0, 21.0, Next::Notify),
            ("gt=20", 21.0, 19.0, Next::Notify),
            ("gt=20", 21.0, 25.0, silent),
            ("gt=20", 19.0, 20.0, silent),
            ("lt=10", 11.0, 9.0, Next::Notify),
            ("lt=10", 11.0, 10.0, silent),
            ("lt=10", 9.0, 8.0, silent),
            ("st=2", 9.0, 11.0, Next::Notify),
            ("st=2", 9.0, 7.5, silent),
            ("gt=20&st=5", 21.0, 26.0, Next::Notify),
        ] {
            assert_eq!(done(text, before, content), expected, "{text} {before} {content}");
        }
    }

    #[test]
    fn periods_say_when() {
        let at = |seconds| Next::LookAt(Nanos::from_secs(seconds));
        let waits = Next::NotifyAt(Nanos::from_secs(15));
        assert_eq!(done("pmin=5", 1.0, 2.0), waits, "it has changed, and waits");
        let (before, again) = (Nanos::from_secs(10), Nanos::from_secs(12));
        let same = Content::Number(1.0);
        let owed = next(&attributes("pmin=5"), (same, before), (same, again), true);
        assert_eq!(owed, waits, "it has changed back meanwhile");
        assert_eq!(done("pmin=5&pmax=9", 1.0, 1.0), at(19));
        assert_eq!(done("pmin=1&pmax=9", 1.0, 2.0), Next::Notify);
        assert_eq!(done("pmax=1", 1.0, 1.0), Next::Notify, "nothing has changed for that long");
        assert_eq!(done("pmax=0", 1.0, 1.0), Next::LookAt(Nanos::MAX), "zero is no bound");
    }

    #[test]
    fn what_is_no_number_is_compared_as_a_whole() {
        let own = Path::resource(3, 0, 0);
        let of = |text: &'static str| Content::of(&[(own, Value::String(text))], text.as_bytes());
        assert!(of("a").is_left(of("b"), &attributes("st=5")) && !of("a").is_left(of("a"), &attributes("")));
        assert_eq!(Content::of(&[(own, Value::Integer(3))], b"3"), Content::Number(3.0));
    }
}
