//! What a device's messages are as requests.

use super::heads::Heads;
use crate::content::Contents;
use crate::run_context::{RunContext, View};
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{Plan, RequestPlan, RetryPlan};
use std::io::{self, Write};
use std::sync::Arc;

/// Writes requests as the plan says.
pub struct Requests {
    heads: Heads,
    /// Whether the body is a device's message; else it is that of a query.
    says_message: bool,
    retries: RetryPlan,
    /// Whether devices send again by themselves.
    retry: bool,
    contents: Contents,
    content: Vec<u8>,
    /// The generation of the access token in the request written last.
    generation: u64,
}

impl Requests {
    /// Requests of the devices of a run to a host; captures may come later.
    ///
    /// # Errors
    /// The plan says no request.
    pub fn new(plan: &Plan, run: RunId, host: String, run_context: &Arc<RunContext>) -> io::Result<Requests> {
        Requests::with(plan, run, host, run_context, plan.platform.roles.device.request.as_ref())
    }

    /// Queries of a run to a host.
    ///
    /// # Errors
    /// The plan says no query.
    pub fn of_queries(
        plan: &Plan,
        run: RunId,
        host: String,
        run_context: &Arc<RunContext>,
    ) -> io::Result<Requests> {
        let request = plan.platform.roles.query.as_ref().and_then(|query| query.ask.request());
        let queries = Requests::with(plan, run, host, run_context, request)?;
        Ok(Requests { says_message: false, ..queries })
    }

    fn with(
        plan: &Plan,
        run: RunId,
        host: String,
        run_context: &Arc<RunContext>,
        request: Option<&RequestPlan>,
    ) -> io::Result<Requests> {
        let request = request.ok_or_else(|| io::Error::other("the plan says no request"))?.clone();
        let is_secured = plan.platform.address.as_ref().is_some_and(|address| address.wire.tls);
        Ok(Requests {
            heads: Heads::new(plan, (host, is_secured), request),
            says_message: true,
            retries: plan.retries(),
            retry: plan.retry.is_some(),
            contents: Contents::new(plan, run).in_context(run_context),
            content: Vec::new(),
            generation: 0,
        })
    }

    /// Method and URL, for people; what differs from message to message keeps its name.
    pub fn target(&self) -> &str {
        self.heads.target()
    }

    /// Whether answers have no body whatever their heads say: those to HEAD.
    pub fn are_bodiless(&self) -> bool {
        self.heads.plan().method == "HEAD"
    }

    /// Whether an answer with that status means that the platform took the message.
    pub fn is_success(&self, status: u16) -> bool {
        self.heads.plan().is_success(status)
    }

    /// Whether the message is to be sent again after an answer with that status.
    pub fn is_to_be_repeated(&self, status: u16) -> bool {
        self.heads.plan().retry.contains(&status)
    }

    /// After how long without an answer a message is to be sent again; `None` where devices do not by themselves, and of queries.
    pub fn timeout(&self) -> Option<Nanos> {
        self.retries.timeout.filter(|_| self.says_message)
    }

    /// How often and when a message is sent again.
    pub fn retries(&self) -> &RetryPlan {
        &self.retries
    }

    /// Whether the message is to be sent again after its connection was lost without an answer, or no answer came in time.
    pub fn is_to_be_repeated_when_lost(&self) -> bool {
        self.heads.plan().retry_lost || self.retry && self.says_message
    }

    /// The generation of the access token in the request that was written last.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What the runner gives.
    pub fn view(&self) -> &View {
        self.contents.view()
    }

    /// Appends the request of a message; returns the bytes of its body.
    pub fn write(&mut self, device: u32, sequence: u32, out: &mut Vec<u8>) -> u32 {
        self.content.clear();
        self.generation = self.contents.refresh();
        if self.says_message {
            self.contents.render(device, sequence, &mut self.content);
        }
        let plan = self.heads.plan();
        let variables = self.contents.beside(device, sequence);
        let mut numbers = self.contents.numbers(device, sequence);
        let mut random = || numbers.bits();
        self.heads.write(&plan.path, &variables, &mut random, out);
        if !self.says_message {
            plan.body.render(&variables, &mut random, &mut self.content);
            if self.content.is_empty() {
                out.extend_from_slice(b"\r\n");
                return 0;
            }
        }
        // Writing to a Vec cannot fail.
        let _ = write!(out, "Content-Length: {}\r\n\r\n", self.content.len());
        out.extend_from_slice(&self.content);
        self.content.len() as u32
    }
}
