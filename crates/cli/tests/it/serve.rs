//! The web page, as a browser meets it: over sockets, with a run that outlives its server.

use crate::harness::{Bench, Started};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const SCENARIO: &str = "name: paged
platform: embedded
population: { devices: 5, subscribers: 1 }
load: { arrivals: constant, levels: [50, 100], warm_up: 200ms, hold: 30s, samples: 30, drain: 1s, again: 0s }
objectives: { publish_p99: null, publish_p50: \"< 10 s\" }
";
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and the way in for operators.
struct Served {
    _server: Started,
    address: String,
    cookie: String,
}

/// An answer: its status, its head and its body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }
}

fn exchange(address: &str, request: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

impl Served {
    /// Starts a server with the lock of its own that the test names, and goes in.
    fn start(bench: &Bench, lock: &str) -> Served {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut command = bench.plimsoll(["serve", "--listen", &address]);
        let server = bench.start(command.env("PLIMSOLL_HOST_LOCK", lock));
        let begun = Instant::now();
        let token = loop {
            let told = server.printed_so_far();
            let line =
                told.lines().find_map(|line| line.split_once("/?token=").map(|(_, token)| token.to_owned()));
            match line {
                Some(token) if token.len() >= 64 => break token,
                _ => assert!(begun.elapsed() < PATIENCE, "{told}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut served = Served { _server: server, address, cookie: String::new() };
        let entered = served.get(&format!("/?token={}", token.trim()));
        assert_eq!((entered.status, entered.header("location")), (303, "/"), "{}", entered.head);
        served.cookie = entered.header("set-cookie").split(';').next().unwrap().to_owned();
        served
    }

    fn head(&self, method: &str, path: &str) -> String {
        let Served { address, cookie, .. } = self;
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n")
    }

    fn get(&self, path: &str) -> Answer {
        exchange(&self.address, &(self.head("GET", path) + "\r\n")).expect("an answer")
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        let head = self.head("POST", path);
        let request = format!(
            "{head}Origin: http://{}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        exchange(&self.address, &request).expect("an answer")
    }

    /// Loads a page again until it has that text.
    fn await_page(&self, path: &str, wanted: &str) {
        let begun = Instant::now();
        while !self.get(path).body.contains(wanted) {
            assert!(begun.elapsed() < PATIENCE, "no {wanted} in {}", self.get(path).body);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Follows a run until an event has that text.
    fn follow(&self, job: &str, wanted: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all((self.head("GET", &format!("{job}/events")) + "\r\n").as_bytes()).unwrap();
        let mut seen = String::new();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap_or_else(|error| panic!("{error} after {seen}"));
            seen += &(line + "\n");
            if seen.contains(wanted) {
                return seen;
            }
        }
        panic!("no {wanted} in {seen}");
    }
}

/// The whole way: the run goes on when its server is killed, the next server finds it, and its page stays open.
#[test]
fn a_run_outlives_its_server_and_is_stopped_by_the_next_one() {
    let bench = Bench::beside_others();
    bench.write("paged.yaml", SCENARIO);
    bench.write("next.yaml", &SCENARIO.replace("paged", "next"));
    let lock = format!("test {}", std::process::id());
    let first = Served::start(&bench, &lock);
    assert_eq!(first.get("/").status, 200);
    let started = first.post("/jobs", "scenario=paged.yaml");
    assert_eq!(started.status, 303, "{}", started.body);
    let job = started.header("location").to_owned();
    let seen = first.follow(&job, "Level 1 of 2");
    assert!(!seen.contains("event: over"), "{seen}");
    let cookie = first.cookie.clone();
    // A started program that is dropped is killed.
    drop(first);
    let second = Served::start(&bench, &lock);
    assert_eq!(
        second.cookie.split_once('=').unwrap().1,
        cookie.split_once('=').unwrap().1,
        "the token stays"
    );
    assert!(second.get("/").body.contains("A run of paged.yaml goes on"));
    let next = second.post("/jobs", "scenario=next.yaml");
    assert_eq!(next.status, 303, "{}", next.body);
    let next = next.header("location").to_owned();
    assert!(second.get(&next).body.contains("one is before it"), "one run at a time");
    assert!(second.get("/scenarios").body.contains("A run waits"), "{}", second.get("/scenarios").body);
    let beside = bench.start(
        bench.plimsoll(["run", "paged.yaml", "--exclusive", "--no-report"]).env("PLIMSOLL_HOST_LOCK", &lock),
    );
    beside.finish().exits(104).says("another run measures on this host");
    second.follow(&job, "Messages of the samples that ended");
    // The queue outlives its server, too.
    drop(second);
    let second = Served::start(&bench, &lock);
    assert!(second.get("/").body.contains("A run waits"), "{}", second.get("/").body);
    assert_eq!(second.post(&format!("{job}/stop"), "").status, 303);
    let seen = second.follow(&job, "event: over");
    second.await_page(&next, "Level 1 of 2");
    assert_eq!(second.post(&format!("{next}/stop"), "").status, 303);
    let of_next = second.follow(&next, "event: over");
    assert!(of_next.contains("its result"), "{of_next}");
    let run = seen.rsplit("href=\"/runs/").next().and_then(|rest| rest.get(..8)).unwrap().to_owned();
    let shown = second.get(&format!("/runs/{run}"));
    assert!(shown.status == 200 && shown.body.contains("interrupted"), "{}", shown.body);
    let listed = bench.call(["runs", "--store", "plimsoll.db", "--json"]).exits(0);
    assert!(listed.stdout.contains(&run) && listed.stdout.contains("interrupted"), "{}", listed.stdout);
    let report = second.get(&format!("/runs/{run}/report"));
    assert!(report.head.contains("content-security-policy: sandbox allow-scripts"), "{}", report.head);
}

/// A text as a value of a form.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// A template is set in its form and saved: the file is the template with those keys changed.
#[test]
fn a_scenario_is_set_in_its_form() {
    let bench = Bench::beside_others();
    let served = Served::start(&bench, "");
    let template = include_str!("../../../../examples/quickstart.yaml");
    let shown = served.get("/scenarios/new?example=quickstart");
    assert!(
        shown.body.contains("name=\"set.load.hold\"") && shown.body.contains("<optgroup"),
        "{}",
        shown.body
    );
    let set = |text: &str, key: &str, value: &str| {
        let body = format!("text={}&key={}&value={}", encoded(text), encoded(key), encoded(value));
        let answer = served.post("/form/set", &body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    };
    let text = set(&set(template, "name", "of the page"), "load.hold", "3s");
    let text = set(&text, "mqtt.retain", "true");
    let kept = |of: &str| -> Vec<String> {
        let is_own = |line: &&str| {
            !["name:", "hold:", "retain:", "mqtt:"].iter().any(|key| line.trim().starts_with(key))
        };
        of.lines().filter(is_own).map(str::to_owned).collect()
    };
    assert_eq!(kept(&text), kept(template), "all else stays");
    let saved = served.post("/scenarios/save", &format!("name=own.yaml&text={}", encoded(&text)));
    assert_eq!((saved.status, saved.header("location")), (303, "/scenarios/edit/own.yaml"), "{}", saved.body);
    let checked = bench.call(["check", "own.yaml"]).exits(0);
    assert!(checked.stdout.contains("of the page"), "{}", checked.stdout);
    let edited = served.get("/scenarios/edit/own.yaml");
    assert!(
        edited.body.contains("value=\"of the page\"") && edited.body.contains("Start the run"),
        "{}",
        edited.body
    );
}

/// A sweep is started, its runs are listed, and tags, deletion and history are those of a real store.
#[test]
fn a_sweep_is_run_and_its_runs_are_tagged_deleted_and_restored() {
    let bench = Bench::beside_others();
    let one =
        SCENARIO.replace("[50, 100]", "[50]").replace("hold: 30s", "hold: 1s").replace("paged", "swept");
    bench.write("swept.yaml", &format!("{one}matrix: {{ population.devices: [2, 3] }}\n"));
    let served = Served::start(&bench, &format!("test sweep {}", std::process::id()));
    let started = served.post("/jobs", "scenario=swept.yaml&turns=1");
    assert_eq!(started.status, 303, "{}", started.body);
    let job = started.header("location").to_owned();
    served.await_page(&job, "The sweep has ended");
    let page = served.get(&job).body;
    assert!(page.contains(&format!("{job}/report")) && page.contains("[2/2]"), "{page}");
    let report = served.get(&format!("{job}/report"));
    assert!(report.status == 200 && report.body.contains("<html"), "{}", report.body);
    assert!(report.head.contains("content-security-policy: sandbox"), "{}", report.head);
    let listed = || -> Vec<String> {
        let body = served.get("/?text=swept").body;
        body.split("name=\"run\" value=\"").skip(1).map(|rest| rest[..8].to_owned()).collect()
    };
    let runs = listed();
    assert_eq!(runs.len(), 2, "{}", served.get("/").body);
    let run = &runs[0];
    assert_eq!(served.post(&format!("/runs/{run}/annotate"), "tags=night&note=a+note").status, 303);
    assert!(served.get("/?text=night").body.contains(&format!("/runs/{run}\"")));
    assert_eq!(served.post(&format!("/runs/{run}/delete"), "").status, 303);
    assert_eq!(listed(), runs[1..]);
    // What was measured is as it was, for other commands, too.
    let shown = bench.call(["show", run.as_str(), "--store", "plimsoll.db"]);
    assert!(shown.stdout.contains("swept"), "{}", shown.stdout);
    assert_eq!(served.post(&format!("/runs/{run}/restore"), "").status, 303);
    assert_eq!(listed(), runs);
    let history = served.get("/history?name=swept");
    assert!(history.status == 200 && runs.iter().all(|run| history.body.contains(run)), "{}", history.body);
}

#[test]
fn an_address_that_others_reach_is_refused_and_so_is_a_slow_or_large_head() {
    let bench = Bench::beside_others();
    bench.call(["serve", "--listen", "0.0.0.0:0"]).exits(104).says("--allow-remote");
    bench.call(["serve", "--folder", "none"]).exits(104).says("cannot use the folder none");
    let served = Served::start(&bench, "");
    let taken = bench.call(["serve", "--listen", &served.address]).exits(1).says("cannot listen");
    assert!(taken.stdout.is_empty());
    let large = format!("GET / HTTP/1.1\r\nHost: {}\r\nX: {}\r\n\r\n", served.address, "x".repeat(64 << 10));
    assert!(exchange(&served.address, &large).is_none_or(|answer| answer.status == 431));
    // A head that never ends: the server closes after ten seconds.
    let mut slow = TcpStream::connect(&served.address).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    let begun = Instant::now();
    let mut rest = Vec::new();
    // It may also be cut off with an error.
    let _ = slow.read_to_end(&mut rest);
    assert!(begun.elapsed() < PATIENCE, "the connection stayed open");
    assert_eq!(served.get("/").status, 200);
}
