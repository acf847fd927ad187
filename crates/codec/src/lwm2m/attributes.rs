//! When a device notifies whoever observes it (1.1 core, section 5.1.2): attributes that a server writes.

use std::fmt::Write;

/// Attributes of a path; those that are `None` were not written there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attributes {
    /// Seconds that pass between two notifications, at least.
    pub pmin: Option<u32>,
    /// Seconds that pass between two notifications, at most.
    pub pmax: Option<u32>,
    /// Notifies when the value crosses this one.
    pub gt: Option<f64>,
    /// Notifies when the value crosses this one.
    pub lt: Option<f64>,
    /// Notifies when the value has changed by so much.
    pub st: Option<f64>,
}

impl Attributes {
    /// Takes over one part of a query, such as `pmin=10`; one without a value takes the attribute away. `None` where it is no attribute,
    /// or its value is none.
    pub fn write(&mut self, part: &str) -> Option<()> {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (part, None),
        };
        match name {
            "pmin" => self.pmin = seconds(value)?,
            "pmax" => self.pmax = seconds(value)?,
            "gt" => self.gt = number(value)?,
            "lt" => self.lt = number(value)?,
            "st" => self.st = number(value)?,
            _ => return None,
        }
        Some(())
    }

    /// These where they are written, else those of a higher level.
    pub fn or(self, higher: Attributes) -> Attributes {
        Attributes {
            pmin: self.pmin.or(higher.pmin),
            pmax: self.pmax.or(higher.pmax),
            gt: self.gt.or(higher.gt),
            lt: self.lt.or(higher.lt),
            st: self.st.or(higher.st),
        }
    }

    /// Whether they allow what the standard demands: the steps between the two bounds are wider than two steps. A longest period that
    /// is not longer than the shortest one is ignored.
    pub fn are_consistent(&self) -> bool {
        let bounds = match (self.lt, self.gt) {
            (Some(lt), Some(gt)) => lt + 2.0 * self.st.unwrap_or(0.0) < gt,
            _ => true,
        };
        bounds && self.st.is_none_or(|st| st > 0.0)
    }

    /// Appends them as they stand behind a link: `;pmin=10`.
    pub fn show(&self, out: &mut String) {
        // Writing to memory does not fail.
        for (name, seconds) in [("pmin", self.pmin), ("pmax", self.pmax)] {
            let _ = seconds.map_or(Ok(()), |seconds| write!(out, ";{name}={seconds}"));
        }
        for (name, number) in [("gt", self.gt), ("lt", self.lt), ("st", self.st)] {
            let _ = number.map_or(Ok(()), |number| write!(out, ";{name}={number}"));
        }
    }
}

fn seconds(value: Option<&str>) -> Option<Option<u32>> {
    value.map_or(Some(None), |value| value.parse().ok().map(Some))
}

fn number(value: Option<&str>) -> Option<Option<f64>> {
    let finite = |number: &f64| number.is_finite();
    value.map_or(Some(None), |value| value.parse().ok().filter(finite).map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(query: &str) -> Option<Attributes> {
        let mut attributes = Attributes::default();
        query.split('&').try_for_each(|part| attributes.write(part))?;
        Some(attributes)
    }

    #[test]
    fn attributes_are_written_and_taken_away() {
        let written = of("pmin=5&pmax=60&gt=30.5&lt=10&st=1").unwrap();
        let expected =
            Attributes { pmin: Some(5), pmax: Some(60), gt: Some(30.5), lt: Some(10.0), st: Some(1.0) };
        assert_eq!(written, expected);
        assert_eq!(of("pmin=5&pmin").unwrap(), Attributes::default());
        let mut shown = String::new();
        written.show(&mut shown);
        assert_eq!(shown, ";pmin=5;pmax=60;gt=30.5;lt=10;st=1");
        for wrong in ["pmin=-1", "pmin=x", "gt=inf", "gt=", "colour=red", ""] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_lower_level_goes_before_a_higher_one() {
        let (own, higher) = (of("pmin=1").unwrap(), of("pmin=5&pmax=9").unwrap());
        assert_eq!(own.or(higher), of("pmin=1&pmax=9").unwrap());
    }

    #[test]
    fn contradictions_are_seen() {
        for (query, consistent) in [
            ("lt=10&gt=20", true),
            ("lt=20&gt=10", false),
            ("lt=10&gt=20&st=5", false),
            ("st=0", false),
            ("pmin=5&pmax=4", true),
            ("pmin=5&pmax=0", true),
        ] {
            assert_eq!(of(query).unwrap().are_consistent(), consistent, "{query}");
        }
    }

    proptest! {
        #[test]
        fn any_query_is_read_without_panic(query: String) {
            if let Some(attributes) = of(&query) {
                let mut shown = String::new();
                attributes.show(&mut shown);
                prop_assert!(shown.is_empty() || shown.starts_with(';'), "{}", attributes.are_consistent());
            }
        }
    }
}
