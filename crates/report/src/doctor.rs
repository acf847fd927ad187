//! What `plimsoll doctor` found, on 80 columns, with or without colour.

use crate::text::{Colour, wrapped};
use plimsoll_model::host_check::{HostCheck, Severity};

/// One block a check: how it bears on the run, what was looked at, what was found, what to do; a last line sums up.
pub fn render(checks: &[HostCheck], colour: Colour) -> String {
    let mut out = String::new();
    for check in checks {
        let indent = format!("{:<8} {:<17} ", name(check.severity), check.subject);
        let width = indent.chars().count();
        let text = wrapped(&check.told, &" ".repeat(width)).join("\n");
        let begin = format!("{} {:<17} ", painted(check.severity, colour), check.subject);
        out += &format!("{begin}{}\n", text.trim_start());
        if !check.remedy.is_empty() {
            let remedy = wrapped(&format!("fix: {}", check.remedy), &" ".repeat(width)).join("\n");
            out += &format!("{remedy}\n");
        }
    }
    let count = |severity| checks.iter().filter(|check| check.severity == severity).count();
    let (warnings, problems) = (count(Severity::Warning), count(Severity::Problem));
    out + &match (problems, warnings) {
        (0, 0) => "\nThis host is fit.\n".to_owned(),
        (0, warnings) => format!("\nPossible, with {}.\n", counted(warnings, "warning")),
        (problems, _) => format!("\nImpossible on this host: {}.\n", counted(problems, "problem")),
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Good => "good",
        Severity::Warning => "warning",
        Severity::Problem => "problem",
    }
}

fn painted(severity: Severity, colour: Colour) -> String {
    let name = format!("{:<8}", name(severity));
    let code = match (severity, colour) {
        (_, Colour::Off) => return name,
        (Severity::Good, Colour::On) => "32",
        (Severity::Warning, Colour::On) => "33",
        (Severity::Problem, Colour::On) => "1;31",
    };
    format!("\x1b[{code}m{name}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_80_columns_and_sums_up() {
        let check = |severity, told: &str, remedy: &str| HostCheck {
            subject: "source addresses",
            severity,
            told: told.into(),
            remedy: remedy.into(),
        };
        let long = "word ".repeat(40);
        let found = [check(Severity::Good, "fine", ""), check(Severity::Warning, &long, &long)];
        let text = render(&found, Colour::Off);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            text.starts_with("good     source addresses  fine\nwarning  source addresses  word"),
            "{text}"
        );
        assert!(
            text.contains("\n                           fix: word") && text.contains("with 1 warning."),
            "{text}"
        );
        let impossible = render(&[check(Severity::Problem, "no", "buy")], Colour::On);
        assert!(
            impossible.contains("\x1b[1;31mproblem \x1b[0m") && impossible.contains("Impossible"),
            "{impossible}"
        );
    }
}
