//! `plimsoll completions` and `plimsoll man`: what a package installs for shells and for `man`.

use crate::exit_code;
use crate::failure::Failure;
use clap::Args;
use clap_complete::Shell;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Prints the completions of a shell
#[derive(Args)]
#[command(after_help = "Examples:
  source <(plimsoll completions bash)
  plimsoll completions zsh > ~/.zfunc/_plimsoll")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the man pages, one for each command
#[derive(Args)]
#[command(after_help = "Example:
  plimsoll man target/man && man target/man/plimsoll.1")]
pub struct Man {
    /// The folder to write them to; it is made where it is missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Completions {
    pub fn perform(self, program: clap::Command) -> Result<u8, Failure> {
        let mut text = Vec::new();
        // Shells would offer hidden commands, too.
        let shown = program.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
        let mut program =
            clap::Command::new("plimsoll").args(program.get_arguments().cloned()).subcommands(shown);
        clap_complete::generate(self.shell, &mut program, "plimsoll", &mut text);
        match std::io::stdout().lock().write_all(&text) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Undoable(error.to_string())),
            _ => Ok(exit_code::MET),
        }
    }
}

impl Man {
    pub fn perform(self, program: clap::Command) -> Result<u8, Failure> {
        // A page has the name of its command; this one has another name in its version.
        let program = program.mut_subcommand("target", |target| {
            target.mut_subcommand("broker", |broker| broker.display_name("plimsoll-target-broker"))
        });
        let mut program = program.disable_help_subcommand(true);
        program.build();
        let made = std::fs::create_dir_all(&self.folder);
        let written = made.and_then(|()| write_pages(&program, &self.folder));
        written.map_err(|error| Failure::unwritable(&self.folder, &error))?;
        Ok(exit_code::MET)
    }
}

/// The page of a command, and those of its commands.
fn write_pages(command: &clap::Command, folder: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, folder)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    // What stands below the options are examples; man(7) has a name for that section.
    let text = String::from_utf8_lossy(&text).replace("\n.SH EXTRA\n", "\n.SH EXAMPLES\n");
    std::fs::write(folder.join(page.get_filename()), text)
}
