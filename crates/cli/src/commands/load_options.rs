//! What `run` and `check` have in common: a scenario file, a bundle with one, or an address with options.

use crate::failure::Failure;
use crate::output::complain;
use clap::{Args, Parser};
use plimsoll_codec::credentials::hide_credentials;
use plimsoll_report::bundle::HIDDEN;
use plimsoll_runner::bundle::{Bundle, MAGIC};
use plimsoll_runner::fleet::Source;
use plimsoll_runner::resume::fingerprint;
use plimsoll_scenario::plan::{Plan, Protocol, protocol_of};
use plimsoll_scenario::{Environment, Matrix, Override, QuickOptions, SourceFile, matrix, quick};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A scenario file, or the address of a platform with the load as options.
#[derive(Args, Clone, Default)]
pub struct LoadOptions {
    /// Scenario file, a bundle (`plimsoll bundle`), or the address of a platform:
    /// mqtt://[USER@]HOST[:PORT]. Other schemes are mqtts, ws, wss, http, https, coap,
    /// coaps, coap+tcp, coaps+tcp, nats, tls (NATS), amqp, amqps, amqp1, amqps1, kafka
    /// and kafkas
    #[arg(value_name = "SCENARIO.yaml|mqtt://HOST:PORT")]
    pub what: String,
    /// Sets any key of the scenario, as in --set load.hold=10s (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Set the keys under `quick` of the scenario, for a short run
    #[arg(long)]
    quick: bool,
    /// What is spoken at ws:// and wss://: mqtt, or websocket without MQTT
    #[arg(long, value_name = "NAME", help_heading = WITHOUT_FILE)]
    protocol: Option<String>,
    /// Simulated devices
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = WITHOUT_FILE)]
    devices: Option<String>,
    /// Operations per second: one rate, or FROM..TO/STEP
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, help_heading = WITHOUT_FILE)]
    rate: Option<String>,
    /// Search for the load line instead: FROM..TO
    #[arg(long, value_name = "RANGE", conflicts_with = "rate", help_heading = WITHOUT_FILE)]
    search: Option<String>,
    /// Measured time of each level, as 30s
    #[arg(long, value_name = "TIME", help_heading = WITHOUT_FILE)]
    hold: Option<String>,
    /// Load before each hold that is not counted
    #[arg(long, value_name = "TIME", help_heading = WITHOUT_FILE)]
    warm_up: Option<String>,
    /// Equal parts of the hold
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = WITHOUT_FILE)]
    samples: Option<String>,
    /// Longest wait for stragglers after each hold
    #[arg(long, value_name = "TIME", help_heading = WITHOUT_FILE)]
    drain: Option<String>,
    /// Quality of service: 0, 1 or 2
    #[arg(long, value_name = "QOS", allow_negative_numbers = true, help_heading = WITHOUT_FILE)]
    qos: Option<String>,
    /// Size of a message, as 64 or 1KiB
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = WITHOUT_FILE)]
    size: Option<String>,
    /// Subscribers, each of which receives every message
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = WITHOUT_FILE)]
    subscribers: Option<String>,
    /// Gaps between operations: poisson, constant
    #[arg(long, value_name = "NAME", help_heading = WITHOUT_FILE)]
    arrivals: Option<String>,
    /// MQTT version: 3.1.1 or 5
    #[arg(long, value_name = "VERSION", help_heading = WITHOUT_FILE)]
    mqtt: Option<String>,
    /// User name for MQTT, NATS, AMQP or Kafka; the password comes from the environment variable PLIMSOLL_PASSWORD
    #[arg(long, value_name = "NAME", help_heading = WITHOUT_FILE)]
    username: Option<String>,
    /// File with the authority that signed the platform's certificate (TLS)
    #[arg(long, value_name = "FILE", help_heading = WITHOUT_FILE)]
    ca: Option<String>,
    /// File with the certificate that clients show
    #[arg(long, value_name = "FILE", help_heading = WITHOUT_FILE)]
    cert: Option<String>,
    /// File with the private key of --cert
    #[arg(long, value_name = "FILE", help_heading = WITHOUT_FILE)]
    key: Option<String>,
    /// Do not check the platform's certificate
    #[arg(long, conflicts_with = "ca", help_heading = WITHOUT_FILE)]
    insecure: bool,
    /// Seeds every random number
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = WITHOUT_FILE)]
    seed: Option<String>,
    /// What a level must meet, as "publish_p99 < 50 ms" (repeatable)
    #[arg(long, value_name = "OBJECTIVE")]
    objective: Vec<String>,
    /// The files that were read so far beside the scenario.
    #[arg(skip)]
    read: RefCell<BTreeSet<PathBuf>>,
    /// What the plan was made of so far: texts of files, and environment variables.
    #[arg(skip)]
    source: RefCell<Source>,
    /// What a coordinator has sent, in the place of files and environment variables.
    #[arg(skip)]
    shipped: Option<Source>,
    /// The bundle with the scenario and its files, where it is one.
    #[arg(skip)]
    bundle: RefCell<Option<Rc<Bundle>>>,
}

/// Options as a coordinator sends them.
#[derive(Parser)]
struct Shipped {
    #[command(flatten)]
    load: LoadOptions,
}

/// The plan of what a coordinator sends: no file is read, and no environment variable.
pub fn shipped_plan(source: &Source) -> Result<Plan, String> {
    let arguments = std::iter::once("worker").chain(source.arguments.iter().map(String::as_str));
    let Shipped { mut load } = Shipped::try_parse_from(arguments).map_err(|error| error.to_string())?;
    load.shipped = Some(source.clone());
    let matrix = load.read_matrix().map_err(|failure| failure.to_string())?;
    matrix.one().map_err(|diagnostics| diagnostics.to_string())
}

/// Whether that is a host and a port, and no file: `localhost:1883`.
fn looks_like_address(what: &str) -> bool {
    let port = what.rsplit_once(':').map(|(host, port)| (host.is_empty(), port.parse::<u16>()));
    matches!(port, Some((false, Ok(_)))) && !what.contains('/')
}

/// Bytes that a scenario file may have.
const LARGEST_FILE: u64 = 8 * 1024 * 1024;
/// MiB that a file may have which a scenario names: a feed, a profile, a certificate.
const LARGEST_NAMED: u64 = 64;
pub const WITHOUT_FILE: &str = "Without a scenario file";

/// The beginning of a file: a device may have no end.
fn beginning(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    File::open(path)?.take(bytes).read_to_end(&mut read)?;
    Ok(read)
}

/// The text of a file that a scenario names, or why there is none.
pub fn read_named(path: &Path) -> Result<String, String> {
    let most = LARGEST_NAMED << 20;
    let bytes = beginning(path, most + 1).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most {
        return Err(format!("it is larger than the {LARGEST_NAMED} MiB that a file of a scenario may have"));
    }
    String::from_utf8(bytes).map_err(|error| format!("it is not UTF-8: {error}"))
}

impl LoadOptions {
    /// A scenario or an address with the load that matters to the host.
    pub fn brief(
        what: String,
        set: Vec<String>,
        devices: Option<String>,
        rate: Option<String>,
    ) -> LoadOptions {
        LoadOptions { what, set, devices, rate, ..LoadOptions::default() }
    }

    /// The same with the keys under `quick` set, where that is wanted.
    pub fn quickly(self, quick: bool) -> LoadOptions {
        LoadOptions { quick, ..self }
    }

    /// The same for a probe, which chooses load and devices by itself and needs somebody who receives.
    pub fn to_probe(&self) -> LoadOptions {
        let mut small = self.clone();
        if self.file().is_none() {
            small.devices.get_or_insert_with(|| "1".to_owned());
            if small.search.is_none() {
                small.rate.get_or_insert_with(|| "1".to_owned());
            }
            let receives = protocol_of(&small.what).is_some_and(Protocol::has_topics);
            if receives && small.protocol.is_none() {
                small.subscribers.get_or_insert_with(|| "1".to_owned());
            }
        }
        small
    }

    /// The same with one more key set.
    pub fn with(&self, key_and_value: &str) -> LoadOptions {
        let mut more = self.clone();
        more.set.push(key_and_value.to_owned());
        more
    }

    /// Reads, checks and resolves what the user gave, which must be one run.
    pub fn plan(&self) -> Result<Plan, Failure> {
        Ok(self.matrix()?.one()?)
    }

    fn of_address(&self) -> Result<Matrix, Failure> {
        if self.quick {
            return Err(Failure::Usage("--quick goes with a scenario file, which says what is quick".into()));
        }
        self.within(|overrides, environment| Ok(quick(&self.quick_options(), overrides, environment)?))
    }

    /// Calls with what was set and with the world outside.
    fn within<T>(
        &self,
        read: impl FnOnce(&[Override], &Environment<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let objectives = self.objective.iter().cloned().map(Override::Objective);
        let keys = self.set.iter().cloned().map(Override::Key);
        let overrides: Vec<Override> = objectives.chain(keys).collect();
        let folder = self.file().and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
        let profile = |path: &str| {
            if let Some(shipped) = &self.shipped {
                return shipped
                    .files
                    .get(path)
                    .cloned()
                    .ok_or_else(|| "the coordinator has not sent it".into());
            }
            let text = match self.bundle() {
                Some(bundle) => bundle.file(path).map(str::to_owned).ok_or("the bundle does not have it")?,
                None => {
                    let found = folder.join(path);
                    self.read.borrow_mut().insert(found.clone());
                    read_named(&found)?
                }
            };
            self.source.borrow_mut().files.insert(path.to_owned(), text.clone());
            Ok(text)
        };
        let variable = |name: &str| {
            if let Some(shipped) = &self.shipped {
                return shipped.variables.get(name).cloned();
            }
            let value = std::env::var(name).ok()?;
            self.source.borrow_mut().variables.insert(name.to_owned(), value.clone());
            Some(value)
        };
        let environment = Environment { profile: &profile, variable: &variable };
        read(&overrides, &environment)
    }

    /// Reads and checks what the user gave with all that varies in it, and all files that it names. Of certificates and keys those
    /// of the first combination are tried, and its commands are looked for.
    pub fn matrix(&self) -> Result<Matrix, Failure> {
        let matrix = self.read_matrix()?;
        plimsoll_runner::check_certificates(&matrix.first).map_err(Failure::Usage)?;
        plimsoll_runner::check_commands(&matrix.first).map_err(Failure::Usage)?;
        plimsoll_runner::check_faults(&matrix.first).map_err(Failure::Usage)?;
        Ok(matrix)
    }

    /// The same without a look at this host, which need not have what the scenario needs.
    pub fn read_matrix(&self) -> Result<Matrix, Failure> {
        let Some(path) = self.file() else { return self.of_address() };
        if self.shipped.is_none() && looks_like_address(&self.what) && !path.exists() {
            return Err(Failure::Usage(format!(
                "there is no file {0}; an address begins with its protocol: mqtt://{0}",
                self.what
            )));
        }
        if let Some(option) = self.option_without_file() {
            return Err(Failure::Usage(format!(
                "{option} goes with an address, not with a scenario file; use --set to change a key of the file"
            )));
        }
        let text = match self.shipped.as_ref().and_then(|shipped| shipped.scenario.clone()) {
            Some(text) => text,
            None => self.scenario(path)?,
        };
        let source = SourceFile { name: self.what.clone(), text };
        self.within(|overrides, environment| Ok(matrix(&source, self.quick, overrides, environment)?))
    }

    /// The text of the scenario file, or of that in a bundle.
    fn scenario(&self, path: &Path) -> Result<String, Failure> {
        // One byte more than a scenario may have, so that its check can say so.
        let bytes = beginning(path, LARGEST_FILE + 1).map_err(|error| Failure::unreadable(path, &error))?;
        let text = match bytes.starts_with(&MAGIC) {
            true => self.open_bundle(path)?,
            false => String::from_utf8(bytes)
                .map_err(|error| Failure::Usage(format!("{} is not UTF-8: {error}", path.display())))?,
        };
        self.source.borrow_mut().scenario = Some(text.clone());
        Ok(text)
    }

    /// Reads a bundle, which stays in memory; the text of its scenario.
    fn open_bundle(&self, path: &Path) -> Result<String, Failure> {
        if let Some(bundle) = self.bundle() {
            return Ok(bundle.scenario().to_owned());
        }
        let file = File::open(path).map_err(|error| Failure::unreadable(path, &error))?;
        let bundle = Bundle::open(BufReader::new(file))
            .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
        let text = bundle.scenario().to_owned();
        if text.contains(HIDDEN) {
            complain(&format!(
                "secrets are left out of the bundle, in the places of `{HIDDEN}`: give them by --set"
            ));
        }
        *self.bundle.borrow_mut() = Some(Rc::new(bundle));
        Ok(text)
    }

    /// The bundle that was opened.
    fn bundle(&self) -> Option<Rc<Bundle>> {
        self.bundle.borrow().clone()
    }

    /// Which run a plan out of a bundle repeats, for people.
    pub fn repeats(&self, plan: &Plan) -> Option<String> {
        let bundle = self.bundle()?;
        let mut told = bundle.repeats(env!("CARGO_PKG_VERSION"));
        if bundle.profile() != plan.platform.source() {
            told += "; the platform profile was another one";
        }
        Some(told)
    }

    /// What the plan was made of, for workers; they need the seed that was drawn here.
    pub fn source(&self, seed: u64) -> Source {
        let mut arguments = vec![self.what.clone()];
        let mut add = |name: &str, value: &Option<String>| {
            arguments.extend(value.iter().map(|value| format!("--{name}={value}")));
        };
        for (name, value) in [
            ("protocol", &self.protocol),
            ("devices", &self.devices),
            ("rate", &self.rate),
            ("search", &self.search),
            ("hold", &self.hold),
            ("warm-up", &self.warm_up),
            ("samples", &self.samples),
            ("drain", &self.drain),
            ("qos", &self.qos),
            ("size", &self.size),
            ("subscribers", &self.subscribers),
            ("arrivals", &self.arrivals),
            ("mqtt", &self.mqtt),
            ("username", &self.username),
            ("ca", &self.ca),
            ("cert", &self.cert),
            ("key", &self.key),
        ] {
            add(name, value);
        }
        arguments.extend(self.insecure.then(|| "--insecure".to_owned()));
        arguments.extend(self.quick.then(|| "--quick".to_owned()));
        arguments.extend(self.set.iter().map(|set| format!("--set={set}")));
        arguments.extend(self.objective.iter().map(|objective| format!("--objective={objective}")));
        arguments.push(format!("--set=seed={seed}"));
        Source { arguments, ..self.source.borrow().clone() }
    }

    /// Whether the quick form of the scenario is meant.
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// The scenario file, `None` for an address.
    pub fn file(&self) -> Option<&Path> {
        (!self.what.contains("://")).then(|| Path::new(&self.what))
    }

    /// Checks that it is a scenario, whose platform may be one that Plimsoll starts.
    ///
    /// # Errors
    /// It is an address.
    pub fn check_is_file(&self) -> Result<(), Failure> {
        match self.file() {
            Some(_) => Ok(()),
            None => Err(Failure::Usage(format!(
                "an experiment slows what Plimsoll has started, and nothing at an address ({}): name a scenario whose platform \
                 has a profile with components",
                hide_credentials(&self.what)
            ))),
        }
    }

    /// The files that the plan was made from, which no output may overwrite.
    pub fn files_read(&self) -> Vec<PathBuf> {
        self.file().map(Path::to_owned).into_iter().chain(self.read.borrow().iter().cloned()).collect()
    }

    /// The files that the scenario names, with the fingerprints of their contents.
    pub fn inputs(&self) -> BTreeMap<String, String> {
        let source = self.source.borrow();
        source.files.iter().map(|(name, text)| (name.clone(), fingerprint(text))).collect()
    }

    /// Where the report of a run goes by default: beside the scenario or the bundle, or, without one, under the name of the run.
    pub fn report_of(&self, run: &str) -> PathBuf {
        match self.file() {
            Some(path) if self.bundle().is_some() => {
                let name = path.to_string_lossy();
                let plain = [".tar.gz", ".tgz"].iter().find_map(|ending| name.strip_suffix(ending));
                PathBuf::from(format!("{}.again.report.html", plain.unwrap_or(&name)))
            }
            Some(path) => path.with_extension("report.html"),
            None => PathBuf::from(format!("plimsoll.{run}.report.html")),
        }
    }

    fn quick_options(&self) -> QuickOptions {
        QuickOptions {
            address: self.what.clone(),
            protocol: self.protocol.clone(),
            devices: self.devices.clone(),
            rate: self.rate.clone(),
            search: self.search.clone(),
            hold: self.hold.clone(),
            warm_up: self.warm_up.clone(),
            samples: self.samples.clone(),
            drain: self.drain.clone(),
            qos: self.qos.clone(),
            size: self.size.clone(),
            subscribers: self.subscribers.clone(),
            arrivals: self.arrivals.clone(),
            version: self.mqtt.clone(),
            username: self.username.clone(),
            ca: self.ca.clone(),
            certificate: self.cert.clone(),
            key: self.key.clone(),
            insecure: self.insecure,
            seed: self.seed.clone(),
        }
    }

    fn option_without_file(&self) -> Option<&'static str> {
        let given = [
            ("--protocol", self.protocol.is_some()),
            ("--devices", self.devices.is_some()),
            ("--rate", self.rate.is_some()),
            ("--search", self.search.is_some()),
            ("--hold", self.hold.is_some()),
            ("--warm-up", self.warm_up.is_some()),
            ("--samples", self.samples.is_some()),
            ("--drain", self.drain.is_some()),
            ("--qos", self.qos.is_some()),
            ("--size", self.size.is_some()),
            ("--subscribers", self.subscribers.is_some()),
            ("--arrivals", self.arrivals.is_some()),
            ("--mqtt", self.mqtt.is_some()),
            ("--username", self.username.is_some()),
            ("--ca", self.ca.is_some()),
            ("--cert", self.cert.is_some()),
            ("--key", self.key.is_some()),
            ("--insecure", self.insecure),
            ("--seed", self.seed.is_some()),
        ];
        given.into_iter().find_map(|(option, given)| given.then_some(option))
    }
}
