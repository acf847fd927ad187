//! The arrivals of a population in words of a scenario, and what people should know of them.

use super::learned::{LearnedArrivals, OtherLaw};
use super::process::{Process, Whose};
use plimsoll_stats::distribution::InterArrival;
use plimsoll_stats::fit::{Fit, Laws};

/// What people should know of the process.
pub(super) fn process_notes(found: &Process) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((least, most)) = found.uneven {
        notes.push(format!(
            "the mean gaps of devices lie between {least:.3} and {most:.3} s (the middle 90 %); in a run all devices send equally often"
        ));
    }
    if found.outages > 0 {
        notes.push(format!(
            "gaps of more than 50 times the mean, which no law makes, are left out as outages: {}",
            found.outages
        ));
    }
    match &found.laws {
        None => notes.push("too few gaps for a law: poisson is assumed".to_owned()),
        Some(laws) if laws.fits && laws.jitter => {
            notes.push("the gaps are those of a clock that is a little late each time".to_owned())
        }
        Some(_) => {}
    }
    notes
}

/// What people should know where no law fits, by whether a trace takes the place of one.
pub(super) fn misfit_note(arrivals: &LearnedArrivals, is_traced: bool) -> Option<String> {
    let note = match is_traced {
        true => "none of the laws fits: a run has the exact times of the capture",
        false => {
            "none of the laws fits: the nearest one is taken, and gaps of a run differ from those of the capture (--trace keeps the exact times)"
        }
    };
    (arrivals.tested && !arrivals.fits).then(|| note.to_owned())
}

/// Whether the rate of the second half of the messages' time differs from that of the first by more than chance.
pub(super) fn change_note(messages: &[(f64, u32)], found: &Process) -> Option<String> {
    let (first, last) = (messages.first()?.0, messages.last()?.0);
    let half = (last - first) / 2.0;
    if messages.len() < 40 || half <= 0.0 {
        return None;
    }
    let before = messages.iter().filter(|(at, _)| at - first < half).count() as f64;
    let after = messages.len() as f64 - before;
    let error = (messages.len() as f64 * found.dispersion.max(0.01)).sqrt();
    ((before - after).abs() > 3.0 * error && before.max(after) > 1.2 * before.min(after)).then(|| {
        format!(
            "its rate is {:.4}/s in the first half and {:.4}/s in the second; the scenario has one rate",
            before / half,
            after / half
        )
    })
}

/// The name and the parameter of a law.
fn named(law: InterArrival) -> (&'static str, Option<f64>) {
    match law {
        InterArrival::Constant => ("constant", None),
        InterArrival::Exponential => ("poisson", None),
        InterArrival::Uniform { spread } => ("uniform", Some(spread)),
        InterArrival::Normal { cv } => ("normal", Some(cv)),
        InterArrival::Gamma { shape } => ("gamma", Some(shape)),
    }
}

/// The process as a scenario says it.
pub(super) fn arrivals(found: &Process) -> LearnedArrivals {
    let per = match found.whose {
        Whose::Population => "population",
        Whose::Device => "device",
    };
    let Some(Laws { best, fits, others, gaps, cv, jitter }) = &found.laws else {
        return LearnedArrivals {
            per,
            law: "poisson",
            parameter: None,
            fits: false,
            tested: false,
            gaps: 0,
            cv: None,
            statistic: None,
            p: None,
            others: Vec::new(),
            jitter: false,
        };
    };
    let (law, parameter) = named(best.law);
    let other = |fit: &Fit| {
        let (law, parameter) = named(fit.law);
        OtherLaw { law, parameter, statistic: fit.statistic, p: fit.p }
    };
    LearnedArrivals {
        per,
        law,
        parameter,
        fits: *fits,
        tested: true,
        gaps: *gaps,
        cv: Some(*cv),
        statistic: Some(best.statistic),
        p: Some(best.p),
        others: others.iter().filter(|fit| fit.statistic.is_finite()).map(other).collect(),
        jitter: *jitter,
    }
}
