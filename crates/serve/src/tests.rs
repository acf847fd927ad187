//! Requests to the whole page: what is answered to whom. Each attack that `gate` names is tried in `attacks`.

mod attacks;
mod comparisons;
mod looking_back;
mod programs;

use crate::api::OPERATIONS;
use crate::fields::escaped;
use crate::jobs::AtWork;
use crate::site::{Options, ServeError, Site};
use crate::tokens::random;
use crate::{annotation_page, queue, routes};
use bytes::Bytes;
use futures_util::stream::pending;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{
    AUTHORIZATION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE,
    X_FRAME_OPTIONS,
};

use hyper::{HeaderMap, Method, Request, StatusCode};
use plimsoll_model::Nanos;
use plimsoll_model::message::{Fate, MessageRecord};
use plimsoll_model::record::{Measurement, Provenance, RunEnd, Terms};
use plimsoll_observe::process::identity_of;
use plimsoll_runner::host_lock::HostLock;
use plimsoll_store::{NewRun, RunWriter, mark_deleted};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Ends a stand-in for the program with the folder of its test, and in two minutes at the latest.
pub const GO_ON: &str = "for look in $(seq 2400); do [ -e \"$0\" ] || exit; sleep 0.05; done";

const HERE: &str = "127.0.0.1:8800";
const OURS: &str = "http://127.0.0.1:8800";
const SCENARIO: &str = "name: mine\nplatform: embedded\npopulation: { devices: 10, subscribers: 1 }\nload: { levels: [100], hold: 10s }\n";
const RUNS: [&str; 2] = ["3vk1a81x", "3vk1a81y"];

/// A page with a folder of its own, whose runs are made by a shell script.
struct Bench {
    folder: TempDir,
    site: Arc<Site>,
}

/// An answer.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

fn options(folder: &Path) -> Options {
    Options {
        listen: HERE.parse().unwrap(),
        allow_remote: false,
        names: Vec::new(),
        folder: folder.to_owned(),
        store: folder.join("plimsoll.db"),
        program: folder.join("program"),
        allow_commands: false,
        variables: Vec::new(),
        webhooks: Vec::new(),
    }
}

impl Bench {
    fn new() -> Bench {
        Bench::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Options)) -> Bench {
        Bench::with_site(change, |_| {})
    }

    fn with_site(change: impl FnOnce(&mut Options), change_site: impl FnOnce(&mut Site)) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, format!("#!/bin/sh\ntrap 'exit 105' INT\necho it runs\n{GO_ON}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let mut options = options(folder.path());
        change(&mut options);
        let mut site = Site::open(options, HERE.parse().unwrap()).unwrap();
        // Other tests and runs on this host do not matter.
        site.jobs.lock = random(8).unwrap();
        change_site(&mut site);
        Bench { folder, site: Arc::new(site) }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Enters two runs into the store, neither of which came to a level.
    fn store_runs(&self) {
        for id in RUNS {
            let new = NewRun {
                id: id.into(),
                name: format!("<script>{id}"),
                scenario: "name: x\n".into(),
                terms: Terms::default(),
                provenance: Provenance { started: "2026-11-30T11:00:00Z".into(), ..Provenance::default() },
            };
            let store = self.folder.path().join("plimsoll.db");
            let mut writer = RunWriter::begin(&store, &new, &Arc::default()).unwrap();
            writer.end(&RunEnd::Failed("no platform".into())).unwrap();
        }
    }

    fn operator(&self) -> String {
        format!("plimsoll-8800={}", self.site.tokens.operator())
    }

    fn viewer(&self) -> String {
        format!("other=1; plimsoll-8800={}", self.site.tokens.viewer())
    }

    fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let answer = routes::answer(&self.site, request).await;
            let (status, headers) = (answer.status(), answer.headers().clone());
            let bytes = answer.into_body().collect().await.unwrap().to_bytes();
            // A bundle is no text.
            Answer { status, headers, text: String::from_utf8_lossy(&bytes).into_owned() }
        })
    }

    /// What an operator gets.
    fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[(HOST.as_str(), HERE), (COOKIE.as_str(), &self.operator())], "")
    }

    /// What an operator's form does.
    fn post(&self, path: &str, form: &[(&str, &str)]) -> Answer {
        let body: Vec<String> =
            form.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        self.ask(Method::POST, path, &self.own_form(&self.operator()), &body.join("&"))
    }

    fn own_form<'a>(&self, cookie: &'a str) -> [(&'static str, &'a str); 4] {
        [
            ("host", HERE),
            ("cookie", cookie),
            ("origin", OURS),
            ("content-type", "application/x-www-form-urlencoded"),
        ]
    }
}

#[test]
fn the_script_of_the_page_does_what_it_should() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run =
        Command::new("node").arg(place.join("tests/page.mjs")).arg(place.join("assets/page.js")).output();
    let run = run.expect("scripts/peers installs node");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(String::from_utf8_lossy(&run.stdout), "passed\n");
}

#[test]
fn a_check_says_at_which_line_something_is_wrong() {
    let bench = Bench::new();
    let check = |text: &str| {
        let headers = [
            ("host", HERE),
            ("cookie", &*bench.operator()),
            ("origin", OURS),
            ("content-type", "text/plain"),
        ];
        bench.ask(Method::POST, "/check?name=mine.yaml", &headers, text)
    };
    let wrong = check(&SCENARIO.replace("devices", "device"));
    assert_eq!(wrong.status, StatusCode::OK);
    assert!(wrong.text.contains("data-line=\"3\"") && wrong.text.contains("mine.yaml:3:"), "{}", wrong.text);
    let right = check(SCENARIO);
    assert!(
        right.text.contains("What would happen: mine") && right.text.contains("starts here"),
        "{}",
        right.text
    );
    for (text, told) in [
        (
            "name: <img src=x>\nplatform: nowhere\npopulation: { devices: 1 }\nload: { levels: [1], hold: 10s }\n",
            "nowhere",
        ),
        (&format!("{SCENARIO}matrix: {{ population.devices: [1, 2] }}\n"), "A sweep of 2 combinations"),
        (&SCENARIO.replace("embedded", "/etc/passwd.yaml"), "outside the folder"),
        (&SCENARIO.replace("embedded", "../x.yaml"), "outside the folder"),
    ] {
        let answer = check(text);
        assert!(answer.text.contains(told) && !answer.text.contains("<img"), "{}", answer.text);
    }
    // A secret of this process that nobody has named.
    let secret = check(&format!("{SCENARIO}mqtt: {{ username: a, password: {{ env: PATH }} }}\n"));
    assert!(secret.text.contains("is not set"), "{}", secret.text);
}

#[test]
fn what_is_not_there_and_what_is_not_done_is_said() {
    let bench = Bench::new();
    let status =
        |method: Method, path: &str| bench.ask(method, path, &bench.own_form(&bench.operator()), "").status;
    assert_eq!(status(Method::PUT, "/"), StatusCode::METHOD_NOT_ALLOWED);
    for (method, path) in [
        (Method::POST, "/"),
        (Method::POST, "/runs/3vk1a81x"),
        (Method::POST, "/jobs/x/remove"),
        (Method::GET, "//"),
        (Method::GET, "/profiles/none"),
        (Method::GET, "/assets/..%2fCargo.toml"),
        (Method::GET, "/scenarios/new?example=none"),
    ] {
        assert_eq!(status(method, path), StatusCode::NOT_FOUND, "{path}");
    }
    let script = bench.get("/assets/page.js");
    assert_eq!(script.headers[CONTENT_TYPE], "text/javascript; charset=utf-8");
    assert!(script.text.contains("EventSource") && script.headers["cache-control"] == "private, max-age=300");
}

#[test]
fn scenarios_are_written_in_the_folder_alone_and_only_when_they_are_right() {
    let bench = Bench::new();
    let save = |name: &str, text: &str| bench.post("/scenarios/save", &[("name", name), ("text", text)]);
    for name in ["../out.yaml", "/tmp/out.yaml", "a/b.yaml", "a.sh", ".plimsoll-serve/a.yaml", ""] {
        let answer = save(name, SCENARIO);
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}");
        assert!(answer.text.contains("Not saved: "), "{}", answer.text);
    }
    let wrong = save("mine.yaml", "name: mine\nplatform: none\n");
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    // A profile says which programs are started: the page writes none.
    let profile =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../platforms/mosquitto.yaml"))
            .unwrap();
    assert_eq!(save("profile.yaml", &profile).status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(bench.site.folder.scenarios().unwrap().is_empty());
    let saved = save("mine.yaml", &SCENARIO.replace('\n', "\r\n"));
    assert_eq!(
        (saved.status, &saved.headers[LOCATION]),
        (StatusCode::SEE_OTHER, &"/scenarios/edit/mine.yaml".parse().unwrap())
    );
    assert_eq!(fs::read_to_string(bench.folder.path().join("mine.yaml")).unwrap(), SCENARIO);
    let editor = bench.get("/scenarios/edit/mine.yaml");
    assert!(editor.text.contains("Start the run") && editor.text.contains("devices: 10"), "{}", editor.text);
    assert!(save("mine.yaml", SCENARIO).text.contains("there is a file mine.yaml already"));
    let before = plimsoll_runner::resume::fingerprint("something else");
    let form = [("name", "mine.yaml"), ("text", SCENARIO), ("before", &*before)];
    assert!(bench.post("/scenarios/save", &form).text.contains("has changed since"));
    // What is shown is what is saved, so what cannot be shown is not edited.
    bench.write("turned.yaml", &format!("# \u{202e}\n{SCENARIO}"));
    assert_eq!(bench.get("/scenarios/edit/turned.yaml").status, StatusCode::UNPROCESSABLE_ENTITY);
    bench.write("lines.yaml", &SCENARIO.replace('\n', "\r\n"));
    assert!(bench.get("/scenarios/edit/lines.yaml").text.contains("devices: 10"));
    symlink("/etc/passwd", bench.folder.path().join("link.yaml")).unwrap();
    assert_eq!(bench.get("/scenarios/edit/link.yaml").status, StatusCode::NOT_FOUND);
    assert_eq!(bench.get("/scenarios/edit/..%2fmine.yaml").status, StatusCode::NOT_FOUND);
    let example = bench.get("/scenarios/new?example=quickstart");
    assert!(
        example.text.contains("quickstart.yaml") && example.text.contains("What would happen"),
        "{}",
        example.text
    );
}

#[test]
fn a_field_changes_its_key_of_the_text_and_the_text_is_shown_in_the_fields() {
    let bench = Bench::new();
    bench.write("secret.txt", "root:x");
    let text = format!("# Mine.\n{}", SCENARIO.replace("embedded", "embedded  # here"));
    let set =
        |key: &str, value: &str| bench.post("/form/set", &[("text", &*text), ("key", key), ("value", value)]);
    let devices = set("population.devices", "20");
    assert_eq!(
        (devices.status, &devices.text),
        (StatusCode::OK, &text.replace("devices: 10", "devices: 20"))
    );
    assert_eq!(devices.headers[CONTENT_TYPE], "text/plain; charset=utf-8");
    let fields = |text: &str| bench.ask(Method::POST, "/form", &bench.own_form(&bench.operator()), text);
    let shown = fields(&devices.text);
    assert!(
        shown.text.contains("value=\"20\" min=\"1\"") && shown.text.contains("Simulated publishers."),
        "{}",
        shown.text
    );
    // A field cannot write a second key, a tag or a comment, and a path in it is a text.
    for (key, value) in [
        ("load.levels", "[1"),
        ("load.levels", "1 }\nplatform: {"),
        ("load.levels", "!x [1]"),
        ("x", "1"),
        ("", "1"),
    ] {
        let refused = set(key, value);
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{key} {value}");
        assert!(!refused.text.contains("name: mine"), "{}", refused.text);
    }
    let injected = set("name", "a # b\nplatform: x");
    assert!(injected.text.contains("name: \"a # b\\nplatform: x\"\n"), "{}", injected.text);
    for path in ["secret.txt", "../../etc/passwd", "/etc/passwd.yaml", "<script>x</script>"] {
        let shown = fields(&set("platform", path).text).text;
        assert!(
            shown.contains("Simulated publishers.")
                && !shown.contains("root:")
                && !shown.contains("<script>"),
            "{shown}"
        );
    }
    assert!(fields("a: [").text.contains("when the text can be read"));
    let large = "x".repeat((1 << 20) + 1);
    assert_eq!(fields(&large).status, StatusCode::PAYLOAD_TOO_LARGE);
    for path in ["/form/set", "/scenarios/fill"] {
        let answer = bench.post(path, &[("text", &*large), ("key", "name"), ("value", "a")]);
        assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE, "{path}");
    }
}

/// What the button of a browser without a script does.
#[test]
fn all_fields_are_set_at_once_and_nothing_is_saved_by_that() {
    let bench = Bench::new();
    bench.write("mine.yaml", SCENARIO);
    let before = plimsoll_runner::resume::fingerprint(SCENARIO);
    let editor = bench.get("/scenarios/edit/mine.yaml").text;
    assert!(
        editor.contains("action=\"/scenarios/fill\"") && editor.contains("name=\"set.load.hold\""),
        "{editor}"
    );
    let fill = |sets: &[(&str, &str)]| {
        let own = [("name", "mine.yaml"), ("text", SCENARIO), ("before", &*before)];
        bench.post("/scenarios/fill", &own.iter().chain(sets).copied().collect::<Vec<_>>())
    };
    let filled = fill(&[
        ("set.name", "mine"),
        ("set.population.devices", "77"),
        ("set.mqtt.qos", "2"),
        ("set.seed", ""),
    ]);
    assert_eq!(filled.status, StatusCode::OK);
    assert!(
        filled.text.contains("devices: 77, subscribers: 1") && filled.text.contains("mqtt:\n  qos: 2"),
        "{}",
        filled.text
    );
    assert!(
        filled.text.contains("Save it to start it.") && !filled.text.contains("\nseed: "),
        "{}",
        filled.text
    );
    assert_eq!(fs::read_to_string(bench.folder.path().join("mine.yaml")).unwrap(), SCENARIO);
    let wrong = fill(&[("set.load.levels", "[1")]);
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(wrong.text.contains("Not set: ") && wrong.text.contains("levels: [100]"), "{}", wrong.text);
    let unknown = fill(&[("set.<b>", "1")]);
    assert!(unknown.text.contains("no field `&lt;b&gt;`"), "{}", unknown.text);
}

#[test]
fn a_run_is_started_watched_and_stopped() {
    let bench = Bench::new();
    bench.write("mine.yaml", SCENARIO);
    assert_eq!(bench.post("/jobs", &[("scenario", "none.yaml")]).status, StatusCode::NOT_FOUND);
    assert_eq!(bench.post("/jobs", &[("scenario", "../mine.yaml")]).status, StatusCode::BAD_REQUEST);
    let started = bench.post("/jobs", &[("scenario", "mine.yaml")]);
    assert_eq!(started.status, StatusCode::SEE_OTHER, "{}", started.text);
    let path = started.headers[LOCATION].to_str().unwrap().to_owned();
    let begun = Instant::now();
    while !bench.get(&path).text.contains("it runs") {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", bench.get(&path).text);
    }
    let page = bench.get(&path);
    assert!(page.text.contains(&format!("data-events=\"{path}/events\"")), "{}", page.text);
    assert!(bench.get("/").text.contains("goes on: watch it"));
    // A second one waits, each page says so, and only an operator takes it out of the queue.
    let second = bench.post("/jobs", &[("scenario", "mine.yaml"), ("quick", "")]);
    assert_eq!(second.status, StatusCode::SEE_OTHER, "{}", second.text);
    let waits = second.headers[LOCATION].to_str().unwrap().to_owned();
    assert!(bench.get(&waits).text.contains("The run waits: one is before it"), "{}", bench.get(&waits).text);
    for page in ["/", "/scenarios", "/profiles", "/profiles/mosquitto", "/scenarios/edit/mine.yaml"] {
        let text = bench.get(page).text;
        assert!(
            text.contains("A run of mine.yaml goes on") && text.contains("A run waits"),
            "{page}: {text}"
        );
    }
    let remove = format!("{waits}/remove");
    assert!(bench.get("/jobs").text.contains(&format!("action=\"{remove}\"")));
    let refused = bench.ask(Method::POST, &remove, &bench.own_form(&bench.viewer()), "");
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert_eq!(bench.post(&remove, &[]).headers[LOCATION], "/jobs");
    assert!(bench.get("/jobs").text.contains("No run waits."), "{}", bench.get("/jobs").text);
    assert!(bench.get(&waits).text.contains("removed from the queue"));
    assert_eq!(bench.post(&format!("{path}/remove"), &[]).headers[LOCATION], path.as_str(), "it goes on");
    // Another page of the same folder finds it, and its viewers see its end.
    let again = Arc::new(Site::open(options(bench.folder.path()), HERE.parse().unwrap()).unwrap());
    assert_eq!(again.tokens.operator(), bench.site.tokens.operator(), "pages that are open stay open");
    let AtWork { going_on, .. } = again.jobs.at_work();
    let [found] = &going_on[..] else { panic!("{going_on:?}") };
    again.jobs.stop(&found.id).unwrap();
    let events = bench.get(&format!("{path}/events"));
    assert_eq!(events.headers[CONTENT_TYPE], "text/event-stream");
    assert!(events.text.starts_with("retry: 1000\n\nevent: now\ndata: "), "{}", events.text);
    assert!(events.text.ends_with("event: over\ndata:\n\n"), "{}", events.text);
    assert!(events.text.contains("The run has ended"), "{}", events.text);
    assert_eq!(bench.post(&format!("{path}/stop"), &[]).status, StatusCode::SEE_OTHER, "it has ended");
    for wrong in ["/jobs/x", "/jobs/0123456789abcdef", "/jobs/0123456789abcdef/events"] {
        assert_eq!(bench.get(wrong).status, StatusCode::NOT_FOUND, "{wrong}");
    }
}

#[test]
fn a_scenario_in_which_something_varies_is_swept() {
    let bench = Bench::new();
    let swept = format!("{SCENARIO}matrix: {{ population.devices: [1, 2] }}\n");
    let saved = bench.post("/scenarios/save", &[("name", "swept.yaml"), ("text", &swept)]);
    assert_eq!(saved.status, StatusCode::SEE_OTHER, "{}", saved.text);
    let editor = bench.get("/scenarios/edit/swept.yaml").text;
    assert!(editor.contains("Start the sweep") && editor.contains("name=\"turns\""), "{editor}");
    for turns in ["0", "21", "-1", "x"] {
        let refused = bench.post("/jobs", &[("scenario", "swept.yaml"), ("turns", turns)]);
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{turns}");
    }
    let started = bench.post("/jobs", &[("scenario", "swept.yaml"), ("turns", "3")]);
    assert_eq!(started.status, StatusCode::SEE_OTHER, "{}", started.text);
    let path = started.headers[LOCATION].to_str().unwrap().to_owned();
    let page = bench.get(&path).text;
    assert!(page.contains("a sweep of 3 turns"), "{page}");
    assert_eq!(bench.get(&format!("{path}/report")).status, StatusCode::NOT_FOUND, "it has none yet");
    let job = &bench.site.jobs.at_work().going_on[0].id;
    let report = bench.folder.path().join(format!(".plimsoll-serve/jobs/{job}/report.html"));
    fs::write(report, "<script>its own</script>").unwrap();
    let report = bench.get(&format!("{path}/report"));
    let policy = report.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.starts_with("sandbox allow-scripts") && !policy.contains("allow-same-origin"), "{policy}");
    bench.post(&format!("{path}/stop"), &[]);
}

/// All that the description of the API names is there, for those who may have it.
#[test]
fn the_api_does_what_its_description_says() {
    let bench = Bench::new();
    bench.store_runs();
    bench.write("mine.yaml", SCENARIO);
    let [operator, viewer] =
        [bench.site.tokens.operator(), bench.site.tokens.viewer()].map(|token| format!("Bearer {token}"));
    let ask = |method: Method, path: &str, who: &str, body: &str| {
        let headers =
            [("host", HERE), ("authorization", who), ("content-type", "application/x-www-form-urlencoded")];
        bench.ask(method, path, &headers, body)
    };
    let json = |answer: &Answer| {
        serde_json::from_str::<serde_json::Value>(&answer.text).unwrap_or_else(|_| panic!("{}", answer.text))
    };
    let started = ask(Method::POST, "/api/jobs", &operator, "scenario=mine.yaml");
    assert_eq!(started.status, StatusCode::CREATED, "{}", started.text);
    let job = json(&started)["job"].as_str().unwrap().to_owned();
    let waits = json(&ask(Method::POST, "/api/jobs", &operator, "scenario=mine.yaml"))["job"]
        .as_str()
        .unwrap()
        .to_owned();
    for operation in &OPERATIONS {
        let path = operation.path.replace("{run}", "3vk1a81x").replace("{job}", &job);
        let path = path.replace("{scenario}", "mine.yaml");
        let path = path.replace("/api/compare", "/api/compare?run=3vk1a81x&run=3vk1a81y");
        let (method, body) = match operation.method {
            "get" => (Method::GET, ""),
            _ => (Method::POST, ""),
        };
        let answer = ask(method.clone(), &path, &viewer, body);
        let is_shown = method == Method::GET && !operation.is_secret;
        let expected = if is_shown { StatusCode::OK } else { StatusCode::FORBIDDEN };
        assert_eq!(answer.status, expected, "{path}: {}", answer.text);
        assert_eq!(ask(method.clone(), &path, "Bearer x", body).status, StatusCode::UNAUTHORIZED, "{path}");
        if method == Method::GET {
            assert_eq!(answer.headers[CONTENT_TYPE], "application/json", "{path}");
            json(&answer);
        }
    }
    let get = |path: &str| json(&ask(Method::GET, path, &viewer, ""));
    let document = get("/api/openapi.json");
    assert_eq!(document["paths"].as_object().unwrap().len(), 14, "{document}");
    assert_eq!((&get("/api/runs")["all"], &get("/api/runs?text=3vk1a81y")["all"]), (&2.into(), &1.into()));
    assert_eq!(get("/api/runs/3vk1a81x")["verdict"], "failed");
    assert_eq!(
        (&get("/api/jobs")["going_on"][0]["id"], &get("/api/jobs")["waiting"][0]["ahead"]),
        (&job.as_str().into(), &1.into())
    );
    let removed = ask(Method::POST, &format!("/api/jobs/{waits}/remove"), &operator, "");
    assert_eq!(json(&removed)["state"], "not_started", "{}", removed.text);
    assert_eq!(
        ask(Method::POST, &format!("/api/jobs/{waits}/remove"), &operator, "").status,
        StatusCode::CONFLICT
    );
    assert_eq!(ask(Method::POST, &format!("/api/jobs/{job}/stop"), &operator, "").status, StatusCode::OK);
    let wrong = ask(Method::POST, "/api/check", &operator, &SCENARIO.replace("devices", "device"));
    assert_eq!((&json(&wrong)["right"], &json(&wrong)["findings"][0]["line"]), (&false.into(), &3.into()));
    let right = json(&ask(Method::POST, "/api/check", &operator, SCENARIO));
    assert_eq!(
        (&right["right"], &right["name"], &right["combinations"]),
        (&true.into(), &"mine".into(), &1.into())
    );
    for (method, path) in [
        (Method::GET, "/api"),
        (Method::GET, "/api/x"),
        (Method::POST, "/api/runs"),
        (Method::GET, "/api/runs/last"),
        (Method::GET, "/api/jobs/..%2f"),
    ] {
        let answer = ask(method, path, &operator, "");
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(json(&answer)["error"].is_string(), "{path}");
    }
    for (body, status) in [
        ("scenario=../x.yaml", StatusCode::BAD_REQUEST),
        ("scenario=none.yaml", StatusCode::NOT_FOUND),
        ("scenario=mine.yaml&turns=0", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(ask(Method::POST, "/api/jobs", &operator, body).status, status, "{body}");
    }
}

/// What waits is looked at again when its turn comes: its file may be another one by then.
#[test]
fn a_run_that_may_not_be_started_any_more_leaves_the_queue() {
    let bench = Bench::new();
    bench.write("mine.yaml", SCENARIO);
    let lock = HostLock::take(&bench.site.jobs.lock).unwrap();
    let entered = bench.post("/jobs", &[("scenario", "mine.yaml")]);
    let path = entered.headers[LOCATION].to_str().unwrap().to_owned();
    assert!(
        bench.get(&path).text.contains("The run waits until the host is free"),
        "{}",
        bench.get(&path).text
    );
    bench.write("mine.yaml", &format!("{SCENARIO}record: {{ capture: {{ keep: /tmp/elsewhere }} }}\n"));
    drop(lock);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let keeper = async { tokio::time::timeout(Duration::from_secs(2), queue::keep(&bench.site)).await };
    assert!(runtime.block_on(keeper).is_err(), "it goes on for ever");
    let text = bench.get(&path).text;
    assert!(text.contains("The run was not started") && text.contains("kept outside the folder"), "{text}");
    assert_eq!(bench.site.jobs.at_work(), AtWork::default());
    // And one that is right is started.
    bench.write("mine.yaml", SCENARIO);
    let entered = bench.post("/jobs", &[("scenario", "mine.yaml")]);
    let path = entered.headers[LOCATION].to_str().unwrap().to_owned();
    let AtWork { going_on, .. } = bench.site.jobs.at_work();
    assert_eq!(going_on.len(), 1);
    bench.post(&format!("{path}/stop"), &[]);
}

#[test]
fn a_program_shows_its_token_and_needs_no_origin() {
    let bench = Bench::new();
    let operator = format!("Bearer {}", bench.site.tokens.operator());
    let headers = [("host", HERE), ("authorization", operator.as_str()), ("content-type", "text/plain")];
    let checked = bench.ask(Method::POST, "/check", &headers, SCENARIO);
    assert!(
        checked.status == StatusCode::OK && checked.text.contains("What would happen"),
        "{}",
        checked.text
    );
    let viewer = format!("Bearer {}", bench.site.tokens.viewer());
    let headers = [("host", HERE), ("authorization", viewer.as_str()), (ORIGIN.as_str(), OURS)];
    assert_eq!(bench.ask(Method::POST, "/check", &headers, SCENARIO).status, StatusCode::FORBIDDEN);
}
