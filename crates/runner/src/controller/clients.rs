//! What carries what the controller asks: a client for each protocol, and the connections that it keeps.

use super::coap::Sockets;
use super::coap_tcp::{Asked, Session};
use super::messages::{Place, Verdict};
use super::mqtt::MqttClient;
use super::stream::Patience;
use super::websocket::WebSockets;
use super::writing::Written;
use super::{Answer, HASTY_TIMEOUT, Scene, TIMEOUT, Unanswered, http};
use plimsoll_scenario::plan::{ControllerProtocol, RequestPlan, StepPlan};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The connections of a population's steps, made when they are needed. Those of HTTP are kept for the steps that follow each other.
#[derive(Default)]
pub struct Sessions {
    coap: Sockets,
    coap_tcp: Session,
    websockets: WebSockets,
    mqtt: MqttClient,
}

/// What became of a request or a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The platform did what was asked.
    Taken,
    /// It answered a request with a status that is not expected.
    Status(u16),
    /// It refused a message: why, for people.
    Refused(String),
}

/// What came of a request or a message, with the header fields and the body of its answer.
pub(super) type Heard = (Outcome, Vec<(String, String)>, Vec<u8>);

/// What sends.
pub(super) struct Client<'a> {
    http: ureq::Agent,
    sessions: &'a Sessions,
    timeout: Duration,
}

impl<'a> Client<'a> {
    pub fn of(scene: &Scene<'a>) -> Client<'a> {
        let timeout = if scene.hasty { HASTY_TIMEOUT } else { TIMEOUT };
        Client { http: http::client(scene.plan, timeout, false), sessions: scene.sessions, timeout }
    }

    /// What came of it; `None` where the user stops the run before.
    pub fn send(
        &self,
        step: &StepPlan,
        written: &Written<'_>,
        (scene, address): (&Scene<'_>, SocketAddr),
        stop: Option<&AtomicBool>,
    ) -> Option<Result<Heard, Unanswered>> {
        let patience = Patience { timeout: self.timeout, stop };
        match written {
            Written::Request(request, written) => {
                let asked = Asked { step: &step.name, request, written, logs_in: step.logs_in };
                let answered = self.request(asked, (scene, address), patience)?;
                Some(answered.map(|(status, headers, body)| (of_status(request, status), headers, body)))
            }
            Written::Message(message) => {
                let (said, door) = &**message;
                let place = Place { address, port: step.ask.port() };
                let heard = match &said.topic {
                    None => self.sessions.websockets.send(said, (scene, place, door), patience),
                    Some(topic) => self.sessions.mqtt.send((topic, said), (scene, place, door), patience),
                };
                let heard = heard.transpose()?;
                Some(heard.map(|(verdict, content)| match verdict {
                    Verdict::Taken => (Outcome::Taken, Vec::new(), content),
                    Verdict::Refused(reason) => (Outcome::Refused(reason), Vec::new(), content),
                }))
            }
        }
    }

    fn request(
        &self,
        asked: Asked<'_>,
        (scene, address): (&Scene<'_>, SocketAddr),
        patience: Patience<'_>,
    ) -> Option<Result<Answer, Unanswered>> {
        let (plan, method) = (scene.plan, &asked.request.method);
        match plan.platform.roles.controller.requests {
            ControllerProtocol::Http => match patience.stop {
                Some(stop) => http::send_unless_stopped(&self.http, method, asked.written, stop),
                None => Some(http::send(&self.http, method, asked.written)),
            },
            ControllerProtocol::Coap => {
                let sent = self.sessions.coap.send(method, asked.written, (&plan.coap, address), patience);
                sent.transpose()
            }
            ControllerProtocol::CoapTcp => self.sessions.coap_tcp.send(asked, (plan, address), patience),
        }
    }
}

fn of_status(request: &RequestPlan, status: u16) -> Outcome {
    if request.is_success(status) { Outcome::Taken } else { Outcome::Status(status) }
}
