//! What a plan was made from whose platform has no address before commands have brought it up: the scenario is planned once more
//! when the address is known, as if it had stood there.

use crate::brought_up::BroughtUp;
use crate::diagnostic::Diagnostics;
use crate::inputs::Inputs;
use crate::plan::{Plan, PlatformPlan};
use crate::planning::plan_of;
use crate::tree::Node;
use std::fmt;
use std::sync::Arc;

/// The scenario of a plan, and the files and variables that were read for it.
#[derive(Clone)]
pub struct Draft {
    root: Arc<Node>,
    inputs: Arc<Inputs>,
}

/// What was read may hold secrets.
impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Draft(..)")
    }
}

impl Plan {
    /// Keeps what the plan was made from, where it is to be made once more.
    pub(crate) fn with_draft(self, root: &Node, inputs: &Arc<Inputs>) -> Plan {
        let is_needed = self.platform.command.is_some();
        let draft = is_needed.then(|| Draft { root: Arc::new(root.clone()), inputs: Arc::clone(inputs) });
        Plan { draft, ..self }
    }

    /// The same run of a platform that has been brought up, at the address that the command printed. What was changed in the plan
    /// since it was made, such as its load, stays.
    ///
    /// # Errors
    /// What was printed does not fit the scenario.
    pub fn placed(&self, brought_up: &BroughtUp) -> Result<Plan, Diagnostics> {
        let Some(Draft { root, inputs }) = &self.draft else { return Ok(self.clone()) };
        let found = Diagnostics::default();
        let planned = inputs
            .as_read(|environment| plan_of(root, environment, &inputs.parsed, Some(brought_up), found))?;
        Ok(self.at_the_place_of(&planned))
    }

    /// The same with what depends on the platform's address taken from a plan that knows it.
    fn at_the_place_of(&self, planned: &Plan) -> Plan {
        // The same tree has the same populations.
        let others = self.others.iter().zip(&planned.others);
        Plan {
            platform: PlatformPlan { state: self.platform.state.clone(), ..planned.platform.clone() },
            connection: planned.connection.clone(),
            coap: planned.coap.clone(),
            lwm2m: planned.lwm2m.clone(),
            others: others.map(|(own, planned)| Arc::new(own.at_the_place_of(planned))).collect(),
            ..self.clone()
        }
    }
}
