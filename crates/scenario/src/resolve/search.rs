//! The search for the load line.

use super::rate::check_rate;
use crate::config::{Load, WorkloadModel};
use crate::context::Context;
use crate::plan::SearchTerms;
use crate::quantity::Quantity;

/// Narrowest tolerance: intervals of times are wider than a narrower one.
const NARROWEST: f64 = 0.01;

/// Resolves the search, where there is one; `None` also where it is wrong, which is reported.
pub(super) fn resolve(load: &Load, context: &mut Context<'_>) -> Option<SearchTerms> {
    let search = load.search.as_ref()?;
    if load.model == WorkloadModel::Closed {
        // Reported with the other keys of the open model.
        return None;
    }
    let terms = SearchTerms {
        from: search.from.0.0,
        to: search.to.0.0,
        tolerance: search.tolerance.0.0,
        time: search.time.0,
        warm_up: load.warm_up.0,
        hold: load.hold.0,
        drain: load.drain.0,
    };
    let mut fine = check_rate(search.from.0, "load.search.from", context);
    fine &= check_rate(search.to.0, "load.search.to", context);
    if load.levels.is_some() {
        let help = "keep `levels` to run just these, or `search` to look for the load line";
        context.error_with_help("load.search", "`search` and `levels` exclude each other", help);
        fine = false;
    }
    if context.written("load.stop_after_missed") {
        let help = "remove it: a search stops by itself";
        context.error_with_help("load.stop_after_missed", "`stop_after_missed` belongs to `levels`", help);
        fine = false;
    }
    if terms.from > terms.to {
        let message = format!("`from` ({}) is above `to` ({})", terms.from, terms.to);
        context.error_with_help("load.search.from", message, "the search begins low; swap the two");
        fine = false;
    }
    if terms.tolerance < NARROWEST {
        let help = "write `tolerance: 5 %`";
        context.error_with_help("load.search.tolerance", "the tolerance must be 1 % at least", help);
        fine = false;
    }
    let two_levels = terms.longest(terms.hold) * 2;
    if terms.time < two_levels {
        let at = if context.written("load.search.time") { "load.search.time" } else { "load.search" };
        let message = format!(
            "a search of {} has no room for one level and its confirmation, {} with warm-up, hold and drain",
            terms.time.show(),
            two_levels.show()
        );
        context.error_with_help(at, message, "give it more `time`, or shorten `hold`");
        fine = false;
    }
    fine.then_some(terms)
}
