//! What a scenario from a browser may not do: start programs that nobody put into the folder, and write files elsewhere.
//!
//! A profile of the folder or of the program says which programs its components are. A scenario can name further ones, for its platform to
//! be brought up or reset, and it can give values to variables that stand in the commands of a profile.

use crate::folder::Folder;
use plimsoll_scenario::plan::Plan;
use plimsoll_scenario::profile::{Component, Profile};
use plimsoll_scenario::{SourceFile, read_profile};
use std::collections::BTreeMap;
use std::path::Path;

/// Why the page does not start the run of a plan; `None` where it does. `allows` is set where the user allows commands of scenarios.
pub fn refusal(plan: &Plan, folder: &Folder, allows: bool) -> Option<String> {
    plan.populations().find_map(|plan| of_one(plan, folder, allows))
}

fn of_one(plan: &Plan, folder: &Folder, allows: bool) -> Option<String> {
    let captures = plan.record.capture.as_ref().and_then(|capture| capture.keep.as_deref());
    let logs = plan.platform.logs.as_deref().map(Path::new);
    let kept = [("captures", "record.capture.keep", captures), ("logs", "platform.logs", logs)];
    for (what, key, folder) in kept {
        if let Some(folder) = folder.filter(|folder| !Folder::holds(folder)) {
            let folder = folder.display();
            return Some(format!("{what} would be kept outside the folder of the page ({key}: {folder})"));
        }
    }
    if allows {
        return None;
    }
    let remedy = "the page does that only if `plimsoll serve` runs with --allow-commands";
    let platform = &plan.platform;
    if let Some(command) = &platform.command {
        return Some(format!("the scenario starts programs by {}: {remedy}", command.key()));
    }
    if !platform.state.command.is_empty() {
        return Some(format!("the scenario starts a program by platform.reset_command: {remedy}"));
    }
    let source = SourceFile { name: platform.profile.name.clone(), text: platform.profile.source.clone() };
    let Ok(written) = read_profile(source, &|path| folder.named(path)) else {
        return Some(format!("what the scenario changes of the platform profile cannot be seen: {remedy}"));
    };
    let word = path_of_scenario(&written, &platform.profile)?;
    Some(format!(
        "the scenario puts a path into a command of the profile by platform.with (`{word}`): {remedy}"
    ))
}

/// A word of a command or an environment that the scenario has changed, and that has a path in it.
fn path_of_scenario(written: &Profile, resolved: &Profile) -> Option<String> {
    let by_default = |word: &String| with_defaults(word, &written.variables);
    let own: Vec<String> = written.components.iter().flat_map(words).map(by_default).collect();
    let of_run = resolved.components.iter().flat_map(words);
    of_run.filter(|word| word.contains('/') && !own.contains(word)).map(String::clone).next()
}

fn words(component: &Component) -> impl Iterator<Item = &String> {
    let commands = component.command.iter().chain(component.prepare.iter().flatten());
    commands.chain(component.environment.values().flatten())
}

fn with_defaults(word: &str, variables: &BTreeMap<String, String>) -> String {
    variables.iter().fold(word.to_owned(), |word, (name, value)| word.replace(&format!("{{{name}}}"), value))
}

/// The programs that a run starts here: each component with its command, as its profile says.
pub fn programs(plan: &Plan) -> Vec<String> {
    let of_plan = |plan: &Plan| -> Vec<String> {
        let platform = &plan.platform;
        if platform.address.is_some() && platform.command.is_none() {
            return Vec::new();
        }
        let components = platform.profile.components.iter();
        components.map(|component| format!("{}: {}", component.name, component.command.join(" "))).collect()
    };
    let mut all: Vec<String> = Vec::new();
    for program in plan.populations().flat_map(of_plan) {
        if !all.contains(&program) {
            all.push(program);
        }
    }
    all
}
