//! What a container engine or a cluster brings up from files of the user's. What stands in the files, nobody reads here.

use crate::config::{Compose, Files, Manifests};
use crate::context::Context;
use crate::plan::{Endpoint, Engine, EnginePlan};
use std::collections::BTreeMap;

/// More would hardly be meant.
const MOST: u16 = 1000;

/// Resolves a compose file. What the address begins with is known before.
pub(super) fn compose(
    written: &Compose,
    address: Option<&Endpoint>,
    context: &mut Context<'_>,
) -> EnginePlan {
    let key = "platform.compose";
    check_word(&written.with, &format!("{key}.with"), "a program has a name", context);
    let mut ports = BTreeMap::new();
    for (name, text) in &written.ports {
        let path = format!("{key}.ports.{name}");
        match text.split_once(':').map(|(service, port)| (service, port.parse::<u16>())) {
            Some((service, Ok(port @ 1..))) => {
                check_name(service, &path, context);
                ports.insert(name.clone(), (service.to_owned(), port));
            }
            _ => context.error_with_help(
                &path,
                format!("`{text}` is no service and its port"),
                "write both, such as `broker:8080`",
            ),
        }
    }
    if written.scale.get(&written.service).is_some_and(|count| *count > 1) {
        context.error_with_help(
            &format!("{key}.scale.{}", written.service),
            format!("devices connect to one container of the service `{}`", written.service),
            "add a load balancer to the file, and name its service in place of this one",
        );
    }
    let plan = EnginePlan {
        engine: Engine::Compose { program: written.with.clone() },
        files: files(&written.file),
        service: written.service.clone(),
        port: written.port,
        scheme: scheme(address),
        path: written.path.clone().unwrap_or_default(),
        datagrams: address.is_some_and(|address| address.protocol.uses_datagrams()),
        ports,
        counts: written.scale.clone(),
        quotas: BTreeMap::new(),
        logs: written.logs.clone(),
    };
    check(&plan, key, ["file", "scale"], context);
    plan
}

/// What is called for it, in few words: bringing up and taking down.
pub(super) fn compose_in_words(written: &Compose) -> [Vec<String>; 2] {
    let files = files(&written.file).into_iter().flat_map(|file| ["--file".to_owned(), file]);
    let call = [written.with.clone(), "compose".to_owned()];
    let up = call.iter().cloned().chain(files).chain(["up".to_owned()]);
    [up.collect(), call.iter().cloned().chain(["down".to_owned()]).collect()]
}

/// Resolves manifests. What the address begins with is known before.
pub(super) fn manifests(
    written: &Manifests,
    address: Option<&Endpoint>,
    context: &mut Context<'_>,
) -> EnginePlan {
    let key = "platform.manifests";
    check_word(&written.context, &format!("{key}.context"), "a context has a name", context);
    for (name, port) in &written.ports {
        if *port == 0 {
            context.error(&format!("{key}.ports.{name}"), "ports have numbers from 1");
        }
    }
    let ports = written.ports.iter();
    let plan = EnginePlan {
        engine: Engine::Kubernetes { context: written.context.clone() },
        files: files(&written.files),
        service: written.service.clone(),
        port: written.port,
        scheme: scheme(address),
        path: written.path.clone().unwrap_or_default(),
        datagrams: address.is_some_and(|address| address.protocol.uses_datagrams()),
        ports: ports.map(|(name, port)| (name.clone(), (written.service.clone(), *port))).collect(),
        counts: written.replicas.clone(),
        quotas: BTreeMap::new(),
        logs: written.logs.clone(),
    };
    check(&plan, key, ["files", "replicas"], context);
    plan
}

/// What is called for it, in few words: bringing up and taking down.
pub(super) fn manifests_in_words(written: &Manifests) -> [Vec<String>; 2] {
    let call = ["kubectl", "--context", &written.context].map(str::to_owned);
    let up = call.iter().cloned().chain(["apply".to_owned()]).chain(files(&written.files));
    let down = call.iter().cloned().chain(["delete", "namespace"].map(str::to_owned));
    [up.collect(), down.collect()]
}

fn files(written: &Files) -> Vec<String> {
    match written {
        Files::One(file) => vec![file.clone()],
        Files::Several(files) => files.clone(),
    }
}

fn scheme(address: Option<&Endpoint>) -> String {
    address.map(Endpoint::scheme).unwrap_or_default().to_owned()
}

/// Reports what cannot be, by the keys of the files and of the counts.
fn check(plan: &EnginePlan, key: &str, [files, counts]: [&str; 2], context: &mut Context<'_>) {
    for file in &plan.files {
        check_word(file, &format!("{key}.{files}"), "a file has a name", context);
    }
    check_name(&plan.service, &format!("{key}.service"), context);
    if !plan.path.is_empty() && !plan.path.starts_with('/') {
        context.error(&format!("{key}.path"), "a path begins with `/`");
    }
    for (name, count) in &plan.counts {
        let path = format!("{key}.{counts}.{name}");
        check_name(name, &path, context);
        if !(1..=MOST).contains(count) {
            context.error(&path, format!("from 1 to {MOST} of one name run"));
        }
    }
    if let Some(folder) = &plan.logs {
        check_word(folder, &format!("{key}.logs"), "a folder has a name", context);
    }
}

/// Reports what is no name of a service or workload.
pub(super) fn check_name(name: &str, path: &str, context: &mut Context<'_>) {
    let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if !(begins && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))) {
        context
            .error(path, "a name has letters, digits, `-`, `_` and `.`, and begins with a letter or digit");
    }
}

/// Reports a word of a command that would be taken for something else.
fn check_word(word: &str, path: &str, nameless: &str, context: &mut Context<'_>) {
    if word.trim().is_empty() {
        context.error(path, nameless);
    } else if word.starts_with('-') || word.contains('\0') {
        context.error(path, "it begins with no `-`, and holds no null character");
    }
}
