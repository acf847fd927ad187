//! The table of times in docs/metrics.md and the table in the code are of the same metrics.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use plimsoll_model::metric::METRICS;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Times that are made of others.
const DERIVED: [&str; 2] = ["total_time", "recovery"];

#[test]
fn each_metric_is_documented_and_nothing_else_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = fs::read_to_string(path).unwrap();
    let section =
        text.split("\n## ").find(|section| section.starts_with("Times\n")).expect("a section on times");
    let firsts = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let documented: BTreeSet<&str> =
        firsts.flat_map(|cell| cell.split(", ")).map(|key| key.trim_matches('`')).collect();
    let known: BTreeSet<&str> = METRICS.iter().map(|row| row.key).chain(DERIVED).collect();
    assert_eq!(documented, known);
}
