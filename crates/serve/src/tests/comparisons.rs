//! Scenarios that are run in turns and compared, from the list of scenarios.

use super::*;

const OTHER: &str = "name: other\nplatform: embedded\npopulation: { devices: 20, subscribers: 1 }\nload: { levels: [100], hold: 10s }\n";

#[test]
fn scenarios_are_chosen_in_the_list_and_compared() {
    let bench = Bench::new();
    bench.write("mine.yaml", SCENARIO);
    assert!(
        !bench.get("/scenarios").text.contains("Compare the chosen"),
        "there is nothing to compare it with"
    );
    bench.write("other.yaml", OTHER);
    let list = bench.get("/scenarios").text;
    assert_eq!(list.matches("type=\"checkbox\" name=\"scenario\"").count(), 2, "{list}");
    assert!(list.contains("Compare the chosen scenarios"), "{list}");
    let viewers =
        bench.ask(Method::GET, "/scenarios", &[("host", HERE), ("cookie", &bench.viewer())], "").text;
    assert!(viewers.contains("other.yaml") && !viewers.contains("checkbox"), "{viewers}");
    let both = [("scenario", "mine.yaml"), ("scenario", "other.yaml"), ("turns", "4")];
    let started = bench.post("/jobs", &both);
    assert_eq!(started.status, StatusCode::SEE_OTHER, "{}", started.text);
    let path = started.headers[LOCATION].to_str().unwrap().to_owned();
    let page = bench.get(&path).text;
    assert!(page.contains("a comparison of 4 turns") && page.contains("mine.yaml, other.yaml"), "{page}");
    assert!(page.contains("Stop the comparison"), "{page}");
    assert!(bench.get("/").text.contains("A comparison of mine.yaml, other.yaml goes on"));
    let job = &bench.site.jobs.at_work().going_on[0].id;
    let report = bench.folder.path().join(format!(".plimsoll-serve/jobs/{job}/report.html"));
    fs::write(report, "<script>its own</script>").unwrap();
    let policy = &bench.get(&format!("{path}/report")).headers[CONTENT_SECURITY_POLICY];
    assert!(policy.to_str().unwrap().starts_with("sandbox allow-scripts"), "{policy:?}");
    bench.post(&format!("{path}/stop"), &[]);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let bench = Bench::new();
    bench.write("mine.yaml", SCENARIO);
    bench.write("other.yaml", OTHER);
    bench.write("swept.yaml", &format!("{SCENARIO}matrix: {{ population.devices: [1, 2] }}\n"));
    bench.write("kept.yaml", &format!("{SCENARIO}record: {{ capture: {{ keep: /tmp/elsewhere }} }}\n"));
    for (second, status, why) in [
        ("mine.yaml", StatusCode::BAD_REQUEST, "different scenarios"),
        ("none.yaml", StatusCode::NOT_FOUND, "none.yaml"),
        ("../other.yaml", StatusCode::BAD_REQUEST, "no such scenario"),
        ("swept.yaml", StatusCode::UNPROCESSABLE_ENTITY, "has a `matrix`"),
        ("kept.yaml", StatusCode::FORBIDDEN, "outside the folder"),
    ] {
        let refused = bench.post("/jobs", &[("scenario", "mine.yaml"), ("scenario", second)]);
        assert_eq!(refused.status, status, "{second}: {}", refused.text);
        assert!(refused.text.contains(why), "{second}: {}", refused.text);
    }
    // One box alone is no comparison.
    let alone = bench.post("/jobs", &[("kind", "comparison"), ("scenario", "mine.yaml")]);
    assert_eq!(alone.status, StatusCode::BAD_REQUEST, "{}", alone.text);
    let many: Vec<(&str, &str)> = (0..queue::MOST_COMPARED + 1).map(|_| ("scenario", "other.yaml")).collect();
    assert_eq!(bench.post("/jobs", &many).status, StatusCode::BAD_REQUEST);
    assert_eq!(bench.site.jobs.at_work(), AtWork::default());
}
