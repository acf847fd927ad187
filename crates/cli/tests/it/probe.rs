//! What comes through a platform unharmed, found out before a run.

use crate::harness::Bench;
use crate::http_service::{Fault, HttpService};
use crate::roles::PROFILE;

fn probed(bench: &Bench, scenario: &str) -> crate::harness::Finished {
    bench.write("scenario.yaml", scenario);
    let finished = bench.call(["check", "scenario.yaml", "--probe"]);
    assert!(!bench.path("plimsoll.db").exists(), "nothing is stored");
    finished
}

#[test]
fn a_broker_that_passes_everything_on_leaves_every_form_as_it_is() {
    let bench = Bench::beside_others();
    let scenario = "name: all\nplatform: embedded\npopulation: { devices: 2, subscribers: 1 }\n\
        load: { levels: [1000/s], hold: 1h }\nschedule: { every: 1h }\n";
    let finished = probed(&bench, scenario).exits(0).says("survives: a run can follow every message");
    assert_eq!(finished.stdout.matches("all of it").count(), 3, "{}", finished.stdout);
    let text = format!("{scenario}message: {{ template: \"x {{marker}}\" }}\n");
    probed(&bench, &text).exits(0).says("binary: cannot stand in this message");
}

#[test]
#[ignore = "acceptance: faults"]
fn a_platform_that_tells_nobody_is_found_out() {
    let bench = Bench::beside_others();
    bench.write("things.yaml", PROFILE);
    let service = HttpService::start((1..1000).map(|value| (value, Fault::Untold)));
    let scenario = format!(
        "name: mute\nplatform: {{ profile: ./things.yaml, address: \"{}\", clean_up: true }}\n\
         population: {{ devices: 2, subscribers: 1 }}\nload: {{ levels: [1/s], hold: 1m }}\n",
        service.url()
    );
    probed(&bench, &scenario).exits(1).says("nothing came").says("does not survive");
}
