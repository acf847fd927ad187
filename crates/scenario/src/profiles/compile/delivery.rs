//! What a platform promises to deliver: a lenient promise holds where the protocol or the set-up shows it.

use super::Compiler;
use crate::plan::DeliveryContract;
use crate::profiles::roles::{Controller, DeliveryConfig, OptionConfig, Request, Step, Subscriber};
use plimsoll_model::Nanos;

impl Compiler<'_> {
    /// The contract, and why it may excuse real losses where nothing shows that the platform was asked for it.
    pub(super) fn delivery(
        &mut self,
        subscriber: &Subscriber,
        controller: Option<&Controller>,
    ) -> (DeliveryContract, Option<String>) {
        match &subscriber.delivery {
            DeliveryConfig::Every => (DeliveryContract::Every, None),
            DeliveryConfig::Latest if subscriber.observes.is_some() => (DeliveryContract::Observed, None),
            DeliveryConfig::Latest => {
                let doubt = "the contract `delivery: latest` may hide real losses: a lost message counts as superseded \
                             where a newer one of its device comes in time; only what is observed over CoAP promises the \
                             latest by itself";
                (DeliveryContract::Latest, Some(doubt.to_owned()))
            }
            DeliveryConfig::Throttled(period) => match crate::duration(&self.fill(period)) {
                // Who keeps no silence has no reason to leave anything out.
                Ok(Nanos::ZERO) => (DeliveryContract::Every, None),
                Ok(time) => (DeliveryContract::Throttled(time), self.unasked(period, controller)),
                Err(wrong) => {
                    let help = "write the time between two notifications, such as `1s`".to_owned();
                    self.error("subscriber.delivery.throttled", wrong, help);
                    (DeliveryContract::Every, None)
                }
            },
        }
    }

    /// Why a silence may excuse real losses: no step of the set-up sends a variable that the time is made of.
    fn unasked(&self, period: &str, controller: Option<&Controller>) -> Option<String> {
        let names = self.variables.keys().map(|name| format!("{{{name}}}"));
        let names: Vec<String> = names.filter(|name| period.contains(name)).collect();
        let mut steps = controller.into_iter().flat_map(|controller| &controller.set_up);
        let asked = steps.any(|step| names.iter().any(|name| says(step, name)));
        (!asked).then(|| {
            let time = self.fill(period);
            format!(
                "the contract `delivery: {{ throttled: {time} }}` may hide real losses: nothing shows that the set-up asks the \
                 platform for that silence; write the time as a variable that a step of the set-up sends"
            )
        })
    }
}

/// Whether a step says that text anywhere.
fn says(step: &Step, text: &str) -> bool {
    let message = step.says.iter().flat_map(|says| says.topic.iter().chain([&says.message]));
    message.into_iter().any(|told| told.contains(text))
        || step.request.as_ref().is_some_and(|request| asks(request, text))
}

/// Whether a request says that text anywhere.
fn asks(request: &Request, text: &str) -> bool {
    let options = request.options.values().filter_map(|option| match option {
        OptionConfig::Text(text) => Some(text),
        OptionConfig::Number(_) => None,
    });
    let mut texts = request.headers.values().chain(options).chain(&request.body).chain([&request.path]);
    texts.any(|told| told.contains(text))
}
