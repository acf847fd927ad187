//! Whether the platform is alive: a component that ended by itself, or a platform that nobody answers for any more.

use crate::secrets::Secrets;
use plimsoll_load::engine::Engine;
use plimsoll_load::run_context::Token;
use plimsoll_model::Nanos;
use plimsoll_model::record::{DeathRecord, LevelEnd};
use plimsoll_observe::vigil::Vigil;
use plimsoll_platform::{Death, Platform, pause, unless_stopped};
use plimsoll_scenario::plan::Plan;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long an answer is awaited at the address of a platform whose clients were lost.
const PATIENCE: Duration = Duration::from_secs(1);
/// After which it is asked once more whether it is there.
const AGAIN: Duration = Duration::from_millis(500);

/// See the module.
pub struct Life {
    stop: Arc<AtomicBool>,
    death: Option<DeathRecord>,
    /// Whether all that is known of the platform is its address, over TCP, and nobody plans that it ends.
    is_unwatched: bool,
    /// Over components that were not started by the run.
    pub vigils: Vec<(String, Vigil)>,
    /// The access tokens, which a component may have written down.
    token: Arc<Token>,
}

impl Life {
    /// Of the platform of a plan.
    pub fn of(plan: &Plan, platform: &Platform, engine: &Engine, stop: &Arc<AtomicBool>) -> Life {
        let is_unwatched = platform.simulation().is_none()
            && plan.platform.profile.components.is_empty()
            && plan.load.storm.is_none()
            && !plan.protocol().uses_datagrams();
        let token =
            engine.run_contexts().first().map(|context| Arc::clone(&context.token)).unwrap_or_default();
        Life { stop: Arc::clone(stop), death: None, is_unwatched, vigils: Vec::new(), token }
    }

    /// The component that ended by itself, if one did.
    pub fn death(&self) -> Option<&DeathRecord> {
        self.death.as_ref()
    }

    /// Looks whether a component has ended by then.
    pub fn look(&mut self, platform: &mut Platform, now: Nanos, secrets: &Secrets) {
        if self.death.is_none() {
            let death = platform.take_death().or_else(|| departed(&mut self.vigils));
            self.death = death.map(|death| self.recorded(death, now, secrets));
        }
    }

    /// Takes in that a component has ended that others have started.
    pub fn take(&mut self, death: Death, now: Nanos, secrets: &Secrets) {
        if self.death.is_none() {
            self.death = Some(self.recorded(death, now, secrets));
        }
    }

    /// Looks whether a component did not come back by the end of a level.
    pub fn look_for_missing(&mut self, platform: &mut Platform, at: Nanos, secrets: &Secrets) {
        if self.death.is_none() {
            let missing = platform.take_missing(&self.stop);
            self.death = missing.map(|death| self.recorded(death, at, secrets));
        }
    }

    /// Asks a platform whether it is there that nobody watches and that has lost all clients, or came to a standstill.
    pub fn ask(&mut self, platform: &Platform, end: &LevelEnd) {
        if self.death.is_none() && self.is_unwatched {
            self.death = self.away(platform, end);
        }
    }

    /// A platform at whose address nobody listens any more. A network that is cut answers otherwise, or not at all.
    fn away(&self, platform: &Platform, end: &LevelEnd) -> Option<DeathRecord> {
        let address = platform.address();
        let refuses = || {
            let asked = unless_stopped(&self.stop, move || TcpStream::connect_timeout(&address, PATIENCE));
            asked.is_some_and(|asked| asked.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused))
        };
        // Twice: a server that starts its listener again refuses for a moment.
        let refused = refuses() && pause(&self.stop, AGAIN) && refuses();
        refused.then(|| DeathRecord {
            component: format!("the platform at {address}"),
            status: "nobody listens there any more".into(),
            at: end.last_done.unwrap_or(end.at),
            last_words: String::new(),
        })
    }

    fn recorded(&self, death: Death, at: Nanos, secrets: &Secrets) -> DeathRecord {
        let Death { component, status, last_words } = death;
        let last_words = self.token.hide(&secrets.hide(&last_words));
        DeathRecord { component, status, at, last_words }
    }
}

/// A component that others have started and that has ended. How is known to its parent alone.
fn departed(vigils: &mut [(String, Vigil)]) -> Option<Death> {
    vigils.iter_mut().find_map(|(name, vigil)| {
        let process = vigil.ended()?;
        let status = format!("its process {process} ended; how is not known, since others started it");
        Some(Death { component: name.clone(), status, last_words: String::new() })
    })
}
