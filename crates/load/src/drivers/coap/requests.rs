//! What a device's messages are as requests.

use crate::content::Contents;
use crate::drivers::words;
use crate::run_context::{RunContext, View};
use plimsoll_codec::coap::{OptionList, code};
use plimsoll_model::RunId;
use plimsoll_scenario::plan::{OptionValue, Plan, RequestPlan};
use std::io;
use std::sync::Arc;

/// Makes requests as the plan says.
pub struct Requests {
    /// Path before that of every request.
    base: Vec<u8>,
    plan: RequestPlan,
    /// Method and URL, for people.
    target: String,
    code: u8,
    contents: Contents,
    text: Vec<u8>,
}

impl Requests {
    /// Requests of the devices of a run; captures may come later.
    ///
    /// # Errors
    /// The plan says no request.
    pub fn new(plan: &Plan, run: RunId, run_context: &Arc<RunContext>) -> io::Result<Requests> {
        let address = plan.platform.address.as_ref();
        let request = plan.platform.roles.device.request.clone();
        let request = request.ok_or_else(|| io::Error::other("the plan says no request"))?;
        let place = address.map_or(String::new(), |address| {
            let scheme = if plan.coap.dtls.is_some() { "coaps" } else { "coap" };
            format!("{scheme}://{}:{}{}", address.host, address.port, address.path)
        });
        Ok(Requests {
            target: words::target(&request.method, &place, &request.path.text()),
            base: address.map(|address| address.path.clone().into_bytes()).unwrap_or_default(),
            code: code::method(&request.method).unwrap_or(code::POST),
            plan: request,
            contents: Contents::new(plan, run).in_context(run_context),
            text: Vec::new(),
        })
    }

    /// The method, as a code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Method and URL, for people; what differs from message to message keeps its name.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Whether an answer with that status means that the platform took the message.
    pub fn is_success(&self, status: u16) -> bool {
        self.plan.is_success(status)
    }

    /// Whether the message is to be sent again after an answer with that status.
    pub fn is_to_be_repeated(&self, status: u16) -> bool {
        self.plan.retry.contains(&status)
    }

    /// What the runner gives, as it was seen when the last request was written.
    pub fn view(&self) -> &View {
        self.contents.view()
    }

    /// Puts the options and the body of a message in the place of what is there.
    pub fn write(&mut self, device: u32, sequence: u32, options: &mut OptionList, body: &mut Vec<u8>) {
        options.clear();
        body.clear();
        self.contents.render(device, sequence, body);
        self.text.clear();
        self.text.extend_from_slice(&self.base);
        let plan = &self.plan;
        let variables = self.contents.beside(device, sequence);
        let mut numbers = self.contents.numbers(device, sequence);
        let mut random = || numbers.bits();
        plan.path.render(&variables, &mut random, &mut self.text);
        options.add_target(&self.text);
        for option in &plan.options {
            match &option.value {
                OptionValue::Number(number) => options.add_number(option.number, *number),
                OptionValue::Text(text) => {
                    self.text.clear();
                    text.render(&variables, &mut random, &mut self.text);
                    options.add(option.number, &self.text);
                }
            }
        }
    }
}
