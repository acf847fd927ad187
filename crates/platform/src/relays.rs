//! Relays before components: `plimsoll target relay` as components of their own.

use crate::fronts::Front;
use crate::guard::ToldDose;
use crate::line::Told;
use crate::placeholders::Placeholders;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::RelayPlan;
use std::fmt::Display;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Doses that are read at once.
const MOST_DOSES: usize = 64;
/// A path of a Unix socket that is longer is none.
const LONGEST_PATH: usize = 107;

/// What a relay that runs stands before, and how it is given orders.
#[derive(Debug)]
pub(crate) struct RelayOf {
    /// The component.
    pub component: String,
    /// At which it listens.
    pub port: Option<u16>,
    /// Where doses are told, and where orders are heard; `None` where that cannot be.
    line: Option<(UnixDatagram, PathBuf)>,
}

impl RelayOf {
    /// The relay before a component that listens at that port.
    pub fn new(component: &str, dir: &Path, port: Option<u16>) -> RelayOf {
        let open = |port: u16| {
            let own = UnixDatagram::bind(dir.join(format!("relay-{port}.doses"))).ok()?;
            own.set_nonblocking(true).ok()?;
            let orders = dir.join(orders_file(port));
            orders.exists().then_some((own, orders))
        };
        RelayOf { component: component.to_owned(), port, line: port.and_then(open) }
    }

    /// Whether it can be given orders.
    pub fn takes_orders(&self) -> bool {
        self.line.is_some()
    }

    /// Has it delay what passes, between two times of the host's monotonic clock in nanoseconds.
    pub fn delay(&self, from: i64, to: i64, each_way: Nanos) -> io::Result<()> {
        let Some((own, orders)) = &self.line else { return Ok(()) };
        own.send_to(format!("delay {from} {to} {}", each_way.0).as_bytes(), orders).map(drop)
    }

    /// The doses that it has told since the last call.
    pub fn take_doses(&self) -> Vec<ToldDose> {
        let mut doses = Vec::new();
        let mut line = [0; 128];
        let Some((own, _)) = &self.line else { return doses };
        for _ in 0..MOST_DOSES {
            let Ok(count) = own.recv(&mut line) else { break };
            let text = line.get(..count).and_then(|line| std::str::from_utf8(line).ok());
            if let Some(Told::Dose { from, share }) = text.and_then(Told::parse) {
                doses.push(ToldDose { from, share });
            }
        }
        doses
    }
}

/// The file at which the relay at a port hears orders.
fn orders_file(port: impl Display) -> String {
    format!("relay-{port}.orders")
}

/// The relay before a port of a component, with its settings where the scenario has some.
pub fn before(
    relay: Option<&RelayPlan>,
    port: &str,
    name: String,
    dir: &Path,
    placeholders: &Placeholders,
) -> Front {
    let mut command: Vec<String> = ["{plimsoll}", "target", "relay"].map(str::to_owned).to_vec();
    for behind in placeholders.behind_front(port) {
        command.extend(["--to".to_owned(), format!("127.0.0.1:{behind}")]);
    }
    command.extend(["--port".into(), format!("{{port:{port}}}")]);
    // No port has more digits.
    if dir.join(orders_file(u16::MAX)).as_os_str().len() <= LONGEST_PATH {
        command.extend(["--control".into(), format!("{{dir}}/{}", orders_file(format!("{{port:{port}}}")))]);
    }
    command.extend(relay.iter().flat_map(|relay| relay.options()));
    Front::new(name, command, port, true)
}
