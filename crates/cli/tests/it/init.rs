//! `init` writes scenarios that `check` accepts, and overwrites none.

use crate::harness::Bench;
use std::fs;

fn init(bench: &Bench, arguments: &[&str]) -> (i32, String) {
    let output = bench.plimsoll([&["init"], arguments].concat()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[test]
fn what_it_writes_can_be_checked_whatever_the_platform_speaks() {
    let bench = Bench::beside_others();
    for (file, arguments) in [
        ("embedded.yaml", &[][..]),
        ("mqtt.yaml", &["--platform", "mqtt://h:1883", "--rate", "100..200/50/s", "--p99", "1s"][..]),
        ("http.yaml", &["--platform", "http://h/in", "--rate", "5", "--hold", "1m"][..]),
        ("coap.yaml", &["--platform", "coap://h/in", "--devices", "7", "--no-schema"][..]),
    ] {
        let (code, said) = init(&bench, &[&[file, "--yes"], arguments].concat());
        assert_eq!(code, 0, "{file}: {said}");
        let checked = bench.plimsoll(["check", file]).output().unwrap();
        assert!(checked.status.success(), "{file}: {}", String::from_utf8_lossy(&checked.stderr));
    }
    let text = fs::read_to_string(bench.path("mqtt.yaml")).unwrap();
    assert!(text.starts_with("# yaml-language-server: $schema=plimsoll.schema.json\n"), "{text}");
    assert!(text.contains(r#"levels: { from: "100", to: "200", step: "50" }"#), "{text}");
    assert!(bench.path("plimsoll.schema.json").exists());
    assert!(fs::read_to_string(bench.path("coap.yaml")).unwrap().starts_with("# A load test"));
}

#[test]
fn it_overwrites_nothing_and_refuses_answers_that_make_no_scenario() {
    let bench = Bench::beside_others();
    bench.write("mine.yaml", "mine");
    let (code, said) = init(&bench, &["mine.yaml", "--yes"]);
    assert_eq!((code, said.contains("mine.yaml exists")), (104, true), "{said}");
    assert_eq!(fs::read_to_string(bench.path("mine.yaml")).unwrap(), "mine");
    for wrong in [["--platform", "nosuch"], ["--rate", "fast"], ["--hold", "10"], ["--devices", "none"]] {
        let (code, said) = init(&bench, &["new.yaml", "--yes", wrong[0], wrong[1]]);
        assert_eq!(code, 104, "{wrong:?}: {said}");
        assert!(!bench.path("new.yaml").exists(), "{wrong:?}");
    }
}
