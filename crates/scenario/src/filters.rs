//! Whether subscribers expect what devices publish, as far as topics and filters show it.

use crate::plan::{Plan, Protocol, ReceiversPlan, Template};
use crate::protocols::routing;
use plimsoll_codec::mqtt::topic;

/// Levels that are wildcards in some protocol. In a plan, those of a filter's own protocol have become `+` and `#`.
const WILDCARDS_ELSEWHERE: [&str; 2] = ["*", ">"];

impl Plan {
    /// Filters by which subscribers expect nothing that devices publish, for people: the platform would be blamed for it.
    pub fn doubtful_filters(&self) -> Vec<String> {
        let of_subscribers =
            self.populations().filter(|plan| plan.population.receivers != ReceiversPlan::Common);
        let literal = of_subscribers.flat_map(|plan| plan.literal_wildcards(self));
        let unmatched = self.with_devices().filter_map(|plan| plan.unmatched_target(self));
        literal.chain(unmatched).collect()
    }

    /// Whether filters decide who expects what devices publish. Set-up steps and receivers of other protocols decide it otherwise.
    fn expects_by_filters(&self) -> bool {
        let (roles, subscribers) = (&self.platform.roles, &self.subscribers);
        let by_topics = self.protocol().has_topics() && !roles.have_receivers() && roles.notified.is_none();
        by_topics && subscribers.count > 0 && subscribers.devices.is_none() && !subscribers.filters.is_empty()
    }

    /// Filters of these subscribers with a wildcard that their protocol takes literally, where no device of the run publishes so.
    fn literal_wildcards(&self, run: &Plan) -> Vec<String> {
        let protocol = self.protocol();
        let filters = self.subscribers.filters.iter().filter(|_| self.expects_by_filters());
        let unmatched = filters.filter(|filter| !run.with_devices().any(|plan| plan.publishes_to(filter)));
        let warnings = unmatched.filter_map(|filter| {
            let word = literal_wildcard(filter)?;
            let [filter, one, rest] =
                [filter.text().as_str(), "+", "#"].map(|levels| routing::shown(levels, protocol));
            Some(format!(
                "`{word}` in the filter `{filter}` is no wildcard over {protocol}; write `{one}` for one level, or `{rest}` for \
                 all that follow"
            ))
        });
        warnings.collect()
    }

    /// That no filter matches what devices of this population publish to.
    fn unmatched_target(&self, run: &Plan) -> Option<String> {
        let filters = &self.subscribers.filters;
        let is_said = filters.iter().any(|filter| literal_wildcard(filter).is_some());
        if !self.expects_by_filters() || is_said || filters.iter().any(|filter| self.publishes_to(filter)) {
            return None;
        }
        let shown = |template: &Template, protocol| routing::shown(&template.text(), protocol);
        let protocol = self.protocol_of_subscribers(run);
        let filters: Vec<String> =
            filters.iter().map(|filter| format!("`{}`", shown(filter, protocol))).collect();
        let whose = match self.population.name.as_str() {
            "" => "devices".to_owned(),
            name => format!("devices of `{name}`"),
        };
        Some(format!(
            "{whose} publish to `{}`, and no filter of the subscribers matches that ({}): no delivery counts; correct the filters \
             or `message.target`, or write the filter `{}` where the platform changes topics",
            shown(&self.message.target, self.protocol()),
            filters.join(", "),
            routing::shown("#", protocol)
        ))
    }

    /// What those speak who receive from this population.
    fn protocol_of_subscribers(&self, run: &Plan) -> Protocol {
        let is_common = self.population.receivers == ReceiversPlan::Common;
        let mut others = run.populations().filter(|_| is_common);
        let common = others.find(|plan| plan.population.receivers == ReceiversPlan::OfOthers);
        common.unwrap_or(self).protocol()
    }

    /// Whether a device of this population may publish to what a filter matches.
    fn publishes_to(&self, filter: &Template) -> bool {
        topic::overlap(&filter.as_filter().example(), &self.message.target.as_filter().example())
    }
}

/// The wildcard of another protocol that is a level of a filter.
fn literal_wildcard(filter: &Template) -> Option<&'static str> {
    let levels = filter.text();
    WILDCARDS_ELSEWHERE.into_iter().find(|word| levels.split('/').any(|level| level == *word))
}
