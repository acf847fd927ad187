//! What resolving needs to know, and where it puts what it finds.

use crate::brought_up::BroughtUp;
use crate::config::secret::SecretSource;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::environment::Environment;
use crate::inputs::Parsed;
use crate::plan::PopulationPlan;
use crate::populations::part::Part;
use crate::secret::Secret;
use crate::tree::Node;
use plimsoll_template::TemplateError;
use serde::Serialize;

/// What resolving needs to know and where it puts what it finds.
pub(crate) struct Context<'a> {
    pub root: &'a Node,
    pub environment: &'a Environment<'a>,
    pub parsed: &'a Parsed,
    pub found: &'a mut Diagnostics,
    /// Which of several populations this is; `None` where there is one.
    pub part: Option<&'a Part>,
    /// What the command printed that has brought the platform up; `None` before.
    pub brought_up: Option<&'a BroughtUp>,
}

impl Context<'_> {
    /// Reports something wrong at a path such as `load.levels.0`.
    pub fn error(&mut self, path: &str, message: impl Into<String>) {
        self.found.push(Diagnostic::new(self.root.locate(path), message));
    }

    /// The same with what to do about it.
    pub fn error_with_help(&mut self, path: &str, message: impl Into<String>, help: impl Into<String>) {
        self.found.push(Diagnostic::new(self.root.locate(path), message).help(help));
    }

    /// The secret of an environment variable, which is reported at a path where it is not set.
    pub fn secret(&mut self, source: &SecretSource, path: &str) -> Option<Secret> {
        let found = (self.environment.variable)(&source.env).map(Secret);
        if found.is_none() {
            self.error_with_help(
                path,
                format!("the environment variable `{}` is not set", source.env),
                format!("set it before the run: `export {}=...`", source.env),
            );
        }
        found
    }

    /// Whether the user wrote something at a path.
    pub fn written(&self, path: &str) -> bool {
        self.root.has(path)
    }

    /// Whether a section was written for all populations, and concerns this one only as far as it means something to it.
    pub fn inherits(&self, section: &str) -> bool {
        self.part.is_some_and(|part| part.inherits(section))
    }

    /// The population's place among the others.
    pub fn population(&self) -> PopulationPlan {
        self.part.map(|part| part.population.clone()).unwrap_or_default()
    }

    /// Reports a text that is no template, where it can be on the variable itself.
    pub fn template_error(&mut self, path: &str, error: TemplateError) {
        let span = self.root.locate(path).find(&error.written);
        self.found.push(Diagnostic::new(&span, error.message).help(error.help));
    }

    /// Reports the keys of a section that differ from their defaults, beside those that hold for what devices speak. A resolved
    /// scenario has every default written out.
    pub fn means_nothing<T: Serialize>(
        &mut self,
        section: &str,
        (written, default): (&T, &T),
        hold: &[&str],
        name: &str,
    ) {
        let values = |section: &T| serde_json::to_value(section).unwrap_or_default();
        let (written, default) = (values(written), values(default));
        for (key, value) in written.as_object().into_iter().flatten() {
            let path = format!("{section}.{key}");
            if hold.contains(&key.as_str()) || !self.written(&path) || default.get(key) == Some(value) {
                continue;
            }
            let help = match hold {
                [] => "remove it".to_owned(),
                hold => format!("remove it; of `{section}`, {} hold here", hold.join(", ")),
            };
            self.error_with_help(&path, format!("`{key}` means nothing to {name}"), help);
        }
    }
}
