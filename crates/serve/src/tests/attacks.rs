//! What must not be possible: each attack is tried.

use super::*;

/// All that changes something, or shows what operators alone may see.
const CHANGES: [&str; 15] = [
    "/api/jobs",
    "/api/jobs/0123456789abcdef/stop",
    "/api/jobs/0123456789abcdef/remove",
    "/api/check",
    "/runs/3vk1a81x/annotate",
    "/runs/3vk1a81x/delete",
    "/runs/3vk1a81x/restore",
    "/jobs",
    "/jobs/0123456789abcdef/remove",
    "/jobs/0123456789abcdef/stop",
    "/scenarios/save",
    "/scenarios/fill",
    "/check",
    "/form",
    "/form/set",
];

#[test]
fn an_address_that_other_hosts_reach_is_refused_unless_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (listen, allow_remote, fine) in [
        ("127.0.0.1:8800", false, true),
        ("[::1]:8800", false, true),
        ("0.0.0.0:8800", false, false),
        ("192.0.2.1:8800", false, false),
        ("[::]:8800", false, false),
        ("192.0.2.1:8800", true, true),
    ] {
        let options =
            Options { listen: listen.parse::<SocketAddr>().unwrap(), allow_remote, ..options(folder.path()) };
        let checked = options.check_address();
        assert_eq!(checked.is_ok(), fine, "{listen}");
        assert!(checked.err().is_none_or(|error| matches!(error, ServeError::Remote(_))));
    }
}

#[test]
fn who_has_no_token_gets_nothing() {
    let bench = Bench::new();
    bench.store_runs();
    bench.write("mine.yaml", SCENARIO);
    let wrong = format!("plimsoll-8800={}", "0".repeat(64));
    let cut = bench.operator()[..40].to_owned();
    let other_name = format!("plimsoll-8801={}", bench.site.tokens.operator());
    for cookie in ["", "plimsoll-8800=", &wrong, &cut, &other_name] {
        for path in [
            "/",
            "/runs/3vk1a81x",
            "/runs/3vk1a81x/report",
            "/scenarios/edit/mine.yaml",
            "/assets/page.js",
            "/x",
        ] {
            let answer = bench.ask(Method::GET, path, &[("host", HERE), ("cookie", cookie)], "");
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{cookie} {path}");
            assert!(
                !answer.text.contains("3vk1a81x") && !answer.text.contains("embedded"),
                "{}",
                answer.text
            );
        }
    }
    let wrong = format!("Bearer {}", "0".repeat(64));
    for authorization in ["Bearer ", "Basic x", &wrong] {
        let headers =
            [("host", HERE), (AUTHORIZATION.as_str(), authorization), ("cookie", &bench.operator())];
        assert_eq!(
            bench.ask(Method::GET, "/", &headers, "").status,
            StatusCode::UNAUTHORIZED,
            "{authorization}"
        );
    }
}

#[test]
fn a_token_in_the_address_becomes_a_cookie_that_no_script_and_no_other_site_has() {
    let bench = Bench::new();
    let entrances = bench.site.entrances();
    let path = entrances.operator.strip_prefix(OURS).unwrap();
    let answer = bench.ask(Method::GET, path, &[("host", HERE)], "");
    assert_eq!((answer.status, &answer.headers[LOCATION]), (StatusCode::SEE_OTHER, &"/".parse().unwrap()));
    let cookie = answer.headers[SET_COOKIE].to_str().unwrap();
    assert!(cookie.starts_with(&format!("{};", bench.operator())), "{cookie}");
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
    let wrong = bench.ask(Method::GET, "/?token=0", &[("host", HERE)], "");
    assert!(wrong.status == StatusCode::UNAUTHORIZED && !wrong.headers.contains_key(SET_COOKIE));
    // Elsewhere it opens nothing, so that it stands in no other address.
    let elsewhere = bench.ask(Method::GET, &path.replacen("/?", "/scenarios?", 1), &[("host", HERE)], "");
    assert_eq!(elsewhere.status, StatusCode::UNAUTHORIZED);
}

/// DNS rebinding: the attacker's name leads to our address, and the browser sends that name.
#[test]
fn a_host_that_is_not_ours_is_refused_even_with_the_token() {
    let bench = Bench::new();
    let cookie = bench.operator();
    for host in ["attacker.example:8800", "attacker.example", "127.0.0.1:80", ""] {
        let answer = bench.ask(Method::GET, "/", &[("host", host), ("cookie", &cookie)], "");
        assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
    assert_eq!(
        bench.ask(Method::GET, "/", &[("cookie", &cookie)], "").status,
        StatusCode::MISDIRECTED_REQUEST
    );
    let twice = [("host", HERE), ("host", "attacker.example"), ("cookie", cookie.as_str())];
    assert_eq!(bench.ask(Method::GET, "/", &twice, "").status, StatusCode::MISDIRECTED_REQUEST);
    let absolute =
        bench.ask(Method::GET, "http://attacker.example/", &[("host", HERE), ("cookie", &cookie)], "");
    assert_eq!(absolute.status, StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(bench.get("/").status, StatusCode::OK);
}

/// Cross-site request forgery: another site has the browser send a form, with the cookie.
#[test]
fn a_request_of_another_site_changes_nothing() {
    let bench = Bench::new();
    bench.write("mine.yaml", SCENARIO);
    let cookie = bench.operator();
    let form = ("content-type", "application/x-www-form-urlencoded");
    for origin in ["http://attacker.example", "http://127.0.0.1:8801", "http://localhost:8800", "null", ""] {
        let headers = [("host", HERE), ("cookie", &cookie), ("origin", origin), form];
        let answer = bench.ask(Method::POST, "/jobs", &headers, "scenario=mine.yaml");
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{origin}");
    }
    let no_origin =
        bench.ask(Method::POST, "/jobs", &[("host", HERE), ("cookie", &cookie), form], "scenario=mine.yaml");
    assert_eq!(no_origin.status, StatusCode::FORBIDDEN);
    for site in ["cross-site", "same-site"] {
        for (method, path) in [(Method::POST, "/jobs"), (Method::GET, "/runs/3vk1a81x/downloads/summary")] {
            let headers =
                [("host", HERE), ("cookie", &cookie), ("origin", OURS), ("sec-fetch-site", site), form];
            assert_eq!(bench.ask(method, path, &headers, "").status, StatusCode::FORBIDDEN, "{site} {path}");
        }
    }
    for path in CHANGES {
        let headers = [("host", HERE), ("cookie", &*cookie), ("origin", "http://attacker.example"), form];
        let answer =
            bench.ask(Method::POST, path, &headers, "scenario=mine.yaml&key=name&value=x&text=name:%20a");
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(bench.site.jobs.at_work(), AtWork::default());
    // A link to the page is fine.
    let visit = [
        ("host", HERE),
        ("cookie", cookie.as_str()),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    assert_eq!(bench.ask(Method::GET, "/", &visit, "").status, StatusCode::OK);
    let framed = [
        ("host", HERE),
        ("cookie", cookie.as_str()),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "iframe"),
    ];
    assert_eq!(bench.ask(Method::GET, "/", &framed, "").status, StatusCode::FORBIDDEN);
}

#[test]
fn viewers_look_and_change_nothing() {
    let bench = Bench::new();
    bench.store_runs();
    bench.write("mine.yaml", SCENARIO);
    let viewer = bench.viewer();
    let look = |path: &str| bench.ask(Method::GET, path, &[("host", HERE), ("cookie", &viewer)], "");
    for path in ["/", "/jobs", "/deleted", "/runs/3vk1a81x", "/scenarios", "/profiles", "/profiles/mosquitto"]
    {
        let answer = look(path);
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert!(answer.text.contains("You can look, and change nothing."), "{path}");
    }
    assert!(!look("/scenarios").text.contains("/scenarios/edit/"));
    for path in ["/scenarios/edit/mine.yaml", "/scenarios/new"] {
        assert_eq!(look(path).status, StatusCode::FORBIDDEN, "{path}");
    }
    for path in CHANGES {
        let answer = bench.ask(Method::POST, path, &bench.own_form(&viewer), "scenario=mine.yaml");
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[test]
fn every_answer_says_what_a_browser_may_do() {
    let bench = Bench::new();
    bench.store_runs();
    let pages = [
        "/",
        "/runs/3vk1a81x",
        "/scenarios",
        "/scenarios/new",
        "/profiles",
        "/compare?run=3vk1a81x&run=3vk1a81y",
        "/none",
    ];
    let answers = pages.map(|path| bench.get(path)).into_iter();
    for answer in answers.chain([bench.ask(Method::GET, "/", &[("host", "x")], "")]) {
        let policy = answer.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers[X_FRAME_OPTIONS], "DENY");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.headers[name], value, "{name}");
        }
        // What the policy would forbid is not there either.
        assert!(
            !answer.text.contains("<script>")
                && !answer.text.contains("style=")
                && !answer.text.contains("onclick")
        );
        // Addresses stand in texts alone: nothing is loaded from elsewhere, and nothing leads there.
        for attribute in ["src", "href", "action", "formaction"] {
            for begin in ["http", "//"] {
                let elsewhere = format!(" {attribute}=\"{begin}");
                assert!(!answer.text.contains(&elsewhere), "{elsewhere}: {}", answer.text);
            }
        }
    }
}

#[test]
fn a_report_stands_in_a_sandbox() {
    let bench = Bench::new();
    bench.store_runs();
    let page = bench.get("/runs/3vk1a81x");
    assert!(page.text.contains("sandbox=\"allow-scripts allow-downloads\""), "{}", page.text);
    let verdict = page.text.find("The run could not be done").unwrap();
    assert!(verdict < page.text.find("<iframe").unwrap(), "the verdict is first");
    let [whole, below] =
        ["/runs/3vk1a81x/report", "/runs/3vk1a81x/report/below"].map(|path| bench.get(path).text);
    assert!(
        whole.contains("The run could not be done") && !below.contains("<h1"),
        "the page has its head: {below}"
    );
    assert!(page.text.contains("src=\"/runs/3vk1a81x/report/below\""));
    for path in
        ["/runs/3vk1a81x/report", "/runs/3vk1a81x/report/below", "/compare/report?run=3vk1a81x&run=3vk1a81y"]
    {
        let report = bench.get(path);
        assert_eq!(report.status, StatusCode::OK, "{}", report.text);
        let policy = report.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("sandbox allow-scripts allow-downloads;"), "{policy}");
        assert!(!policy.contains("allow-same-origin") && policy.contains("default-src 'none'"), "{policy}");
        assert!(policy.contains("frame-ancestors 'self'") && !policy.contains("connect-src"), "{policy}");
        assert!(report.text.contains("<script>"), "it has its own script");
    }
}

#[test]
fn bodies_are_bounded() {
    let bench = Bench::new();
    let large = "x".repeat(4 << 20);
    let headers =
        [("host", HERE), ("cookie", &*bench.operator()), ("origin", OURS), ("content-type", "text/plain")];
    assert_eq!(bench.ask(Method::POST, "/check", &headers, &large).status, StatusCode::PAYLOAD_TOO_LARGE);
    let larger_than_a_scenario = "x".repeat((1 << 20) + 1);
    let answer = bench.ask(Method::POST, "/check", &headers, &larger_than_a_scenario);
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(
        bench.post("/scenarios/save", &[("name", "a.yaml"), ("text", &large)]).status,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    assert!(!bench.folder.path().join("a.yaml").exists());
}

/// A body that never comes to its end.
#[test]
fn a_request_that_takes_too_long_is_given_up() {
    let bench = Bench::with_site(|_| {}, |site| site.patience = Duration::from_millis(200));
    let endless = StreamBody::new(pending::<Result<Frame<Bytes>, std::io::Error>>());
    let request =
        Request::post("/check").header(HOST, HERE).header(COOKIE, bench.operator()).header(ORIGIN, OURS);
    let request = request.header(CONTENT_TYPE, "text/plain").body(endless).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(routes::answer(&bench.site, request));
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// A profile whose component has a path that a scenario can set.
const PROFILE: &str = "name: own\ntitle: A profile of the folder\nvariables: { place: data, wait: \"1\" }\n\
    components:\n  - name: server\n    command: [sleep, \"{wait}\", \"{place}/log\", \"{port:main}\"]\n    mqtt_port: main\n";

#[test]
fn no_scenario_from_the_page_starts_other_programs_or_writes_elsewhere() {
    let own = "name: mine\nplatform: { profile: ./own.yaml }\npopulation: { devices: 1 }\nload: { levels: [1], hold: 10s }\n";
    let with = |value: &str| own.replace("own.yaml }", &format!("own.yaml, with: {{ {value} }} }}"));
    let commands = "name: mine\nplatform: { profile: existing, command: { up: [sh, -c, id], down: [\"true\"] } }\n\
        population: { devices: 1 }\nload: { levels: [1], hold: 10s }\n";
    let reset = "name: mine\nplatform: { profile: existing, address: \"mqtt://127.0.0.1\", between_runs: reset, reset_command: [id] }\n\
        population: { devices: 1 }\nload: { levels: [1], hold: 10s }\n";
    let keep = format!("{SCENARIO}record: {{ capture: {{ keep: /tmp/elsewhere }} }}\n");
    let logs = own.replace("own.yaml }", "own.yaml, logs: ../elsewhere }");
    let place = with("place: /etc/cron.d");
    let cases = [
        (commands, "starts programs by platform.command"),
        (reset, "starts a program by platform.reset_command"),
        (&*place, "into a command of the profile"),
        (&*keep, "outside the folder of the page (record.capture.keep"),
        (&*logs, "outside the folder of the page (platform.logs"),
    ];
    let bench = Bench::new();
    bench.write("own.yaml", PROFILE);
    for (text, why) in cases {
        // Whoever can write into the folder may have put it there: the page does not start it all the same.
        bench.write("mine.yaml", text);
        let started = bench.post("/jobs", &[("scenario", "mine.yaml")]);
        assert_eq!(started.status, StatusCode::FORBIDDEN, "{why}: {}", started.text);
        assert!(started.text.contains(why), "{why}: {}", started.text);
        let saved = bench.post("/scenarios/save", &[("name", "other.yaml"), ("text", text)]);
        assert_eq!(saved.status, StatusCode::UNPROCESSABLE_ENTITY, "{why}");
        assert!(saved.text.contains("Not from here: "), "{}", saved.text);
    }
    for fine in [own, &with("wait: \"2\"")] {
        let saved = bench.post("/scenarios/save", &[("name", "fine.yaml"), ("text", fine)]);
        assert_eq!(saved.status, StatusCode::SEE_OTHER, "{}", saved.text);
        fs::remove_file(bench.folder.path().join("fine.yaml")).unwrap();
    }
    let allowing = Bench::with(|options| options.allow_commands = true);
    let saved = allowing.post("/scenarios/save", &[("name", "mine.yaml"), ("text", commands)]);
    assert_eq!(saved.status, StatusCode::SEE_OTHER, "{}", saved.text);
}

/// Each combination is looked at: a later one may start other programs or write elsewhere.
#[test]
fn no_combination_of_a_sweep_does_what_a_run_may_not() {
    let bench = Bench::new();
    bench.write("own.yaml", PROFILE);
    let own = "name: mine\nplatform: { profile: ./own.yaml }\npopulation: { devices: 1 }\nload: { levels: [1], hold: 10s }\n";
    let many: Vec<String> = (1..=101).map(|devices| devices.to_string()).collect();
    for (text, why) in [
        (
            format!("{own}matrix: {{ platform.with.place: [data, /etc/cron.d] }}\n"),
            "into a command of the profile",
        ),
        (
            format!("{SCENARIO}matrix: {{ record.capture.keep: [inside, /tmp/elsewhere] }}\n"),
            "kept outside the folder",
        ),
        (
            format!("{SCENARIO}matrix: {{ population.devices: [{}] }}\n", many.join(", ")),
            "sweeps 100 at most",
        ),
    ] {
        bench.write("mine.yaml", &text);
        let started = bench.post("/jobs", &[("scenario", "mine.yaml")]);
        assert!(
            started.status == StatusCode::FORBIDDEN && started.text.contains(why),
            "{why}: {}",
            started.text
        );
        let saved = bench.post("/scenarios/save", &[("name", "other.yaml"), ("text", &text)]);
        assert_eq!(saved.status, StatusCode::UNPROCESSABLE_ENTITY, "{why}");
    }
    assert_eq!(bench.site.jobs.at_work(), AtWork::default());
}
