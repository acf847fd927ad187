//! The statistics behind the page of compared brokers keep what they promise, on figures whose differences are known.

use std::process::Command;

#[test]
fn false_differences_are_as_rare_as_promised_and_intervals_cover() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/differences.py");
    let output = Command::new("python3").arg(script).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("false discoveries"), "{said}");
}
