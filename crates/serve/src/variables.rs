//! Environment variables that a scenario may name as secrets, and those that a run is started with. The server may have others, such as
//! the credentials of its user, and a scenario that is written in a browser must not send them to a platform.

use std::ffi::OsString;

/// What variables of ours begin with.
const OURS: &str = "PLIMSOLL_";
/// What signs the messages of webhooks. No scenario may name it, and no run has it.
pub const WEBHOOK_SECRET: &str = "PLIMSOLL_WEBHOOK_SECRET";
/// What programs need that a platform's components are, and that engines of containers are found by.
const PASSED_ON: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "JAVA_HOME",
    "DOCKER_HOST",
    "KUBECONFIG",
];

/// See the module.
pub struct Variables {
    named: Vec<String>,
}

impl Variables {
    /// With those that the user named.
    pub fn new(named: Vec<String>) -> Variables {
        Variables { named }
    }

    /// The value of a variable that a scenario may name.
    pub fn get(&self, name: &str) -> Option<String> {
        self.may_be_named(name).then(|| std::env::var(name).ok()).flatten()
    }

    /// All that a run is started with.
    pub fn of_runs(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os()
            .filter(|(name, _)| name.to_str().is_some_and(|name| self.passes_on(name)))
            .collect()
    }

    fn passes_on(&self, name: &str) -> bool {
        self.may_be_named(name) || PASSED_ON.contains(&name)
    }

    fn may_be_named(&self, name: &str) -> bool {
        name != WEBHOOK_SECRET && (name.starts_with(OURS) || self.named.iter().any(|named| named == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_variables_are_secrets_and_runs_have_what_programs_need() {
        let none = Variables::new(Vec::new());
        assert_eq!(none.get("PATH"), None, "a scenario cannot send it");
        for (name, passes) in [
            ("PATH", true),
            ("PLIMSOLL_PASSWORD", true),
            (WEBHOOK_SECRET, false),
            ("AWS_SECRET_ACCESS_KEY", false),
        ] {
            assert_eq!(none.passes_on(name), passes, "{name}");
        }
        let named = Variables::new(vec!["PATH".into(), "BROKER_PASSWORD".into()]);
        assert_eq!(named.get("PATH"), std::env::var("PATH").ok());
        assert!(named.passes_on("BROKER_PASSWORD") && !named.passes_on("OTHER_PASSWORD"));
        let of_runs = none.of_runs();
        assert!(of_runs.iter().any(|(name, _)| name == "PATH"));
        assert!(of_runs.iter().all(|(name, _)| name.to_str().is_some_and(|name| none.passes_on(name))));
    }
}
