//! The page for programs: the same as JSON. `/api/openapi.json` describes it (OpenAPI 3.1). It is made from [`OPERATIONS`], the table of all
//! that the API has. The gate is the same as that of pages, so what changes something is for operators alone.

use crate::annotation_page::{self, Fate};
use crate::answer::{self, Answer};
use crate::archive::{Row, Wanted};
use crate::checking::checked;
use crate::fields::Fields;
use crate::folder::{FileName, ScenarioFile};
use crate::jobs::{Job, JobId, StopError};
use crate::queue::{self, Refused};
use crate::site::Site;
use crate::tokens::Role;
use crate::{comparison_page, editor, error_page};
use bytes::Bytes;
use hyper::StatusCode;
use plimsoll_model::RunId;
use plimsoll_report::{compare, json as summary_json};
use plimsoll_runner::resume::fingerprint;
use plimsoll_store::StoreError;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const JSON: &str = "application/json";
/// Forms and texts that requests have as their bodies.
const FORM: &str = "application/x-www-form-urlencoded";
const YAML: &str = "application/yaml";

/// Parameters that may be there several times, by their operations.
const SEVERAL: [(&str, &str); 2] = [("/api/jobs", "scenario"), ("/api/compare", "run")];

/// Something that can be asked for or done.
pub struct Operation {
    /// `get` or `post`.
    pub method: &'static str,
    /// The path, with names in braces.
    pub path: &'static str,
    /// What it gives or does.
    pub summary: &'static str,
    /// Whether it is for operators alone, though it changes nothing.
    pub is_secret: bool,
    /// Parameters of the query or the form, each with what it is.
    pub parameters: &'static [(&'static str, &'static str)],
    /// The type of the body; empty where there is none.
    body: &'static str,
}

/// All of them.
pub const OPERATIONS: [Operation; 16] = [
    Operation {
        method: "get",
        path: "/api/openapi.json",
        summary: "This description",
        parameters: &[],
        body: "",
        is_secret: false,
    },
    Operation {
        method: "get",
        path: "/api/runs",
        summary: "The runs of the store, the newest first, 50 on a page",
        parameters: &[
            ("text", "A text that the name or a tag holds, or that the id begins with"),
            ("verdict", "A verdict, such as met"),
            ("from", "The first day, such as 2026-11-30"),
            ("to", "The last day"),
            ("page", "The page, from 0"),
        ],
        body: "",
        is_secret: false,
    },
    Operation {
        method: "get",
        path: "/api/runs/{run}",
        summary: "The summary of a run, as plimsoll show --json prints it",
        parameters: &[],
        body: "",
        is_secret: false,
    },
    Operation {
        method: "get",
        path: "/api/jobs",
        summary: "The runs and sweeps that go on or wait",
        parameters: &[],
        body: "",
        is_secret: false,
    },
    Operation {
        method: "post",
        path: "/api/jobs",
        summary: "Starts a scenario of the folder, or a comparison of several, or enters it into the queue",
        parameters: &[
            ("scenario", "The name of its file; several times for a comparison"),
            ("quick", "true for the quick form"),
            (
                "turns",
                "How often each combination of a sweep is run (1), or each scenario of a comparison (5)",
            ),
        ],
        body: FORM,
        is_secret: false,
    },
    Operation {
        method: "get",
        path: "/api/jobs/{job}",
        summary: "What a run or sweep does now, or how it ended",
        parameters: &[],
        body: "",
        is_secret: false,
    },
    Operation {
        method: "post",
        path: "/api/jobs/{job}/stop",
        summary: "Stops it, as Ctrl-C does; a second time, it ends at once",
        parameters: &[],
        body: "",
        is_secret: false,
    },
    Operation {
        method: "post",
        path: "/api/jobs/{job}/remove",
        summary: "Takes it out of the queue",
        parameters: &[],
        body: "",
        is_secret: false,
    },
    Operation {
        method: "post",
        path: "/api/runs/{run}/annotate",
        summary: "Keeps the tags and the note of a run, in the place of those that it has",
        parameters: &[("tags", "Words with blanks between them"), ("note", "A text")],
        body: FORM,
        is_secret: false,
    },
    Operation {
        method: "post",
        path: "/api/runs/{run}/delete",
        summary: "Deletes a run that has ended; it can be restored for a day",
        parameters: &[],
        body: "",
        is_secret: false,
    },
    Operation {
        method: "post",
        path: "/api/runs/{run}/restore",
        summary: "Restores a run that was deleted",
        parameters: &[],
        body: "",
        is_secret: false,
    },
    Operation {
        method: "get",
        path: "/api/compare",
        summary: "Runs beside each other, as plimsoll compare --json writes it",
        parameters: &[("run", "The id of a run; from 2 to 20 of them")],
        body: "",
        is_secret: false,
    },
    Operation {
        method: "get",
        path: "/api/scenarios",
        summary: "The scenarios of the folder",
        parameters: &[],
        body: "",
        is_secret: false,
    },
    Operation {
        method: "get",
        path: "/api/scenarios/{scenario}",
        summary: "The text of a scenario, and its fingerprint",
        parameters: &[],
        body: "",
        is_secret: true,
    },
    Operation {
        method: "post",
        path: "/api/scenarios/{scenario}",
        summary: "Saves a scenario that has no errors",
        parameters: &[
            ("text", "The scenario"),
            ("before", "The fingerprint of the text that it replaces; nothing for a new file"),
        ],
        body: FORM,
        is_secret: false,
    },
    Operation {
        method: "post",
        path: "/api/check",
        summary: "Checks a scenario: what is wrong and at which line, or what would happen",
        parameters: &[],
        body: YAML,
        is_secret: false,
    },
];

/// Answers what can be looked at.
pub async fn read(site: &Arc<Site>, role: Role, path: &[&str], query: &Fields) -> Answer {
    match path {
        ["openapi.json"] => of(StatusCode::OK, &document()),
        ["runs"] => runs(site, query).await,
        ["runs", run] => run_of(site, run).await,
        ["jobs"] => jobs(site).await,
        ["jobs", job] => job_of(site, job).await,
        ["compare"] => comparison_of(site, query).await,
        ["scenarios"] => scenarios(site).await,
        ["scenarios", _] if role < Role::Operator => {
            problem(StatusCode::FORBIDDEN, "scenarios are shown to operators alone: they may hold passwords")
        }
        ["scenarios", scenario] => scenario_of(site, scenario).await,
        _ => problem(StatusCode::NOT_FOUND, "the API has no such path; /api/openapi.json describes it"),
    }
}

/// Does what can be done, for operators.
pub async fn change(site: &Arc<Site>, path: &[&str], body: &Bytes) -> Answer {
    match path {
        ["jobs"] => match queue::entered(site, &Fields::read(body)).await {
            Ok(id) => of(StatusCode::CREATED, &json!({ "job": id.to_string() })),
            Err(refused) => problem(refused.status, &refused.why),
        },
        ["jobs", job, "stop"] => settled(site, job, |site, id| site.jobs.stop(id)).await,
        ["jobs", job, "remove"] => settled(site, job, |site, id| site.jobs.remove(id)).await,
        ["runs", run, "annotate"] => {
            changed(annotation_page::annotated(site, run, &Fields::read(body)).await)
        }
        ["runs", run, "delete"] => changed(annotation_page::settled(site, run, Fate::Deleted).await),
        ["runs", run, "restore"] => changed(annotation_page::settled(site, run, Fate::Restored).await),
        ["scenarios", scenario] => match editor::saved(site, scenario, &Fields::read(body)).await {
            Ok(name) => scenario_of(site, name.as_str()).await,
            Err(refused) => problem(refused.status, &refused.why),
        },
        ["check"] => match checked(site, "", body).await {
            Ok(checked) => of(StatusCode::OK, &checked.as_json()),
            Err((status, why)) => problem(status, why),
        },
        _ => problem(StatusCode::NOT_FOUND, "the API has no such path; /api/openapi.json describes it"),
    }
}

fn of(status: StatusCode, value: &Value) -> Answer {
    let mut answer = answer::text(JSON, value.to_string());
    *answer.status_mut() = status;
    answer
}

fn problem(status: StatusCode, why: &str) -> Answer {
    of(status, &json!({ "error": why }))
}

fn unfinished() -> Answer {
    problem(StatusCode::INTERNAL_SERVER_ERROR, "it was not done; try again")
}

fn of_store(error: &StoreError) -> Answer {
    problem(error_page::status_of(error), &error.to_string())
}

async fn runs(site: &Arc<Site>, query: &Fields) -> Answer {
    let (own, wanted) = (Arc::clone(site), Wanted::of(query));
    match site.permits.work(move || own.archive.list(&wanted)).await {
        Ok(Ok(listed)) => {
            let runs: Vec<Value> = listed.rows.iter().map(row).collect();
            of(StatusCode::OK, &json!({ "all": listed.all, "runs": runs }))
        }
        Ok(Err(error)) => of_store(&error),
        Err(_) => unfinished(),
    }
}

fn row(row: &Row) -> Value {
    json!({
        "id": row.id,
        "name": row.name,
        "started": row.started,
        "levels": row.levels,
        "verdict": row.outcome.verdict,
        "load_line": row.outcome.line,
        "tags": row.annotation.tags,
        "note": row.annotation.note,
    })
}

async fn run_of(site: &Arc<Site>, run: &str) -> Answer {
    let Some(id) = RunId::parse(run) else { return problem(StatusCode::NOT_FOUND, "that is no id of a run") };
    let own = Arc::clone(site);
    match site.permits.work(move || own.archive.run(id).map(|told| summary_json::render(&told.summary))).await
    {
        Ok(Ok(summary)) => answer::text(JSON, summary),
        Ok(Err(error)) => of_store(&error),
        Err(_) => unfinished(),
    }
}

/// What became of a run that was to be changed.
fn changed(outcome: Result<RunId, Refused>) -> Answer {
    match outcome {
        Ok(run) => of(StatusCode::OK, &json!({ "run": run.to_string() })),
        Err(refused) => problem(refused.status, &refused.why),
    }
}

async fn comparison_of(site: &Arc<Site>, query: &Fields) -> Answer {
    let Some(runs) = comparison_page::runs_of(query) else {
        return problem(StatusCode::BAD_REQUEST, comparison_page::WANTED);
    };
    let own = Arc::clone(site);
    match site.permits.work(move || own.archive.comparison(runs).map(|found| compare::json(&found))).await {
        Ok(Ok(comparison)) => answer::text(JSON, comparison),
        Ok(Err(error)) => of_store(&error),
        Err(_) => unfinished(),
    }
}

async fn scenarios(site: &Arc<Site>) -> Answer {
    let own = Arc::clone(site);
    match site.permits.work(move || own.folder.scenarios()).await {
        Ok(Ok(files)) => {
            let file = |file: &ScenarioFile| json!({ "name": file.name.to_string(), "about": file.about });
            of(StatusCode::OK, &json!({ "scenarios": files.iter().map(file).collect::<Vec<Value>>() }))
        }
        Ok(Err(error)) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(_) => unfinished(),
    }
}

async fn scenario_of(site: &Arc<Site>, name: &str) -> Answer {
    let Some(name) = FileName::parse(name) else {
        return problem(StatusCode::NOT_FOUND, "that is no name of a scenario");
    };
    let (own, asked) = (Arc::clone(site), name.clone());
    match site.permits.work(move || own.folder.read(&asked)).await {
        Ok(Ok(text)) => {
            let fingerprint = fingerprint(&text);
            of(StatusCode::OK, &json!({ "name": name.to_string(), "text": text, "fingerprint": fingerprint }))
        }
        Ok(Err(error)) => problem(StatusCode::NOT_FOUND, &error.to_string()),
        Err(_) => unfinished(),
    }
}

async fn jobs(site: &Arc<Site>) -> Answer {
    let own = Arc::clone(site);
    match site.permits.work(move || own.jobs.at_work()).await {
        Ok(at_work) => {
            let all = |jobs: &[Job]| jobs.iter().map(job).collect::<Vec<Value>>();
            of(
                StatusCode::OK,
                &json!({ "going_on": all(&at_work.going_on), "waiting": all(&at_work.waiting) }),
            )
        }
        Err(_) => unfinished(),
    }
}

async fn job_of(site: &Arc<Site>, id: &str) -> Answer {
    let own = Arc::clone(site);
    let Some(id) = JobId::parse(id) else { return problem(StatusCode::NOT_FOUND, "that is no id of a job") };
    match site.permits.work(move || own.jobs.job(&id)).await {
        Ok(Some(found)) => of(StatusCode::OK, &job(&found)),
        Ok(None) => problem(StatusCode::NOT_FOUND, "there is no such job"),
        Err(_) => unfinished(),
    }
}

fn job(job: &Job) -> Value {
    let state = match job.waits {
        Some(_) => "waits",
        None if job.goes_on => "goes_on",
        None if job.not_started.is_some() => "not_started",
        None => "ended",
    };
    json!({
        "id": job.id.to_string(),
        "scenarios": job.scenarios,
        "quick": job.quick,
        "turns": job.turns,
        "kind": job.kind,
        "started": job.started,
        "state": state,
        "ahead": job.waits,
        "not_started": job.not_started,
        "exit": job.exit,
        "report": job.has_report.then(|| format!("/jobs/{}/report", job.id)),
        "untold": job.untold,
        "now": job.now,
        "output": job.output,
    })
}

/// Does something to a job, and answers with what it is then.
async fn settled(site: &Arc<Site>, id: &str, act: fn(&Site, &JobId) -> Result<(), StopError>) -> Answer {
    let Some(known) = JobId::parse(id) else {
        return problem(StatusCode::NOT_FOUND, "that is no id of a job");
    };
    let own = Arc::clone(site);
    let done = site.permits.work(move || {
        let is_there = own.jobs.job(&known).is_some();
        is_there.then(|| act(&own, &known))
    });
    match done.await {
        Ok(Some(Ok(()))) => job_of(site, id).await,
        Ok(Some(Err(StopError::Ended))) => {
            problem(StatusCode::CONFLICT, "it neither goes on nor waits for that")
        }
        Ok(Some(Err(error))) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Ok(None) => problem(StatusCode::NOT_FOUND, "there is no such job"),
        Err(_) => unfinished(),
    }
}

/// The description of all operations.
fn document() -> Value {
    let mut paths = Map::new();
    for operation in &OPERATIONS {
        let item = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(item) = item.as_object_mut() {
            item.insert(operation.method.to_owned(), described(operation));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Plimsoll",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What `plimsoll serve` answers to programs. Send the token as `Authorization: Bearer TOKEN`.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
    })
}

fn described(operation: &Operation) -> Value {
    let text = json!({ "type": "string" });
    let names = operation.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let of_path = names.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text }));
    let is_form = operation.body == FORM;
    let of_query = operation.parameters.iter().filter(|_| !is_form);
    let several = json!({ "type": "array", "items": text });
    let kind = |name: &str| if SEVERAL.contains(&(operation.path, name)) { &several } else { &text };
    let of_query = of_query.map(
        |(name, what)| json!({ "name": name, "in": "query", "description": what, "schema": kind(name) }),
    );
    let parameters: Vec<Value> = of_path.chain(of_query).collect();
    // Only a job is something new that has a name of its own.
    let success = if operation.path == "/api/jobs" && is_form { "201" } else { "200" };
    let is_for_operators = operation.is_secret || operation.method == "post";
    let who = if is_for_operators { "For operators." } else { "For operators and viewers." };
    let mut described = json!({
        "summary": operation.summary,
        "description": who,
        "parameters": parameters,
        "responses": {
            success: { "description": "Done", "content": { JSON: { "schema": { "type": "object" } } } },
            "default": {
                "description": "Not done: why. What does not get past the gate is answered with a page.",
                "content": { JSON: { "schema": { "type": "object", "properties": { "error": text } } } },
            },
        },
    });
    let schema = if is_form {
        let property = |(name, what): &(&str, &str)| {
            let mut schema = kind(name).clone();
            schema["description"] = (*what).into();
            ((*name).to_owned(), schema)
        };
        let properties: Map<String, Value> = operation.parameters.iter().map(property).collect();
        json!({ "type": "object", "properties": properties })
    } else {
        text
    };
    if !operation.body.is_empty() {
        let content: Map<String, Value> =
            [(operation.body.to_owned(), json!({ "schema": schema }))].into_iter().collect();
        if let Some(described) = described.as_object_mut() {
            described.insert("requestBody".to_owned(), json!({ "required": true, "content": content }));
        }
    }
    described
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_describes_each_operation_once() {
        let document = document();
        assert_eq!(document["openapi"], "3.1.0");
        let paths = document["paths"].as_object().unwrap();
        let described: usize = paths.values().map(|item| item.as_object().unwrap().len()).sum();
        assert_eq!(described, OPERATIONS.len());
        let start = &document["paths"]["/api/jobs"]["post"];
        assert!(
            start["requestBody"]["content"][FORM]["schema"]["properties"]["scenario"].is_object(),
            "{start}"
        );
        assert!(start["responses"]["201"].is_object());
        assert_eq!(document["paths"]["/api/runs/{run}"]["get"]["parameters"][0]["in"], "path");
        assert_eq!(document["paths"]["/api/runs"]["get"]["parameters"][4]["name"], "page");
        let scenario = &start["requestBody"]["content"][FORM]["schema"]["properties"]["scenario"];
        assert_eq!(scenario["type"], "array");
        assert_eq!(
            document["paths"]["/api/compare"]["get"]["parameters"][0]["schema"]["items"]["type"],
            "string"
        );
        assert!(document["paths"]["/api/check"]["post"]["requestBody"]["content"][YAML].is_object());
    }
}
