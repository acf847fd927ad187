//! What the tests of scenario files share.

use plimsoll_scenario::plan::Plan;
use plimsoll_scenario::{Diagnostics, Environment, Override, SourceFile};

/// A profile file without error that a scenario may name `./mine.yaml`.
const PROFILE: &str = "\
name: mine
title: my broker
components:
- { name: broker, command: [broker, \"{port:mqtt}\"], ready_port: mqtt, mqtt_port: mqtt }
";

/// A profile of a service that wants an access token.
const GUARDED: &str = "\
name: guarded
title: a service that wants a token
token: { url: /token, grant: client_credentials, client_id: me }
device:
  speaks: http
  marker: ascii
  request: { path: /data, headers: { Authorization: 'Bearer {token}' }, body: '{message}', expect: [204] }
components: []
";

/// A table of instance types.
const PRICES: &str = "\
type,price,processors,memory
m4.large,94.43,2,8 GiB
c4.xlarge,166.17,4,7.5 GiB
c4.2xlarge,332.33,8,15 GiB
balancer,11.5,,
";

/// A load balancer that can do little.
const BALANCER: &str = "\
name: plain
title: a balancer
command: [balance, \"{dir}/plain.conf\"]
files: { plain.conf: \"{mode} {policy} {listen} {server}\" }
policies: { round_robin: turn }
modes: { tcp: connections }
";

fn profile(path: &str) -> Result<String, String> {
    match path {
        "./mine.yaml" => Ok(PROFILE.to_owned()),
        "./plain.yaml" => Ok(BALANCER.to_owned()),
        // With a port for datagrams, too.
        "./both.yaml" => Ok(PROFILE
            .replace("mqtt}\"]", "mqtt}\", \"{port:coap}\"]")
            .replace("mqtt_port: mqtt", "mqtt_port: mqtt, coap_port: coap")),
        "./measured.yaml" => Ok(format!(
            "{PROFILE}metrics: [{{ component: broker, mqtt: 'mqtt://h:1', read: {{ clients: $SYS/clients }} }}]\n"
        )),
        "./guarded.yaml" => Ok(GUARDED.to_owned()),
        "./other-client.yaml" => Ok(GUARDED.replace("client_id: me", "client_id: you")),
        "./broken.yaml" => Ok(PROFILE.replace("ready_port", "redy_port")),
        "day.csv" => Ok("time,rate\n00:00,100\n12:00,500\n24:00,100\n".to_owned()),
        "wrong-day.csv" => Ok("time,rate\n00:00,100\nnoon,500\n".to_owned()),
        // Two devices, and two populations in turn.
        "trace.csv" => Ok("time,device,population\n5,a,x\n6,b,y\n7,b,x\n8,b,y\n".to_owned()),
        "wrong-trace.csv" => Ok("time\n5\n4\n".to_owned()),
        "prices.csv" => Ok(PRICES.to_owned()),
        "wrong-prices.csv" => Ok(PRICES.replace("332.33", "much")),
        _ => Err("there is no such file".to_owned()),
    }
}

fn variable(name: &str) -> Option<String> {
    match name {
        "BROKER_PASSWORD" | "PLIMSOLL_PASSWORD" => Some("open sesame".to_owned()),
        _ => None,
    }
}

/// Profile files and variables that exist in the tests.
pub const ENVIRONMENT: Environment<'static> = Environment { profile: &profile, variable: &variable };

/// Loads a scenario.
pub fn load(text: &str) -> Result<Plan, Diagnostics> {
    load_with(text, &[])
}

/// Loads a scenario with `--set` options.
pub fn load_with(text: &str, overrides: &[&str]) -> Result<Plan, Diagnostics> {
    let source = SourceFile { name: "scenario.yaml".to_owned(), text: text.to_owned() };
    let overrides: Vec<Override> = overrides.iter().map(|text| Override::Key((*text).to_owned())).collect();
    plimsoll_scenario::load(&source, &overrides, &ENVIRONMENT)
}

/// The facts of a plan, one on a line.
pub fn facts(plan: &Plan) -> String {
    plan.facts().iter().map(|(label, text)| format!("{label}: {text}\n")).collect()
}
