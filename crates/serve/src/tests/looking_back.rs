//! Runs that are over: lists, tags, history, deletion, downloads.

use super::*;

/// Downloads that are made of a message log.
const OF_LOG: [&str; 3] = ["messages", "events", "jtl"];
#[test]
fn runs_are_listed_found_and_downloaded() {
    let bench = Bench::new();
    assert!(bench.get("/").text.contains("No runs yet"));
    bench.store_runs();
    let list = bench.get("/");
    assert!(list.text.contains("/runs/3vk1a81x") && list.text.contains("chip failed"), "{}", list.text);
    assert!(list.text.contains("&lt;script&gt;3vk1a81y"), "names are escaped");
    for (query, found) in [
        ("text=3vk1a81x", [true, false]),
        ("verdict=failed", [true, true]),
        ("verdict=met", [false, false]),
        ("from=2026-12-01", [false, false]),
        ("page=1", [false, false]),
    ] {
        let text = bench.get(&format!("/?{query}")).text;
        assert_eq!(RUNS.map(|id| text.contains(&format!("/runs/{id}"))), found, "{query}");
    }
    for wrong in ["/runs/zzzzzzzz", "/runs/last", "/runs/..%2f..%2fetc", "/runs/3vk1a81x/downloads/passwd"] {
        assert_eq!(bench.get(wrong).status, StatusCode::NOT_FOUND, "{wrong}");
    }
    for download in crate::downloads::DOWNLOADS.iter().filter(|download| !OF_LOG.contains(&download.name)) {
        let answer = bench.get(&format!("/runs/3vk1a81x/downloads/{}", download.name));
        assert_eq!(answer.status, StatusCode::OK, "{}: {}", download.name, answer.text);
        let disposition = answer.headers["content-disposition"].to_str().unwrap();
        assert!(disposition.starts_with("attachment; filename=\"plimsoll.3vk1a81x."), "{disposition}");
    }
    let of_viewer =
        |path: &str| bench.ask(Method::GET, path, &[("host", HERE), ("cookie", &bench.viewer())], "");
    assert_eq!(of_viewer("/runs/3vk1a81x/downloads/bundle").status, StatusCode::FORBIDDEN);
    assert_eq!(of_viewer("/runs/3vk1a81x/downloads/report").status, StatusCode::OK);
    assert!(!of_viewer("/runs/3vk1a81x").text.contains("/downloads/bundle"));
    assert!(bench.get("/runs/3vk1a81x").text.contains("/downloads/bundle"));
    let summary = bench.get("/runs/3vk1a81x/downloads/summary");
    assert_eq!(summary.headers[CONTENT_TYPE], "application/json");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&summary.text).unwrap()["verdict"], "failed");
    for name in OF_LOG {
        let answer = bench.get(&format!("/runs/3vk1a81x/downloads/{name}"));
        assert!(
            answer.status == StatusCode::NOT_FOUND && answer.text.contains("no message log"),
            "{}",
            answer.text
        );
    }
    assert_eq!(bench.get("/compare?run=3vk1a81x").status, StatusCode::BAD_REQUEST);
}

/// A bundle has what the scenario names and the folder has, and says what it does not have.
#[test]
fn a_bundle_has_files_of_the_folder_and_of_no_other() {
    let bench = Bench::new();
    bench.write("rows.csv", "value\n1\n");
    let outside = bench.folder.path().parent().unwrap().join("plimsoll-outside.csv");
    let scenario = format!(
        "name: x\nmessage:\n  feed:\n    file: rows.csv\nother:\n  feed:\n    file: {}\nmore:\n  feed:\n    file: .plimsoll-serve/tokens\n",
        outside.display()
    );
    let new = NewRun {
        id: "3vk1a81z".into(),
        name: "named".into(),
        scenario,
        terms: Terms::default(),
        provenance: Provenance::default(),
    };
    let mut writer =
        RunWriter::begin(&bench.folder.path().join("plimsoll.db"), &new, &Arc::default()).unwrap();
    writer.end(&RunEnd::Complete).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = Request::builder()
        .uri("/runs/3vk1a81z/downloads/bundle")
        .header(HOST, HERE)
        .header(COOKIE, bench.operator())
        .body(Full::new(Bytes::new()))
        .unwrap();
    let packed = runtime.block_on(async {
        let answer = routes::answer(&bench.site, request).await;
        assert_eq!(answer.status(), StatusCode::OK);
        answer.into_body().collect().await.unwrap().to_bytes()
    });
    let bundle = plimsoll_runner::bundle::Bundle::open(&packed[..]).unwrap();
    assert_eq!(bundle.file("rows.csv"), Some("value\n1\n"));
    let readme = bundle.file("README.md").unwrap();
    assert!(readme.contains("plimsoll-outside.csv") && readme.contains("was not found"), "{readme}");
    assert!(readme.contains("`.plimsoll-serve/tokens`, which was not found"), "{readme}");
    assert_eq!(bundle.file(".plimsoll-serve/tokens"), None);
}

#[test]
fn runs_have_tags_and_notes_and_are_found_by_them() {
    let bench = Bench::new();
    bench.store_runs();
    let annotate = |run: &str, tags: &str, note: &str| {
        bench.post(&format!("/runs/{run}/annotate"), &[("tags", tags), ("note", note)])
    };
    let kept = annotate("3vk1a81x", "night cold", "<b>slow</b>\r\ndisk");
    assert_eq!(
        (kept.status, &kept.headers[LOCATION]),
        (StatusCode::SEE_OTHER, &"/runs/3vk1a81x".parse().unwrap())
    );
    let page = bench.get("/runs/3vk1a81x").text;
    assert!(
        page.contains("href=\"/?text=night\"") && page.contains("&lt;b&gt;slow&lt;/b&gt;\ndisk"),
        "{page}"
    );
    assert!(!page.contains("<b>slow"), "{page}");
    let found =
        |query: &str| RUNS.map(|id| bench.get(&format!("/?{query}")).text.contains(&format!("/runs/{id}\"")));
    assert_eq!(
        (found("text=cold"), found("text=warm"), found("")),
        ([true, false], [false, false], [true, true])
    );
    for (tags, note) in [("<script>", ""), ("", "a\u{202e}b"), ("a", &"x".repeat(20_000))] {
        assert_eq!(annotate("3vk1a81x", tags, note).status, StatusCode::UNPROCESSABLE_ENTITY, "{tags}");
    }
    for run in ["zzzzzzzz", "last", "..%2f", "'%20or%201=1"] {
        assert_eq!(annotate(run, "a", "").status, StatusCode::NOT_FOUND, "{run}");
    }
    let of_viewer =
        bench.ask(Method::GET, "/runs/3vk1a81x", &[("host", HERE), ("cookie", &bench.viewer())], "");
    assert!(
        of_viewer.text.contains("&lt;b&gt;slow") && !of_viewer.text.contains("/annotate"),
        "{}",
        of_viewer.text
    );
}

#[test]
fn a_name_has_a_history_whose_chart_stands_in_a_sandbox() {
    let bench = Bench::new();
    bench.store_runs();
    let page = bench.get("/runs/3vk1a81x").text;
    assert!(page.contains("href=\"/history?name=%3Cscript%3E3vk1a81x\""), "{page}");
    let history = bench.get("/history?name=%3Cscript%3E3vk1a81x");
    assert_eq!(history.status, StatusCode::OK);
    assert!(history.text.contains("No run of that name has a load line yet."), "{}", history.text);
    assert!(
        history.text.contains("/runs/3vk1a81x\"") && !history.text.contains("/runs/3vk1a81y"),
        "{}",
        history.text
    );
    assert!(!history.text.contains("<script>"), "{}", history.text);
    let report = bench.get("/history/report?name=%3Cscript%3E3vk1a81x");
    let policy = report.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.starts_with("sandbox allow-scripts") && !policy.contains("allow-same-origin"), "{policy}");
    assert!(report.text.contains("&lt;script&gt;3vk1a81x"), "{}", report.text);
    for wrong in ["/history", "/history?name=none", "/history?name=3vk1a81x"] {
        assert_eq!(bench.get(wrong).status, StatusCode::NOT_FOUND, "{wrong}");
    }
    bench.post("/runs/3vk1a81x/delete", &[]);
    assert_eq!(bench.get("/history?name=%3Cscript%3E3vk1a81x").status, StatusCode::NOT_FOUND);
}

#[test]
fn a_deleted_run_is_restored_or_purged_when_the_host_is_idle() {
    let bench = Bench::new();
    let store = bench.folder.path().join("plimsoll.db");
    assert!(bench.get("/deleted").text.contains("No run was deleted."));
    bench.store_runs();
    let listed = || RUNS.map(|id| bench.get("/").text.contains(&format!("/runs/{id}\"")));
    let deleted = bench.post("/runs/3vk1a81x/delete", &[]);
    assert_eq!(deleted.headers[LOCATION], "/deleted");
    assert_eq!(listed(), [false, true]);
    assert!(bench.get("/").text.contains("Deleted runs: 1"));
    assert!(bench.get("/deleted").text.contains("action=\"/runs/3vk1a81x/restore\""));
    assert!(bench.get("/runs/3vk1a81x").text.contains("This run was deleted"), "it is there as before");
    annotation_page::purge(&bench.site).unwrap();
    let restored = bench.post("/runs/3vk1a81x/restore", &[]);
    assert_eq!((&restored.headers[LOCATION], listed()), (&"/runs/3vk1a81x".parse().unwrap(), [true, true]));
    // More than a day ago, and nothing goes on: it is purged. While something measures on the host, it is not.
    mark_deleted(&store, "3vk1a81x", Some("2026-01-01T00:00:00Z")).unwrap();
    let lock = HostLock::take(&bench.site.jobs.lock).unwrap();
    annotation_page::purge(&bench.site).unwrap();
    assert_eq!(bench.get("/runs/3vk1a81x").status, StatusCode::OK);
    drop(lock);
    annotation_page::purge(&bench.site).unwrap();
    assert_eq!(bench.get("/runs/3vk1a81x").status, StatusCode::NOT_FOUND);
    assert_eq!(bench.post("/runs/3vk1a81x/restore", &[]).status, StatusCode::NOT_FOUND);
    assert_eq!((listed(), bench.get("/runs/3vk1a81y").status), ([false, true], StatusCode::OK));
}

#[test]
fn a_run_that_goes_on_is_not_deleted() {
    let bench = Bench::new();
    let process = identity_of(std::process::id());
    let new = NewRun {
        id: "3vk1a81z".into(),
        name: "going on".into(),
        scenario: "name: x\n".into(),
        terms: Terms::default(),
        provenance: Provenance { process, ..Provenance::default() },
    };
    let _writer = RunWriter::begin(&bench.folder.path().join("plimsoll.db"), &new, &Arc::default()).unwrap();
    let deleted = bench.post("/runs/3vk1a81z/delete", &[]);
    assert_eq!(deleted.status, StatusCode::CONFLICT, "{}", deleted.text);
    assert!(!bench.get("/runs/3vk1a81z").text.contains("/delete\""));
}

/// More than one piece of a log is whole and in order, with its header once.
#[test]
fn a_message_log_is_sent_as_it_is_read() {
    let bench = Bench::new();
    bench.store_runs();
    let new = NewRun {
        id: "3vk1a81z".into(),
        name: "logged".into(),
        scenario: "name: x\n".into(),
        terms: Terms::default(),
        provenance: Provenance::default(),
    };
    let mut writer =
        RunWriter::begin(&bench.folder.path().join("plimsoll.db"), &new, &Arc::default()).unwrap();
    let message = |sequence| MessageRecord {
        level: 0,
        sample: None,
        device: 1,
        sequence,
        due: Nanos(1),
        ready: Nanos(2),
        sent: Some(Nanos(3)),
        done: None,
        first_received: None,
        retrieved: None,
        dispatched: None,
        receivers: 0,
        missing: 0,
        fate: Fate::Complete,
    };
    writer.append(&[Measurement::Messages((0..5000).map(message).collect())]).unwrap();
    writer.end(&RunEnd::Complete).unwrap();
    for name in OF_LOG {
        let answer = bench.get(&format!("/runs/3vk1a81z/downloads/{name}"));
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        assert_eq!(answer.text.lines().count(), 5001, "{name}");
    }
    let text = bench.get("/runs/3vk1a81z/downloads/messages").text;
    let sequences = text.lines().skip(1).map(|line| line.split(',').nth(3).unwrap().parse::<u32>().unwrap());
    assert!(sequences.eq(0..5000));
}
