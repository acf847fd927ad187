//! What the controller does: its steps, what they ask, and what is kept of the answers.

use super::{Compiler, MESSAGE, secrets};
use crate::plan::{
    Ask, Capture, CaptureFrom, CapturedName, ControllerProtocol, ControllerRole, Each, Protocol, RolePlan,
    SaidPlan, StepPlan,
};
use crate::profiles::roles::{Controller, EachConfig, Says, Speaks, Step};

/// What may stand in what a step asks.
const STEP: &[&str] = &["run", "device", "subscriber", "listener", "random", "feed", "time"];
const ITEM: &[&str] = &["run", "item", "random", "time"];

impl Compiler<'_> {
    /// The controller of a profile, and what it captures.
    pub(super) fn controller(&mut self, controller: &Controller, plan: &mut RolePlan) {
        let Speaks(protocol) = controller.speaks;
        let requests = match protocol {
            Protocol::Http => ControllerProtocol::Http,
            Protocol::Coap => ControllerProtocol::Coap,
            Protocol::CoapTcp => ControllerProtocol::CoapTcp,
            _ => {
                let help =
                    "write `http`, `coap` or `coap_tcp`; messages of MQTT and WebSocket stand in `says`"
                        .to_owned();
                self.error(
                    "controller.speaks",
                    format!("requests of the controller speak no {protocol}"),
                    help,
                );
                ControllerProtocol::Http
            }
        };
        let captured = &mut plan.captured;
        plan.reset = self.steps(&controller.reset, ("reset", requests), captured);
        plan.preload = self.steps(&controller.preload, ("preload", requests), captured);
        plan.set_up = self.steps(&controller.set_up, ("set_up", requests), captured);
        plan.clean_up = self.steps(&controller.clean_up, ("clean_up", requests), captured);
        plan.controller = ControllerRole { requests, ..self.connections_of(controller, plan) };
    }

    /// What the controller says over the connections that its messages go over.
    fn connections_of(&mut self, controller: &Controller, plan: &RolePlan) -> ControllerRole {
        let steps = [&plan.reset, &plan.preload, &plan.set_up, &plan.clean_up].into_iter().flatten();
        let said = steps.filter_map(|step| step.ask.said());
        let (published, over_websocket): (Vec<_>, Vec<_>) = said.partition(|said| said.topic.is_some());
        let mut role = ControllerRole::default();
        if let Some(written) = &controller.websocket {
            if over_websocket.is_empty() {
                let help = "remove it, or let a step say a message without a topic".to_owned();
                self.error("controller.websocket", "no step says anything over a WebSocket", help);
            }
            role.websocket = self.websocket_of_all(written, "controller.websocket", &plan.captured);
        }
        if role.websocket.socket_io.is_some() {
            for said in &over_websocket {
                self.check_event(&said.message, "controller.websocket.framing");
            }
        }
        if let Some(user) = &controller.user {
            if published.is_empty() {
                let help = "remove it, or let a step publish to a topic".to_owned();
                self.error("controller.user", "no step says anything over MQTT", help);
            }
            role.user = Some(self.user_of_all(user, ("controller.user", true), &plan.captured));
        }
        role
    }

    fn steps(
        &mut self,
        steps: &[Step],
        (when, protocol): (&str, ControllerProtocol),
        captured: &mut Vec<CapturedName>,
    ) -> Vec<StepPlan> {
        let mut plans = Vec::new();
        for (position, step) in steps.iter().enumerate() {
            let path = format!("controller.{when}.{position}");
            if step.each == EachConfig::Item && when != "preload" {
                let help = "only steps of `preload` are done for items".to_owned();
                self.error(&format!("{path}.each"), "there are no items here", help);
            }
            if step.each == EachConfig::Item && !step.capture.is_empty() {
                let help = "remove it; what items are called must follow from `{item}`".to_owned();
                self.error(&format!("{path}.capture"), "nothing is kept of the answers for items", help);
            }
            let plan = self.step(step, (&path, protocol), captured);
            self.check_log_in(&plan, (when, &path), protocol);
            plans.push(plan);
        }
        plans
    }

    fn step(
        &mut self,
        step: &Step,
        (path, protocol): (&str, ControllerProtocol),
        captured: &mut Vec<CapturedName>,
    ) -> StepPlan {
        let each = match step.each {
            EachConfig::Once => Each::Once,
            EachConfig::Device => Each::Device,
            EachConfig::Subscriber => Each::Subscriber,
            EachConfig::Pair => Each::Pair,
            EachConfig::Item => Each::Item,
        };
        let variables = if each == Each::Item { ITEM } else { STEP };
        let ask = match (&step.request, &step.says) {
            (Some(request), None) => {
                let path = format!("{path}.request");
                let request = self.request((request, protocol.protocol()), variables, &path, captured);
                let is_coap = protocol != ControllerProtocol::Http;
                if let Some((at, message, help)) =
                    crate::protocols::coap::wrong_in(&request).filter(|_| is_coap)
                {
                    self.error(&format!("{path}.{at}"), message, help);
                }
                Ask::Request(request)
            }
            (None, Some(says)) => {
                let path = format!("{path}.says");
                Ask::Message(self.said(says, &path, variables, captured))
            }
            (both, _) => {
                let message = match both {
                    Some(_) => "a step asks one thing",
                    None => "the step asks nothing",
                };
                self.error(path, message, "write one of `request` and `says`".to_owned());
                Ask::Message(SaidPlan::default())
            }
        };
        let mut captures = Vec::new();
        for (name, from) in &step.capture {
            let path = format!("{path}.capture.{name}");
            if STEP.contains(&name.as_str()) || MESSAGE.contains(&name.as_str()) {
                self.error(&path, format!("`{name}` has a meaning of its own"), "choose another name".into());
            }
            let from = match from.as_str() {
                "location" => CaptureFrom::LocationEnd,
                text => match (text.strip_prefix("header:"), text.starts_with('/')) {
                    (Some(header), _) => CaptureFrom::Header(header.trim().to_owned()),
                    (None, true) => CaptureFrom::Pointer(text.to_owned()),
                    (None, false) => {
                        let help = "write `/pointer/into/the/json`, `header:NAME` or `location`".to_owned();
                        self.error(&path, format!("`{text}` is no place in an answer"), help);
                        CaptureFrom::LocationEnd
                    }
                },
            };
            if let Ask::Message(said) = &ask {
                if said.answer.is_none() {
                    let help = "write `answer`, too".to_owned();
                    self.error(&path, "no answer is awaited that it could stand in", help);
                } else if !matches!(from, CaptureFrom::Pointer(_)) {
                    let help = "write `/pointer/into/the/json`".to_owned();
                    self.error(&path, "an answer that is a message has no header fields", help);
                }
            }
            let secret = secrets::is_captured(name, &from);
            let slot = match captured.iter_mut().enumerate().find(|(_, known)| known.name == *name) {
                Some((slot, known)) => {
                    known.secret |= secret;
                    slot
                }
                None => {
                    captured.push(CapturedName { name: name.clone(), each, secret });
                    captured.len() - 1
                }
            };
            captures.push(Capture { slot, from });
        }
        StepPlan { name: step.name.clone(), each, ask, captures, logs_in: step.logs_in }
    }

    /// A message of a step.
    fn said(&mut self, says: &Says, path: &str, variables: &[&str], captured: &[CapturedName]) -> SaidPlan {
        let over = if says.topic.is_some() { Protocol::Mqtt } else { Protocol::WebSocket };
        let topic = says.topic.as_ref();
        let topic = topic.map(|topic| self.template(topic, variables, &format!("{path}.topic"), captured));
        topic.iter().for_each(|topic| self.check_topic(topic, &format!("{path}.topic")));
        let message = self.template(&says.message, variables, &format!("{path}.message"), captured);
        let answer = says.answer.as_ref();
        let answer = answer.map(|answer| self.answer_of_one(answer, (path, over), variables, captured));
        SaidPlan { port: says.port.clone(), topic, message, answer }
    }

    /// Whether a step may log in a connection.
    fn check_log_in(&mut self, step: &StepPlan, (when, path): (&str, &str), protocol: ControllerProtocol) {
        if !step.logs_in {
            return;
        }
        let path = format!("{path}.logs_in");
        if protocol != ControllerProtocol::CoapTcp || step.ask.request().is_none() {
            let help = match step.ask {
                Ask::Message(_) => "write it into `controller.websocket.opening`, or remove it",
                Ask::Request(_) => "write `speaks: coap_tcp`, or remove it",
            };
            self.error(&path, "only a connection of CoAP over TCP is logged in by a step", help.to_owned());
        } else if step.each != Each::Once || when != "set_up" {
            let help = "let it be a step of `set_up` that is done once".to_owned();
            self.error(&path, "the controller has one connection, which a step before the run lets in", help);
        }
    }
}
