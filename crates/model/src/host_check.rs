//! What was looked at on a host before a run, and what is to be done about it.

/// How what was found bears on the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Fit.
    Good,
    /// It may spoil or limit what is measured.
    Warning,
    /// It makes the run impossible.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCheck {
    /// What was looked at.
    pub subject: &'static str,
    /// How it bears on the run.
    pub severity: Severity,
    /// What was found and what it means.
    pub told: String,
    /// What to do about it, mostly a command; empty where nothing is to be done.
    pub remedy: String,
}

impl HostCheck {
    /// Nothing stands in the way.
    pub fn good(subject: &'static str, told: impl Into<String>) -> HostCheck {
        HostCheck { subject, severity: Severity::Good, told: told.into(), remedy: String::new() }
    }

    /// It may spoil or limit what is measured.
    pub fn warning(subject: &'static str, told: impl Into<String>, remedy: impl Into<String>) -> HostCheck {
        HostCheck { subject, severity: Severity::Warning, told: told.into(), remedy: remedy.into() }
    }

    /// It makes the run impossible.
    pub fn problem(subject: &'static str, told: impl Into<String>, remedy: impl Into<String>) -> HostCheck {
        HostCheck { severity: Severity::Problem, ..HostCheck::warning(subject, told, remedy) }
    }
}

/// What was found, with its remedy, in one line.
impl std::fmt::Display for HostCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.remedy.is_empty() { "" } else { ": " };
        write!(f, "{}{separator}{}", self.told, self.remedy)
    }
}
