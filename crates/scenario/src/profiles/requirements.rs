//! Which requirements a platform meets, for comparisons: those of the project IoT-A that a comparison of platforms of 2016 found
//! relevant for an architecture. They concern interoperability of protocols and data, security and access, self-description, and
//! queries by meaning and place.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Their names, in order.
const ALL: [&str; 23] = [
    "UNI.001", "UNI.002", "UNI.005", "UNI.008", "UNI.016", "UNI.022", "UNI.023", "UNI.030", "UNI.036",
    "UNI.047", "UNI.048", "UNI.067", "UNI.071", "UNI.073", "UNI.092", "UNI.094", "UNI.240", "UNI.245",
    "UNI.405", "UNI.406", "UNI.426", "UNI.607", "UNI.608",
];

/// The requirements of IoT-A that a platform does not meet, and those of which that is not known. It meets all others. Without this,
/// nothing is known of any.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Requirements {
    /// Those that it does not meet, such as `UNI.405`.
    #[serde(default)]
    pub unmet: Vec<String>,
    /// Those of which nothing is known.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// Who found that.
    pub source: String,
}

impl Requirements {
    /// What is wrong with them, if anything: the key, and a message.
    pub(crate) fn wrong(&self) -> Option<(&'static str, String)> {
        for (key, listed) in [("unmet", &self.unmet), ("unknown", &self.unknown)] {
            if let Some(stranger) = listed.iter().find(|name| !ALL.contains(&name.as_str())) {
                return Some((key, format!("`{stranger}` is none of the requirements that are compared")));
            }
            let twice = listed
                .iter()
                .enumerate()
                .find(|(place, name)| listed.iter().take(*place).any(|other| other == *name));
            if let Some((_, twice)) = twice {
                return Some((key, format!("`{twice}` is listed twice")));
            }
        }
        let both = self.unmet.iter().find(|name| self.unknown.contains(name))?;
        Some(("unknown", format!("`{both}` is listed as not met, too")))
    }
}

/// What a comparison shows of them beside other qualities.
pub(crate) fn qualities(requirements: Option<&Requirements>) -> BTreeMap<String, String> {
    let all = ALL.len();
    let lines = match requirements {
        None => ["unknown".to_owned(), "unknown".to_owned(), format!("all {all}")],
        Some(Requirements { unmet, unknown, source }) => {
            let met = all - unmet.len() - unknown.len();
            [format!("{met} of {all} ({source})"), named(unmet), named(unknown)]
        }
    };
    let names =
        ["met", "not met", "of which nothing is known"].map(|what| format!("requirements of IoT-A {what}"));
    names.into_iter().zip(lines).collect()
}

fn named(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_is_met() {
        let requirements = Requirements {
            unmet: vec!["UNI.405".into(), "UNI.406".into()],
            unknown: vec!["UNI.608".into()],
            source: "somebody".into(),
        };
        assert_eq!(requirements.wrong(), None);
        let lines: Vec<String> = qualities(Some(&requirements)).into_values().collect();
        assert_eq!(lines, ["20 of 23 (somebody)", "UNI.405, UNI.406", "UNI.608"]);
        assert_eq!(qualities(None).into_values().collect::<Vec<_>>(), ["unknown", "unknown", "all 23"]);
    }

    #[test]
    fn strangers_and_contradictions_are_wrong() {
        let wrong = |unmet: &[&str], unknown: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            Requirements { unmet: names(unmet), unknown: names(unknown), source: String::new() }.wrong()
        };
        assert_eq!(wrong(&["UNI.4"], &[]).unwrap().0, "unmet");
        assert_eq!(
            wrong(&[], &["UNI.405", "UNI.405"]).unwrap(),
            ("unknown", "`UNI.405` is listed twice".into())
        );
        assert_eq!(
            wrong(&["UNI.405"], &["UNI.405"]).unwrap(),
            ("unknown", "`UNI.405` is listed as not met, too".into())
        );
    }
}
