//! With `mosquitto_pub` and `mosquitto_sub` (package mosquitto-clients).

use crate::running::Running;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

/// How long a client waits for what does not come, s.
const PATIENCE: &str = "20";

fn sub(broker: &Running, arguments: &[&str]) -> Command {
    let mut command = Command::new("mosquitto_sub");
    command.args(["-h", "127.0.0.1", "-p", &broker.port(), "-W", PATIENCE]).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(mut command: Command) -> Child {
    command.spawn().unwrap_or_else(|error| panic!("is mosquitto-clients installed? {error}"))
}

fn finish(child: Child) -> String {
    let Output { stdout, stderr, status } = child.wait_with_output().unwrap();
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// A session that is entered before anything is published, so that nobody need wait for the subscription.
fn enter(broker: &Running, client_id: &str, version: &str, qos: &str, topics: &[&str]) {
    let mut arguments = vec!["-i", client_id, "-c", "-V", version, "-q", qos, "-E"];
    arguments.extend(if version == "5" { &["-x", "600"][..] } else { &[] });
    topics.iter().for_each(|topic| arguments.extend(["-t", topic]));
    finish(start(sub(broker, &arguments)));
}

/// Comes back to that session for so many messages.
fn collect(broker: &Running, client_id: &str, version: &str, qos: &str, topic: &str, count: &str) -> String {
    let mut arguments = vec!["-i", client_id, "-c", "-V", version, "-q", qos, "-t", topic, "-C", count];
    arguments.extend(if version == "5" { &["-x", "600"][..] } else { &[] });
    finish(start(sub(broker, &arguments)))
}

fn publish(broker: &Running, arguments: &[&str]) {
    let mut command = Command::new("mosquitto_pub");
    command.args(["-h", "127.0.0.1", "-p", &broker.port()]).args(arguments).stderr(Stdio::piped());
    finish(start(command));
}

fn publish_lines(broker: &Running, arguments: &[&str], lines: &str) {
    let mut command = Command::new("mosquitto_pub");
    command.args(["-h", "127.0.0.1", "-p", &broker.port(), "-l"]).args(arguments);
    let mut child = start({
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        command
    });
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    finish(child);
}

/// Each version to each, at QoS 1 and 2: all lines, once, in order, out of the queue of a session whose client is away.
#[test]
fn sessions_keep_everything_in_order_across_versions() {
    let broker = Running::start();
    let lines: String = (1..=500).map(|number| format!("{number}\n")).collect();
    for (from, to) in [("mqttv311", "5"), ("5", "mqttv311"), ("5", "5"), ("mqttv311", "mqttv311")] {
        for qos in ["1", "2"] {
            let (client_id, topic) = (format!("{from}{to}{qos}"), format!("t/{from}/{to}/{qos}"));
            enter(&broker, &client_id, to, qos, &[&topic]);
            publish_lines(&broker, &["-V", from, "-q", qos, "-t", &topic], &lines);
            assert_eq!(
                collect(&broker, &client_id, to, qos, &topic, "500"),
                lines,
                "{from} to {to} at {qos}"
            );
        }
    }
}

/// A connected subscriber, whose readiness a retained message tells.
#[test]
fn a_connected_subscriber_gets_what_is_published_at_every_qos() {
    let broker = Running::start();
    publish(&broker, &["-t", "a/ready", "-m", "ready", "-r"]);
    for (version, qos) in [("mqttv311", "0"), ("5", "0"), ("5", "1"), ("mqttv311", "2"), ("5", "2")] {
        let topic = format!("b/{version}/{qos}");
        let subscribed = ["-V", version, "-q", qos, "-t", &topic, "-t", "a/+", "-C", "101"];
        let mut child = start(sub(&broker, &subscribed));
        // The first line comes when both subscriptions are made: the retained message follows its SUBACK.
        let mut out = child.stdout.take().unwrap();
        let mut first = [0; 6];
        std::io::Read::read_exact(&mut out, &mut first).unwrap();
        assert_eq!(&first, b"ready\n");
        let lines: String = (1..=100).map(|number| format!("{number}\n")).collect();
        publish_lines(&broker, &["-V", version, "-q", qos, "-t", &topic], &lines);
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
        assert_eq!(rest, lines, "{version} at {qos}");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn retained_messages_and_properties_arrive() {
    let broker = Running::start();
    let properties = ["content-type", "text/plain", "response-topic", "answers", "correlation-data", "c7"];
    let mut arguments = vec!["-V", "5", "-t", "kept/a", "-m", "one", "-r", "-q", "1"];
    for pair in properties.chunks(2) {
        arguments.extend(["-D", "publish", pair[0], pair[1]]);
    }
    arguments.extend([
        "-D",
        "publish",
        "user-property",
        "k",
        "v",
        "-D",
        "publish",
        "message-expiry-interval",
        "100",
    ]);
    publish(&broker, &arguments);
    publish(&broker, &["-t", "kept/b", "-m", "two", "-r"]);
    publish(&broker, &["-t", "kept/b", "-n", "-r"]);
    let told = [
        "-V",
        "5",
        "-t",
        "kept/#",
        "-C",
        "1",
        "-F",
        "%t %p %r %C %R %D %P %E",
        "-D",
        "subscribe",
        "subscription-identifier",
        "9",
    ];
    let got = finish(start(sub(&broker, &told)));
    let expected = "kept/a one 1 text/plain answers c7 k:v ";
    assert!(got.starts_with(expected) && got.trim_end().ends_with("00"), "{got}");
    let nothing = sub(&broker, &["-t", "kept/b", "--retained-only", "-W", "1"]).output().unwrap();
    assert!(nothing.stdout.is_empty());
}

#[test]
fn a_will_is_published_when_its_client_is_killed() {
    let broker = Running::start();
    enter(&broker, "watcher", "5", "1", &["wills/#"]);
    publish(&broker, &["-t", "ready", "-m", "ready", "-r"]);
    let with_will = ["-t", "ready", "--will-topic", "wills/x", "--will-payload", "gone", "--will-qos", "1"];
    let mut child = start(sub(&broker, &with_will));
    let mut first = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // One that says goodbye has none.
    let goodbye = ["-t", "ready", "-C", "1", "--will-topic", "wills/y", "--will-payload", "no"];
    finish(start(sub(&broker, &goodbye)));
    publish(&broker, &["-t", "wills/end", "-m", "end", "-q", "1"]);
    assert_eq!(collect(&broker, "watcher", "5", "1", "wills/#", "2"), "gone\nend\n");
}

#[test]
fn a_group_shares_between_sessions_whose_clients_are_away() {
    let broker = Running::start();
    for member in ["m1", "m2"] {
        enter(&broker, member, "5", "1", &["$share/crew/work/#"]);
    }
    let lines: String = (1..=100).map(|number| format!("{number}\n")).collect();
    publish_lines(&broker, &["-q", "1", "-t", "work/x"], &lines);
    let mut got: Vec<u32> = ["m1", "m2"]
        .iter()
        .flat_map(|member| {
            let text = collect(&broker, member, "5", "1", "$share/crew/work/#", "50");
            text.lines().map(|line| line.parse().unwrap()).collect::<Vec<u32>>()
        })
        .collect();
    got.sort_unstable();
    assert_eq!(got, (1..=100).collect::<Vec<u32>>());
}

#[test]
fn the_second_port_speaks_the_same() {
    let broker = Running::start();
    let second = broker.addresses[1].port().to_string();
    publish(&broker, &["-t", "kept", "-m", "one", "-r"]);
    for version in ["mqttv311", "5"] {
        let arguments = ["-p", &second, "-V", version, "-t", "kept", "-C", "1"];
        assert_eq!(finish(start(sub(&broker, &arguments))), "one\n");
    }
}
