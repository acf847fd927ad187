//! How CoAP is secured: who devices and subscribers say that they are, and the keys that prove it.

use crate::config::{Dtls, Key, Scenario};
use crate::context::Context;
use crate::plan::{DtlsPlan, Endpoint, KeyPlan, ProofPlan, Protocol, PskPlan, Template, TlsPlan};
use std::sync::Arc;

/// Longest identity and key that the handshake carries, in bytes (RFC 4279 sections 2 and 5.3).
const LONGEST: usize = 65_535;

/// What `coap.dtls` says of keys, or `connection.tls` of certificates, where the address begins with `coaps://`.
pub(super) fn resolve(
    scenario: &Scenario,
    address: Option<&Endpoint>,
    certificates: Option<&TlsPlan>,
    context: &mut Context<'_>,
) -> Option<Arc<DtlsPlan>> {
    let secured = address.is_some_and(|address| address.protocol == Protocol::Coap && address.wire.tls);
    let timeout = scenario.connection.timeout.0;
    let is_certified = secured && scenario.connection.tls.is_some();
    let dtls = match (&scenario.coap.dtls, secured) {
        (None, false) => return None,
        (None, true) if is_certified => {
            refuse_sockets(scenario, context);
            // Where there is none, what is wrong with them was reported.
            let proof = ProofPlan::Certificates(certificates?.clone());
            return Some(Arc::new(DtlsPlan { proof, timeout }));
        }
        (Some(_), true) if is_certified => {
            context.error_with_help(
                "coap.dtls",
                "`coap.dtls` secures datagrams by keys, and `connection.tls` by certificates",
                "keep one of them",
            );
            return None;
        }
        (Some(_), false) => {
            context.error_with_help(
                "coap.dtls",
                "datagrams are not secured, so there is nothing to say of DTLS",
                "write the address as `coaps://host:5684`, or take `dtls` out",
            );
            return None;
        }
        (None, true) => {
            context.error_with_help(
                "platform.address",
                "`coaps://` is DTLS with a pre-shared key or a certificate, and there is neither",
                "add `coap: { dtls: { identity: NAME, key: { env: VARIABLE } } }`, or a certificate in `connection.tls`",
            );
            return None;
        }
        (Some(dtls), true) => dtls,
    };
    refuse_sockets(scenario, context);
    let of_devices = Clients {
        paths: ["coap.dtls.identity", "coap.dtls.key"],
        variable: "device",
        count: scenario.population.devices,
    };
    let devices = of_devices.resolve(&dtls.identity, &dtls.key, context);
    let subscribers = subscribers(scenario, dtls, devices.as_ref(), context);
    let proof = ProofPlan::Keys { devices: devices?, subscribers: subscribers? };
    Some(Arc::new(DtlsPlan { proof, timeout }))
}

fn refuse_sockets(scenario: &Scenario, context: &mut Context<'_>) {
    if scenario.coap.sockets.is_some() {
        context.error_with_help(
            "coap.sockets",
            "a session of DTLS belongs to one device, so devices cannot share sockets",
            "take `sockets` out",
        );
    }
}

fn subscribers(
    scenario: &Scenario,
    dtls: &Dtls,
    devices: Option<&PskPlan>,
    context: &mut Context<'_>,
) -> Option<PskPlan> {
    let count = scenario.population.subscribers.count();
    let paths = ["coap.dtls.subscriber_identity", "coap.dtls.subscriber_key"];
    match (&dtls.subscriber_identity, &dtls.subscriber_key) {
        (Some(identity), Some(key)) => {
            Clients { paths, variable: "subscriber", count }.resolve(identity, key, context)
        }
        (None, None) => {
            let devices = devices?;
            if count > 0 && devices.is_of_each() {
                context.error_with_help(
                    "coap.dtls.identity",
                    "each device has an identity of its own, and subscribers have none",
                    "add `subscriber_identity` and `subscriber_key`; `{subscriber}` may stand in them",
                );
            }
            Some(devices.clone())
        }
        (Some(_), None) => {
            context.error_with_help(
                paths[0],
                "an identity without its key proves nothing",
                "add `subscriber_key`",
            );
            None
        }
        (None, Some(_)) => {
            context.error_with_help(
                paths[1],
                "the identity of this key is missing",
                "add `subscriber_identity`",
            );
            None
        }
    }
}

/// Devices or subscribers.
struct Clients {
    paths: [&'static str; 2],
    variable: &'static str,
    count: u32,
}

impl Clients {
    fn resolve(&self, identity: &str, key: &Key, context: &mut Context<'_>) -> Option<PskPlan> {
        let [identity_path, key_path] = self.paths;
        let identity = self.compile(identity, identity_path, context);
        let key = match key {
            Key::Text(text) => self.compile(text, key_path, context).map(KeyPlan::Template),
            Key::Environment(source) => {
                context.secret(source, &format!("{key_path}.env")).map(KeyPlan::Fixed)
            }
        };
        let plan = PskPlan { identity: identity?, key: key? };
        let different = if plan.is_of_each() { self.count.max(1) } else { 1 };
        for number in 0..different {
            let of_whom =
                if different > 1 { format!("of {} {number}, ", self.variable) } else { String::new() };
            let identity = plan.identity(number).len();
            if identity == 0 || identity > LONGEST {
                let message =
                    format!("{of_whom}an identity has 1 to {LONGEST} bytes, and this one {identity}");
                context.error(identity_path, message);
                return None;
            }
            let wrong = match plan.key(number) {
                Ok(key) if key.is_empty() || key.len() > LONGEST => {
                    format!("a key has 1 to {LONGEST} bytes, and this one {}", key.len())
                }
                Ok(_) => continue,
                Err(reason) => reason,
            };
            let help = "write a text, or an even number of hexadecimal digits after `0x`";
            context.error_with_help(key_path, format!("{of_whom}{wrong}"), help);
            return None;
        }
        Some(plan)
    }

    fn compile(&self, text: &str, path: &str, context: &mut Context<'_>) -> Option<Template> {
        Template::compile(text, &[self.variable]).map_err(|error| context.template_error(path, error)).ok()
    }
}
