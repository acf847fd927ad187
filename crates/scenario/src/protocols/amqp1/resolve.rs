//! From what is written of AMQP 1.0 to what is planned.

use super::plan::Amqp1Plan;
use crate::config::Scenario;
use crate::context::Context;
use crate::protocols::routing;

pub(crate) fn resolve(scenario: &Scenario, context: &mut Context<'_>) -> Amqp1Plan {
    let amqp = &scenario.amqp1;
    if amqp.username.is_some() != amqp.password.is_some() {
        let help = "write both, or neither";
        context.error_with_help("amqp1.username", "a user name and a password belong together", help);
    }
    routing::check_queue(scenario, &amqp.queue, "amqp1.queue", context);
    let password = amqp.password.as_ref();
    Amqp1Plan {
        username: amqp.username.clone(),
        password: password.and_then(|source| context.secret(source, "amqp1.password.env")),
        hostname: amqp.hostname.clone(),
        prefix: amqp.prefix.clone(),
        queue: amqp.queue.clone(),
        capabilities: amqp.capabilities.clone(),
        durable: amqp.durable,
        acknowledged: amqp.acknowledged,
        in_flight: amqp.in_flight,
    }
}
