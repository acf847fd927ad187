//! What a run would do, for `plimsoll check`.

use crate::text::hanging;

/// Columns of the labels on the left, their indent among them.
const LABEL: usize = 15;

/// The facts of a plan under its name, as lines of 80 columns.
pub fn render(name: &str, facts: &[(&str, String)]) -> String {
    let mut out = hanging("", name, "").join("\n") + "\n";
    for (label, text) in facts {
        let label = format!("{:<LABEL$}", format!("  {label}"));
        out += &(hanging(&label, text, &" ".repeat(LABEL)).join("\n") + "\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_stand_behind_their_labels_on_80_columns() {
        let told = render("city", &[("load", "open".to_owned()), ("levels", "word ".repeat(40))]);
        assert!(told.starts_with("city\n  load         open\n  levels       word word"), "{told}");
        assert!(told.lines().all(|line| line.len() <= 80), "{told}");
        assert!(told.lines().skip(3).all(|line| line.starts_with("               word")), "{told}");
    }
}
