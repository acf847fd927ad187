//! A series of real runs with something planted in each: brokers, networks and platforms of several components, all kinds
//! shuffled with each other, so that what one leaves behind would be seen in another. What is right to say of a kind is fixed
//! before anything runs; whoever else is named is wrong. A level that the program itself calls `host_bound` is run again.

mod brokers;
mod components;
mod far_network;
mod networks;
mod queue;

use crate::harness::{ATTEMPTS, Finished};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The order of runs; any other one is as good.
const ORDER: u64 = 14;
/// Of each kind, and of all runs, the share that must be named.
const OF_A_KIND: f64 = 0.8;
const OF_ALL: f64 = 0.9;

/// What is planted, and who may be named for it.
struct Kind {
    name: &'static str,
    /// Empty where nothing is planted, and nobody may be named.
    right: &'static [&'static str],
    /// One run, by its number from 1.
    run: fn(u64) -> Said,
}

/// What a run said.
struct Said {
    /// Everybody that was named.
    names: Vec<String>,
    /// Whether the program says that the host was too busy.
    host_bound: bool,
    evidence: String,
    /// All that it printed, which is shown where it did not name who it was.
    printed: String,
}

impl Said {
    /// Who is blamed for the last level that was not met.
    fn by_blame(run: &Finished) -> Said {
        let blame = run.levels().iter().rev().map(|level| &level["blame"]).find(|blame| !blame.is_null());
        let blame = blame.unwrap_or(&Value::Null);
        let name =
            blame["component"].as_str().or(blame["culprit"].as_str()).filter(|name| *name != "unknown");
        let said = blame["evidence"].as_str().unwrap_or("nobody is blamed");
        let inferred = run.levels().last().map(|level| &level["inference"]["publish_because"]);
        let because = inferred.and_then(Value::as_str).map(|because| format!("; rose with: {because}"));
        Said {
            names: name.map(str::to_owned).into_iter().collect(),
            host_bound: is_host_bound(run),
            evidence: format!("{said}{}", because.unwrap_or_default()),
            printed: run.stdout.clone(),
        }
    }

    /// Who has more than half of the messages' way, and who is said to have lost some.
    fn by_way(run: &Finished) -> Said {
        let hops = crate::wire_cause::hops(&run.summary);
        let most = hops.first().filter(|(_, share)| *share > 0.5).map(|(name, _)| name.clone());
        let losses = run.summary["dissection"]["losses_by_component"].as_object().unwrap();
        Said {
            names: most.into_iter().chain(losses.keys().cloned()).collect(),
            host_bound: is_host_bound(run),
            evidence: format!("{hops:.2?}, lost: {losses:?}"),
            printed: run.stdout.clone(),
        }
    }

    /// Who is said to have stood still.
    fn by_stalls(run: &Finished) -> Said {
        let stalls = run.summary["dissection"]["stalls"].as_array().unwrap();
        let mut names: Vec<String> =
            stalls.iter().filter_map(|stall| stall["component"].as_str()).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        let shown: Vec<String> = stalls
            .iter()
            .map(|stall| format!("{} {}-{}", stall["component"], stall["from"], stall["to"]))
            .collect();
        Said {
            names,
            host_bound: is_host_bound(run),
            evidence: shown.join(", "),
            printed: run.stdout.clone(),
        }
    }
}

fn is_host_bound(run: &Finished) -> bool {
    run.levels().iter().any(|level| level["validity"] == "host_bound")
}

/// A number between two, by the number of the run: strengths vary evenly over the runs of a kind.
fn between(run: u64, low: f64, high: f64) -> f64 {
    // Steps of the golden ratio fill an interval evenly however many there are.
    low + (high - low) * (run as f64 * 0.618_033_988_75).fract()
}

#[derive(Clone, Copy, PartialEq)]
enum Judged {
    Right,
    Wrong,
    NotNamed,
    /// The host was too busy whenever it was tried.
    TooBusy,
    /// The run itself did not come to its end.
    Failed,
}

/// One run of a kind, again while the host is too busy. A wrong name is wrong however busy the host was.
fn judge(kind: &Kind, number: u64) -> Judged {
    let line = |outcome: &str, names: &str, evidence: &str| {
        println!("{} {number}: {names}: {outcome} ({evidence})", kind.name);
    };
    for _ in 0..ATTEMPTS {
        let Ok(said) = catch_unwind(AssertUnwindSafe(|| (kind.run)(number))) else {
            line("failed", "nobody", "see above");
            return Judged::Failed;
        };
        let names = said.names.join(" and ");
        let is_right = |name: &String| kind.right.contains(&name.as_str());
        let nobody = said.names.is_empty();
        let right = if kind.right.is_empty() {
            nobody && !said.host_bound
        } else {
            !nobody && said.names.iter().all(is_right)
        };
        if right {
            line("right", if nobody { "nobody" } else { &names }, &said.evidence);
            return Judged::Right;
        }
        // That the host was busy is the one other thing that may be said.
        let may_be_said = |name: &String| is_right(name) || said.host_bound && name == "host";
        if !said.names.iter().all(may_be_said) {
            line("WRONG", &names, &said.evidence);
            println!("{}", said.printed);
            return Judged::Wrong;
        }
        if !said.host_bound {
            line("not named", "nobody", &said.evidence);
            println!("{}", said.printed);
            return Judged::NotNamed;
        }
        line("host too busy, once more", "nobody", &said.evidence);
    }
    Judged::TooBusy
}

/// Every run of every kind, in an order that only the seed decides (Fisher and Yates, with xorshift64).
fn shuffled(kinds: &[&'static Kind], runs: u64) -> Vec<(usize, u64)> {
    let mut order: Vec<(usize, u64)> =
        (1..=runs).flat_map(|run| (0..kinds.len()).map(move |kind| (kind, run))).collect();
    let mut state = ORDER;
    for last in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, (state % (last as u64 + 1)) as usize);
    }
    order
}

/// `PLIMSOLL_RUNS` says how many runs each kind has, and `PLIMSOLL_KINDS` which kinds there are, by a part of their names.
#[test]
#[ignore = "acceptance: series"]
fn in_no_run_somebody_else_is_named_and_who_it_was_is() {
    let runs = std::env::var("PLIMSOLL_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let wanted = std::env::var("PLIMSOLL_KINDS").unwrap_or_default();
    let all = [brokers::KINDS, networks::KINDS, components::KINDS];
    let kinds: Vec<&Kind> = all.into_iter().flatten().filter(|kind| kind.name.contains(&wanted)).collect();
    println!("{} kinds, {runs} runs each, order {ORDER}", kinds.len());
    let mut judged: Vec<Vec<Judged>> = vec![Vec::new(); kinds.len()];
    for (kind, run) in shuffled(&kinds, runs) {
        judged[kind].push(judge(kinds[kind], run));
    }
    println!("| planted | runs | right | not named | wrong | host too busy |\n|---|---|---|---|---|---|");
    let count = |of: &[Judged], what: Judged| of.iter().filter(|one| **one == what).count();
    let mut missed = Vec::new();
    for (kind, of) in kinds.iter().zip(&judged) {
        let [right, not_named, wrong, busy] =
            [Judged::Right, Judged::NotNamed, Judged::Wrong, Judged::TooBusy].map(|what| count(of, what));
        println!("| {} | {} | {right} | {not_named} | {wrong} | {busy} |", kind.name, of.len());
        if wrong > 0 || (right as f64) < OF_A_KIND * of.len() as f64 {
            missed.push(kind.name);
        }
    }
    let all: Vec<Judged> = judged.concat();
    println!("{} of {} runs named rightly", count(&all, Judged::Right), all.len());
    assert!(missed.is_empty(), "named wrongly or not often enough: {missed:?}");
    assert!(count(&all, Judged::Right) as f64 >= OF_ALL * all.len() as f64);
}
