//! Why a run that was entered into the store could not be done.

use crate::capturing::CapturingError;
use crate::controller::ControllerError;
use crate::fleet::FleetError;
use crate::running::RunningError;
use crate::token::TokenError;
use plimsoll_load::engine::EngineError;
use plimsoll_model::record::DeathRecord;
use plimsoll_platform::PlatformError;
use plimsoll_scenario::Diagnostics;
use plimsoll_scenario::plan::RelayPlan;
use plimsoll_store::StoreError;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// What was printed when the platform was brought up.
    #[error("the platform that was brought up does not fit the scenario:\n{0}")]
    Unfit(Diagnostics),
    /// This host forbids the run, now that it is known where the platform is.
    #[error("{0}")]
    Host(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Fleet(#[from] FleetError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Controller(#[from] ControllerError),
    #[error(transparent)]
    Running(#[from] RunningError),
    #[error(transparent)]
    Capturing(#[from] CapturingError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A component ended by itself, and what came of that.
    #[error("{} died ({}){}; {cause}", death.component, death.status, death.in_its_words())]
    Died {
        /// Its end.
        death: DeathRecord,
        /// What failed then.
        cause: Box<Failure>,
    },
}

impl Failure {
    /// Whether the user stopped the run.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Failure::Platform(PlatformError::Interrupted)
                | Failure::Engine(EngineError::Interrupted)
                | Failure::Fleet(FleetError::Interrupted)
                | Failure::Controller(ControllerError::Interrupted)
                | Failure::Token(TokenError::Interrupted)
                | Failure::Capturing(CapturingError::Interrupted)
        )
    }

    /// Whether a worker was lost for good.
    pub fn is_lost_worker(&self) -> bool {
        matches!(self, Failure::Engine(EngineError::WorkerLost(_)))
    }

    /// The same with the relays named that stand between, where clients could not connect.
    pub fn behind(self, relays: &[RelayPlan]) -> Failure {
        let faulty = relays.iter().filter(|relay| !relay.options().is_empty());
        let told: Vec<String> =
            faulty.map(|relay| format!("{} with {}", relay.component, relay.options().join(" "))).collect();
        match self {
            Failure::Engine(EngineError::Connect { ready, wanted, reason }) if !told.is_empty() => {
                let reason =
                    format!("{reason}; the scenario has a relay before {}", told.join(", and before "));
                Failure::Engine(EngineError::Connect { ready, wanted, reason })
            }
            failure => failure,
        }
    }

    /// The same, or what it comes of where a component had ended by itself.
    pub fn after(self, death: Option<DeathRecord>) -> Failure {
        match death {
            Some(death) if !self.is_interruption() && !matches!(self, Failure::Store(_)) => {
                Failure::Died { death, cause: Box::new(self) }
            }
            _ => self,
        }
    }
}
