//! `plimsoll init`: writes a commented scenario to begin with, and the schema by which an editor completes it.

use super::load_options::read_named;
use super::outputs;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::{file, say};
use clap::Args;
use plimsoll_scenario::plan::{Protocol, protocol_of};
use plimsoll_scenario::{Environment, SourceFile, matrix, profile, scenario_schema};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// The schema's file, beside the scenario.
const SCHEMA: &str = "plimsoll.schema.json";

/// Writes a commented scenario to start from
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll init
  plimsoll init city.yaml --platform mqtt://broker.example:1883 \\
      --devices 5000 --rate 500..5000/500 --p99 100ms
  plimsoll init --platform mosquitto --yes

In a terminal, it asks for each option that is missing. With --yes, or where
standard input is no terminal, it takes the defaults. It never overwrites a
scenario. It also writes plimsoll.schema.json, which the first line of the
scenario names: editors with a YAML language server complete and check keys.")]
pub struct Init {
    /// The scenario to write
    #[arg(value_name = "FILE.yaml", default_value = "scenario.yaml", value_parser = file())]
    scenario: PathBuf,
    /// A profile that Plimsoll starts (see `plimsoll platforms`), or the address of
    /// a platform that runs already [default: embedded]
    #[arg(long, value_name = "PROFILE|ADDRESS")]
    platform: Option<String>,
    /// Simulated devices [default: 100]
    #[arg(long, value_name = "N")]
    devices: Option<String>,
    /// Messages per second of all devices together: one rate, or FROM..TO/STEP
    /// [default: 100..1000/100]
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Measured time of each level [default: 30s]
    #[arg(long, value_name = "TIME")]
    hold: Option<String>,
    /// Longest time in which 99 % of the messages must be acknowledged
    /// [default: 50ms]
    #[arg(long, value_name = "TIME")]
    p99: Option<String>,
    /// Ask nothing
    #[arg(long, short)]
    yes: bool,
    /// Write no schema
    #[arg(long)]
    no_schema: bool,
}

/// What the scenario is made of.
struct Answers {
    platform: String,
    devices: String,
    rate: String,
    hold: String,
    p99: String,
}

impl Answers {
    /// Whether they name a platform that runs already.
    fn name_address(&self) -> bool {
        self.platform.contains("://")
    }

    /// Whether there may be subscribers: a user of a protocol without topics has none without a profile.
    fn may_subscribe(&self) -> bool {
        !self.name_address() || protocol_of(&self.platform).is_some_and(Protocol::has_topics)
    }
}

impl Init {
    pub fn perform(self) -> Result<u8, Failure> {
        if self.scenario.exists() {
            let path = self.scenario.display();
            return Err(Failure::Usage(format!("{path} exists; name another file, or remove it first")));
        }
        let schema = self.scenario.with_file_name(SCHEMA);
        if !self.no_schema {
            refuse_foreign(&schema)?;
        }
        let answers = self.answers()?;
        let text = self.text(&answers)?;
        let mut said = format!("wrote {}\n", self.scenario.display());
        if !self.no_schema {
            // Another version of Plimsoll may have written the one that is there.
            let json = serde_json::to_string_pretty(&scenario_schema()).unwrap_or_default();
            // It comes first: a scenario is no use to an editor without it, and stays unwritten where the disk is full.
            outputs::write(&schema, &format!("{json}\n"))?;
            said += &format!("wrote {}, for editors\n", schema.display());
        }
        outputs::write(&self.scenario, &text)?;
        let path = self.scenario.display();
        say(&format!("{said}next: plimsoll check {path}, then plimsoll run {path}\n"));
        Ok(exit_code::MET)
    }

    /// The scenario of these answers.
    fn text(&self, answers: &Answers) -> Result<String, Failure> {
        let name = self.scenario.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let text = |subscribes| scenario(&name, answers, !self.no_schema, subscribes);
        let whole = text(answers.may_subscribe());
        match check(&self.scenario, &whole) {
            // Some profiles have nobody who could subscribe.
            Err(_) if check(&self.scenario, &text(false)).is_ok() => Ok(text(false)),
            checked => checked.map(|()| whole),
        }
    }

    /// What was given, asked or taken as the default. A wrong answer is asked again at once.
    fn answers(&self) -> Result<Answers, Failure> {
        let or = |given: &Option<String>, default: &str| given.clone().unwrap_or_else(|| default.to_owned());
        let mut answers = Answers {
            platform: or(&self.platform, "embedded"),
            devices: or(&self.devices, "100"),
            rate: or(&self.rate, "100..1000/100"),
            hold: or(&self.hold, "30s"),
            p99: or(&self.p99, "50ms"),
        };
        if self.yes || !std::io::stdin().is_terminal() {
            return Ok(answers);
        }
        // What was given is checked before anybody answers in vain.
        self.text(&answers)?;
        type Field = fn(&mut Answers) -> &mut String;
        let questions: [(&Option<String>, &str, Field); 5] = [
            (&self.platform, "Profile or address of the platform", |answers| &mut answers.platform),
            (&self.devices, "Simulated devices", |answers| &mut answers.devices),
            (&self.rate, "Messages per second (FROM..TO/STEP)", |answers| &mut answers.rate),
            (&self.hold, "Measured time of each level", |answers| &mut answers.hold),
            (&self.p99, "99 % of the messages acknowledged within", |answers| &mut answers.p99),
        ];
        for (given, question, field) in questions {
            if given.is_some() {
                continue;
            }
            let default = field(&mut answers).clone();
            loop {
                *field(&mut answers) = ask(question, &default)?;
                match self.text(&answers) {
                    Ok(_) => break,
                    Err(refused) => say(&format!("{refused}\n")),
                }
            }
        }
        Ok(answers)
    }
}

/// Refuses to write over a file that has the name of the schema and is none of ours.
fn refuse_foreign(schema: &Path) -> Result<(), Failure> {
    let Ok(there) = std::fs::read_to_string(schema) else { return Ok(()) };
    let id = |json: &serde_json::Value| json.get("$id").cloned();
    let is_ours = serde_json::from_str(&there).is_ok_and(|there| id(&there) == id(&scenario_schema()));
    if is_ours {
        return Ok(());
    }
    let path = schema.display();
    Err(Failure::Usage(format!(
        "{path} exists and is no schema of Plimsoll; rename it, or give --no-schema to write none"
    )))
}

/// Asks in the terminal; an empty line takes the default.
fn ask(question: &str, default: &str) -> Result<String, Failure> {
    say(&format!("{question} [{default}]: "));
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    let read = read.map_err(|error| Failure::Undoable(format!("cannot read the answer: {error}")))?;
    match (read, line.trim()) {
        (0, _) => Err(Failure::Interrupted("nothing was written")),
        (_, "") => Ok(default.to_owned()),
        (_, answer) => Ok(answer.to_owned()),
    }
}

/// Refuses answers that make no scenario, with what is wrong.
fn check(path: &Path, text: &str) -> Result<(), Failure> {
    let source = SourceFile { name: path.display().to_string(), text: text.to_owned() };
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let profile = |name: &str| read_named(&folder.join(name));
    let environment = Environment { profile: &profile, variable: &|name| std::env::var(name).ok() };
    matrix(&source, false, &[], &environment)?;
    Ok(())
}

/// The scenario. Answers stand in quotes, so that none of them can be anything but a value.
fn scenario(name: &str, answers: &Answers, has_schema: bool, subscribes: bool) -> String {
    let Answers { platform, devices, rate, hold, p99 } = answers;
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let modeline = match has_schema {
        true => format!("# yaml-language-server: $schema={SCHEMA}\n"),
        false => String::new(),
    };
    let runs_already = answers.name_address();
    let platform = match runs_already {
        true => format!(
            "  profile: existing            # a platform that runs already\n  address: {}",
            quoted(platform)
        ),
        false => format!(
            "  profile: {}            # Plimsoll starts it; `plimsoll platforms` lists others",
            quoted(platform)
        ),
    };
    let subscribers = match subscribes {
        true => "  subscribers: 1               # each receives every message\n",
        false => "",
    };
    // As `run --rate` reads it: a last `/s` is the unit's, not the step's.
    let range = rate.strip_suffix("/s").unwrap_or(rate).split_once("..");
    let levels = match range.and_then(|(from, rest)| Some((from, rest.rsplit_once('/')?))) {
        Some((from, (to, step))) => {
            format!("{{ from: {}, to: {}, step: {} }}", quoted(from), quoted(to), quoted(step))
        }
        None => format!("[{}]", quoted(rate)),
    };
    let spoken = match runs_already {
        true => protocol_of(&answers.platform),
        false => profile(&answers.platform).and_then(|own| own.device_protocol()),
    };
    let speaks_mqtt = spoken.is_none_or(|protocol| protocol == Protocol::Mqtt);
    let mqtt = match subscribes && speaks_mqtt {
        true => "mqtt:\n  qos: 1                       # 0, 1 or 2; at 0 nothing is acknowledged\n\n",
        false => "",
    };
    let delivered = if subscribes { "  delivered: \">= 99.9 %\"\n" } else { "" };
    let (name, devices, hold, p99) =
        (quoted(name), quoted(devices).replace('"', ""), quoted(hold), quoted(&format!("< {p99}")));
    format!(
        "{modeline}# A load test for Plimsoll. `plimsoll check FILE` explains what it does; `plimsoll run FILE` does it.\n\
         # All other keys: the completion of an editor, or the page docs/scenario.md.\n\
         name: {name}\n\n\
         platform:\n{platform}\n\n\
         population:\n  devices: {devices}\n{subscribers}\n\
         {mqtt}\
         message:\n  size: 100                    # bytes, with the marker that identifies each message\n\n\
         load:\n\
         \x20 # Messages per second, of all devices together. The load line is the highest level that meets the\n\
         \x20 # objectives, with all levels below it.\n\
         \x20 levels: {levels}\n\
         \x20 arrivals: poisson            # or constant\n\
         \x20 warm_up: 5s                  # not counted\n\
         \x20 hold: {hold}                  # measured; a 99 % quantile needs 1,000 messages in it\n\n\
         objectives:\n{delivered}\
         \x20 publish_p99: {p99}\n\
         \x20 # load_line: \">= 500\"       # fail below that rate\n\n\
         # What `--quick` sets, to try the scenario out.\n\
         quick:\n  load.levels: [100]\n  load.warm_up: 1s\n  load.hold: 11s\n"
    )
}
