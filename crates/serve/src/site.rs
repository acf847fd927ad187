//! What all answers are made from: the folder, its tokens, the run store, the runs that were started.

use crate::Entrances;
use crate::archive::Archive;
use crate::folder::Folder;
use crate::gate::{Hosts, PATIENCE};
use crate::jobs::Jobs;
use crate::permits::Permits;
use crate::tokens::Tokens;
use crate::variables::{Variables, WEBHOOK_SECRET};
use crate::watching::Watching;
use crate::webhooks::Webhooks;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What the user says of the page.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Whether other hosts may reach the page: without it, only a loopback address is listened at.
    pub allow_remote: bool,
    /// Names by which browsers reach it, beside addresses: `name` or `name:port`, as behind a proxy.
    pub names: Vec<String>,
    /// The folder of the scenarios. No file outside of it is read or written.
    pub folder: PathBuf,
    /// The run store.
    pub store: PathBuf,
    /// This program, which is started for each run.
    pub program: PathBuf,
    /// Whether scenarios may name commands of their own to be started.
    pub allow_commands: bool,
    /// Environment variables that scenarios may name as secrets, beside those that begin with `PLIMSOLL_`.
    pub variables: Vec<String>,
    /// Addresses that are told when a run of the page has ended.
    pub webhooks: Vec<String>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Other hosts would reach it.
    #[error(
        "{0} is no loopback address, so other hosts could reach the page, and what they send is not encrypted: listen at 127.0.0.1, or \
         add --allow-remote"
    )]
    Remote(SocketAddr),
    /// It cannot listen there.
    #[error("cannot listen at {address}: {cause}; name another place with --listen IP:PORT")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: io::Error,
    },
    /// The folder cannot be used.
    #[error("cannot use the folder {path}: {cause}; name another one with --folder")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The tokens cannot be read or made.
    #[error("cannot keep the tokens of the page in {path}: {cause}")]
    Tokens {
        /// Where.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// No event loop.
    #[error("cannot begin to serve: {0}")]
    Runtime(io::Error),
}

impl Options {
    /// Refuses an address that other hosts reach, unless that was asked for.
    pub(crate) fn check_address(&self) -> Result<(), ServeError> {
        match self.listen.ip().is_loopback() || self.allow_remote {
            true => Ok(()),
            false => Err(ServeError::Remote(self.listen)),
        }
    }
}

/// See the module.
pub(crate) struct Site {
    pub hosts: Hosts,
    pub tokens: Tokens,
    pub folder: Folder,
    pub archive: Archive,
    pub jobs: Jobs,
    pub watching: Watching,
    pub variables: Variables,
    pub allow_commands: bool,
    pub webhooks: Webhooks,
    pub permits: Permits,
    /// How long a request may take until it is answered.
    pub patience: Duration,
}

impl Site {
    /// Opens the folder of a page that listens there.
    pub fn open(options: Options, listens: SocketAddr) -> Result<Site, ServeError> {
        let refused = |cause| ServeError::Folder { path: options.folder.clone(), cause };
        let folder = Folder::open(&options.folder).map_err(refused)?;
        let private = folder.private().map_err(refused)?;
        let tokens =
            Tokens::kept_in(&private).map_err(|cause| ServeError::Tokens { path: private.clone(), cause })?;
        let store = std::path::absolute(&options.store).map_err(refused)?;
        let variables = Variables::new(options.variables);
        let secret = std::env::var(WEBHOOK_SECRET).ok().filter(|secret| !secret.is_empty());
        let webhooks = Webhooks::new(options.webhooks, secret);
        let mut jobs = Jobs::new(options.program, store.clone(), folder.root().to_owned(), &private);
        jobs.tells = webhooks.are_any();
        Ok(Site {
            hosts: Hosts::new(listens, options.names),
            tokens,
            folder,
            archive: Archive::new(store),
            jobs,
            watching: Watching::default(),
            variables,
            allow_commands: options.allow_commands,
            webhooks,
            permits: Permits::default(),
            patience: PATIENCE,
        })
    }

    /// The addresses by which a browser gets in.
    pub fn entrances(&self) -> Entrances {
        let listens = self.hosts.listens();
        let with = |token: &str| format!("http://{}/?token={token}", self.hosts.shown());
        Entrances { listens, operator: with(self.tokens.operator()), viewer: with(self.tokens.viewer()) }
    }
}
