//! Parts of a plan in words, which descriptions share.

use crate::plan::{LinkPlan, Plan};
use crate::protocols::mqtt::qos::QosLevel;
use crate::quantity::Quantity;
use plimsoll_codec::credentials::hide_query_secrets;
use plimsoll_codec::mqtt::QoS;
use plimsoll_model::Nanos;

/// Method and path of the requests of the devices; empty where they send none.
pub(crate) fn request_in_words(plan: &Plan) -> String {
    let request = plan.platform.roles.device.request.as_ref();
    let told =
        request.map(|request| format!("{} {}", request.method, hide_query_secrets(&request.path.text())));
    told.unwrap_or_default()
}

/// How far clients are from the platform; empty where no network is emulated.
pub(crate) fn link_in_words(link: LinkPlan) -> String {
    match link {
        link if !link.delays() => String::new(),
        LinkPlan { delay, jitter: Nanos::ZERO } => format!(", {} away from the platform", delay.show()),
        LinkPlan { delay, jitter } => {
            format!(", {} \u{b1} {} away from the platform", delay.show(), jitter.show())
        }
    }
}

/// The number of a quality of service.
pub(crate) fn level_of(qos: QoS) -> u8 {
    QosLevel(qos).into()
}
