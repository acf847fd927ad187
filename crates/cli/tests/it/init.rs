//! What helps at the beginning: `init` writes scenarios that `check` accepts, and overwrites none; man pages and completions.

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
        ("gateway.yaml", &["--platform", "gateway"][..]),
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

#[test]
fn every_command_has_a_man_page_and_completions_know_it() {
    let bench = Bench::beside_others();
    let made = bench.plimsoll(["man", "man"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let pages: Vec<String> = fs::read_dir(bench.path("man"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for page in ["plimsoll.1", "plimsoll-run.1", "plimsoll-init.1", "plimsoll-target-broker.1"] {
        assert!(pages.iter().any(|made| made == page), "{page}: {pages:?}");
    }
    assert!(pages.iter().all(|page| !page.contains([' ', '/']) && !page.contains("guard")), "{pages:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = bench.plimsoll(["completions", shell]).output().unwrap();
        let script = String::from_utf8(script.stdout).unwrap();
        assert!(["sweep", "init", "quick"].iter().all(|word| script.contains(word)), "{shell}");
    }
}
