//! What programs change by the API, and what they are told of runs that end.

use super::*;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

/// Asks the API as an operator.
fn ask(bench: &Bench, method: Method, path: &str, form: &[(&str, &str)]) -> (StatusCode, Value) {
    let operator = format!("Bearer {}", bench.site.tokens.operator());
    let kind = "application/x-www-form-urlencoded";
    let headers = [("host", HERE), ("authorization", operator.as_str()), ("content-type", kind)];
    let body: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    let answer = bench.ask(method, path, &headers, &body.join("&"));
    let said = serde_json::from_str(&answer.text).unwrap_or_else(|_| panic!("{path}: {}", answer.text));
    (answer.status, said)
}

#[test]
fn programs_save_scenarios_and_change_runs() {
    let bench = Bench::new();
    bench.store_runs();
    let save = |name: &str, text: &str, before: &str| {
        ask(&bench, Method::POST, &format!("/api/scenarios/{name}"), &[("text", text), ("before", before)])
    };
    let (status, saved) = save("mine.yaml", SCENARIO, "");
    assert_eq!((status, &saved["text"]), (StatusCode::OK, &SCENARIO.into()), "{saved}");
    let fingerprint = saved["fingerprint"].as_str().unwrap().to_owned();
    for (name, text, before, expected) in [
        ("mine.yaml", SCENARIO, "", StatusCode::UNPROCESSABLE_ENTITY),
        ("mine.yaml", SCENARIO, "other", StatusCode::UNPROCESSABLE_ENTITY),
        ("mine.yaml", "name: x\n", fingerprint.as_str(), StatusCode::UNPROCESSABLE_ENTITY),
        ("..%2fmine.yaml", SCENARIO, "", StatusCode::BAD_REQUEST),
        ("mine.sh", SCENARIO, "", StatusCode::BAD_REQUEST),
    ] {
        let (status, said) = save(name, text, before);
        assert_eq!(status, expected, "{name}: {said}");
        assert!(said["error"].is_string(), "{name}: {said}");
    }
    let (status, _) = save("mine.yaml", &SCENARIO.replace("100", "200"), &fingerprint);
    assert_eq!(status, StatusCode::OK);
    let get = |path: &str| ask(&bench, Method::GET, path, &[]);
    assert_eq!(get("/api/scenarios").1["scenarios"][0]["name"], "mine.yaml");
    assert_ne!(get("/api/scenarios/mine.yaml").1["fingerprint"], fingerprint.as_str());
    assert_eq!(get("/api/scenarios/none.yaml").0, StatusCode::NOT_FOUND);
    let change = |what: &str, form: &[(&str, &str)]| {
        ask(&bench, Method::POST, &format!("/api/runs/3vk1a81x/{what}"), form)
    };
    assert_eq!(change("annotate", &[("tags", "night"), ("note", "slow")]).0, StatusCode::OK);
    assert_eq!(get("/api/runs?text=night").1["runs"][0]["note"], "slow");
    assert_eq!(change("annotate", &[("tags", "<b>")]).0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!((change("delete", &[]).0, &get("/api/runs").1["all"]), (StatusCode::OK, &1.into()));
    assert_eq!((change("restore", &[]).0, &get("/api/runs").1["all"]), (StatusCode::OK, &2.into()));
    assert_eq!(ask(&bench, Method::POST, "/api/runs/zzzzzzzz/delete", &[]).0, StatusCode::NOT_FOUND);
    let (status, compared) = get("/api/compare?run=3vk1a81x&run=3vk1a81y");
    assert!(status == StatusCode::OK && compared.is_object(), "{compared}");
    assert_eq!(get("/api/compare?run=3vk1a81x").0, StatusCode::BAD_REQUEST);
}

/// A receiver that answers so many requests with these, and what came.
fn receiver(answers: &'static [&'static str]) -> (String, std::thread::JoinHandle<Vec<(String, Value)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ended", listener.local_addr().unwrap());
    let serves = std::thread::spawn(move || {
        let answer = |status: &&str| {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                head += &line;
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let said = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.get_mut().write_all(said.as_bytes()).unwrap();
            (head, serde_json::from_slice(&body).unwrap())
        };
        answers.iter().map(answer).collect()
    });
    (url, serves)
}

#[test]
fn webhooks_are_told_of_a_run_that_has_ended_and_told_again_where_they_refuse() {
    let (url, serves) = receiver(&["500 Not Now", "200 OK"]);
    let bench = Bench::with(|options| options.webhooks = vec![url]);
    bench.write("mine.yaml", SCENARIO);
    let started = bench.post("/jobs", &[("scenario", "mine.yaml")]);
    let path = started.headers[LOCATION].to_str().unwrap().to_owned();
    let job = bench.site.jobs.at_work().going_on[0].id.clone();
    let begun = Instant::now();
    while !bench.get(&path).text.contains("it runs") {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    assert!(bench.site.jobs.to_be_told().is_empty(), "it goes on");
    bench.site.jobs.stop(&job).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told = async {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let job = bench.site.jobs.job(&job).unwrap();
            if job.is_over() && bench.site.jobs.to_be_told().is_empty() {
                return job;
            }
        }
    };
    let told = async {
        tokio::select! {
            () = crate::webhooks::keep(&bench.site) => panic!("it keeps on"),
            told = tokio::time::timeout(Duration::from_secs(30), told) => told.unwrap(),
        }
    };
    let told = runtime.block_on(told);
    assert_eq!(told.untold, Vec::<String>::new());
    let came = serves.join().unwrap();
    for (head, said) in &came {
        assert!(head.starts_with("POST /ended HTTP/1.1"), "{head}");
        assert_eq!((&said["event"], &said["exit"]), (&"ended".into(), &105.into()), "{said}");
        assert_eq!((&said["job"], &said["path"]), (&job.to_string().into(), &path.as_str().into()), "{said}");
        assert_eq!(said["scenarios"][0], "mine.yaml");
    }
    assert_eq!(came.len(), 2);
}
