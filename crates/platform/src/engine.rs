//! Platforms that a container engine or a cluster brings up from files of the user's (docs/bringing-up.md). The keeper calls this
//! program in place of commands of the user's ([`crate::command_keeper`]). How an engine is called stands in a file of its own.

mod compose;
mod kubernetes;

use crate::component::is_installed;
use crate::folder::{make_private, private, write_private};
use plimsoll_scenario::plan::{Engine, EnginePlan};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is done with a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is brought up; where it is goes to standard output, as the user's own commands print it.
    Up,
    /// It goes on, if it was held.
    Release,
    /// It is taken down; standard input has what [`Step::Up`] printed.
    Down,
}

impl Step {
    /// All of them.
    const ALL: [Step; 3] = [Step::Up, Step::Release, Step::Down];

    fn word(self) -> &'static str {
        match self {
            Step::Up => "up",
            Step::Release => "release",
            Step::Down => "down",
        }
    }

    /// The step of that word, if there is one.
    pub fn of(word: &str) -> Option<Step> {
        Step::ALL.into_iter().find(|step| step.word() == word)
    }
}

/// What a step needs to know, as a word of the command that does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub plan: EnginePlan,
    /// The run's id, which no other run has.
    pub run: String,
    /// Has the files that are made for the engine, and what its programs say. It goes with the run.
    pub folder: PathBuf,
    /// Whether what is brought up is to stand still until it is released.
    pub held: bool,
}

impl Job {
    /// The command that does a step. `program` is this program.
    ///
    /// # Errors
    /// A path is no UTF-8.
    pub fn call(&self, program: &Path, step: Step) -> io::Result<Vec<String>> {
        let program = program.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        let job = serde_json::to_string(self)?;
        Ok([program, "guard", "engine", step.word(), &job].map(str::to_owned).to_vec())
    }

    /// What all that belongs to the run is called at the engine: nothing else has that name.
    fn name(&self) -> String {
        format!("plimsoll-{}", self.run)
    }

    /// The folder that keeps the logs of the run, if one does. It is made.
    fn logs(&self) -> Result<Option<PathBuf>, String> {
        let Some(folder) = &self.plan.logs else { return Ok(None) };
        let folder = Path::new(folder).join(&self.run);
        let made = make_private(&folder);
        made.map_err(|error| format!("cannot make the folder of the logs, {}: {error}", folder.display()))?;
        Ok(Some(folder))
    }

    /// The address of the platform at a host and port.
    fn address(&self, host: &str, port: u16) -> String {
        let EnginePlan { scheme, path, .. } = &self.plan;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        format!("{scheme}://{host}:{port}{path}")
    }

    /// The numbers of things by their names, for people; nothing where none are said.
    fn counts(&self) -> Option<String> {
        let counts: Vec<String> =
            self.plan.counts.iter().map(|(name, count)| format!("{count} of {name}")).collect();
        (!counts.is_empty()).then(|| counts.join(", "))
    }
}

/// Where a platform is that was brought up, as the user's own commands print it.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Printed {
    address: String,
    ports: BTreeMap<String, u16>,
    components: Vec<Component>,
    facts: BTreeMap<String, String>,
}

/// A component of this host: the number of its first process, or the name of its container.
#[derive(Debug, PartialEq, Serialize)]
struct Component {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
}

/// Does a step of the job that `job` describes.
///
/// # Errors
/// What was not done and why, for people. What the engine says about it has gone to standard error.
pub fn perform(step: Step, job: &str) -> Result<(), String> {
    let job: Job = serde_json::from_str(job).map_err(|error| format!("the job cannot be read: {error}"))?;
    let printed = match &job.plan.engine {
        Engine::Compose { program } => {
            let project = compose::Project::of(&job, program);
            match step {
                Step::Up => project.bring_up()?,
                Step::Release => return project.release(),
                Step::Down => return project.take_down(),
            }
        }
        Engine::Kubernetes { context } => {
            let cluster = kubernetes::Cluster::of(&job, context);
            match step {
                Step::Up => cluster.bring_up()?,
                // Pods cannot be held.
                Step::Release => return Ok(()),
                Step::Down => return cluster.take_down(),
            }
        }
    };
    let printed = serde_json::to_string(&printed).map_err(|error| error.to_string())?;
    println!("{printed}");
    Ok(())
}

/// Whether what an engine brings up can be held until captures have begun.
pub(crate) fn can_hold(plan: &EnginePlan) -> bool {
    matches!(plan.engine, Engine::Compose { .. })
}

/// What the engine is given beside the user's files, as JSON, which is YAML as well: no engine is asked.
pub fn rendered(plan: &EnginePlan) -> String {
    let rendered = match plan.engine {
        Engine::Compose { .. } => compose::overriding(plan),
        Engine::Kubernetes { .. } => kubernetes::kustomization(plan, "plimsoll-RUN", &plan.files),
    };
    format!("{rendered:#}\n")
}

/// Why the engine's program cannot be run, or a file is not there, for people; `folder` is that of the scenario.
pub(crate) fn obstacle(plan: &EnginePlan, folder: &Path) -> Option<String> {
    let (key, program) = match &plan.engine {
        Engine::Compose { program } => ("platform.compose.with", program.as_str()),
        Engine::Kubernetes { .. } => ("platform.manifests", kubernetes::PROGRAM),
    };
    // One with a slash is a path from that folder on.
    let is_path = program.contains('/');
    if !is_path && !is_installed(program) || is_path && !folder.join(program).is_file() {
        return Some(format!("{key}: the command `{program}` is not installed"));
    }
    let missing = plan.files.iter().find_map(|file| {
        let error = fs::metadata(folder.join(file)).err()?;
        Some(format!("{}: {error}", folder.join(file).display()))
    });
    missing.map(|missing| format!("cannot read a file that brings the platform up, {missing}"))
}

/// Runs a command to its end; what it prints. What it says on standard error goes to ours.
fn said(command: &[String]) -> Result<String, String> {
    let mut call = called(command)?;
    let output = call.output().map_err(|error| unstarted(command, &error))?;
    if !output.status.success() {
        return Err(format!("`{}` ended with {}", command.join(" "), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command to its end. What it prints goes to our standard error, as standard output has the platform's place.
fn done(command: &[String]) -> Result<(), String> {
    said(command).map(|printed| eprint!("{printed}"))
}

/// Runs a command to its end; what it prints goes into a file.
fn written(command: &[String], path: &Path) -> Result<(), String> {
    let file = private(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let mut call = called(command)?;
    let status = call.stdout(file).status().map_err(|error| unstarted(command, &error))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("`{}` ended with {status}", command.join(" "))),
    }
}

fn called(command: &[String]) -> Result<Command, String> {
    let (program, arguments) = command.split_first().ok_or("no command was given")?;
    let mut call = Command::new(program);
    call.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    Ok(call)
}

fn unstarted(command: &[String], error: &io::Error) -> String {
    format!("`{}` cannot be started: {error}", command.join(" "))
}

/// Reads what a command has printed as JSON.
fn parsed<T: DeserializeOwned>(command: &[String]) -> Result<T, String> {
    let failed =
        |error: serde_json::Error| format!("`{}` printed what cannot be read: {error}", command.join(" "));
    serde_json::from_str(&said(command)?).map_err(failed)
}

/// Writes a file for the engine.
fn write(path: &Path, text: &str) -> Result<(), String> {
    write_private(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Reports names that the user's files do not have.
fn check_names<'a>(
    kind: &str,
    named: impl IntoIterator<Item = &'a String>,
    known: &[&str],
) -> Result<(), String> {
    match named.into_iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(format!("the files have no {kind} `{name}`; there are: {}", known.join(", "))),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A plan of one service with limits and counts of another.
    pub fn plan(engine: Engine) -> EnginePlan {
        let quota = plimsoll_scenario::plan::QuotaPlan {
            processors: Some(0.5),
            memory: Some(256 << 20),
            period: None,
        };
        EnginePlan {
            engine,
            files: vec!["base.yaml".to_owned()],
            service: "broker".to_owned(),
            port: 1883,
            scheme: "mqtt".to_owned(),
            path: String::new(),
            datagrams: false,
            ports: BTreeMap::new(),
            counts: BTreeMap::from([("worker".to_owned(), 3)]),
            quotas: BTreeMap::from([("worker".to_owned(), quota)]),
            logs: None,
        }
    }

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let plan = plan(Engine::Compose { program: "docker".to_owned() });
        let job = Job { plan, run: "r1".to_owned(), folder: PathBuf::from("/tmp/a b"), held: true };
        let call = job.call(Path::new("/bin/plimsoll"), Step::Release).unwrap();
        assert_eq!(call[..4], ["/bin/plimsoll", "guard", "engine", "release"]);
        assert_eq!(serde_json::from_str::<Job>(&call[4]).unwrap(), job);
        assert_eq!(Step::ALL.map(|step| Step::of(step.word())), Step::ALL.map(Some));
        assert_eq!(Step::of("on"), None);
        assert!(perform(Step::Up, "{}").unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn an_address_has_a_host_of_either_family_and_the_path() {
        let mut plan = plan(Engine::Kubernetes { context: "test".to_owned() });
        "/in/{device}".clone_into(&mut plan.path);
        let job = Job { plan, run: String::new(), folder: PathBuf::new(), held: false };
        assert_eq!(job.address("10.0.0.7", 80), "mqtt://10.0.0.7:80/in/{device}");
        assert_eq!(job.address("fd00::7", 80), "mqtt://[fd00::7]:80/in/{device}");
    }

    #[test]
    fn names_that_the_files_do_not_have_are_named_beside_those_that_they_have() {
        let named = ["broker".to_owned(), "wrker".to_owned()];
        let error = check_names("service", &named, &["broker", "worker"]).unwrap_err();
        assert_eq!(error, "the files have no service `wrker`; there are: broker, worker");
    }

    #[test]
    fn a_command_that_fails_or_is_not_there_is_named() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(said(&words("echo a b")).unwrap(), "a b\n");
        assert_eq!(done(&words("false it")).unwrap_err(), "`false it` ended with exit status: 1");
        assert!(said(&words("plimsoll-none")).unwrap_err().starts_with("`plimsoll-none` cannot be started"));
        assert!(said(&[]).is_err());
        assert!(parsed::<u8>(&words("echo x")).unwrap_err().contains("cannot be read"));
    }
}
