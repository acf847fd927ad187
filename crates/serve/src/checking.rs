//! What `plimsoll check` says of a scenario, while it is written: what is wrong and at which line, or what would happen.

use crate::answer::{self, Answer, HTML};
use crate::commands_policy::{programs, refusal};
use crate::error_page;
use crate::folder::{FileName, LARGEST};
use crate::site::Site;
use hyper::StatusCode;
use maud::{Markup, html};
use plimsoll_observe::limits::Limits;
use plimsoll_report::plain;
use plimsoll_runner::preflight::{Demand, HostCheck, Severity, examine};
use plimsoll_scenario::plan::Plan;
use plimsoll_scenario::{Diagnostic, Diagnostics, Environment, Matrix, SourceFile, matrix};
use serde_json::{Value, json};
use std::sync::Arc;

/// Diagnostics that are shown before the rest is only counted.
const SHOWN: usize = 50;
/// Most combinations of a sweep from the page: each of them is looked at before it is started.
const MOST_COMBINATIONS: usize = 100;
/// What a scenario is called that has no name yet.
const NAMELESS: &str = "scenario.yaml";

/// What came of a check.
pub enum Checked {
    /// Something is wrong.
    Wrong(Vec<Finding>),
    /// It is right; what would happen.
    Right(Box<Prospect>),
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The line of the scenario, from 1; `None` where it is about no line of it.
    pub line: Option<usize>,
    /// What is wrong, as `plimsoll check` prints it.
    pub text: String,
}

/// What a run would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prospect {
    name: String,
    facts: Vec<(String, String)>,
    programs: Vec<String>,
    host: Vec<HostCheck>,
    /// What varies: keys with their values; none where it is one run.
    axes: Vec<(String, String)>,
    combinations: usize,
    /// Why the page does not start it; `None` where it does.
    pub refusal: Option<String>,
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The text and the files that it names: quick enough for each key that is pressed.
    Text,
    /// Also whether this host can do it, for which names of hosts are looked up.
    Host,
}

/// Answers with what a check of the text says, as a part of a page.
pub async fn answer(site: &Arc<Site>, name: &str, text: &[u8]) -> Answer {
    match checked(site, name, text).await {
        Ok(checked) => answer::text(HTML, plain::page(checked.shown().into_string())),
        Err((status, why)) => error_page::of(status, why, "Change it, and check it again."),
    }
}

/// The text of a request that has one; why it has none.
pub fn text_of(body: &[u8]) -> Result<String, (StatusCode, &'static str)> {
    if body.len() > LARGEST {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "The scenario is too large."));
    }
    String::from_utf8(body.to_vec()).map_err(|_| (StatusCode::BAD_REQUEST, "The scenario is no UTF-8."))
}

/// What a check of a text says, or why there is none.
pub async fn checked(
    site: &Arc<Site>,
    name: &str,
    text: &[u8],
) -> Result<Checked, (StatusCode, &'static str)> {
    let text = text_of(text)?;
    let own = Arc::clone(site);
    let name = FileName::parse(name).map_or_else(|| NAMELESS.to_owned(), |name| name.to_string());
    let checked = site.permits.work(move || check(&own, (&name, &text), false, Look::Text)).await;
    checked.map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, "The scenario was not checked."))
}

/// Checks the text of a scenario of that name, or its quick form.
pub fn check(site: &Site, (name, text): (&str, &str), quick: bool, look: Look) -> Checked {
    match matrix_of(site, name, text, quick) {
        Ok(matrix) => {
            let plan = &matrix.first;
            Checked::Right(Box::new(Prospect {
                name: plan.name.clone(),
                facts: plan.facts().into_iter().map(|(label, text)| (label.to_owned(), text)).collect(),
                programs: programs(plan),
                host: if look == Look::Host { host(plan) } else { Vec::new() },
                axes: matrix.axes.iter().map(|axis| (axis.key.clone(), axis.values.join(", "))).collect(),
                combinations: matrix.combinations(),
                refusal: refusal_of(site, &matrix),
            }))
        }
        Err(findings) => Checked::Wrong(findings),
    }
}

/// Why the page starts neither the run nor the sweep of a scenario. Each combination may name other programs.
fn refusal_of(site: &Site, matrix: &Matrix) -> Option<String> {
    if matrix.axes.is_empty() {
        return refusal(&matrix.first, &site.folder, site.allow_commands);
    }
    if matrix.combinations() > MOST_COMBINATIONS {
        let combinations = matrix.combinations();
        return Some(format!(
            "the scenario has {combinations} combinations, and the page sweeps {MOST_COMBINATIONS} at most: use `plimsoll sweep`"
        ));
    }
    matrix.positions().find_map(|position| match matrix.plan(&position, matrix.first.seed) {
        Ok(plan) => refusal(&plan, &site.folder, site.allow_commands),
        Err(wrong) => Some(format!("a combination is wrong: {wrong}")),
    })
}

/// A scenario with what varies in it.
fn matrix_of(site: &Site, name: &str, text: &str, quick: bool) -> Result<Matrix, Vec<Finding>> {
    let file = |path: &str| site.folder.named(path);
    let variable = |name: &str| site.variables.get(name);
    let environment = Environment { profile: &file, variable: &variable };
    let source = SourceFile { name: name.to_owned(), text: text.to_owned() };
    let matrix = matrix(&source, quick, &[], &environment).map_err(|wrong| findings(name, &wrong))?;
    let plan = &matrix.first;
    let of_host = |text: String| vec![Finding { line: None, text: format!("error: {text}") }];
    plimsoll_runner::check_certificates(plan).map_err(of_host)?;
    plimsoll_runner::check_commands(plan).map_err(of_host)?;
    plimsoll_runner::check_faults(plan).map_err(of_host)?;
    Ok(matrix)
}

fn findings(name: &str, wrong: &Diagnostics) -> Vec<Finding> {
    let finding = |one: &Diagnostic| {
        let place = one.span.place();
        // A diagnostic may be about a profile, whose lines are not those of the text.
        let is_here = place.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        Finding { line: one.span.line_number().filter(|_| is_here), text: one.to_string() }
    };
    let mut found: Vec<Finding> = wrong.0.iter().take(SHOWN).map(finding).collect();
    if wrong.0.len() > SHOWN {
        found.push(Finding { line: None, text: format!("and {} more errors", wrong.0.len() - SHOWN) });
    }
    found
}

/// What of this host may spoil or prevent the run.
fn host(plan: &Plan) -> Vec<HostCheck> {
    if plan.platform.profile.simulated.is_some() {
        return Vec::new();
    }
    let found = examine(&Limits::read(), None, Some(&Demand::of(plan)));
    found.into_iter().filter(|check| check.severity > Severity::Good).collect()
}

impl Checked {
    /// The same for programs.
    pub fn as_json(&self) -> Value {
        match self {
            Checked::Wrong(findings) => {
                let finding = |one: &Finding| json!({ "line": one.line, "text": one.text });
                json!({ "right": false, "findings": findings.iter().map(finding).collect::<Vec<Value>>() })
            }
            Checked::Right(prospect) => json!({
                "right": true,
                "name": prospect.name,
                "facts": pairs(&prospect.facts),
                "programs": prospect.programs,
                "matrix": pairs(&prospect.axes),
                "combinations": prospect.combinations,
                "refusal": prospect.refusal,
            }),
        }
    }

    /// The lines that are wrong, what is wrong, or what would happen.
    pub fn shown(&self) -> Markup {
        match self {
            Checked::Wrong(findings) => html! {
                h2 { (findings.len()) @if findings.len() == 1 { " error" } @else { " errors" } }
                @for finding in findings {
                    pre.finding data-line=[finding.line] { (finding.text) }
                }
            },
            Checked::Right(prospect) => prospect.shown(),
        }
    }
}

/// Names and values in their order. A name may stand twice.
fn pairs(pairs: &[(String, String)]) -> Vec<[&String; 2]> {
    pairs.iter().map(|(name, value)| [name, value]).collect()
}

impl Prospect {
    /// Whether it is a sweep.
    pub fn is_sweep(&self) -> bool {
        !self.axes.is_empty()
    }

    fn shown(&self) -> Markup {
        html! {
            h2 { "What would happen: " (self.name) }
            @if let Some(refusal) = &self.refusal { p.refusal { strong { "Not from here: " } (refusal) "." } }
            @if self.is_sweep() {
                p { "A sweep of " (self.combinations) @if self.combinations == 1 { " combination" } @else { " combinations" } ", each a run. The first one:" }
                dl.prospect { @for (key, values) in &self.axes { div { dt { (key) } dd { (values) } } } }
            }
            dl.prospect {
                @for (label, text) in &self.facts { div { dt { (label) } dd { (text) } } }
                @if !self.programs.is_empty() {
                    div {
                        dt { "starts here" }
                        @for program in &self.programs { dd { code { (program) } } }
                    }
                }
            }
            @for check in &self.host {
                p.host-check {
                    strong { @if check.severity == Severity::Problem { "Impossible here: " } @else { "May spoil it: " } }
                    (check)
                }
            }
        }
    }
}
