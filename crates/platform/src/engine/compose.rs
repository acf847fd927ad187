//! A container engine that understands compose files: all that is called of it. A run has a project of its own, with which its
//! containers, networks and volumes go.
//!
//! What is held is created, started and paused container by container, and goes on in the order of what each waits for. So a
//! capture that begins meanwhile sees what a service says to another from its first connection on, but for what its processes do
//! in the moment between start and pause.

use super::{Component, Job, Printed, check_names, done, parsed, said, write, written};
use plimsoll_observe::containers::{self, containers};
use plimsoll_scenario::plan::{EnginePlan, QuotaPlan};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// The file that stands behind the user's own ones.
const OVERRIDING: &str = "compose.override.json";
/// Labels that the engine gives containers.
const SERVICE: &str = "com.docker.compose.service";
const NUMBER: &str = "com.docker.compose.container-number";
const NEEDS: &str = "com.docker.compose.depends_on";
/// Pause between two looks at the containers.
const PAUSE: Duration = Duration::from_millis(200);
/// Lines of each container's log that stand beside an error.
const LAST_LINES: &str = "5";
/// Digits of a container's id that are shown.
const SHORT: usize = 12;
/// Most facts about images: a run keeps a hundred of all kinds.
const MOST_IMAGES: usize = 90;

/// The project of a run.
pub(super) struct Project<'a> {
    job: &'a Job,
    program: &'a str,
    overriding: PathBuf,
}

impl Project<'_> {
    /// That of a job.
    pub fn of<'a>(job: &'a Job, program: &'a str) -> Project<'a> {
        Project { job, program, overriding: job.folder.join(OVERRIDING) }
    }

    /// Brings it up: all containers run and are healthy, or are held.
    pub fn bring_up(&self) -> Result<Printed, String> {
        let plan = &self.job.plan;
        let services = said(&self.as_written(&["config", "--services"]))?;
        let services: Vec<&str> = services.lines().map(str::trim).collect();
        let of_ports = plan.ports.values().map(|(service, _)| service);
        let named = std::iter::once(&plan.service).chain(plan.counts.keys()).chain(plan.quotas.keys());
        check_names("service", named.chain(of_ports), &services)?;
        write(&self.overriding, &super::rendered(plan))?;
        done(&self.compose(&["config", "--quiet"]))?;
        let begun = if self.job.held { self.hold() } else { self.begin() };
        begun.inspect_err(|_| self.show_logs())?;
        let address = self.published(&plan.service, plan.port, plan.datagrams)?;
        let mut ports = BTreeMap::new();
        for (name, (service, port)) in &plan.ports {
            ports.insert(name.clone(), self.published(service, *port, false)?.port());
        }
        let all = self.containers()?;
        Ok(Printed {
            address: self.job.address(&address.ip().to_string(), address.port()),
            ports,
            components: components(&all, &containers()),
            facts: self.facts(&all),
        })
    }

    /// Lets go on what is held, each container when what it waits for is there, and waits until all are healthy.
    pub fn release(&self) -> Result<(), String> {
        self.await_all().inspect_err(|_| self.show_logs())
    }

    /// Removes containers, networks and volumes, after their logs were kept where that is wanted.
    pub fn take_down(&self) -> Result<(), String> {
        let kept = self.keep_logs();
        if self.job.held {
            self.let_go();
        }
        // Where a name of the overrides is wrong, the user's own files still say what there is.
        done(&self.as_written(&["down", "--volumes", "--remove-orphans"]))?;
        kept
    }

    /// Starts all, each when what it waits for is there, and waits until all are healthy.
    fn begin(&self) -> Result<(), String> {
        done(&self.compose(&["up", "--detach"]))?;
        self.await_all()
    }

    /// Starts all and pauses each at once.
    fn hold(&self) -> Result<(), String> {
        done(&self.compose(&["up", "--no-start"]))?;
        let mut all = self.containers()?;
        // Those whose network another one uses were created before it.
        all.sort_by(|one, other| one.created.cmp(&other.created));
        for container in &all {
            done(&self.engine("start", &[&container.id]))?;
            // One that has done its work already cannot be paused.
            let _ = done(&self.engine("pause", &[&container.id]));
        }
        let all = self.containers()?;
        match all.iter().find(|container| container.runs()) {
            None => Ok(()),
            Some(one) => Err(format!(
                "the engine does not pause `{}`: run without a capture, or with an engine that pauses containers",
                one.service()
            )),
        }
    }

    /// Lets go on whatever is still held: some engines end no container that is paused.
    fn let_go(&self) {
        let all = self.containers().unwrap_or_default();
        let held: Vec<&str> = all.iter().filter(|one| one.is_held()).map(|one| one.id.as_str()).collect();
        if !held.is_empty() {
            // What cannot go on, the engine may be able to remove all the same.
            let _ = done(&self.engine("unpause", &held));
        }
    }

    fn await_all(&self) -> Result<(), String> {
        loop {
            let all = self.containers()?;
            if all.is_empty() {
                return Err("the files start no container".to_owned());
            }
            if let Some(failure) = all.iter().find_map(Container::failure) {
                return Err(failure);
            }
            let free = released(&all);
            if !free.is_empty() {
                done(&self.engine("unpause", &free))?;
            } else if all.iter().all(Container::is_up) {
                return Ok(());
            } else {
                thread::sleep(PAUSE);
            }
        }
    }

    /// Where a port of a service is published. An engine that publishes it at all addresses does so on this host.
    fn published(&self, service: &str, port: u16, datagrams: bool) -> Result<SocketAddr, String> {
        let protocol = if datagrams { "udp" } else { "tcp" };
        let printed = said(&self.compose(&["port", "--protocol", protocol, service, &port.to_string()]));
        let place = printed.ok().and_then(|printed| place(&printed));
        place.ok_or_else(|| {
            format!(
                "port {port} of the service `{service}` is not published: write `ports: [\"127.0.0.1::{port}\"]` in the \
                 compose file"
            )
        })
    }

    /// The containers of the run.
    fn containers(&self) -> Result<Vec<Container>, String> {
        let ids = said(&self.compose(&["ps", "--all", "--quiet"]))?;
        let ids: Vec<&str> = ids.split_whitespace().collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        parsed(&self.engine("inspect", &ids))
    }

    fn facts(&self, all: &[Container]) -> BTreeMap<String, String> {
        let version = |command: &[String]| said(command).ok().map(|printed| printed.trim().to_owned());
        let engine = version(&self.engine("version", &["--format", "{{.Server.Version}}"]));
        let compose = version(&self.compose(&["version", "--short"]));
        let named = |name: &str, fact: Option<String>| Some((name.to_owned(), fact?));
        let project = Some(self.job.name());
        let own = [
            named("engine", engine.map(|version| format!("{} {version}", self.program))),
            named("compose", compose),
            named("project", project),
            named("scale", self.job.counts()),
        ];
        let images = all.iter().map(|container| {
            let image = format!("{} {}", container.config.image, container.image);
            (format!("image of {}", container.service()), image)
        });
        let images: BTreeMap<String, String> = images.collect();
        images.into_iter().take(MOST_IMAGES).chain(own.into_iter().flatten()).collect()
    }

    fn keep_logs(&self) -> Result<(), String> {
        let Some(folder) = self.job.logs()? else { return Ok(()) };
        let services = said(&self.as_written(&["config", "--services"]))?;
        for service in services.lines().map(str::trim).filter(|service| !service.is_empty()) {
            let call = self.as_written(&["logs", "--no-color", "--no-log-prefix", "--timestamps", service]);
            written(&call, &folder.join(format!("{service}.log")))?;
        }
        Ok(())
    }

    /// The last words of all services, on standard error.
    fn show_logs(&self) {
        // The failure that they belong to is worth more than one of theirs.
        let _ = done(&self.as_written(&["logs", "--no-color", "--tail", LAST_LINES]));
    }

    fn engine(&self, what: &str, rest: &[&str]) -> Vec<String> {
        [self.program, what].iter().chain(rest).map(|word| (*word).to_owned()).collect()
    }

    /// A call for the user's files with the overrides.
    fn compose(&self, rest: &[&str]) -> Vec<String> {
        let overriding = self.overriding.to_string_lossy();
        self.call(Some(&overriding), rest)
    }

    /// The same for the user's files alone.
    fn as_written(&self, rest: &[&str]) -> Vec<String> {
        self.call(None, rest)
    }

    fn call(&self, overriding: Option<&str>, rest: &[&str]) -> Vec<String> {
        let project = self.job.name();
        let files = self.job.plan.files.iter().map(String::as_str).chain(overriding);
        let mut call = vec!["--project-name", &project];
        call.extend(files.flat_map(|file| ["--file", file]));
        call.extend(rest);
        self.engine("compose", &call)
    }
}

/// What the overrides say, in both forms that a compose file has for it, because one that has the other form would contradict
/// them.
pub(super) fn overriding(plan: &EnginePlan) -> Value {
    let names = plan.counts.keys().chain(plan.quotas.keys());
    let services: Map<String, Value> = names.map(|name| (name.clone(), service(name, plan))).collect();
    json!({ "services": services })
}

fn service(name: &str, plan: &EnginePlan) -> Value {
    let (mut service, mut deploy, mut limits) = (Map::new(), Map::new(), Map::new());
    if let Some(count) = plan.counts.get(name) {
        service.insert("scale".to_owned(), json!(count));
        deploy.insert("replicas".to_owned(), json!(count));
    }
    let QuotaPlan { processors, memory, .. } = plan.quotas.get(name).copied().unwrap_or_default();
    if let Some(processors) = processors {
        service.insert("cpus".to_owned(), json!(processors));
        limits.insert("cpus".to_owned(), json!(processors.to_string()));
    }
    if let Some(memory) = memory {
        service.insert("mem_limit".to_owned(), json!(memory));
        limits.insert("memory".to_owned(), json!(memory.to_string()));
    }
    if !limits.is_empty() {
        deploy.insert("resources".to_owned(), json!({ "limits": limits }));
    }
    service.insert("deploy".to_owned(), Value::Object(deploy));
    Value::Object(service)
}

/// What the engine says of a container.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    id: String,
    /// When, so that the later of two has the greater text.
    created: String,
    /// The digest of its image.
    image: String,
    state: State,
    config: Config,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    status: String,
    #[serde(default)]
    pid: u32,
    #[serde(default)]
    exit_code: i64,
    health: Option<Health>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Health {
    #[serde(default)]
    status: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    /// The name of its image.
    #[serde(default)]
    image: String,
    labels: Option<BTreeMap<String, String>>,
}

impl Container {
    fn label(&self, name: &str) -> &str {
        let labels = self.config.labels.as_ref();
        labels.and_then(|labels| labels.get(name)).map(String::as_str).unwrap_or_default()
    }

    fn service(&self) -> &str {
        self.label(SERVICE)
    }

    /// The health that its image or file lets be checked; nothing where neither does.
    fn health(&self) -> &str {
        let health = self.state.health.as_ref().map(|health| health.status.as_str()).unwrap_or_default();
        if health == "none" { "" } else { health }
    }

    fn runs(&self) -> bool {
        self.state.status == "running"
    }

    fn is_held(&self) -> bool {
        self.state.status == "paused"
    }

    fn has_ended(&self) -> bool {
        matches!(self.state.status.as_str(), "exited" | "dead")
    }

    /// Whether it runs and is healthy, or has done its work.
    fn is_up(&self) -> bool {
        self.has_ended() || self.runs() && matches!(self.health(), "" | "healthy")
    }

    /// Why it will not be up, for people.
    fn failure(&self) -> Option<String> {
        let service = self.service();
        if self.has_ended() && self.state.exit_code != 0 {
            return Some(format!("the service `{service}` ended with exit status {}", self.state.exit_code));
        }
        (self.health() == "unhealthy").then(|| format!("the service `{service}` is not healthy"))
    }

    /// Whether what the other one waits for is true.
    fn meets(&self, condition: &str) -> bool {
        match condition {
            "service_healthy" => self.runs() && self.health() == "healthy",
            "service_completed_successfully" => self.has_ended() && self.state.exit_code == 0,
            _ => self.runs() || self.has_ended(),
        }
    }

    /// The services that it waits for, and until what is true of them.
    fn needs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.label(NEEDS).split(',').filter_map(|need| {
            let (service, rest) = need.split_once(':')?;
            Some((service, rest.split_once(':').map_or(rest, |(condition, _)| condition)))
        })
    }
}

/// The ids of those that are held and whose conditions are met.
fn released(all: &[Container]) -> Vec<&str> {
    let is_met = |(service, condition): (&str, &str)| {
        all.iter().filter(|other| other.service() == service).all(|other| other.meets(condition))
    };
    let held = all.iter().filter(|container| container.is_held());
    held.filter(|container| container.needs().all(is_met)).map(|container| container.id.as_str()).collect()
}

/// The containers whose processes this host sees, each by its service, and by its number where that has several.
fn components(all: &[Container], here: &[containers::Container]) -> Vec<Component> {
    let of_service = |service: &str| all.iter().filter(|other| other.service() == service).count();
    let component = |container: &Container| {
        let short = container.id.get(..SHORT).unwrap_or_default();
        let seen = here
            .iter()
            .find(|one| one.name == short || i32::try_from(container.state.pid) == Ok(one.process))?;
        let service = container.service();
        let name = match of_service(service) {
            1 => service.to_owned(),
            _ => format!("{service}-{}", container.label(NUMBER)),
        };
        let is_one = here.iter().filter(|one| one.name == seen.name).count() == 1;
        let pid = u32::try_from(seen.process).ok().filter(|_| !is_one);
        Some(Component { name, pid, container: is_one.then(|| seen.name.clone()) })
    };
    all.iter().filter_map(component).collect()
}

/// The address that was printed, where one was; all addresses are those of this host.
fn place(printed: &str) -> Option<SocketAddr> {
    let address: SocketAddr = printed.lines().next()?.trim().parse().ok()?;
    let ip = if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
    (address.port() > 0).then(|| SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::plan::Engine;

    /// Containers as the engine describes them: service, number, status, health, exit status, and what each waits for.
    fn all(described: &[(&str, &str, &str, &str, i64, &str)]) -> Vec<Container> {
        let container = |(place, one): (usize, &(&str, &str, &str, &str, i64, &str))| {
            let (service, number, status, health, exit_code, needs) = *one;
            let described = json!({
                "Id": format!("{place}{:063}", 0),
                "Created": format!("2026-01-01T00:00:{place:02}Z"),
                "Image": "sha256:1234",
                "Name": format!("/p-{service}-{number}"),
                "State": {
                    "Status": status, "Pid": 100 + place, "ExitCode": exit_code,
                    "Health": if health.is_empty() { Value::Null } else { json!({ "Status": health, "Log": [] }) },
                },
                "Config": { "Image": "broker:2", "Labels": { SERVICE: service, NUMBER: number, NEEDS: needs } },
            });
            serde_json::from_value(described).unwrap()
        };
        described.iter().enumerate().map(container).collect()
    }

    #[test]
    fn overrides_say_counts_and_limits_in_both_forms() {
        let plan = super::super::tests::plan(Engine::Compose { program: "docker".to_owned() });
        let worker = json!({
            "scale": 3, "cpus": 0.5, "mem_limit": 268_435_456,
            "deploy": { "replicas": 3, "resources": { "limits": { "cpus": "0.5", "memory": "268435456" } } },
        });
        assert_eq!(overriding(&plan), json!({ "services": { "worker": worker } }));
        let none = EnginePlan { counts: BTreeMap::new(), quotas: BTreeMap::new(), ..plan };
        assert_eq!(overriding(&none), json!({ "services": {} }));
    }

    #[test]
    fn what_is_held_goes_on_when_what_it_waits_for_is_there() {
        let of = |db: &str, health: &str, setup: &str, code: i64| {
            let needs =
                "db:service_healthy:false,setup:service_completed_successfully:true,none:service_started";
            let all = all(&[
                ("db", "1", db, health, 0, ""),
                ("setup", "1", setup, "", code, "db:service_healthy:false"),
                ("broker", "1", "paused", "", 0, needs),
            ]);
            released(&all).iter().map(|id| id.chars().next().unwrap()).collect::<String>()
        };
        assert_eq!(of("paused", "starting", "paused", 0), "0");
        assert_eq!(of("running", "starting", "paused", 0), "");
        assert_eq!(of("running", "healthy", "paused", 0), "1");
        assert_eq!(of("running", "healthy", "running", 0), "");
        assert_eq!(of("running", "healthy", "exited", 0), "2");
        assert_eq!(of("running", "healthy", "exited", 1), "");
    }

    #[test]
    fn a_container_is_up_or_says_why_it_will_not_be() {
        let of = |status: &str, health: &str, code: i64| {
            let all = all(&[("broker", "1", status, health, code, "")]);
            (all[0].is_up(), all[0].failure())
        };
        for (status, health) in [("running", ""), ("running", "healthy"), ("running", "none"), ("exited", "")]
        {
            assert_eq!(of(status, health, 0), (true, None), "{status} {health}");
        }
        for (status, health) in [("created", ""), ("paused", ""), ("running", "starting"), ("restarting", "")]
        {
            assert_eq!(of(status, health, 0), (false, None), "{status} {health}");
        }
        assert_eq!(of("exited", "", 3).1.unwrap(), "the service `broker` ended with exit status 3");
        assert_eq!(of("running", "unhealthy", 0).1.unwrap(), "the service `broker` is not healthy");
    }

    #[test]
    fn components_are_the_containers_that_this_host_sees() {
        let all = all(&[
            ("broker", "1", "running", "", 0, ""),
            ("worker", "1", "running", "", 0, ""),
            ("worker", "2", "paused", "", 0, ""),
            ("away", "1", "running", "", 0, ""),
        ]);
        let here = |name: &str, process: i32| containers::Container {
            name: name.to_owned(),
            process,
            addresses: Vec::new(),
        };
        let component = |name: &str, pid: Option<u32>, container: Option<&str>| Component {
            name: name.to_owned(),
            pid,
            container: container.map(str::to_owned),
        };
        // The host names of two are the same; a third has none and is known by its id; a fourth is away.
        let here = [here("000000000000", 7), here("same", 101), here("same", 102), here("other", 999)];
        assert_eq!(
            components(&all, &here),
            [
                component("broker", None, Some("000000000000")),
                component("worker-1", Some(101), None),
                component("worker-2", Some(102), None),
            ]
        );
    }

    #[test]
    fn an_address_that_was_printed_is_one_of_this_host() {
        for (printed, address) in [
            ("0.0.0.0:32768\n", Some("127.0.0.1:32768")),
            ("[::]:32768\n", Some("127.0.0.1:32768")),
            ("127.0.0.1:1883", Some("127.0.0.1:1883")),
            ("10.0.0.7:1883\n", Some("10.0.0.7:1883")),
            (":0\n", None),
            ("0.0.0.0:0", None),
            ("", None),
        ] {
            assert_eq!(place(printed).map(|place| place.to_string()).as_deref(), address, "{printed}");
        }
    }
}
