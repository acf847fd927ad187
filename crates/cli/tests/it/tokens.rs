//! Access tokens (OAuth 2.0): got before the set-up, renewed in the run, refused in its middle.

use crate::harness::{Bench, Finished, count};
use crate::token_service::{Script, TokenService};
use std::net::TcpListener;
use std::time::Duration;

const PROFILE: &str = r#"
name: guarded
title: a service that wants a token
variables: { token: none }
controller:
  set_up:
    - name: say hello
      request: { path: /data, headers: { Authorization: "Bearer {token}" }, body: hello }
device:
  speaks: http
  marker: ascii
  request:
    path: /data
    headers: { Authorization: "Bearer {token}" }
    body: "{message}"
    expect: [204]
components: []
"#;

const PASSWORD: &str = "{ url: /oauth2/token, grant: password, client_id: a b, \
    client_secret: { env: CLIENT_SECRET }, username: me, password: { env: USER_PASSWORD }, scope: all }";

fn scenario(service: &str, token: &str, hold: &str) -> String {
    format!(
        "name: guarded\nplatform: {{ profile: ./guarded.yaml, address: \"{service}\", token: {token} }}\n\
         population: {{ devices: 5 }}\n\
         load: {{ arrivals: constant, levels: [100], hold: {hold}, samples: 2, warm_up: 0s, drain: 2s }}\n\
         mqtt: {{ reconnect: {{ from: 200ms, to: 500ms }} }}\n\
         objectives: {{ publish_p99: null, achieved: null }}\n"
    )
}

fn run(bench: &Bench, text: &str) -> Finished {
    let mut command = bench.run_command(text);
    command.env("CLIENT_SECRET", "hush:secret").env("USER_PASSWORD", "hush pass");
    let finished = bench.start(&mut command).finish();
    let store = std::fs::read(bench.path("runs.db")).unwrap();
    assert!(!store.windows(4).any(|window| window == b"hush"), "a secret is in the run store");
    assert!(!finished.said().contains("hush"), "a secret is told: {}", finished.said());
    finished
}

#[test]
fn a_run_outlives_its_token() {
    let bench = Bench::beside_others();
    bench.write("guarded.yaml", PROFILE);
    let (life, grace) = (Duration::from_millis(1500), Duration::from_secs(1));
    let service = TokenService::start(Script { life, grace, refresh: Some(true), ..Script::default() });
    let finished = run(&bench, &scenario(&service.url(), PASSWORD, "4s"));
    let level = finished.level(0);
    assert_eq!(count(level, "acknowledged"), count(level, "due"), "{finished:?}");
    let state = service.state();
    assert_eq!(state.unauthorized, 0);
    // Each is renewed when a quarter of its 1.5 s is left; after 2.5 s the first one is taken no more.
    assert!(state.taken.len() >= 3, "{state:?}");
    assert!(state.taken.iter().take(3).all(|&taken| taken > 0), "{state:?}");
    // The client by Basic, its parts encoded as a form has them (section 2.3.1): `a+b:hush%3Asecret`.
    assert_eq!(state.forms[0].0, "grant_type=password&username=me&password=hush+pass&scope=all");
    assert_eq!(state.forms[0].1.as_deref(), Some("Basic YStiOmh1c2glM0FzZWNyZXQ="));
    assert_eq!(state.forms[1].0, "grant_type=refresh_token&refresh_token=hush-refresh-0");
    assert_eq!(state.forms[2].0, "grant_type=refresh_token&refresh_token=hush-refresh-1");
}

#[test]
fn a_refresh_that_is_refused_makes_room_for_the_grant_again() {
    let bench = Bench::beside_others();
    let token = "{ url: \"{auth}/oauth2/token\", grant: client_credentials, client_in: body, client_id: me, \
        client_secret: { env: CLIENT_SECRET } }";
    let (life, grace) = (Duration::from_millis(1500), Duration::from_secs(1));
    let service = TokenService::start(Script { life, grace, refresh: Some(false), ..Script::default() });
    // The profile itself may say it, and has its variables in it.
    let variables = format!("variables: {{ auth: \"{}\" }}\ntoken: {token}", service.url());
    bench.write("guarded.yaml", &PROFILE.replace("variables: { token: none }", &variables));
    let text = scenario(&service.url(), "", "3s").replace(", token: ", "");
    let finished = run(&bench, &text);
    let level = finished.level(0);
    assert_eq!(count(level, "acknowledged"), count(level, "due"), "{finished:?}");
    let forms: Vec<String> = service.state().forms.into_iter().map(|(form, _)| form).collect();
    let grant = "grant_type=client_credentials&client_id=me&client_secret=hush%3Asecret";
    assert_eq!(forms[0], grant);
    assert!(forms[1].starts_with("grant_type=refresh_token&refresh_token=hush-refresh-0&client_id"));
    assert_eq!(forms[2], grant);
}

#[test]
fn a_token_that_is_refused_is_renewed_once_and_messages_are_sent_again_where_the_profile_says() {
    let bench = Bench::beside_others();
    for (retry, repeats) in [("", false), ("\n    retry: [401]", true)] {
        let service =
            TokenService::start(Script { says_life: false, revoked_at: Some(51), ..Script::default() });
        bench.write(
            "guarded.yaml",
            &PROFILE.replace("    expect: [204]", &format!("    expect: [204]{retry}")),
        );
        let finished = run(&bench, &scenario(&service.url(), PASSWORD, "3s"));
        let level = finished.level(0);
        let state = service.state();
        assert_eq!(state.forms.len(), 2, "{finished:?}");
        assert!(state.unauthorized > 0);
        let (refused, repeated) = (count(level, "refused"), count(level, "repeated"));
        let expected = if repeats { (0, state.unauthorized) } else { (state.unauthorized, 0) };
        assert_eq!((refused, repeated), expected, "{finished:?}");
        assert_eq!(count(level, "acknowledged") + refused, count(level, "due"));
        let finished = finished.says("a new access token was got after an answer 401");
        match repeats {
            true => finished.says("sent again after 401"),
            false => finished.says("the platform answered 401").says("no good: Bearer ***"),
        };
    }
}

/// The server is away when the token is to be renewed, and the token is over: a bad day that the report tells.
#[test]
fn a_token_that_cannot_be_renewed_is_told_and_the_run_goes_on() {
    let bench = Bench::beside_others();
    bench.write("guarded.yaml", PROFILE);
    let life = Duration::from_millis(2000);
    let service = TokenService::start(Script { life, once: true, ..Script::default() });
    let finished = run(&bench, &scenario(&service.url(), PASSWORD, "4s"));
    let level = finished.level(0);
    let (refused, acknowledged) = (count(level, "refused"), count(level, "acknowledged"));
    assert!(refused > 0 && acknowledged > 0, "{finished:?}");
    assert_eq!(refused, service.state().unauthorized);
    assert_eq!(refused + acknowledged, count(level, "due"), "{finished:?}");
    // At most once a second, whatever is refused meanwhile.
    assert!(service.state().forms.len() <= 7, "{:?}", service.state().forms.len());
    finished.says("not renewed: access token: POST http://127.0.0.1").says("was answered 503");
}

#[test]
fn without_a_first_token_the_run_fails_and_says_why() {
    let bench = Bench::beside_others();
    bench.write("guarded.yaml", PROFILE);
    let service = TokenService::start(Script::default());
    // Nobody listens at a port that was free just now.
    let nobody = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let down =
        PASSWORD.replace("/oauth2", &format!("\"http://{nobody}/oauth2")).replace("token,", "token\",");
    let finished = run(&bench, &scenario(&service.url(), &down, "1s")).exits(1);
    finished.says(&format!("access token: POST http://{nobody}/oauth2/token: ")).says("refused");
    let wrong = PASSWORD.replace("{ env: USER_PASSWORD }", "wrong");
    let finished = run(&bench, &scenario(&service.url(), &wrong, "1s")).exits(1);
    finished.says("was answered 400: invalid_grant, not with *** words");
    let elsewhere = PASSWORD.replace("/oauth2/token", "/data");
    run(&bench, &scenario(&service.url(), &elsewhere, "1s")).exits(1).says("was answered 401");
}

#[test]
fn what_is_wrong_with_a_token_is_told_with_its_place() {
    let bench = Bench::beside_others();
    bench.write("guarded.yaml", PROFILE);
    for (from, to, expected) in [
        ("username: me, ", "", "the grant `password` needs `username` and `password`"),
        ("grant: password", "grant: client_credentials", "the grant `client_credentials` has no user"),
        ("grant: password", "grant: implicit", "`implicit`"),
        ("/oauth2/token", "oauth2", "`oauth2` is no address"),
        ("USER_PASSWORD", "NOT_SET", "the environment variable `NOT_SET` is not set"),
        ("/oauth2/token", "https://x/y, port: auth", "the address has a port of its own"),
    ] {
        assert!(PASSWORD.contains(from), "{from}");
        let text = scenario("http://127.0.0.1:1", &PASSWORD.replace(from, to), "1s");
        let mut command = bench.run_command(&text);
        command.env("CLIENT_SECRET", "a").env("USER_PASSWORD", "b");
        bench.start(&mut command).finish().exits(104).says(expected).says("scenario.yaml");
    }
}

/// The scenario alone brings the token: the profile only says where it stands.
#[test]
fn a_profile_may_leave_the_token_to_the_scenario() {
    let bench = Bench::beside_others();
    bench.write("guarded.yaml", &PROFILE.replace("variables: { token: none }\n", ""));
    let service = TokenService::start(Script::default());
    let finished = run(&bench, &scenario(&service.url(), PASSWORD, "1s"));
    let level = finished.level(0);
    assert_eq!(count(level, "acknowledged"), count(level, "due"), "{finished:?}");
    // Without any, the place is empty of meaning, and that is said.
    let none = scenario(&service.url(), "x", "1s").replace(", token: x", "");
    bench.run(&none).exits(104).says("there is no variable `{token}` here");
}
