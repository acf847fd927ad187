//! `plimsoll deploy`: prints what brings workers and a coordinator up elsewhere. It reaches no cluster itself.

use super::load_options::LoadOptions;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use clap::{Args, Subcommand};
use plimsoll_model::text::grouped;
use plimsoll_runner::fleet::check_supported;
use plimsoll_runner::preflight::{WIDEST, memory_of_clients};
use plimsoll_scenario::plan::{Endpoint, Plan};
use plimsoll_workers::deployment::{DeployedRun, Deployment, manifests};
use std::net::IpAddr;

/// Memory of a worker beside its clients, MiB, and the least that it gets.
const BESIDE: u64 = 128;
const LEAST_MEMORY: u64 = 256;
/// Clients under load need more than idle ones: so many times as much.
const UNDER_LOAD: u64 = 2;

/// Prints what brings workers and a coordinator up in a cluster
#[derive(Args)]
#[command(after_help = "Example:
  plimsoll deploy kubernetes --workers 50 --scenario city.yaml > plimsoll.yaml
  kubectl apply --filename plimsoll.yaml")]
pub struct Deploy {
    #[command(subcommand)]
    what: Kind,
}

#[derive(Subcommand)]
enum Kind {
    Kubernetes(Kubernetes),
}

/// Prints manifests of Kubernetes: a namespace, a NATS server, workers, and a
/// coordinator that runs a scenario
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll deploy kubernetes --workers 50 --scenario city.yaml > city-load.yaml
  plimsoll deploy kubernetes --workers 3 --namespace load

Plimsoll reaches no cluster here. The first lines of what it prints say how to
apply the rest, and how to create the secrets. The scenario and the files that
it names travel in a ConfigMap. Values of environment variables do not: they
come from a secret. The platform must have an address that pods reach.
Change the manifests by kustomize.

Exit codes: 0 printed; 104 wrong scenario or command line.")]
struct Kubernetes {
    /// How many workers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    workers: u32,
    /// What the coordinator runs [default: no coordinator]
    #[arg(long, value_name = "FILE")]
    scenario: Option<String>,
    /// Sets any key of the scenario, as in --set load.hold=10s (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "scenario")]
    set: Vec<String>,
    /// The namespace
    #[arg(long, value_name = "NAME", default_value = "plimsoll")]
    namespace: String,
    /// The image of Plimsoll
    #[arg(long, value_name = "NAME:TAG", default_value = concat!("plimsoll:", env!("CARGO_PKG_VERSION")))]
    image: String,
    /// The image of the NATS server
    #[arg(long, value_name = "NAME:TAG", default_value = "nats:2.10")]
    nats_image: String,
    /// Processors of a worker; each has a load thread
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    processors: u32,
    /// Memory of a worker in MiB [default: what its part of the scenario needs]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..=1 << 24))]
    memory: Option<u64>,
    /// Size of the volume for results in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..=1 << 24))]
    storage: u64,
}

impl Deploy {
    pub fn perform(self) -> Result<u8, Failure> {
        match self.what {
            Kind::Kubernetes(kubernetes) => kubernetes.perform(),
        }
    }
}

impl Kubernetes {
    fn perform(self) -> Result<u8, Failure> {
        let (run, memory) = match &self.scenario {
            Some(file) => self.planned(file)?,
            None => (None, LEAST_MEMORY),
        };
        let deployment = Deployment {
            namespace: self.namespace,
            image: self.image,
            nats_image: self.nats_image,
            workers: self.workers,
            processors: self.processors,
            memory: self.memory.unwrap_or(memory),
            storage: self.storage,
            run,
        };
        say(&manifests(&deployment).map_err(|error| Failure::Usage(error.to_string()))?);
        Ok(exit_code::MET)
    }

    /// What the coordinator runs, and the memory of a worker.
    fn planned(&self, file: &str) -> Result<(Option<DeployedRun>, u64), Failure> {
        let load = LoadOptions::brief(file.to_owned(), self.set.clone(), None, None);
        if load.file().is_none() {
            return Err(Failure::Usage(format!(
                "--scenario {file}: name a file, in which the address stands"
            )));
        }
        // What the machine of the user lacks, the pods may have.
        let plan = load.read_matrix()?.one()?;
        check_supported(&plan).map_err(|error| Failure::Usage(error.to_string()))?;
        if plan.populations().any(is_unreachable) {
            return Err(Failure::Usage(format!(
                "{file}: workers in other pods do not reach a platform on the loopback network, or one that Plimsoll starts: write \
                 `platform: {{ profile: existing, address: \"mqtt://broker.city.svc:1883\" }}` with an address that they reach"
            )));
        }
        if let Some(unsupported) = unsupported(&plan) {
            return Err(Failure::Usage(format!("{file}: {unsupported}")));
        }
        let connections: u64 = plan.populations().map(Plan::connections).sum();
        // The manifests give each pod the widest range of local ports.
        let most = WIDEST * u64::from(self.workers);
        if connections > most {
            return Err(Failure::Usage(format!(
                "{} connections are wanted, and the local ports of {} workers suffice for {}: use --workers {} or more",
                grouped(connections as f64),
                self.workers,
                grouped(most as f64),
                connections.div_ceil(WIDEST)
            )));
        }
        let clients = memory_of_clients(connections.div_ceil(u64::from(self.workers)), &plan);
        let memory = (BESIDE + UNDER_LOAD * clients.div_ceil(1 << 20)).next_multiple_of(64).max(LEAST_MEMORY);
        // Without anything under way, and without the program.
        let least = clients.div_ceil(1 << 20);
        if let Some(given) = self.memory.filter(|given| *given < least) {
            return Err(Failure::Usage(format!(
                "--memory {given}: the connections of a worker alone take {least} MiB: leave it out for {memory}, or use more workers"
            )));
        }
        let source = load.source(plan.seed);
        let run = DeployedRun {
            scenario: source.scenario.unwrap_or_default(),
            files: source.files,
            variables: source.variables.into_keys().collect(),
            arguments: self.set.iter().map(|set| format!("--set={set}")).collect(),
        };
        Ok((Some(run), memory))
    }
}

/// What of the plan pods cannot do; none of these workers is at a site, captures, or has an address that is known before.
fn unsupported(plan: &Plan) -> Option<&'static str> {
    if plan.all_sites_in_words().is_some() {
        return Some("workers in a cluster stand at no site: remove `at`");
    }
    if plan.record.capture.is_some() {
        return Some("workers in a cluster may not capture packets: remove `record.capture`");
    }
    if plan.populations().any(|own| !own.connection.source_addresses.is_empty()) {
        return Some(
            "a pod has one address, which the cluster gives it: remove `connection.source_addresses`",
        );
    }
    None
}

/// Whether no other host reaches the platform of that population.
fn is_unreachable(plan: &Plan) -> bool {
    let is_own = |endpoint: &Endpoint| {
        let host = endpoint.host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
        let is_own_address = |address: IpAddr| {
            let address = address.to_canonical();
            address.is_loopback() || address.is_unspecified()
        };
        // 127.1 is an address, too (inet_aton(3)).
        let is_short = host.starts_with("127.") && host.split('.').all(|part| part.parse::<u32>().is_ok());
        ["localhost", "ip6-localhost", "ip6-loopback"].contains(&host.as_str())
            || host.ends_with(".localhost")
            || is_short
            || host.parse().is_ok_and(is_own_address)
    };
    plan.platform.address.as_ref().is_none_or(is_own)
}
