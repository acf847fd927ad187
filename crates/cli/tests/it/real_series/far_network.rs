//! Two networks with a way between them that may be slow, lose packets or be cut. The way is a pair of TUN devices and a program
//! that passes packets on after a delay; packets are lost in the kernel's filter.

use crate::fiware_shape::platform::Network;
use crate::harness::{Bench, Started};
use crate::wire_cause::started;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Passes packets on.
const FORWARDER: &str = include_str!("far_network.py");
/// Of the addresses for tests of networks (RFC 2544, appendix C), which nobody routes.
const NEAR: &str = "198.18.77.1";
const FAR: &str = "198.18.77.2";
const PORT: u16 = 1883;
/// How long a platform may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// The networks, the way between them, and the platform at its far end. Dropped, all of them are gone.
pub(super) struct FarNetwork {
    near: Network,
    far: Network,
    forwarder: Child,
    platform: Option<Child>,
}

impl FarNetwork {
    /// With a way that has no delay of its own.
    pub(super) fn new(bench: &Bench) -> FarNetwork {
        let (near, far) = (Network::new(), Network::new());
        let script = bench.write("far_network.py", FORWARDER);
        let mut command = Command::new("python3");
        command.arg(script).args([&far.process().to_string(), NEAR, FAR]);
        let mut command = near.within(bench, &command);
        command.stdin(Stdio::piped());
        let forwarder = started(command);
        FarNetwork { near, far, forwarder, platform: None }
    }

    /// Packets in either direction take so long from now on.
    pub(super) fn delay(&mut self, each_way: Duration) {
        let orders = self.forwarder.stdin.as_mut().unwrap();
        writeln!(orders, "{}", each_way.as_secs_f64()).unwrap();
    }

    /// Of a thousand packets so many are lost in either direction from now on.
    pub(super) fn lose(&self, bench: &Bench, per_mille: u32) {
        self.drop_where(bench, &format!("numgen random mod 1000 < {per_mille}"));
    }

    /// Nothing passes from now on.
    pub(super) fn cut(&self, bench: &Bench) {
        self.drop_where(bench, "");
    }

    /// Everything passes again.
    pub(super) fn mend(&self, bench: &Bench) {
        self.filter(bench, "delete table inet planted");
    }

    fn drop_where(&self, bench: &Bench, condition: &str) {
        // A chain ends with its line.
        let chain = format!("type filter hook input priority 0\n{condition} drop\n");
        self.filter(bench, &format!("table inet planted {{\nchain way {{\n{chain}}}\n}}"));
    }

    fn filter(&self, bench: &Bench, rule: &str) {
        for network in [&self.near, &self.far] {
            let mut command = Command::new("nft");
            command.arg(rule);
            let done = network.within(bench, &command).status().unwrap();
            assert!(done.success(), "nft {rule}: nftables is installed by scripts/peers");
        }
    }

    /// Runs a platform at the far end, and waits until it can be reached.
    pub(super) fn begin(&mut self, bench: &Bench, program: &str, arguments: &[&str]) {
        let mut command = Command::new(program);
        command.args(arguments);
        let mut command = self.far.within(bench, &command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.platform = Some(command.spawn().unwrap());
        let mut knock = Command::new("bash");
        knock.args(["-c", &format!("exec 3<>/dev/tcp/{FAR}/{PORT}")]);
        let begin = Instant::now();
        while !self.near.within(bench, &knock).stderr(Stdio::null()).status().unwrap().success() {
            assert!(begin.elapsed() < PATIENCE, "{program} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A Mosquitto at the far end.
    pub(super) fn begin_mosquitto(&mut self, bench: &Bench) {
        let configuration = bench.write(
            "mosquitto.conf",
            &format!(
                "listener {PORT} {FAR}\nallow_anonymous true\nuser root\nset_tcp_nodelay true\n\
                 max_queued_messages 0\nmax_inflight_messages 0\npersistence false\n"
            ),
        );
        self.begin(bench, "mosquitto", &["-c", configuration.to_str().unwrap()]);
    }

    /// A station at the far end, with those options.
    pub(super) fn begin_station(&mut self, bench: &Bench, options: &[&str]) {
        let port = PORT.to_string();
        let fixed = ["target", "station", "--host", FAR, "--port", &port];
        self.begin(bench, env!("CARGO_BIN_EXE_plimsoll"), &[&fixed, options].concat());
    }

    /// The platform's process.
    pub(super) fn platform(&self) -> u32 {
        self.platform.as_ref().unwrap().id()
    }

    /// Starts a run at the near end.
    pub(super) fn run(&self, bench: &Bench, load: &str, objectives: &str) -> Started {
        let run = bench.run_command(&format!(
            "name: far\nplatform: {{ profile: existing, address: \"mqtt://{FAR}:{PORT}\" }}\n\
             population: {{ devices: 20, subscribers: 1 }}\n\
             load: {{ {load}, samples: 14, drain: 2s, again: 0s }}\nobjectives: {{ {objectives} }}\n"
        ));
        bench.start(&mut self.near.within(bench, &run))
    }
}

impl Drop for FarNetwork {
    fn drop(&mut self) {
        for process in self.platform.iter_mut().chain([&mut self.forwarder]) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
