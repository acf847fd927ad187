//! The list of commands in `plimsoll --help`, in two parts: the parser knows one heading for all of them alone.

use clap::Command;
use plimsoll_scenario::wrapped;

/// Commands that few users need.
const SPECIAL: [&str; 4] = ["target", "gateway", "audit", "city"];
/// Where the descriptions begin.
const COLUMN: usize = 15;

/// The program with its commands listed by what they are for.
pub fn grouped(program: Command) -> Command {
    let of = |special: bool| {
        let listed = program.get_subcommands().filter(move |command| !command.is_hide_set());
        let listed = listed.filter(move |command| SPECIAL.contains(&command.get_name()) == special);
        listed.map(line).collect::<String>()
    };
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\nCommands:\n{}\nServers to be loaded, data sets, checks of other \
         generators:\n{}\nOptions:\n{{options}}{{after-help}}",
        of(false),
        of(true)
    );
    program.help_template(template)
}

/// Name and description of a command.
fn line(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let prefix = format!("  {:<width$}", command.get_name(), width = COLUMN - 2);
    wrapped(&prefix, &about).trim_end().to_owned() + "\n"
}
