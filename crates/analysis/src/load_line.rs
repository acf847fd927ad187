//! The load line (rule 6) and the verdict.

use crate::level::{LevelSummary, LevelVerdict};
use crate::search::{Ending, Finding};
use crate::summary::LoadLine;
use plimsoll_model::Verdict;

/// The top of the unbroken run of met levels from the lowest.
pub fn find(levels: &[LevelSummary]) -> Option<LoadLine> {
    let rising = rising(levels);
    let met = rising.iter().take_while(|level| level.verdict == LevelVerdict::Met).count();
    let top = rising.get(met.checked_sub(1)?)?;
    let next = rising.get(met);
    Some(LoadLine {
        rate: top.offered.or(top.achieved),
        devices: top.devices.filter(|_| top.connect_rate.is_none()),
        connect_rate: top.connect_rate,
        level: top.index,
        at_least: next.is_none_or(|level| level.verdict != LevelVerdict::Missed),
        limited_by: next.map(|level| level.why()),
        next_level: next.map(|level| level.index),
    })
}

/// The load line that a search found.
pub fn of_search(levels: &[LevelSummary], finding: &Finding) -> Option<LoadLine> {
    let level = |index: Option<u16>| levels.iter().find(|level| Some(level.index) == index);
    let (line, above) = (level(finding.level)?, level(finding.above));
    Some(LoadLine {
        rate: Some(line.offered?),
        devices: None,
        connect_rate: None,
        level: line.index,
        at_least: finding.at_least(),
        limited_by: above.map(LevelSummary::why),
        next_level: above.map(|level| level.index),
    })
}

/// The verdict on a run that came to its end, and why.
pub fn judge(
    levels: &[LevelSummary],
    line: Option<&LoadLine>,
    finding: Option<&Finding>,
    demanded: Option<f64>,
) -> (Verdict, String) {
    let Some(line) = line else {
        if let Some(Finding { ended: Ending::NotRepeatable, .. }) = finding {
            return (Verdict::Invalid, "levels that were met missed when they were run again".into());
        }
        let rising = rising(levels);
        let Some(lowest) = rising.first() else {
            return (Verdict::Failed, "no level was run".into());
        };
        let why = format!("the lowest level, {}: {}", lowest.label(), lowest.why());
        let verdict = if lowest.verdict == LevelVerdict::Missed { Verdict::Missed } else { Verdict::Invalid };
        return (verdict, why);
    };
    let bears = if line.at_least { "bears at least" } else { "bears" };
    let shown = match (line.connect_rate, line.devices, line.rate) {
        (Some(connects), ..) => format!("the platform {bears} {} connections/s", rate(connects)),
        (None, Some(devices), _) => format!("the platform {bears} {devices} devices"),
        (None, None, achieved) => format!("the platform {bears} {}/s", rate(achieved.unwrap_or(0.0))),
    };
    let below = |demanded: f64| line.rate.is_some_and(|rate| rate < demanded);
    match demanded {
        Some(demanded) if below(demanded) && line.at_least => (
            Verdict::Invalid,
            format!("{shown}; whether it bears the {}/s asked for was not decided", rate(demanded)),
        ),
        Some(demanded) if below(demanded) => {
            (Verdict::Missed, format!("{shown}, less than the {}/s asked for", rate(demanded)))
        }
        _ => (Verdict::Met, shown),
    }
}

/// A whole number where the rate is large enough for one.
fn rate(rate: f64) -> String {
    if rate >= 100.0 || rate.fract() == 0.0 { format!("{rate:.0}") } else { format!("{rate:.2}") }
}

/// By offered load, or by operations in flight.
fn rising(levels: &[LevelSummary]) -> Vec<&LevelSummary> {
    let mut rising: Vec<&LevelSummary> = levels.iter().collect();
    rising.sort_by(|a, b| a.load().total_cmp(&b.load()));
    rising
}

#[cfg(test)]
mod tests {
    use super::*;
    use LevelVerdict::{Invalid, Met, Missed, Undecided};

    fn levels(verdicts: &[LevelVerdict]) -> Vec<LevelSummary> {
        let level = |(index, verdict): (u16, &LevelVerdict)| LevelSummary {
            index,
            offered: Some(100.0 * f64::from(index + 1)),
            verdict: *verdict,
            reasons: vec!["because".into()],
            ..LevelSummary::default()
        };
        (0..).zip(verdicts).map(level).collect()
    }

    fn line(verdicts: &[LevelVerdict]) -> Option<(f64, bool)> {
        find(&levels(verdicts)).map(|line| (line.rate.unwrap(), line.at_least))
    }

    #[test]
    fn ends_the_unbroken_run_from_the_lowest_level() {
        assert_eq!(line(&[Met, Met, Missed, Met]), Some((200.0, false)));
        assert_eq!(line(&[Met, Met]), Some((200.0, true)));
        assert_eq!(line(&[Met, Invalid, Met]), Some((100.0, true)));
        assert_eq!(line(&[Met, Undecided]), Some((100.0, true)));
        assert_eq!(line(&[Missed, Met]), None);
    }

    #[test]
    fn levels_in_any_order_give_the_same_line() {
        let mut shuffled = levels(&[Met, Met, Missed]);
        shuffled.swap(0, 2);
        assert_eq!(find(&shuffled).and_then(|line| line.rate), Some(200.0));
    }

    #[test]
    fn the_verdict_follows_the_lowest_level_and_the_demand() {
        let verdict = |verdicts: &[LevelVerdict], demanded| {
            let levels = levels(verdicts);
            judge(&levels, find(&levels).as_ref(), None, demanded).0
        };
        assert_eq!(verdict(&[Met, Missed], None), Verdict::Met);
        assert_eq!(verdict(&[Missed, Met], None), Verdict::Missed);
        assert_eq!(verdict(&[Invalid], None), Verdict::Invalid);
        assert_eq!(verdict(&[Undecided], None), Verdict::Invalid);
        assert_eq!(verdict(&[Met, Missed], Some(150.0)), Verdict::Missed);
        assert_eq!(verdict(&[Met, Invalid], Some(150.0)), Verdict::Invalid);
        assert_eq!(verdict(&[Met, Met], Some(150.0)), Verdict::Met);
        assert_eq!(verdict(&[Met, Met], Some(300.0)), Verdict::Invalid, "nothing asked for that much");
        assert_eq!(verdict(&[], None), Verdict::Failed);
    }
}
