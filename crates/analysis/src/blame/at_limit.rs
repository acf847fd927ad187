//! Which component was at the limit of the processors that it may use.

use super::captured::Named;
use crate::usage;
use plimsoll_model::Nanos;
use plimsoll_model::record::{ComponentUsage, LevelStart};
use std::ops::Range;

/// Share of what it may use from which on a component is at its limit.
const FULL: f64 = 0.9;
/// What a component that is full under load must have been idle of that at some other time: one that spins is always full.
const IDLE: f64 = 0.5;
/// Share of a hold from which on a quota that keeps a component from running is what limits it.
const THROTTLED: f64 = 0.2;
/// Another component that uses more than this share of what the fullest one does may be the reason as well.
const NEXT: f64 = 0.75;

/// The only component that was at its limit in the hold, and that in words: its quota kept it from running, or it used as much
/// processor as it can. One that is so at any load explains nothing.
pub(super) fn at_limit(components: &[ComponentUsage], start: &LevelStart) -> Option<AtLimit> {
    let span = usage::hold(start);
    let all: Vec<InHold> =
        usage::names(components).into_iter().filter_map(|name| InHold::of(name, components, &span)).collect();
    let mut limited = all.iter().filter(|one| one.is_kept_here() || one.is_full_here());
    let (Some(one), None) = (limited.next(), limited.next()) else { return None };
    let (name, percent) = (one.name, |share: f64| format!("{:.0} %", share * 100.0));
    let used = format!("used {} of a processor", percent(one.used));
    let others = || all.iter().filter(|other| other.name != name);
    let (is_alone, did, evidence) = if one.is_kept_here() {
        let kept = percent(one.kept);
        let did = format!("was kept from running by its quota of processor time for {kept} of the hold");
        (others().all(|other| other.kept < one.kept * NEXT), did, format!("{name} {used}"))
    } else {
        let next = others().max_by(|a, b| a.used.total_cmp(&b.used));
        let told = next.map(|next| format!(", {} {}", next.name, percent(next.used))).unwrap_or_default();
        (next.is_none_or(|next| next.used < one.used * NEXT), used.clone(), format!("{name} {used}{told}"))
    };
    let by_quota = one.is_kept_here();
    is_alone.then(|| AtLimit { who: Named { component: name.to_owned(), did, evidence }, by_quota })
}

/// A component at its limit.
pub(super) struct AtLimit {
    /// Who it is.
    pub who: Named,
    /// Whether its quota is the limit. Messages wait while that keeps it from running, also where no backlog grows; that it uses
    /// a whole processor may be chance.
    pub by_quota: bool,
}

/// What a component used in a hold.
struct InHold<'a> {
    name: &'a str,
    /// Processors, on average, and the least in any reading of the run.
    used: f64,
    least_used: f64,
    /// Share of the time for which its quota kept it from running, and the least in any reading of the run.
    kept: f64,
    least_kept: f64,
    /// What the busiest of its threads used of one processor.
    thread: Option<f64>,
    /// Processors that it may run on.
    processors: f64,
}

impl<'a> InHold<'a> {
    fn of(name: &'a str, components: &[ComponentUsage], span: &Range<f64>) -> Option<InHold<'a>> {
        let share = |of: fn(&ComponentUsage) -> Option<Nanos>| usage::share(components, name, span, of);
        let own = || components.iter().filter(|usage| usage.component == name);
        let read = || own().filter(|usage| usage.window > Nanos::ZERO);
        let least = |of: fn(&ComponentUsage) -> Nanos| {
            let shares = read().map(|usage| of(usage).as_secs_f64() / usage.window.as_secs_f64());
            shares.fold(f64::INFINITY, f64::min)
        };
        Some(InHold {
            name,
            used: share(|usage| Some(usage.cpu))?,
            least_used: least(|usage| usage.cpu),
            kept: share(|usage| Some(usage.throttled))?,
            least_kept: least(|usage| usage.throttled),
            thread: share(|usage| usage.busiest_thread),
            processors: own().find_map(|usage| usage.processors).map_or(f64::INFINITY, f64::from),
        })
    }

    /// Whether its quota kept it in this hold, and less so at other times.
    fn is_kept_here(&self) -> bool {
        self.kept >= THROTTLED && self.least_kept <= self.kept * IDLE
    }

    /// Whether it was full in this hold, and less so at other times: one that spins always is.
    fn is_full_here(&self) -> bool {
        let is_full = self.used >= FULL * self.processors || self.thread.is_some_and(|thread| thread >= FULL);
        is_full && self.least_used <= self.used * IDLE
    }
}
