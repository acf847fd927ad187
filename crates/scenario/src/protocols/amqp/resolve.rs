//! From what is written of AMQP to what is planned.

use super::plan::AmqpPlan;
use crate::config::Scenario;
use crate::context::Context;
use crate::protocols::routing;

/// Longest short string of AMQP, bytes (AMQP 0-9-1, section 4.2.5.3).
const LONGEST: usize = 255;

pub(crate) fn resolve(scenario: &Scenario, context: &mut Context<'_>) -> AmqpPlan {
    let amqp = &scenario.amqp;
    routing::check_queue(scenario, &amqp.queue, "amqp.queue", context);
    let texts = [
        ("virtual_host", Some(&amqp.virtual_host)),
        ("exchange", Some(&amqp.exchange)),
        ("queue", amqp.queue.as_ref()),
    ];
    for (key, text) in texts {
        if text.is_some_and(|text| text.len() > LONGEST) {
            let message = format!("AMQP carries {LONGEST} bytes there at most");
            context.error(&format!("amqp.{key}"), message);
        }
    }
    let password = amqp.password.as_ref();
    AmqpPlan {
        username: amqp.username.clone(),
        password: password.and_then(|source| context.secret(source, "amqp.password.env")),
        virtual_host: amqp.virtual_host.clone(),
        exchange: amqp.exchange.clone(),
        queue: amqp.queue.clone(),
        persistent: amqp.persistent,
        confirms: amqp.confirms,
        in_flight: amqp.in_flight,
    }
}
