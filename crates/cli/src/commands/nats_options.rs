//! How the NATS server of workers lets us in.

use crate::failure::Failure;
use crate::output::file;
use clap::Args;
use plimsoll_runner::fleet::Server;
use std::path::{Path, PathBuf};

/// The heading of these options in help.
const NATS: &str = "NATS server of workers";

/// Credentials and certificates. A user and a password may stand in the address.
#[derive(Args, Clone, Default)]
pub struct NatsOptions {
    /// File with a token
    #[arg(long, value_name = "FILE", value_parser = file(), help_heading = NATS)]
    nats_token_file: Option<PathBuf>,
    /// File with the seed of an nkey
    #[arg(long, value_name = "FILE", value_parser = file(), help_heading = NATS)]
    nats_nkey_file: Option<PathBuf>,
    /// File with a JWT and a seed, as nsc writes it
    #[arg(long, value_name = "FILE", value_parser = file(), help_heading = NATS)]
    nats_credentials: Option<PathBuf>,
    /// File with the authority that signed the server's certificate
    #[arg(long, value_name = "FILE", value_parser = file(), help_heading = NATS)]
    nats_ca: Option<PathBuf>,
    /// File with our own certificate
    #[arg(long, value_name = "FILE", requires = "nats_key", value_parser = file(), help_heading = NATS)]
    nats_cert: Option<PathBuf>,
    /// File with the private key of --nats-cert
    #[arg(long, value_name = "FILE", requires = "nats_cert", value_parser = file(), help_heading = NATS)]
    nats_key: Option<PathBuf>,
}

impl NatsOptions {
    /// The server at that address.
    pub fn server(&self, url: &str) -> Result<Server, Failure> {
        let known = ["nats://", "tls://", "ws://", "wss://"];
        if !known.iter().any(|scheme| url.starts_with(scheme)) {
            let name = url.split('@').next_back().unwrap_or_default();
            return Err(Failure::Usage(format!(
                "`{name}` is no address of a NATS server: write nats://HOST:4222, or of a run local:3 for three workers on this host"
            )));
        }
        let read = |path: &Option<PathBuf>| path.as_deref().map(secret).transpose();
        Ok(Server {
            url: url.to_owned(),
            token: read(&self.nats_token_file)?,
            nkey: read(&self.nats_nkey_file)?,
            credentials: self.nats_credentials.clone(),
            authority: self.nats_ca.clone(),
            certificate: self.nats_cert.clone().zip(self.nats_key.clone()),
        })
    }
}

/// The only word of a file.
fn secret(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))?;
    let word = text.trim();
    if word.is_empty() || word.contains(char::is_whitespace) {
        return Err(Failure::Usage(format!("{} must have one word", path.display())));
    }
    Ok(word.to_owned())
}
