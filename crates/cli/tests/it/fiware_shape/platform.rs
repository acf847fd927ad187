//! The platform: what it needs is installed where it is missing, it is started by hand, and parts of it are stopped.

use crate::harness::{Bench, children};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Ports of a network that has nothing else: everybody's own.
const POSTGRES: u16 = 5432;
const CONTEXT: u16 = 1026;
const PROXY: u16 = 1027;
const MQTT: u16 = 1883;
const SOUTH: u16 = 7896;
const NORTH: u16 = 4041;
const TOKEN: &str = "open-sesame";
/// How long a component may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(20);

fn repository() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap()
}

/// Where the platform's scripts are.
pub fn scripts() -> String {
    repository().join("platforms/agents/ngsi-postgres").display().to_string()
}

/// A Python with a driver for PostgreSQL, which is installed where there is none.
pub fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let has_driver = |python: &Path| {
            let asked = Command::new(python).args(["-c", "import psycopg2"]).stderr(Stdio::null()).status();
            asked.is_ok_and(|status| status.success())
        };
        let folder = repository().join("target/peers/ngsi-postgres");
        let own = folder.join("bin/python");
        if has_driver(Path::new("python3")) {
            return "python3".to_owned();
        }
        if !has_driver(&own) {
            let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status().unwrap();
            assert!(made.success(), "python3 -m venv failed: apt-get install python3-venv");
            let requirements = format!("{}/requirements.txt", scripts());
            let pip =
                Command::new(&own).args(["-m", "pip", "install", "--quiet", "-r", &requirements]).status();
            assert!(pip.unwrap().success(), "pip could not install {requirements}");
        }
        own.display().to_string()
    })
}

/// The search path, with the agent that `scripts/test` installs.
pub fn path() -> String {
    let agent = repository().join("target/peers/iota-json/node_modules/.bin");
    format!("{}:{}", agent.display(), std::env::var("PATH").unwrap_or_default())
}

/// A network of its own, with nothing but a loopback device. It ends with the value.
pub struct Network(Child);

impl Network {
    pub fn new() -> Network {
        let mut keeper = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && echo ready && exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready", "a network namespace needs root");
        Network(keeper)
    }

    /// A process whose network this is.
    pub fn process(&self) -> u32 {
        self.0.id()
    }

    /// The command within this network; its process is the command's own.
    pub fn within(&self, bench: &Bench, command: &Command) -> Command {
        let mut entered = bench.in_folder("nsenter");
        entered.args(["--target", &self.0.id().to_string(), "--net"]);
        entered.arg(command.get_program()).args(command.get_args());
        entered
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the command line of a component's first process holds.
pub fn command_of(name: &str) -> &'static str {
    match name {
        "postgres" => "postgres.sh",
        "context" => "context.py",
        "proxy" => "proxy.py",
        "mosquitto" => "mosquitto.conf",
        _ => "iota-json-agent",
    }
}

/// The file with what that component says.
fn log_of(name: &str) -> String {
    format!("{name}.log")
}

/// A process and all that it has started.
pub struct Descendants(Vec<u32>);

impl Descendants {
    /// Of the first process at or below that one whose command line holds a text.
    pub fn of(process: u32, text: &str) -> Descendants {
        let below = |process: u32| {
            let mut all = vec![process];
            let mut place = 0;
            while place < all.len() {
                all.extend(children(all[place]));
                place += 1;
            }
            all
        };
        let holds = |process: &&u32| {
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(text)
        };
        let all = below(process);
        let first = all.iter().find(holds).unwrap_or_else(|| panic!("no process below {process} is {text}"));
        Descendants(below(*first))
    }

    /// Stops all of them.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets them go on.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        for process in &self.0 {
            // One of them may have ended meanwhile.
            let _ = kill_process(Pid::from_raw(*process as i32).unwrap(), signal);
        }
    }
}

/// A platform that runs before the program looks at it. Dropped, it ends.
pub struct Running(Vec<(&'static str, Child)>);

impl Running {
    /// Starts all components, with what is planted.
    pub fn begin(bench: &Bench, network: &Network, planted: &[(&str, &str)]) -> Running {
        let planted = |name: &str, otherwise: &str| {
            let value = planted.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            value.unwrap_or(otherwise).to_owned()
        };
        let configuration = format!(
            "listener {MQTT} 127.0.0.1\nallow_anonymous true\nuser root\nset_tcp_nodelay true\npersistence false\n"
        );
        let configuration = bench.write("mosquitto.conf", &configuration).display().to_string();
        let (folder, python) = (scripts(), python());
        let context = format!(
            "{python} {folder}/context.py --port {CONTEXT} --postgres {POSTGRES} --pause {} --database-pause {}",
            planted("context_pause", "0"),
            planted("database_pause", "0")
        );
        let proxy = format!(
            "{python} {folder}/proxy.py --port {PROXY} --behind {CONTEXT} --token {TOKEN} --most {} --pause {}",
            planted("most", "200"),
            planted("proxy_pause", "0")
        );
        let agent = format!(
            "iota-json-agent --mqtt {MQTT} --broker {PROXY} --south {SOUTH} --north {NORTH} --pause {}",
            planted("agent_pause", "0")
        );
        let mut running = Running(Vec::new());
        for (name, line, port) in [
            ("postgres", format!("bash {folder}/postgres.sh {POSTGRES}"), POSTGRES),
            ("context", context, CONTEXT),
            ("proxy", proxy, PROXY),
            ("mosquitto", format!("mosquitto -c {configuration}"), MQTT),
            ("agent", agent, NORTH),
        ] {
            running.start(bench, network, name, &line);
            let waits = format!(
                "for _ in $(seq {}); do (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && exit 0; sleep 0.05; done; exit 1",
                20 * PATIENCE.as_secs()
            );
            let mut waiter = Command::new("bash");
            waiter.args(["-c", &waits]);
            let listens = network.within(bench, &waiter).status().unwrap().success();
            assert!(listens, "{name}: {}", fs::read_to_string(bench.path(&log_of(name))).unwrap_or_default());
        }
        running
    }

    fn start(&mut self, bench: &Bench, network: &Network, name: &'static str, line: &str) {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        let mut command = network.within(bench, &command);
        let log = File::create(bench.path(&log_of(name))).unwrap();
        command.env("PATH", path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // The agent's library is configured by these; it asks nobody for a token that is permanent.
        for (variable, value) in [
            ("ENABLED", "true"),
            ("TYPE", "oauth2"),
            ("HEADER", "X-Auth-Token"),
            ("PERMANENT_TOKEN", "true"),
            ("URL", "http://127.0.0.1:9"),
            ("TOKEN_PATH", "/token"),
            ("CLIENT_ID", "agent"),
            ("CLIENT_SECRET", "agent"),
        ] {
            command.env(format!("IOTA_AUTH_{variable}"), value);
        }
        self.0.push((name, command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"))));
    }

    /// The process of that component.
    pub fn process(&self, name: &str) -> u32 {
        self.0.iter().find(|(known, _)| *known == name).unwrap().1.id()
    }

    /// The `platform` of a scenario that finds it running.
    pub fn platform(&self, bench: &Bench, mapping: &str) -> String {
        let profile = fs::read_to_string(format!("{}/platform.yaml", scripts())).unwrap();
        let (before, rest) = profile.split_once("\ncomponents:\n").unwrap();
        let (_, after) = rest.split_once("\ncontroller:\n").unwrap();
        bench.write("running.yaml", &format!("{before}\ncomponents: []\n\ncontroller:\n{after}"));
        let address = match mapping {
            "http" => format!("http://127.0.0.1:{SOUTH}"),
            _ => format!("mqtt://127.0.0.1:{MQTT}"),
        };
        let listed: Vec<String> = [
            ("postgres", POSTGRES),
            ("context", CONTEXT),
            ("proxy", PROXY),
            ("mosquitto", MQTT),
            ("agent", NORTH),
        ]
        .iter()
        .map(|(name, port)| format!("{{ name: {name}, port: {port} }}"))
        .collect();
        format!(
            "{{ profile: ./running.yaml, mapping: {mapping}, address: \"{address}\", ports: {{ north: {NORTH}, broker: {PROXY} }}, \
             components: [{}] }}",
            listed.join(", ")
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for (_, child) in self.0.iter_mut().rev() {
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
            let begin = Instant::now();
            while child.try_wait().is_ok_and(|ended| ended.is_none()) && begin.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
