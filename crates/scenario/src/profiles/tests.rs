//! What is refused of a profile, and what is taken.

use super::*;

fn read_text(text: &str) -> Result<Profile, String> {
    let file = |path: &str| match path {
        "worker.py" => Ok("print()".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    read_profile(SourceFile { name: "mine.yaml".into(), text: text.into() }, &file)
        .map_err(|found| found.to_string())
}

#[test]
fn connections_that_log_in_are_those_of_coap_over_tcp() {
    let profile = |controller: &str, device: &str, subscriber: &str| {
        format!(
            "name: x\ntitle: x\ncontroller: {controller}\ndevice: {device}\nsubscriber: {subscriber}\ncomponents: []\n"
        )
    };
    let device = "{ speaks: coap_tcp, marker: ascii, log_in: [{ path: /in }], request: { path: /m, body: '{message}' } }";
    let observes = "{ observes: { path: /m }, log_in: [{ path: /in, body: '{key}' }] }";
    let controller = "{ speaks: coap_tcp, set_up: [{ name: key, logs_in: true, request: { path: /k }, \
                      capture: { key: /key } }] }";
    let read = read_text(&profile(controller, device, observes)).unwrap();
    assert_eq!(read.roles.device.unwrap().log_in.len(), 1);
    for (controller, device, subscriber, said) in [
        ("{ speaks: mqtt }", device, "{}", "requests of the controller speak no MQTT"),
        (
            "{ set_up: [{ name: a, logs_in: true, request: { path: /a } }] }",
            device,
            "{}",
            "only a connection of CoAP over TCP is logged in",
        ),
        (
            "{ speaks: coap_tcp, set_up: [{ name: a, each: device, logs_in: true, request: { path: /a } }] }",
            device,
            "{}",
            "the controller has one connection",
        ),
        ("{}", device, "{ log_in: [{ path: /in }] }", "only subscribers that observe"),
        ("{}", "{ speaks: http, log_in: [{ path: /in }] }", "{}", "only connections of CoAP over TCP"),
        (
            "{ speaks: coap_tcp, set_up: [{ name: a, request: { path: /a, headers: { X: y } } }] }",
            device,
            "{}",
            "CoAP has no header fields",
        ),
    ] {
        let told = read_text(&profile(controller, device, subscriber)).unwrap_err();
        assert!(told.contains(said), "{said}: {told}");
    }
}

#[test]
fn steps_and_queries_may_be_messages() {
    let told = |controller: &str, querier: &str| {
        let device = "device: { speaks: http, marker: ascii, request: { path: /m, body: '{message}' } }";
        let roles = format!("{device}\ncontroller: {controller}\nquerier: {querier}\ncomponents: []\n");
        read_text(&format!("name: x\ntitle: x\n{roles}")).err().unwrap_or_default()
    };
    let steps = |rest: &str| format!("{{ set_up: [{{ name: a, {rest} }}] }}");
    let answer = "answer: { id: /id, is: 'of-{device}' }";
    let named = "answer: { id: /id, is: '{run}-{sequence}' }";
    let at = "answer: { topic: 'r/{querier}', id: /id, is: '{run}-{sequence}' }";
    let get = "{ request: { method: GET, path: /out } }";
    for (controller, querier) in [
        (
            steps(&format!("each: device, says: {{ message: hi, {answer} }}, capture: {{ key: /key }}")),
            format!("{{ says: {{ message: 'of {{device}}', {named} }}, websocket: {{ path: /ws }} }}"),
        ),
        (
            steps("says: { topic: a, message: hi, answer: { topic: b, id: /id, is: one } }"),
            format!("{{ says: {{ topic: a, message: '{{device}}', {at} }}, user: {{ name: me }} }}"),
        ),
        (
            "{ speaks: coap, set_up: [{ name: a, request: { path: /a } }] }".into(),
            "{ speaks: coap, request: { path: /q } }".into(),
        ),
        (
            steps("says: { message: '[\"hi\"]' }"),
            "{ says: { message: '[\"q\"]' }, websocket: { framing: socket_io } }".into(),
        ),
    ] {
        assert_eq!(told(&controller, &querier), "", "{controller} {querier}");
    }
    for (controller, querier, said) in [
        (steps("each: once"), get.to_owned(), "the step asks nothing"),
        (steps("request: { path: /a }, says: { message: hi }"), get.to_owned(), "a step asks one thing"),
        (steps("says: { message: hi }, capture: { key: /key }"), get.to_owned(), "no answer is awaited"),
        (
            steps(&format!("says: {{ message: hi, {answer} }}, capture: {{ key: location }}")),
            get.to_owned(),
            "has no header fields",
        ),
        (steps("says: { message: hi }, logs_in: true"), get.to_owned(), "only a connection of CoAP over TCP"),
        (
            steps("says: { topic: a, message: hi, answer: { id: /id, is: one } }"),
            get.to_owned(),
            "answers over MQTT come at a topic",
        ),
        (
            steps("says: { message: hi, answer: { topic: a, id: /id, is: one } }"),
            get.to_owned(),
            "answers over WebSocket have no topic",
        ),
        ("{ websocket: {} }".into(), get.to_owned(), "no step says anything over a WebSocket"),
        ("{ user: { name: me } }".into(), get.to_owned(), "no step says anything over MQTT"),
        (
            format!(
                "{{ websocket: {{ headers: {{ X: '{{key}}' }} }}, set_up: [{{ name: a, each: device, says: {{ message: hi, {answer} }}, \
                 capture: {{ key: /key }} }}] }}"
            ),
            get.to_owned(),
            "one connection for all devices",
        ),
        ("{}".into(), "{}".into(), "the querier asks nothing"),
        ("{}".into(), "{ speaks: mqtt, request: { path: /q } }".into(), "requests of queriers speak no MQTT"),
        ("{}".into(), "{ says: { message: hi } }".into(), "a query has an answer"),
        (
            "{}".into(),
            "{ says: { message: hi, answer: { id: /id, is: '{device}-{sequence}' } } }".into(),
            "no variable `{device}`",
        ),
        (
            "{}".into(),
            format!("{{ request: {{ path: /q }}, websocket: {{}}, says: {{ message: hi, {named} }} }}"),
            "a querier asks one thing",
        ),
        ("{}".into(), "{ request: { path: /q }, websocket: {} }".into(), "queriers speak no WebSocket here"),
        (
            "{}".into(),
            "{ request: { path: /q }, user: { name: me } }".into(),
            "only clients of MQTT say a user",
        ),
        (
            "{}".into(),
            "{ speaks: coap, request: { path: /q, headers: { X: y } } }".into(),
            "CoAP has no header fields",
        ),
    ] {
        let told = told(&controller, &querier);
        assert!(told.contains(said), "{said}: {told}");
    }
}

#[test]
fn subscribers_receive_in_one_way_and_what_they_ask_for_has_sense() {
    let told = |subscriber: &str| {
        let device = "device: { speaks: http, marker: ascii, request: { path: /m, body: '{message}' } }";
        let text = format!("name: x\ntitle: x\n{device}\nsubscriber: {subscriber}\ncomponents: []\n");
        read_text(&text).err().unwrap_or_default()
    };
    let polls = "polls: { request: { method: GET, path: '/{device}' }";
    for right in [
        "{ streams: { request: { method: GET, path: /e } } }",
        "{ streams: { request: { method: GET, path: /e }, ready_after: 1s } }",
        &format!("{{ {polls}, within: 90s }} }}"),
        &format!("{{ {polls}, next: {{ path: '/{{device}}?s={{since}}', since: /-/at }} }} }}"),
    ] {
        assert_eq!(told(right), "", "{right}");
    }
    for (subscriber, said) in [
        ("{ listens: http, streams: { request: { path: /e } } }", "a subscriber is notified in one way"),
        ("{ websocket: {}, polls: { request: { path: /e } } }", "a subscriber is notified in one way"),
        ("{ listens: coap, observes: { path: /e } }", "a subscriber is notified in one way"),
        ("{ streams: { request: { path: /e, retry: [503] } } }", "subscribers ask again by themselves"),
        ("{ streams: { request: { path: /e, options: { 6: 0 } } } }", "HTTP has no options"),
        (&format!("{{ {polls}, within: soon }} }}"), "within"),
        ("{ streams: { request: { path: /e }, ready_after: soon } }", "ready_after"),
        (
            &format!("{{ {polls}, next: {{ path: '/{{device}}', since: /at }} }} }}"),
            "`{since}` does not stand in it",
        ),
        (
            &format!("{{ {polls}, next: {{ path: '/{{device}}/{{since}}', since: at }} }} }}"),
            "begins with a slash",
        ),
        (&format!("{{ {polls}, next: {{ path: '/{{since}}', since: /at }} }} }}"), "asks for something else"),
        ("{ websocket: { headers: { Upgrade: h2c } } }", "`Upgrade` is added by itself"),
        ("{ websocket: { headers: { Sec-WebSocket-Key: x } } }", "`Sec-WebSocket-Key` is added by itself"),
        ("{ websocket: { headers: { X: '{device}' } } }", "one connection for all devices"),
    ] {
        let told = told(subscriber);
        assert!(told.contains(said), "{subscriber}: {said}: {told}");
    }
}

#[test]
fn answers_that_would_never_come_are_errors() {
    let told = |answer: &str, websocket: &str| {
        let device = format!(
            "device: {{ speaks: websocket, marker: ascii, payload: '{{message}}', answer: {answer}, websocket: {websocket} }}"
        );
        read_text(&format!("name: x\ntitle: x\n{device}\ncomponents: []\n")).err().unwrap_or_default()
    };
    let named = "{ id: /id, is: '{sequence}' }";
    assert_eq!(told(named, "{}"), "");
    assert_eq!(told("{ type: /0, refusals: [no] }", "{ answered: false }"), "");
    for (answer, websocket, said) in [
        ("{ type: /0, refusals: [no] }", "{}", "no message would be an answer"),
        ("{ id: /id, is: '{sequence}', type: /t, refusals: [no] }", "{}", "no message would be an answer"),
        ("{ type: /0, types: [a], refusals: [a] }", "{}", "`a` cannot both answer and refuse"),
        ("{ id: /id, is: '{sequence}', expect: [ok] }", "{}", "it is not said where the status stands"),
        (
            named,
            "{ opening: [{ message: a, answer: { status: /s } }] }",
            "it is not said which messages are answers",
        ),
        (
            named,
            "{ opening: [{ message: a, answer: { type: /0, refusals: [no] } }] }",
            "no message would be an answer",
        ),
    ] {
        let told = told(answer, websocket);
        assert!(told.contains(said), "{answer} {websocket}: {said}: {told}");
    }
}

#[test]
fn events_of_socket_io_are_texts_in_arrays_and_users_are_those_of_mqtt() {
    let told = |device: &str, subscriber: &str| {
        let steps = "{ set_up: [{ name: a, each: device, request: { path: /a }, capture: { key: /key } }] }";
        let text = format!(
            "name: x\ntitle: x\ncontroller: {steps}\ndevice: {device}\nsubscriber: {subscriber}\ncomponents: []\n"
        );
        read_text(&text).err().unwrap_or_default()
    };
    let event = |marker: &str, payload: &str| {
        format!(
            "{{ speaks: websocket, marker: {marker}, payload: '{payload}', websocket: {{ framing: socket_io }} }}"
        )
    };
    let mqtt = "{ speaks: mqtt, user: { name: '{key}', password: p }, topic: t }";
    assert_eq!(told(&event("ascii", r#"["m","{message}"]"#), "{}"), "");
    assert_eq!(told(mqtt, "{ user: { name: 's{subscriber}' } }"), "");
    for (device, subscriber, said) in [
        (&*event("ascii", "{message}"), "{}", "an event of Socket.IO is an array of JSON"),
        (&event("binary", r#"["m","{message}"]"#), "{}", "an event of Socket.IO is a text"),
        (mqtt, "{ websocket: { framing: socket_io, opening: [{ message: hello }] } }", "is an array of JSON"),
        (mqtt, "{ websocket: { auth: '{}' } }", "only Socket.IO lets clients in by itself"),
        (mqtt, "{ websocket: { framing: socket_io, auth: '{key}' } }", "one connection for all devices"),
        (mqtt, "{ user: { name: '{key}' } }", "no user of a device's"),
        (mqtt, "{ listens: http, user: { name: a } }", "only clients of MQTT say a user"),
        (
            "{ speaks: http, user: { name: a }, request: { path: /m, body: '{message}' } }",
            "{}",
            "only clients of MQTT",
        ),
    ] {
        let told = told(device, subscriber);
        assert!(told.contains(said), "{device} {subscriber}: {said}: {told}");
    }
}

#[test]
fn requirements_of_another_profile_are_inherited() {
    let read =
        |own: &str| read_text(&format!("name: x\ntitle: x\nlike: onem2m\n{own}components: []\n")).unwrap();
    let (inherited, own) = (read(""), read("requirements: { source: me }\n"));
    assert!(inherited.qualities.values().any(|told| told == "UNI.405, UNI.406"), "{:?}", inherited.qualities);
    assert!(own.qualities.values().any(|told| told == "23 of 23 (me)"), "{:?}", own.qualities);
}

#[test]
fn captured_values_are_secret_by_name_place_and_use() {
    let text = "name: x\ntitle: x\ncomponents: []\ncontroller: { speaks: coap_tcp, set_up: [{ name: z, request: { path: /z }, capture: { g: /g } }, \
                { name: y, request: { path: /y }, capture: { g: /token } }, { name: a, request: { path: /a }, \
                capture: { my_token: /a, b: /keys/accesstoken, c: /c, d: /d, e: /e, f: \"header:X-Auth\" } }] }\n\
                device: { speaks: coap_tcp, marker: ascii, log_in: [{ path: \"/in?api_key={c}&room={d}\" }], \
                request: { path: \"/m?id={e}\", body: '{message}' } }\n";
    let profile = read_text(text).unwrap();
    let mut compiler = Compiler {
        variables: &profile.variables,
        token: false,
        columns: None,
        address: None,
        errors: Vec::new(),
    };
    let captured = compiler.roles(&profile.roles).captured;
    assert_eq!(compiler.errors, []);
    let secret: Vec<&str> =
        captured.iter().filter(|value| value.secret).map(|value| value.name.as_str()).collect();
    assert_eq!(secret, ["g", "b", "c", "f", "my_token"]);
}

#[test]
fn a_body_of_cbor_is_written_as_json() {
    let told = |body: &str| {
        let request = format!("{{ path: /m, body_format: cbor, body: '{body}' }}");
        let text = format!(
            "name: x\ntitle: x\ndevice: {{ speaks: coap_tcp, request: {request} }}\ncomponents: []\n"
        );
        read_text(&text).err().unwrap_or_default()
    };
    assert_eq!(told(r#"{"m":"{message}","n":{sequence}}"#), "");
    assert!(told(r#"{"m":"{message}""#).contains("it is no JSON"));
    assert!(told(r#"{"m":1}"#).contains("neither `{message}` nor `{marker}`"));
}

#[test]
fn a_variable_ends_neither_a_path_nor_a_header() {
    let told = |request: &str, value: &str| {
        let device = format!("device: {{ speaks: http, request: {{ {request}, body: \"{{message}}\" }} }}");
        read_text(&format!(
            "name: x\ntitle: x\ndescription: x\nlimits: {{ all: none }}\ncomponents: []\nvariables: {{ v: {value} }}\n{device}\n"
        ))
    };
    let (path, header) = ("path: \"/{v}\"", "path: /, headers: { A: \"{v}\" }");
    assert_eq!(told(path, "a%20b").map(drop), Ok(()));
    assert_eq!(told(header, "a b").map(drop), Ok(()));
    let hostile = r#""a\r\nB: c""#;
    assert!(told(path, hostile).is_err_and(|said| said.contains("a path has no blank and no end of line")));
    assert!(told(path, "a b").is_err_and(|said| said.contains("a path has no blank")));
    assert!(told(header, hostile).is_err_and(|said| said.contains("a header has no end of line")));
}

#[test]
fn every_embedded_profile_is_without_error_and_has_the_name_of_its_file() {
    for (name, text) in EMBEDDED {
        assert_eq!(read_text(text).map(|profile| profile.name), Ok(name.to_owned()));
    }
    assert_eq!(profiles().len(), EMBEDDED.len() - 1, "all but what is simulated");
    assert_eq!(profile("none"), None);
}

#[test]
fn the_embedded_broker_is_started_with_the_limits_that_its_profile_states() {
    let broker = profile("embedded").unwrap();
    let command = &broker.components[0].command;
    let option = |name: &str| &command[command.iter().position(|word| word == name).unwrap() + 1];
    assert_eq!(&broker.limits["connections"], option("--max-connections"));
    assert_eq!(&broker.limits["packets handed to one connection at once"], option("--max-outgoing"));
    assert_eq!(option("--max-payload"), &(2 << 20).to_string());
    assert_eq!(option("--memory"), &(1 << 30).to_string());
    assert!(profile("existing").unwrap().components.is_empty());
}

#[test]
fn a_component_may_have_files_from_beside_its_profile_and_no_port_of_its_own() {
    let text = |from: &str| {
        format!(
            "name: mine\ntitle: mine\ncomponents:\n\
             - {{ name: worker, command: [python3, w.py], files: {{ w.py: {{ from: {from} }}, t: text }} }}\n\
             - {{ name: broker, command: [run, \"{{port:x}}\"], ready_port: x, mqtt_port: x }}\n"
        )
    };
    let profile = read_text(&text("worker.py")).unwrap();
    let worker = &profile.components[0];
    assert_eq!(worker.files["w.py"], "print()");
    assert_eq!((worker.files["t"].as_str(), &worker.ready_port), ("text", &None));
    assert!(profile.source.starts_with(&text("worker.py")));
    let hash = fnv_1a(b"print()");
    assert!(profile.source.ends_with(&format!("# copies worker.py: 7 bytes, FNV-1a {hash:016x}\n")));
    assert_eq!(fnv_1a(b"a"), 0xaf63_dc4c_8601_ec8c, "as its authors print it");
    let wrong = read_text(&text("none.py")).unwrap_err();
    assert!(wrong.contains("w.py: cannot read the file `none.py`: no such file"), "{wrong}");
    let asked = text("worker.py").replace("{ name: worker,", "{ name: worker, ready_request: { path: / },");
    assert!(read_text(&asked).unwrap_err().contains("which is not written"));
}

#[test]
fn what_is_wrong_with_a_profile_is_found_at_once() {
    let text = "name: mine\ntitle: mine\ncomponents:\n\
        - { name: a, command: [run, \"{prt:x}\"], ready_port: x, files: { ../f: text } }\n\
        - { name: a, command: [run, \"{port:y}\"], ready_port: y }\n\
        - { name: processors, command: [run] }\n";
    let shown = read_text(text).unwrap_err();
    for expected in [
        "nothing of this component uses `{port:x}`",
        "no variable `{prt:x}`",
        "`../f` is not a path below",
        "named `a` stands above already",
        "no component can be named `processors`",
        "exactly one component",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert!(
        read_text("name: a\ntitle: b\ncomponents:\n- { name: a, comand: [b], ready_port: c }\n")
            .unwrap_err()
            .contains("did you mean `command`?")
    );
}
