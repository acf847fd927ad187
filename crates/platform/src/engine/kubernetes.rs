//! A cluster of Kubernetes: all that is called of `kubectl`. A run has a namespace of its own, with which all that it has applied
//! goes. So nothing of the whole cluster is applied, which would stay.

use super::{Component, Job, Printed, called, check_names, done, parsed, said, unstarted, write, written};
use plimsoll_observe::containers::containers;
use plimsoll_scenario::plan::{EnginePlan, QuotaPlan};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::Duration;

/// What is called.
pub(super) const PROGRAM: &str = "kubectl";
/// The folder of what is applied.
const FOLDER: &str = "kustomize";
/// What kubectl says of a port-forward.
const FORWARD_LOG: &str = "port-forward.log";
/// The component that a port-forward is, whose process this host has.
const FORWARD: &str = "port-forward";
/// How a line of it begins.
const FORWARDING: &str = "Forwarding from 127.0.0.1:";
/// Kinds of what runs pods.
const WORKLOADS: &str = "deployments,statefulsets,daemonsets";
/// Pause between two looks at the cluster.
const PAUSE: Duration = Duration::from_secs(1);
/// Most facts about images: a run keeps a hundred of all kinds.
const MOST_IMAGES: usize = 90;
/// The most that is read of what was printed about a platform, bytes.
const LONGEST_OBJECT: u64 = 1 << 20;

/// The cluster, and the namespace of a run in it.
pub(super) struct Cluster<'a> {
    job: &'a Job,
    context: &'a str,
    namespace: String,
}

/// How devices reach a service.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reach {
    /// A load balancer, at that host.
    Balancer(String),
    /// A load balancer that has no address yet.
    Awaited,
    /// A port of the cluster's nodes.
    Node,
    /// Only within the cluster.
    Inside,
}

impl Cluster<'_> {
    /// That of a job.
    pub fn of<'a>(job: &'a Job, context: &'a str) -> Cluster<'a> {
        Cluster { job, context, namespace: job.name() }
    }

    /// Brings the platform up: all pods are ready.
    pub fn bring_up(&self) -> Result<Printed, String> {
        let plan = &self.job.plan;
        let folder = self.prepare()?;
        let folder = folder.to_string_lossy();
        let rendered = said(&self.kubectl(&["kustomize", &folder]))?;
        let of_cluster = said(&self.kubectl(&["api-resources", "--namespaced=false", "--no-headers"]))?;
        check_kinds(&rendered, &of_cluster)?;
        done(&self.kubectl(&["create", "namespace", &self.namespace]))?;
        done(&self.inside(&["apply", "--kustomize", &folder]))?;
        let workloads = said(&self.inside(&["get", WORKLOADS, "--output", "name"]))?;
        let names: Vec<&str> = workloads.lines().filter_map(|line| Some(line.split_once('/')?.1)).collect();
        check_names("workload", plan.counts.keys().chain(plan.quotas.keys()), &names)?;
        for workload in workloads.lines() {
            done(&self.inside(&["rollout", "status", workload])).inspect_err(|_| self.show_pods())?;
        }
        let mut printed = self.reached().inspect_err(|_| self.show_pods())?;
        let pods: Pods = parsed(&self.inside(&["get", "pods", "--output", "json"]))?;
        let here: BTreeSet<String> = containers().into_iter().map(|container| container.name).collect();
        let seen = pods.items.iter().map(|pod| &pod.metadata.name).filter(|name| here.contains(*name));
        printed.components.extend(seen.map(|name| Component {
            name: name.clone(),
            pid: None,
            container: Some(name.clone()),
        }));
        printed.facts.extend(pods.images());
        printed.facts.extend(self.facts());
        Ok(printed)
    }

    /// Deletes the namespace with all that is in it, after logs were kept where that is wanted.
    pub fn take_down(&self) -> Result<(), String> {
        self.end_forward();
        let kept = self.keep_logs();
        done(&self.kubectl(&["delete", "namespace", &self.namespace, "--ignore-not-found"]))?;
        kept
    }

    /// Makes the folder of what is applied: the user's files, and what is changed in them.
    fn prepare(&self) -> Result<PathBuf, String> {
        let folder = self.job.folder.join(FOLDER);
        let failed = |error: io::Error| format!("cannot make {}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(failed)?;
        let mut names = Vec::new();
        for (number, file) in self.job.plan.files.iter().enumerate() {
            let name = format!("{number}.yaml");
            // kubectl reads no file above the folder that it is given.
            let text = match fs::metadata(file).is_ok_and(|data| data.is_dir()) {
                true => said(&self.kubectl(&["kustomize", file]))?,
                false => fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?,
            };
            write(&folder.join(&name), &text)?;
            names.push(name);
        }
        let own = kustomization(&self.job.plan, &self.namespace, &names);
        write(&folder.join("kustomization.yaml"), &format!("{own:#}\n"))?;
        Ok(folder)
    }

    /// Where devices reach the service; waits for the address of a load balancer.
    fn reached(&self) -> Result<Printed, String> {
        let plan = &self.job.plan;
        let read = || parsed::<Service>(&self.inside(&["get", "service", &plan.service, "--output", "json"]));
        let mut service = read()?;
        while service.reach() == Reach::Awaited {
            thread::sleep(PAUSE);
            service = read()?;
        }
        let of_service = |port: u16| {
            let found = service.spec.ports.iter().find(|own| own.port == port);
            found.ok_or_else(|| format!("the service `{}` has no port {port}", plan.service))
        };
        let first = of_service(plan.port)?;
        let others = plan.ports.iter().map(|(name, (_, port))| of_service(*port).map(|found| (name, found)));
        let others = others.collect::<Result<Vec<(&String, &ServicePort)>, String>>()?;
        let mut printed = Printed::default();
        let (by, host, numbers) = match service.reach() {
            Reach::Balancer(host) => ("load balancer", host, None),
            Reach::Node => {
                let ports = std::iter::once(first).chain(others.iter().map(|(_, port)| *port));
                let numbers: Option<Vec<u16>> = ports.map(|port| port.node_port).collect();
                let numbers =
                    numbers.ok_or_else(|| format!("the service `{}` has no node port", plan.service))?;
                ("node port", self.node()?, Some(numbers))
            }
            Reach::Inside | Reach::Awaited => {
                let ports = std::iter::once(first).chain(others.iter().map(|(_, port)| *port));
                let (process, numbers) = self.forward(&ports.map(|port| port.port).collect::<Vec<u16>>())?;
                let component = Component { name: FORWARD.to_owned(), pid: Some(process), container: None };
                printed.components.push(component);
                ("port-forward", "127.0.0.1".to_owned(), Some(numbers))
            }
        };
        let mut numbers = numbers.into_iter().flatten();
        printed.address = self.job.address(&host, numbers.next().unwrap_or(first.port));
        for (name, port) in others {
            printed.ports.insert(name.clone(), numbers.next().unwrap_or(port.port));
        }
        printed.facts.insert("reached by".to_owned(), by.to_owned());
        Ok(printed)
    }

    /// The address of a node.
    fn node(&self) -> Result<String, String> {
        let nodes: Nodes = parsed(&self.kubectl(&["get", "nodes", "--output", "json"]))?;
        nodes.address().ok_or_else(|| "no node of the cluster has an address".to_owned())
    }

    /// Forwards ports of this host to those of the service: the process that does, and the ports of this host. It goes on until
    /// the platform is taken down.
    fn forward(&self, ports: &[u16]) -> Result<(u32, Vec<u16>), String> {
        if self.job.plan.datagrams {
            return Err(format!(
                "kubectl forwards no datagrams: make the service `{}` a load balancer or a node port",
                self.job.plan.service
            ));
        }
        let service = format!("service/{}", self.job.plan.service);
        let mut command = self.inside(&["port-forward", "--address", "127.0.0.1", &service]);
        command.extend(ports.iter().map(|port| format!(":{port}")));
        let log = self.job.folder.join(FORWARD_LOG);
        let failed = |error: io::Error| format!("cannot write {}: {error}", log.display());
        let output = fs::File::create(&log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let mut child = called(&command)?
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| unstarted(&command, &error))?;
        let numbers = await_forward(&mut child, &log, ports.len());
        let numbers = numbers.map_err(|status| format!("`{}` ended with {status}", command.join(" ")))?;
        Ok((child.id(), numbers))
    }

    /// Ends the port-forward that the printed platform has. Where bringing it up failed, its guard has ended it.
    fn end_forward(&self) {
        let mut printed = String::new();
        let read = io::stdin().take(LONGEST_OBJECT).read_to_string(&mut printed);
        let Some(process) = read.ok().and_then(|_| forwarder(&printed)) else { return };
        // Its number may be another process's by now, which does not name the namespace.
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let is_it = words.split(|byte| *byte == 0).any(|word| word == self.namespace.as_bytes());
        if let Some(process) = Pid::from_raw(process).filter(|_| is_it) {
            // One that has just ended is no failure.
            let _ = kill_process(process, Signal::TERM);
        }
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let version = parsed::<Versions>(&self.kubectl(&["version", "--output", "json"])).ok();
        let version = version.and_then(|versions| versions.server).map(|server| server.git_version);
        let named = |name: &str, fact: Option<String>| Some((name.to_owned(), fact?));
        let own = [
            named("engine", version.map(|version| format!("Kubernetes {version}"))),
            named("context", Some(self.context.to_owned())),
            named("namespace", Some(self.namespace.clone())),
            named("replicas", self.job.counts()),
        ];
        own.into_iter().flatten().collect()
    }

    fn keep_logs(&self) -> Result<(), String> {
        let Some(folder) = self.job.logs()? else { return Ok(()) };
        let pods = said(&self.inside(&["get", "pods", "--output", "name"]))?;
        for pod in pods.lines() {
            let name = pod.trim_start_matches("pod/");
            let call = self.inside(&["logs", pod, "--all-containers", "--timestamps"]);
            written(&call, &folder.join(format!("{name}.log")))?;
        }
        Ok(())
    }

    /// What became of the pods, on standard error.
    fn show_pods(&self) {
        // The failure that they belong to is worth more than one of theirs.
        let _ = done(&self.inside(&["get", "events", "--sort-by", ".lastTimestamp"]));
        let _ = done(&self.inside(&["get", "pods"]));
    }

    fn kubectl(&self, rest: &[&str]) -> Vec<String> {
        [PROGRAM, "--context", self.context].iter().chain(rest).map(|word| (*word).to_owned()).collect()
    }

    /// A call within the namespace of the run.
    fn inside(&self, rest: &[&str]) -> Vec<String> {
        let mut words = vec!["--namespace", self.namespace.as_str()];
        words.extend(rest);
        self.kubectl(&words)
    }
}

/// What is applied: the files, all in the namespace, with the counts and limits of the plan.
pub(super) fn kustomization(plan: &EnginePlan, namespace: &str, files: &[String]) -> Value {
    let replicas = plan.counts.iter().map(|(name, count)| json!({ "name": name, "count": count }));
    let patches = plan.quotas.iter().map(|(name, quota)| {
        // Requests that were above the limits would be refused; without any they are the limits.
        let resources = json!({ "limits": limits(*quota) });
        let patch = json!([{
            "op": "add", "path": "/spec/template/spec/containers/0/resources", "value": resources,
        }]);
        let target = json!({ "kind": "(Deployment|StatefulSet|DaemonSet)", "name": name });
        json!({ "target": target, "patch": patch.to_string() })
    });
    json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
        "resources": files,
        "replicas": replicas.collect::<Vec<Value>>(),
        "patches": patches.collect::<Vec<Value>>(),
    })
}

fn limits(quota: QuotaPlan) -> Map<String, Value> {
    let thousandths = quota.processors.map(|processors| format!("{}m", (processors * 1000.0).round()));
    let memory = quota.memory.map(|memory| memory.to_string());
    let limits = [("cpu", thousandths), ("memory", memory)].into_iter();
    limits.filter_map(|(name, limit)| Some((name.to_owned(), json!(limit?)))).collect()
}

/// Refuses what would be the whole cluster's: `of_cluster` lists its kinds, each at the end of a line.
fn check_kinds(rendered: &str, of_cluster: &str) -> Result<(), String> {
    let of_cluster: BTreeSet<&str> =
        of_cluster.lines().filter_map(|line| line.split_whitespace().last()).collect();
    // What kubectl renders has the kind of each object at the beginning of a line.
    let kinds = rendered.lines().filter_map(|line| line.strip_prefix("kind: ")).map(str::trim);
    let found: BTreeSet<&str> = kinds.filter(|kind| of_cluster.contains(kind)).collect();
    if found.is_empty() {
        return Ok(());
    }
    let found: Vec<&str> = found.into_iter().collect();
    Err(format!(
        "the files have objects of the whole cluster, which would stay after the run: {}; remove them, and apply them before",
        found.join(", ")
    ))
}

/// Waits until kubectl says that it forwards so many ports: those of this host.
///
/// # Errors
/// It has ended, with that status; what it said is on standard error.
fn await_forward(child: &mut Child, log: &Path, count: usize) -> Result<Vec<u16>, ExitStatus> {
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        let numbers = forwarded(&text);
        if numbers.len() == count {
            return Ok(numbers);
        }
        if let Ok(Some(status)) = child.try_wait() {
            eprint!("{text}");
            return Err(status);
        }
        thread::sleep(PAUSE / 10);
    }
}

/// The ports of this host in what kubectl says of a port-forward, in the order in which they were asked for.
fn forwarded(text: &str) -> Vec<u16> {
    let number = |line: &str| line.strip_prefix(FORWARDING)?.split_once(' ')?.0.parse::<u16>().ok();
    text.lines().filter_map(number).collect()
}

/// The process of the port-forward in what was printed of a platform.
fn forwarder(printed: &str) -> Option<i32> {
    let printed: Value = serde_json::from_str(printed).ok()?;
    let components = printed.get("components")?.as_array()?;
    let own =
        components.iter().find(|component| component.get("name").is_some_and(|name| name == FORWARD))?;
    i32::try_from(own.get("pid")?.as_i64()?).ok().filter(|process| *process > 0)
}

/// What the cluster says of a service.
#[derive(Debug, Deserialize)]
struct Service {
    spec: ServiceSpec,
    #[serde(default)]
    status: ServiceStatus,
}

#[derive(Debug, Deserialize)]
struct ServiceSpec {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    ports: Vec<ServicePort>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServicePort {
    port: u16,
    node_port: Option<u16>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceStatus {
    load_balancer: LoadBalancer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    ingress: Vec<Ingress>,
}

#[derive(Debug, Deserialize)]
struct Ingress {
    ip: Option<String>,
    hostname: Option<String>,
}

impl Service {
    fn reach(&self) -> Reach {
        match self.spec.kind.as_str() {
            "LoadBalancer" => {
                let mut hosts = self.status.load_balancer.ingress.iter();
                let host = hosts.find_map(|ingress| ingress.ip.clone().or_else(|| ingress.hostname.clone()));
                host.map_or(Reach::Awaited, Reach::Balancer)
            }
            "NodePort" => Reach::Node,
            _ => Reach::Inside,
        }
    }
}

/// What the cluster says of its nodes.
#[derive(Debug, Deserialize)]
struct Nodes {
    items: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    status: NodeStatus,
}

#[derive(Debug, Deserialize)]
struct NodeStatus {
    #[serde(default)]
    addresses: Vec<NodeAddress>,
}

#[derive(Debug, Deserialize)]
struct NodeAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

impl Nodes {
    /// An address from outside, else one from inside.
    fn address(&self) -> Option<String> {
        let of = |kind: &str| {
            let mut all = self.items.iter().flat_map(|node| &node.status.addresses);
            all.find(|address| address.kind == kind).map(|address| address.address.clone())
        };
        of("ExternalIP").or_else(|| of("InternalIP"))
    }
}

/// What the cluster says of pods.
#[derive(Debug, Deserialize)]
struct Pods {
    items: Vec<Pod>,
}

#[derive(Debug, Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Deserialize)]
struct ContainerStatus {
    name: String,
    image: String,
    #[serde(rename = "imageID", default)]
    id: String,
}

impl Pods {
    /// Facts about the images of containers, by their names.
    fn images(&self) -> BTreeMap<String, String> {
        let all = self.items.iter().flat_map(|pod| &pod.status.container_statuses);
        let image =
            |one: &ContainerStatus| (format!("image of {}", one.name), format!("{} {}", one.image, one.id));
        let images: BTreeMap<String, String> = all.map(image).collect();
        images.into_iter().take(MOST_IMAGES).collect()
    }
}

/// What kubectl says of versions.
#[derive(Debug, Deserialize)]
struct Versions {
    #[serde(rename = "serverVersion")]
    server: Option<Version>,
}

#[derive(Debug, Deserialize)]
struct Version {
    #[serde(rename = "gitVersion")]
    git_version: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::plan::Engine;

    #[test]
    fn a_kustomization_has_counts_and_limits() {
        let plan = super::super::tests::plan(Engine::Kubernetes { context: "kind-test".to_owned() });
        let own = kustomization(&plan, "plimsoll-r1", &plan.files);
        assert_eq!(own["namespace"], "plimsoll-r1");
        assert_eq!(own["resources"], json!(["base.yaml"]));
        assert_eq!(own["replicas"], json!([{ "name": "worker", "count": 3 }]));
        assert_eq!(own["patches"][0]["target"]["name"], "worker");
        let patch: Value = serde_json::from_str(own["patches"][0]["patch"].as_str().unwrap()).unwrap();
        assert_eq!(patch[0]["value"], json!({ "limits": { "cpu": "500m", "memory": "268435456" } }));
        let none = QuotaPlan { processors: Some(0.05), ..QuotaPlan::default() };
        assert_eq!(Value::Object(limits(none)), json!({ "cpu": "50m" }));
    }

    #[test]
    fn what_is_the_whole_clusters_is_refused() {
        let of_cluster =
            "namespaces   ns   v1   false   Namespace\nclusterroles   rbac/v1   false   ClusterRole\n";
        let rendered = "apiVersion: v1\nkind: Service\nmetadata:\n  kind: Namespace\n";
        assert_eq!(check_kinds(rendered, of_cluster), Ok(()));
        let error = check_kinds(&format!("{rendered}---\nkind: ClusterRole\n"), of_cluster).unwrap_err();
        assert!(error.contains("would stay after the run: ClusterRole;"), "{error}");
    }

    #[test]
    fn a_service_is_reached_as_its_type_says() {
        let reach = |text: &str| serde_json::from_str::<Service>(text).unwrap().reach();
        let balancer =
            |status: &str| reach(&format!(r#"{{"spec":{{"type":"LoadBalancer"}},"status":{status}}}"#));
        assert_eq!(balancer("{}"), Reach::Awaited);
        assert_eq!(balancer(r#"{"loadBalancer":{}}"#), Reach::Awaited);
        let at = |place: &str| balancer(&format!(r#"{{"loadBalancer":{{"ingress":[{{{place}}}]}}}}"#));
        assert_eq!(at(r#""ip":"10.0.0.7""#), Reach::Balancer("10.0.0.7".to_owned()));
        assert_eq!(at(r#""hostname":"lb.example""#), Reach::Balancer("lb.example".to_owned()));
        assert_eq!(
            reach(r#"{"spec":{"type":"NodePort","ports":[{"port":1,"nodePort":30001}]}}"#),
            Reach::Node
        );
        assert_eq!(reach(r#"{"spec":{"type":"ClusterIP","ports":[{"port":1}]}}"#), Reach::Inside);
    }

    #[test]
    fn nodes_pods_and_versions_are_read() {
        let nodes = |addresses: &str| {
            let text = format!(r#"{{"items":[{{"status":{{"addresses":[{addresses}]}}}}]}}"#);
            serde_json::from_str::<Nodes>(&text).unwrap().address()
        };
        let inside = r#"{"type":"InternalIP","address":"172.18.0.2"}"#;
        let outside = r#"{"type":"ExternalIP","address":"203.0.113.7"}"#;
        assert_eq!(nodes(inside).as_deref(), Some("172.18.0.2"));
        assert_eq!(nodes(&format!("{inside},{outside}")).as_deref(), Some("203.0.113.7"));
        assert_eq!(nodes(""), None);
        let pods = r#"{"items":[{"metadata":{"name":"broker-0"},"status":{"containerStatuses":
            [{"name":"broker","image":"broker:2","imageID":"sha256:12"}]}},{"metadata":{"name":"broker-1"}}]}"#;
        let pods: Pods = serde_json::from_str(pods).unwrap();
        assert_eq!(pods.images(), BTreeMap::from([("image of broker".into(), "broker:2 sha256:12".into())]));
        let versions: Versions =
            serde_json::from_str(r#"{"serverVersion":{"gitVersion":"v1.31.2"}}"#).unwrap();
        assert_eq!(versions.server.unwrap().git_version, "v1.31.2");
    }

    #[test]
    fn a_port_forward_is_read_from_what_is_said_and_printed() {
        let said = "Forwarding from 127.0.0.1:40001 -> 1883\nForwarding from [::1]:40001 -> 1883\n\
                    Forwarding from 127.0.0.1:40002 -> 8080\nHandling connection for 40001\n";
        assert_eq!(forwarded(said), [40001, 40002]);
        let printed =
            r#"{"address":"mqtt://h","components":[{"name":"x","pid":1},{"name":"port-forward","pid":7}]}"#;
        assert_eq!(forwarder(printed), Some(7));
        for text in ["", "{}", r#"{"components":[{"name":"port-forward"}]}"#] {
            assert_eq!(forwarder(text), None, "{text}");
        }
    }
}
