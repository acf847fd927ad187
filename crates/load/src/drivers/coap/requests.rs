//! What a device's messages are as requests.

use crate::content::Contents;
use crate::drivers::words;
use crate::run_context::{RunContext, View};
use plimsoll_codec::coap::{OptionList, code};
use plimsoll_model::RunId;
use plimsoll_scenario::plan::{
    OptionPlan, OptionValue, Piece, Plan, Protocol, RequestPlan, Template, Variables,
};
use std::io;
use std::sync::Arc;

/// Adds path, query and further options, rendered from their templates; `text` is room for that, and `base` stands before the path.
pub fn add_options(
    (path, further): (&Template, &[OptionPlan]),
    base: &[u8],
    variables: &Variables<'_>,
    random: &mut dyn FnMut() -> u64,
    (options, text): (&mut OptionList, &mut Vec<u8>),
) {
    text.clear();
    text.extend_from_slice(base);
    path.render(variables, random, text);
    options.add_target(text);
    add_further(further, variables, random, (options, text));
}

/// Adds options beside path and query; `text` is room for what they render to.
pub fn add_further(
    further: &[OptionPlan],
    variables: &Variables<'_>,
    random: &mut dyn FnMut() -> u64,
    (options, text): (&mut OptionList, &mut Vec<u8>),
) {
    for option in further {
        match &option.value {
            OptionValue::Number(number) => options.add_number(option.number, *number),
            OptionValue::Text(template) => {
                text.clear();
                template.render(variables, random, text);
                options.add(option.number, text);
            }
        }
    }
}

/// Makes requests as the plan says.
pub struct Requests {
    /// Path before that of every request.
    base: Vec<u8>,
    plan: RequestPlan,
    /// Method and URL, for people.
    target: String,
    code: u8,
    contents: Contents,
    /// Whether the body is the message; else it is the request's own.
    says_message: bool,
    /// The options, where they are the same for each message, and whether they are.
    fixed: Option<OptionList>,
    is_fixed: bool,
    text: Vec<u8>,
}

/// Whether path and options of a request are the same for each message.
fn are_fixed(request: &RequestPlan) -> bool {
    let is_fixed = |template: &Template| {
        template.pieces.iter().all(|piece| matches!(piece, Piece::Text(_) | Piece::Run | Piece::Bytes(_)))
    };
    let of_option = |option: &OptionPlan| match &option.value {
        OptionValue::Number(_) => true,
        OptionValue::Text(template) => is_fixed(template),
    };
    is_fixed(&request.path) && request.options.iter().all(of_option)
}

/// Unauthorized, as a status: 4.01.
const UNAUTHORIZED: u16 = 401;

impl Requests {
    /// Requests of the devices of a run; captures may come later.
    ///
    /// # Errors
    /// The plan says no request.
    pub fn new(plan: &Plan, run: RunId, run_context: &Arc<RunContext>) -> io::Result<Requests> {
        let request = plan.platform.roles.device.request.clone();
        Requests::of((plan, run), run_context, request, true)
    }

    /// Queries of queriers.
    ///
    /// # Errors
    /// The plan says no query.
    pub fn of_queries(plan: &Plan, run: RunId, run_context: &Arc<RunContext>) -> io::Result<Requests> {
        Requests::of(
            (plan, run),
            run_context,
            plan.platform.roles.query.as_ref().and_then(|query| query.ask.request().cloned()),
            false,
        )
    }

    fn of(
        (plan, run): (&Plan, RunId),
        run_context: &Arc<RunContext>,
        request: Option<RequestPlan>,
        says_message: bool,
    ) -> io::Result<Requests> {
        let address = plan.platform.address.as_ref();
        let request = request.ok_or_else(|| io::Error::other("the plan says no request"))?;
        let place = address.map_or(String::new(), |address| {
            let is_secured = plan.coap.dtls.is_some() || plan.connection.transport.tls.is_some();
            let scheme = match (plan.protocol(), is_secured) {
                (Protocol::CoapTcp, true) => "coaps+tcp",
                (Protocol::CoapTcp, false) => "coap+tcp",
                (_, true) => "coaps",
                (_, false) => "coap",
            };
            format!("{scheme}://{}:{}{}", address.host, address.port, address.path)
        });
        Ok(Requests {
            target: words::target(&request.method, &place, &request.path.text()),
            base: address.map(|address| address.path.clone().into_bytes()).unwrap_or_default(),
            code: code::method(&request.method).unwrap_or(code::POST),
            is_fixed: are_fixed(&request),
            fixed: None,
            plan: request,
            contents: Contents::new(plan, run).in_context(run_context),
            says_message,
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

    /// Why the platform refused a request of a device, for people. If the access token does not let it in, the runner
    /// learns that, by the token's generation.
    pub fn refusal(&self, status: u16, reason: &str, device: u32, generation: u64) -> String {
        if status == UNAUTHORIZED {
            self.view().refuse(generation);
        }
        self.view().hide_captured(words::refusal(reason, &self.target), (device, 0))
    }

    /// What the runner gives, as it was seen when the last request was written.
    pub fn view(&self) -> &View {
        self.contents.view()
    }

    /// Puts the options and the body of a message in the place of what is there.
    pub fn write(&mut self, device: u32, sequence: u32, options: &mut OptionList, body: &mut Vec<u8>) {
        body.clear();
        match self.says_message {
            true => self.contents.render(device, sequence, body),
            false => _ = self.contents.refresh(),
        }
        let plan = &self.plan;
        let variables = self.contents.beside(device, sequence);
        let mut numbers = self.contents.numbers(device, sequence);
        let mut random = || numbers.bits();
        match &self.fixed {
            Some(fixed) => options.copy_from(fixed),
            None => {
                options.clear();
                let parts = (&plan.path, &plan.options[..]);
                add_options(parts, &self.base, &variables, &mut random, (options, &mut self.text));
                self.fixed = self.is_fixed.then(|| options.clone());
            }
        }
        if !self.says_message {
            plan.body.render(&variables, &mut random, body);
        }
    }
}
