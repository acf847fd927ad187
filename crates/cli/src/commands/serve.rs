//! `plimsoll serve`: the web page.

use super::live_options::url;
use crate::exit_code;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::say;
use clap::Args;
use plimsoll_serve::{Entrances, Options, ServeError};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serves a web page: check scenarios, start, watch and stop runs, and compare results
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll serve
  plimsoll serve --folder tests --store tests/plimsoll.db
  plimsoll serve --listen 192.0.2.7:8800 --allow-remote

It prints two addresses: one for operators, who start and stop runs, and one for
viewers. Each holds a token: who has the address gets in. Runs go on when the
page ends, and it finds them again. docs/serve.md says what protects the page.

Exit codes: 0 ended by the user, 1 could not serve, 104 wrong command line.")]
pub struct Serve {
    /// Where to listen
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8800")]
    listen: SocketAddr,
    /// Listen at an address that other hosts reach; nothing is encrypted then, unless
    /// a proxy does that
    #[arg(long)]
    allow_remote: bool,
    /// A name by which browsers reach the page, beside its address, as behind a proxy:
    /// NAME or NAME:PORT (repeatable)
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// The folder of the scenarios; nothing outside of it is read or written
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// The run store [default: plimsoll.db in the folder]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_STORE")]
    store: Option<PathBuf>,
    /// Also start scenarios that name commands of their own (platform.command,
    /// platform.compose, platform.manifests, platform.reset_command)
    #[arg(long)]
    allow_commands: bool,
    /// An environment variable that scenarios may name as a secret, beside those that
    /// begin with PLIMSOLL_ (repeatable)
    #[arg(long = "variable", value_name = "NAME")]
    variables: Vec<String>,
    /// An address that gets a POST when a run of the page has ended (repeatable). With the
    /// environment variable PLIMSOLL_WEBHOOK_SECRET, X-Plimsoll-Signature signs it
    #[arg(long = "webhook", value_name = "URL", value_parser = url)]
    webhooks: Vec<String>,
}

impl Serve {
    pub fn perform(self) -> Result<u8, Failure> {
        let undoable = |what: &str, error: std::io::Error| Failure::Undoable(format!("{what}: {error}"));
        let program = std::env::current_exe().map_err(|error| undoable("cannot find this program", error))?;
        let stop = interrupt::stop_flag().map_err(|error| undoable("cannot catch signals", error))?;
        let folder = self.folder.display().to_string();
        let options = Options {
            listen: self.listen,
            allow_remote: self.allow_remote,
            names: self.names,
            store: self.store.unwrap_or_else(|| self.folder.join("plimsoll.db")),
            folder: self.folder,
            program,
            allow_commands: self.allow_commands,
            variables: self.variables,
            webhooks: self.webhooks,
        };
        plimsoll_serve::serve(options, &stop, |entrances| say(&announced(&folder, entrances)))?;
        Ok(exit_code::MET)
    }
}

fn announced(folder: &str, entrances: &Entrances) -> String {
    let Entrances { listens, operator, viewer } = entrances;
    format!(
        "the scenarios of {folder} are served at {listens}; Ctrl-C ends that, and runs go on\n\n\
         to start and stop runs:  {operator}\nto look only:            {viewer}\n"
    )
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Failure {
        match error {
            ServeError::Remote(_) | ServeError::Folder { .. } => Failure::Usage(error.to_string()),
            ServeError::Listen { .. } | ServeError::Tokens { .. } | ServeError::Runtime(_) => {
                Failure::Undoable(error.to_string())
            }
        }
    }
}
