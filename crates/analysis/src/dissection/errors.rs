//! Errors by who answered with them first.

use plimsoll_capture::component::{Components, Holder, Party};
use plimsoll_capture::errors::{Errors, Failures, Origin};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Errors that one component answered first, and others perhaps passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct ErrorSummary {
    /// Who answered so, though nobody that it had called did; null where several may have been the first.
    pub component: Option<String>,
    /// In what.
    pub protocol: String,
    /// With what status; null where it gave no answer, and who had asked failed because of that.
    pub status: Option<String>,
    /// How many.
    pub count: u64,
    /// Of those, the ones that who had asked passed on as errors of its own.
    pub passed_on: u64,
    /// Who passed them on.
    pub passed_on_by: Vec<String>,
}

impl ErrorSummary {
    /// What was answered, as a predicate of who did.
    pub fn did(&self) -> String {
        let what = match &self.status {
            Some(status) if !status.is_empty() => format!("answered {status}"),
            Some(_) => "answered with an error".to_owned(),
            None => "gave no answer".to_owned(),
        };
        format!("{what} ({})", self.protocol)
    }

    /// In a sentence.
    pub fn told(&self) -> String {
        let times = |number: u64| if number == 1 { "once".to_owned() } else { format!("{number} times") };
        let mut text = match &self.component {
            Some(who) => format!("{who} {} {}", self.did(), times(self.count)),
            None => format!("one of several {} first", self.did()),
        };
        if self.passed_on > 0 {
            text += &format!("; {} passed that on {}", self.passed_on_by.join(", "), times(self.passed_on));
        }
        text
    }
}

/// The most first.
pub(super) fn errors(failures: &Failures, components: &Components) -> Vec<ErrorSummary> {
    let name = |holder: &Holder| match holder {
        Holder::Party(party) => components.name(party),
        Holder::Socket(socket) => components.name(&Party::Host(socket.address)),
    };
    let summary = |(origin, errors): (&Origin, &Errors)| ErrorSummary {
        component: origin.who.as_ref().map(name),
        protocol: origin.protocol.name().into(),
        status: origin.status.map(|status| status.to_string()),
        count: errors.count,
        passed_on: errors.passed_on,
        passed_on_by: errors.by.iter().map(name).collect::<BTreeSet<_>>().into_iter().collect(),
    };
    let mut all: Vec<ErrorSummary> = failures.by_origin().iter().map(summary).collect();
    all.sort_by(|one, other| (other.count, &one.component).cmp(&(one.count, &other.component)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_the_origin_and_who_passed_it_on() {
        let mut error = ErrorSummary {
            component: Some("proxy".into()),
            protocol: "http".into(),
            status: Some("503".into()),
            count: 63,
            passed_on: 62,
            passed_on_by: vec!["agent".into()],
        };
        assert_eq!(error.told(), "proxy answered 503 (http) 63 times; agent passed that on 62 times");
        error = ErrorSummary { status: None, count: 1, passed_on: 0, ..error };
        assert_eq!(error.told(), "proxy gave no answer (http) once");
    }
}
