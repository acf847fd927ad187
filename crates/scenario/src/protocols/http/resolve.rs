//! From what is written of HTTP to what is planned.

use super::config::Http;
use super::plan::HttpPlan;
use crate::context::Context;
use plimsoll_model::Nanos;

pub(crate) fn resolve(http: &Http, context: &mut Context<'_>) -> HttpPlan {
    if http.timeout.0 <= Nanos::ZERO {
        context.error("http.timeout", "a request needs some time for its answer");
    }
    HttpPlan { connections: http.connections, pool: http.pool, timeout: http.timeout.0 }
}
