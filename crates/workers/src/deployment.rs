//! Manifests of Kubernetes: workers, their NATS server, and a coordinator with its scenario.
//!
//! They ask for no rights in the cluster. Pods run as a user without privileges, on a read-only root, as the strictest of the pod
//! security standards wants it. Who would change them uses kustomize.

use plimsoll_model::text::grouped;
use plimsoll_scenario::yaml;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The user and group of all pods: no user of the host has that number.
const USER: u32 = 65532;
/// The widest range of local ports that leaves out the well-known ones.
const PORTS: &str = "1024 65535";
/// The most bytes of texts that a ConfigMap is to hold: the cluster refuses 1 MiB, names included.
const MOST_TEXT: usize = 1_000_000;
/// How long the coordinator waits for its workers, and these for a coordinator: nodes have to fetch images first.
const WAIT: &str = "15m";
/// Restarts of a worker's container after which its Job counts as failed.
const RESTARTS: u32 = 3;
/// Where pods find the files.
const SCENARIO: &str = "/scenario";
const SECRETS: &str = "/secrets";
const RESULTS: &str = "/results";
/// What the scenario file is called there.
const FILE: &str = "scenario.yaml";
/// The secret with the files that hold private keys.
const PRIVATE: &str = "plimsoll-files";
/// What the label of a private key ends with, whatever its kind (RFC 7468).
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// What is to be in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The namespace of all of it.
    pub namespace: String,
    /// The image of Plimsoll.
    pub image: String,
    /// The image of the NATS server.
    pub nats_image: String,
    /// How many workers.
    pub workers: u32,
    /// Whole processors of each worker.
    pub processors: u32,
    /// Memory of each worker, MiB.
    pub memory: u64,
    /// Size of the volume for results, MiB.
    pub storage: u64,
    /// What the coordinator runs; `None` where there is to be none.
    pub run: Option<DeployedRun>,
}

/// What the coordinator runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeployedRun {
    /// The text of the scenario.
    pub scenario: String,
    /// The files that it names, by the path that it names them by.
    pub files: BTreeMap<String, String>,
    /// The environment variables that it names.
    pub variables: Vec<String>,
    /// Further arguments of `plimsoll run`.
    pub arguments: Vec<String>,
}

/// Why there are no manifests.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeploymentError {
    /// A namespace that no cluster takes.
    #[error(
        "`{0}` cannot be a namespace of Plimsoll alone: use 1 to 63 lower-case letters, digits and `-`, no `-` first or last, \
         neither `default` nor `kube-` and what follows"
    )]
    Namespace(String),
    /// An image that no cluster takes.
    #[error("`{0}` cannot be an image: write NAME:TAG in small letters, or NAME@sha256:DIGEST")]
    Image(String),
    /// A file that a pod cannot find where the scenario looks for it.
    #[error(
        "the scenario names {0}: put the file into the folder of the scenario, and name it by its path from there, by one path, \
         with no part that begins with two dots"
    )]
    Outside(String),
    /// A variable whose name a secret or a shell would take for something else.
    #[error("the scenario names the environment variable `{0}`: use letters, digits and `_`, no digit first")]
    Variable(String),
    /// Texts that are too large.
    #[error(
        "the scenario and its files have {} bytes, and a ConfigMap holds {}: use smaller files",
        grouped(*.0 as f64),
        grouped(MOST_TEXT as f64)
    )]
    TooLarge(usize),
}

/// The manifests, as a stream of YAML documents for `kubectl apply --filename -`.
///
/// # Errors
/// [`DeploymentError`].
pub fn manifests(deployment: &Deployment) -> Result<String, DeploymentError> {
    check_namespace(&deployment.namespace)?;
    for image in [&deployment.image, &deployment.nats_image] {
        check_image(image)?;
    }
    let mut documents = vec![
        namespace(deployment),
        account(deployment),
        nats_configuration(deployment),
        nats(deployment),
        nats_service(deployment),
        no_ingress(deployment),
        ingress_to_nats(deployment),
        workers(deployment),
    ];
    if let Some(run) = &deployment.run {
        run.variables.iter().try_for_each(|name| check_variable(name))?;
        let names = names_of(run)?;
        documents.extend([
            texts(deployment, run, &names),
            volume(deployment),
            coordinator(deployment, run, &names),
        ]);
    }
    let documents: Vec<String> = documents.iter().map(yaml::write).collect();
    Ok(heading(deployment) + &documents.join("---\n"))
}

/// What to do with them. The token begins with a letter, since the server would read the value of a variable as a number otherwise.
fn heading(deployment: &Deployment) -> String {
    let Deployment { namespace, workers, .. } = deployment;
    let version = env!("CARGO_PKG_VERSION");
    let secret = format!("kubectl --namespace {namespace} create secret generic");
    let mut lines = vec![
        format!("Plimsoll {version}: {workers} workers and their NATS server."),
        "Apply this, then create what only you may know:".to_owned(),
        format!("  {secret} plimsoll-nats --from-literal=token=\"t$(openssl rand -hex 24)\""),
    ];
    match &deployment.run {
        Some(run) => {
            if !run.variables.is_empty() {
                let literals = run.variables.iter().map(|name| format!(" --from-literal={name}=\"${name}\""));
                lines.push(format!("  {secret} plimsoll-variables{}", literals.collect::<String>()));
            }
            let keys = run.files.iter().zip(1..).filter(|((_, text), _)| is_private(text));
            let literals: String = keys
                .map(|((path, _), number)| format!(" --from-file={}={}", key_of(number), quoted(path)))
                .collect();
            if !literals.is_empty() {
                lines.push("and this in the folder of the scenario:".to_owned());
                lines.push(format!("  {secret} {PRIVATE}{literals}"));
            }
            lines.push("Watch the run:".to_owned());
            lines.push(format!("  kubectl --namespace {namespace} logs --follow job/plimsoll-coordinator"));
        }
        None => lines.extend([
            "Then run a scenario in a pod of this namespace with the label".to_owned(),
            "app.kubernetes.io/part-of: plimsoll, with the options".to_owned(),
            format!("  --workers {} --nats-token-file FILE", server(deployment)),
        ]),
    }
    lines.push("In the end, results included:".to_owned());
    lines.push(format!("  kubectl delete namespace {namespace}"));
    lines.iter().map(|line| format!("# {line}\n")).collect()
}

/// Where workers and coordinator find the server.
fn server(deployment: &Deployment) -> String {
    format!("nats://plimsoll-nats:4222,min={},wait={WAIT}", deployment.workers)
}

fn check_namespace(name: &str) -> Result<(), DeploymentError> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=63).contains(&name.len())
        && name.chars().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name != "default"
        && !name.starts_with("kube-");
    is_name.then_some(()).ok_or_else(|| DeploymentError::Namespace(name.to_owned()))
}

/// Whether a text names an image (OCI distribution specification 1.1, "Pulling manifests"): host, path, tag and digest.
fn check_image(image: &str) -> Result<(), DeploymentError> {
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_component = |part: &str| {
        let ends = [part.bytes().next(), part.bytes().next_back()];
        ends.iter().all(|end| end.is_some_and(is_lower))
            && part.bytes().all(|byte| is_lower(byte) || b"._-".contains(&byte))
    };
    let is_host = |part: &str| {
        let is_marked = part == "localhost" || part.contains(['.', ':']);
        is_marked && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-".contains(&byte))
    };
    let is_tag = |tag: &str| {
        let begins = tag.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
        begins
            && tag.len() <= 128
            && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let is_digest = |digest: &str| {
        let is_hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        digest
            .strip_prefix("sha256:")
            .is_some_and(|hash| hash.len() == 64 && hash.bytes().all(is_hexadecimal))
    };
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let (path, last) = name.rsplit_once('/').map_or((None, name), |(path, last)| (Some(path), last));
    let (last, tag) = last.split_once(':').map_or((last, None), |(last, tag)| (last, Some(tag)));
    let components: Vec<&str> = path.iter().flat_map(|path| path.split('/')).chain([last]).collect();
    let is_name = components
        .iter()
        .enumerate()
        .all(|(place, part)| is_component(part) || place == 0 && components.len() > 1 && is_host(part));
    let is_image = image.len() <= 255 && is_name && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    is_image.then_some(()).ok_or_else(|| DeploymentError::Image(image.to_owned()))
}

fn check_variable(name: &str) -> Result<(), DeploymentError> {
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(()).ok_or_else(|| DeploymentError::Variable(name.to_owned()))
}

/// Whether a file holds what must not be printed.
fn is_private(text: &str) -> bool {
    text.contains(PRIVATE_KEY)
}

/// A word that no shell takes for more than it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// What a file is called in its ConfigMap or secret.
fn key_of(number: usize) -> String {
    format!("file-{number}")
}

/// A key for each file, with the path at which pods have it.
fn names_of(run: &DeployedRun) -> Result<Vec<(String, String)>, DeploymentError> {
    let size = run.scenario.len() + run.files.values().map(String::len).sum::<usize>();
    if size > MOST_TEXT {
        return Err(DeploymentError::TooLarge(size));
    }
    let mut paths = BTreeSet::from([FILE.to_owned()]);
    let named = run.files.keys().zip(1..).map(|(path, number)| {
        // A cluster takes no path that begins with two dots, nor one path twice.
        let parts: Vec<&str> = path.split('/').filter(|part| !["", "."].contains(part)).collect();
        let plain = parts.join("/");
        let is_outside = path.starts_with('/')
            || path.contains(char::is_control)
            || plain.is_empty()
            || parts.iter().any(|part| part.starts_with(".."))
            || !paths.insert(plain.clone());
        match is_outside {
            true => Err(DeploymentError::Outside(path.clone())),
            false => Ok((key_of(number), plain)),
        }
    });
    named.collect()
}

/// Name, namespace and labels of an object; `component` is its part in the whole.
fn metadata(deployment: &Deployment, component: &str) -> Value {
    json!({
        "name": format!("plimsoll-{component}"),
        "namespace": deployment.namespace,
        "labels": labels(component),
    })
}

fn labels(component: &str) -> Value {
    json!({ "app.kubernetes.io/part-of": "plimsoll", "app.kubernetes.io/component": component })
}

fn namespace(deployment: &Deployment) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": deployment.namespace,
            "labels": {
                "app.kubernetes.io/part-of": "plimsoll",
                "pod-security.kubernetes.io/enforce": "restricted",
            },
        },
    })
}

/// The account of all pods, which has no rights.
fn account(deployment: &Deployment) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(deployment, "account"),
        "automountServiceAccountToken": false,
    })
}

fn nats_configuration(deployment: &Deployment) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(deployment, "nats"),
        "data": { "nats.conf": "port: 4222\nauthorization { token: $PLIMSOLL_NATS_TOKEN }\n" },
    })
}

fn nats(deployment: &Deployment) -> Value {
    let container = json!({
        "name": "nats",
        "image": deployment.nats_image,
        "args": ["--config", "/etc/nats/nats.conf"],
        "env": [{
            "name": "PLIMSOLL_NATS_TOKEN",
            "valueFrom": { "secretKeyRef": { "name": "plimsoll-nats", "key": "token" } },
        }],
        "ports": [{ "name": "nats", "containerPort": 4222 }],
        "readinessProbe": { "tcpSocket": { "port": "nats" } },
        "resources": resources(1, 256),
        "securityContext": confined(),
        "volumeMounts": [{ "name": "configuration", "mountPath": "/etc/nats", "readOnly": true }],
    });
    let volumes = json!([{ "name": "configuration", "configMap": { "name": "plimsoll-nats" } }]);
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(deployment, "nats"),
        "spec": {
            "replicas": 1,
            // Two servers that do not know each other would each have half of the workers.
            "strategy": { "type": "Recreate" },
            "selector": { "matchLabels": labels("nats") },
            "template": {
                "metadata": { "labels": labels("nats") },
                "spec": pod(&[container], &volumes, &json!({})),
            },
        },
    })
}

fn nats_service(deployment: &Deployment) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(deployment, "nats"),
        "spec": { "selector": labels("nats"), "ports": [{ "name": "nats", "port": 4222, "targetPort": "nats" }] },
    })
}

/// Nobody connects to these pods. Others of the namespace are left alone.
fn no_ingress(deployment: &Deployment) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(deployment, "no-ingress"),
        "spec": {
            "podSelector": { "matchLabels": { "app.kubernetes.io/part-of": "plimsoll" } },
            "policyTypes": ["Ingress"],
        },
    })
}

/// But workers and coordinators connect to the NATS server.
fn ingress_to_nats(deployment: &Deployment) -> Value {
    let clients = json!({ "podSelector": { "matchLabels": { "app.kubernetes.io/part-of": "plimsoll" } } });
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(deployment, "ingress-to-nats"),
        "spec": {
            "podSelector": { "matchLabels": labels("nats") },
            "policyTypes": ["Ingress"],
            "ingress": [{ "from": [clients], "ports": [{ "port": 4222 }] }],
        },
    })
}

fn workers(deployment: &Deployment) -> Value {
    let arguments = [
        "worker",
        "--join=nats://plimsoll-nats:4222",
        &format!("--nats-token-file={SECRETS}/token"),
        &format!("--threads={}", deployment.processors),
        &format!("--idle={WAIT}"),
    ]
    .map(str::to_owned);
    let container = json!({
        "name": "worker",
        "image": deployment.image,
        "args": arguments,
        "resources": resources(deployment.processors, deployment.memory),
        "securityContext": confined(),
        "volumeMounts": [secrets_mount(), temporary_mount()],
    });
    let template = json!({
        "metadata": { "labels": labels("worker") },
        "spec": pod(&[container], &json!([secrets_volume(), temporary_volume()]), &json!({
            "restartPolicy": "OnFailure",
            // Each in a node of its own, as far as there are enough.
            "affinity": away_from("worker"),
        })),
    });
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(deployment, "worker"),
        "spec": {
            "completionMode": "Indexed",
            "completions": deployment.workers,
            "parallelism": deployment.workers,
            "backoffLimit": deployment.workers.saturating_mul(RESTARTS),
            "template": template,
        },
    })
}

/// The texts of the scenario and its files, without private keys.
fn texts(deployment: &Deployment, run: &DeployedRun, names: &[(String, String)]) -> Value {
    let files = names.iter().map(|(name, _)| name.clone()).zip(run.files.values().cloned());
    let files = files.filter(|(_, text)| !is_private(text));
    let data: BTreeMap<String, String> = files.chain([(FILE.to_owned(), run.scenario.clone())]).collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(deployment, "scenario"),
        "data": data,
    })
}

fn volume(deployment: &Deployment) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(deployment, "results"),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": format!("{}Mi", deployment.storage) } },
        },
    })
}

fn coordinator(deployment: &Deployment, run: &DeployedRun, names: &[(String, String)]) -> Value {
    let mut arguments = vec![
        "run".to_owned(),
        format!("{SCENARIO}/{FILE}"),
        format!("--workers={}", server(deployment)),
        format!("--nats-token-file={SECRETS}/token"),
        format!("--store={RESULTS}/runs.db"),
        format!("--report={RESULTS}/report.html"),
        format!("--summary-json={RESULTS}/summary.json"),
    ];
    // The cluster would put the value of a variable in the place of `$(NAME)`.
    arguments.extend(run.arguments.iter().map(|argument| argument.replace('$', "$$")));
    let variables = run.variables.iter().map(|name| {
        json!({ "name": name, "valueFrom": { "secretKeyRef": { "name": "plimsoll-variables", "key": name } } })
    });
    let container = json!({
        "name": "coordinator",
        "image": deployment.image,
        "args": arguments,
        "env": variables.collect::<Vec<Value>>(),
        "resources": resources(1, 1024),
        "securityContext": confined(),
        "volumeMounts": [
            { "name": "scenario", "mountPath": SCENARIO, "readOnly": true },
            { "name": "results", "mountPath": RESULTS },
            secrets_mount(),
            temporary_mount(),
        ],
    });
    let files = names.iter().zip(run.files.values());
    let (private, plain): (Vec<_>, Vec<_>) = files.partition(|(_, text)| is_private(text));
    let item = |((name, path), _): &(&(String, String), &String)| json!({ "key": name, "path": path });
    let own = json!({ "key": FILE, "path": FILE });
    let items: Vec<Value> = plain.iter().map(item).chain([own]).collect();
    let mut sources = vec![json!({ "configMap": { "name": "plimsoll-scenario", "items": items } })];
    if !private.is_empty() {
        let items: Vec<Value> = private.iter().map(item).collect();
        sources.push(json!({ "secret": { "name": PRIVATE, "items": items } }));
    }
    let volumes = json!([
        { "name": "scenario", "projected": { "sources": sources } },
        { "name": "results", "persistentVolumeClaim": { "claimName": "plimsoll-results" } },
        secrets_volume(),
        temporary_volume(),
    ]);
    let rest = json!({ "restartPolicy": "Never", "affinity": away_from("worker") });
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(deployment, "coordinator"),
        "spec": {
            // A run that was cut short is not begun by itself once more: who looks at it decides.
            "backoffLimit": 0,
            "template": {
                "metadata": { "labels": labels("coordinator") },
                "spec": pod(&[container], &volumes, &rest),
            },
        },
    })
}

/// What all pods have.
fn pod(containers: &[Value], volumes: &Value, rest: &Value) -> Value {
    let mut pod = json!({
        "serviceAccountName": "plimsoll-account",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": { "type": "RuntimeDefault" },
            "sysctls": [{ "name": "net.ipv4.ip_local_port_range", "value": PORTS }],
        },
        "containers": containers,
        "volumes": volumes,
    });
    if let (Value::Object(pod), Value::Object(rest)) = (&mut pod, rest) {
        pod.extend(rest.clone());
    }
    pod
}

/// What a container may not do.
fn confined() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    })
}

/// So many processors and MiB, no less and no more: such a pod is the last to be evicted, and a node may give it processors of its
/// own.
fn resources(processors: u32, memory: u64) -> Value {
    let amounts = json!({ "cpu": processors, "memory": format!("{memory}Mi") });
    json!({ "requests": amounts, "limits": amounts })
}

/// Rather not on a node that has a pod of that component.
fn away_from(component: &str) -> Value {
    json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": { "matchLabels": labels(component) },
        },
    }] } })
}

fn secrets_mount() -> Value {
    json!({ "name": "secrets", "mountPath": SECRETS, "readOnly": true })
}

fn secrets_volume() -> Value {
    json!({ "name": "secrets", "secret": { "secretName": "plimsoll-nats" } })
}

fn temporary_mount() -> Value {
    json!({ "name": "temporary", "mountPath": "/tmp" })
}

fn temporary_volume() -> Value {
    json!({ "name": "temporary", "emptyDir": {} })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(run: Option<DeployedRun>) -> Deployment {
        Deployment {
            namespace: "load".into(),
            image: "plimsoll:1".into(),
            nats_image: "nats:2".into(),
            workers: 3,
            processors: 2,
            memory: 512,
            storage: 1024,
            run,
        }
    }

    /// Byte for byte: who keeps them in a repository sees what a new version changes.
    #[test]
    fn manifests_are_what_they_were() {
        let files = BTreeMap::from([("feeds/rooms.csv".to_owned(), "room\n1\n2\n".to_owned())]);
        let scenario = "name: city\nplatform: embedded\n".to_owned();
        let run = DeployedRun { scenario, files, variables: vec!["PASSWORD".into()], arguments: Vec::new() };
        let version = env!("CARGO_PKG_VERSION");
        let text = manifests(&deployment(Some(run))).unwrap().replace(version, "VERSION");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn without_a_scenario_there_is_no_coordinator() {
        let text = manifests(&deployment(None)).unwrap();
        assert!(text.contains("completions: 3\n"), "{text}");
        assert!(!text.contains("plimsoll-coordinator"), "{text}");
        assert!(text.contains("# app.kubernetes.io/part-of: plimsoll"), "{text}");
    }

    #[test]
    fn texts_go_to_where_the_scenario_looks_for_them() {
        let files = BTreeMap::from([
            ("./feeds/a.csv".to_owned(), "1\n".to_owned()),
            ("p.yaml".to_owned(), "x: 1\ny: 2\n".to_owned()),
        ]);
        let run = DeployedRun {
            scenario: "name: a\nseed: 1\n".into(),
            files,
            variables: vec!["PASSWORD".into()],
            arguments: vec!["--quick".into(), "--set=mqtt.user=$(PASSWORD)".into()],
        };
        let text = manifests(&deployment(Some(run))).unwrap();
        for part in [
            "  scenario.yaml: |\n    name: a\n    seed: 1\n",
            "  file-2: |\n    x: 1\n    y: 2\n",
            "key: file-1\n                      path: feeds/a.csv\n",
            "--from-literal=PASSWORD=\"$PASSWORD\"",
            "name: plimsoll-variables\n                  key: PASSWORD\n",
            "- \"--quick\"\n",
            "--set=mqtt.user=$$(PASSWORD)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_private_key_is_not_printed_and_comes_from_a_secret() {
        let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        let files = BTreeMap::from([
            ("ca.pem".to_owned(), "c\n".to_owned()),
            ("certs/key.pem".to_owned(), key.to_owned()),
        ]);
        let run = DeployedRun { files, ..DeployedRun::default() };
        let text = manifests(&deployment(Some(run))).unwrap();
        assert!(!text.contains("c2VjcmV0"), "{text}");
        let words = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        for part in [
            "create secret generic plimsoll-files --from-file=file-2='certs/key.pem' #",
            "secret: name: plimsoll-files items: - key: file-2 path: certs/key.pem",
        ] {
            assert!(words.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_a_cluster_would_refuse_is_refused() {
        let refused = |change: &dyn Fn(&mut Deployment)| {
            let mut deployment = deployment(Some(DeployedRun::default()));
            change(&mut deployment);
            manifests(&deployment).unwrap_err()
        };
        for name in ["", "-a", "a-", "A", "a.b", "a\nb", "default", "kube-system", &"a".repeat(64)] {
            let error = refused(&|deployment| deployment.namespace = name.to_owned());
            assert_eq!(error, DeploymentError::Namespace(name.to_owned()));
        }
        let digest = format!("sha256:{}", "0a".repeat(32));
        for image in [
            "plimsoll".to_owned(),
            "plimsoll:0.2.0".into(),
            "registry.example.org:5000/team/load-test_1:V1".into(),
            "localhost/plimsoll".into(),
            format!("plimsoll:1@{digest}"),
            format!("registry.example.org/plimsoll@{digest}"),
        ] {
            assert_eq!(check_image(&image), Ok(()), "{image}");
        }
        for image in [
            "",
            "a b",
            "a\n",
            ":x",
            "a::",
            "a//b",
            "a:",
            "Foo/Bar:1",
            "x:y:z",
            "x@sha256:12",
            "http://a/b",
            "a/b:5000/c",
            "-a",
        ] {
            let error = refused(&|deployment| deployment.nats_image = image.to_owned());
            assert_eq!(error, DeploymentError::Image(image.to_owned()));
        }
        for path in
            ["/etc/a.csv", "../a.csv", "a/../../b", "scenario.yaml", "./scenario.yaml", "a\nb", "..a", ".//"]
        {
            let files = BTreeMap::from([(path.to_owned(), String::new())]);
            let error = refused(&|deployment| {
                deployment.run = Some(DeployedRun { files: files.clone(), ..DeployedRun::default() });
            });
            assert_eq!(error, DeploymentError::Outside(path.to_owned()));
        }
        let twice =
            BTreeMap::from([("a.pem", ""), ("./a.pem", "")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        let error = refused(&|deployment| {
            deployment.run = Some(DeployedRun { files: twice.clone(), ..DeployedRun::default() });
        });
        assert_eq!(error, DeploymentError::Outside("a.pem".to_owned()));
        for name in ["", "1X", "my-pass", "A$(id)", "A\nkind: Evil"] {
            let error = refused(&|deployment| {
                let variables = vec![name.to_owned()];
                deployment.run = Some(DeployedRun { variables, ..DeployedRun::default() });
            });
            assert_eq!(error, DeploymentError::Variable(name.to_owned()));
        }
        let error = refused(&|deployment| {
            deployment.run =
                Some(DeployedRun { scenario: "a".repeat(MOST_TEXT + 1), ..DeployedRun::default() });
        });
        assert!(error.to_string().contains("1,000,001"), "{error}");
    }
}
