//! Relays before components: `plimsoll target relay` as components of their own.

use crate::fronts::Front;
use crate::guard::ToldDose;
use crate::line::{Told, ToldFault};
use crate::placeholders::Placeholders;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::RelayPlan;
use std::fmt::Display;
use std::io;
use std::mem::take;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// What is read at once.
const MOST_TOLD: usize = 64;
/// A longer line is none of a relay's.
const LONGEST_LINE: usize = 512;
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
    /// What was told and nobody has taken.
    told: (Vec<ToldDose>, Vec<ToldFault>),
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
        RelayOf { component: component.to_owned(), port, line: port.and_then(open), told: Default::default() }
    }

    /// Whether it can be given orders.
    pub fn takes_orders(&self) -> bool {
        self.line.is_some()
    }

    /// Has it delay what passes, between two times of the host's monotonic clock in nanoseconds.
    pub fn delay(&self, from: i64, to: i64, each_way: Nanos) -> io::Result<()> {
        self.order(&format!("delay {from} {to} {}", each_way.0))
    }

    /// Gives it an order.
    pub fn order(&self, order: &str) -> io::Result<()> {
        let Some((own, orders)) = &self.line else { return Ok(()) };
        own.send_to(order.as_bytes(), orders).map(drop)
    }

    /// The doses that it has told since the last call.
    pub fn take_doses(&mut self) -> Vec<ToldDose> {
        self.hear();
        take(&mut self.told.0)
    }

    /// The faults that it has told since the last call.
    pub fn take_faults(&mut self) -> Vec<ToldFault> {
        self.hear();
        take(&mut self.told.1)
    }

    fn hear(&mut self) {
        let mut line = [0; LONGEST_LINE];
        let Some((own, _)) = &self.line else { return };
        for _ in 0..MOST_TOLD {
            let Ok(count) = own.recv(&mut line) else { break };
            let text = line.get(..count).and_then(|line| std::str::from_utf8(line).ok());
            match text.and_then(Told::parse) {
                Some(Told::Dose { from, share }) => self.told.0.push(ToldDose { from, share }),
                Some(Told::Fault(fault)) => self.told.1.push(fault),
                _ => {}
            }
        }
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
