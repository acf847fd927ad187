//! Jobs whose program is a shell script in the place of this one.

use super::*;
use crate::tests::GO_ON;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Jobs whose program is a shell script in the place of this one.
fn jobs(script: &str) -> (TempDir, Jobs) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let mut jobs = Jobs::new(program, folder.path().join("runs.db"), folder.path().to_owned(), folder.path());
    jobs.lock = random(8).unwrap();
    (folder, jobs)
}

fn await_that(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn enqueue(jobs: &Jobs) -> JobId {
    enqueue_all(jobs, &["a.yaml"])
}

fn enqueue_all(jobs: &Jobs, names: &[&str]) -> JobId {
    let scenarios: Vec<FileName> = names.iter().map(|name| FileName::parse(name).unwrap()).collect();
    jobs.enqueue(Wish { scenarios: &scenarios, quick: true, turns: 2 }).unwrap()
}

fn advance(jobs: &Jobs) {
    advance_as(jobs, Kind::Run);
}

fn advance_as(jobs: &Jobs, kind: Kind) {
    let variables = vec![("PATH".into(), std::env::var_os("PATH").unwrap())];
    jobs.start_next(|_| Ok(Permit { variables, kind }));
}

#[test]
fn an_id_is_no_path() {
    for wrong in ["", "..", "0123456789abcde", "0123456789ABCDEF", "0123456789abcde/", "0123456789abcdef0"] {
        assert_eq!(JobId::parse(wrong), None, "{wrong}");
    }
    let id = JobId::fresh().unwrap();
    assert_eq!(JobId::parse(&id.to_string()), Some(id));
}

#[test]
fn a_job_runs_alone_is_found_again_and_stops() {
    let (folder, first) = jobs(&format!("trap 'echo stopped; exit 5' INT\necho \"$@\"\nenv\n{GO_ON}"));
    let id = enqueue(&first);
    advance(&first);
    await_that(|| first.job(&id).unwrap().output.contains("PATH="));
    let next = enqueue(&first);
    advance(&first);
    assert_eq!(first.job(&next).unwrap().waits, Some(1), "one at a time");
    // Another server of the same folder.
    let again = Jobs::new("x".into(), "x".into(), "x".into(), folder.path());
    let AtWork { going_on, waiting } = again.at_work();
    let ([found], [waits]) = (&going_on[..], &waiting[..]) else { panic!("{going_on:?} {waiting:?}") };
    assert_eq!((&waits.id, waits.quick), (&next, true));
    assert_eq!((&found.id, found.named().as_str(), found.exit), (&id, "a.yaml", None));
    assert!(found.output.contains("run a.yaml --no-report --exclusive --detach --store"), "{}", found.output);
    assert!(found.output.contains("--quick"), "{}", found.output);
    assert!(!found.output.contains("CARGO"), "it has the variables that it was given: {}", found.output);
    again.stop(&id).unwrap();
    await_that(|| first.job(&id).unwrap().exit.is_some());
    let ended = again.job(&id).unwrap();
    assert_eq!((ended.exit, ended.goes_on), (Some(5), false));
    assert!(ended.output.ends_with("stopped\n"), "{}", ended.output);
    assert!(matches!(again.stop(&id), Err(StopError::Ended)));
    // Now it is the turn of the other one.
    await_that(|| !again.job(&id).unwrap().goes_on);
    advance(&first);
    await_that(|| first.job(&next).unwrap().goes_on);
    assert!(matches!(again.remove(&next), Err(StopError::Ended)), "it does not wait any more");
    await_that(|| again.job(&next).unwrap().output.contains("PATH="));
    again.stop(&next).unwrap();
    await_that(|| first.job(&next).unwrap().exit.is_some());
    assert_eq!(again.at_work(), AtWork::default());
    let mode =
        |name: &str| fs::metadata(again.folder.join(&id.0).join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(OUTPUT), mode(JOB), mode(".")), (0o600, 0o600, 0o700));
}

#[test]
fn a_host_that_another_run_has_locked_is_left_alone() {
    let (_folder, jobs) = jobs("true");
    let lock = HostLock::take(&jobs.lock).unwrap();
    let id = enqueue(&jobs);
    advance(&jobs);
    assert_eq!(jobs.job(&id).unwrap().waits, Some(0), "it waits");
    drop(lock);
    advance(&jobs);
    await_that(|| jobs.job(&id).unwrap().exit == Some(0));
    assert!(jobs.may_wait());
    advance(&jobs);
    assert!(!jobs.may_wait(), "nobody looks any more");
}

#[test]
fn a_sweep_has_its_turns_and_its_report() {
    let (_folder, jobs) = jobs("echo \"$@\"\nprintf '<p>swept</p>' > \"$6\"");
    let id = enqueue(&jobs);
    assert_eq!(jobs.report(&id), None);
    advance_as(&jobs, Kind::Sweep);
    await_that(|| jobs.job(&id).unwrap().exit.is_some());
    let job = jobs.job(&id).unwrap();
    let report = jobs.place(&id).join(REPORT);
    let asked = format!("sweep a.yaml --repeat 2 --report {} --exclusive --detach --store", report.display());
    assert!(job.output.starts_with(&asked) && job.output.contains("--quick"), "{}", job.output);
    assert!(job.kind == Kind::Sweep && job.has_report, "{job:?}");
    assert_eq!(jobs.report(&id).unwrap(), "<p>swept</p>");
}

#[test]
fn scenarios_that_are_compared_are_run_in_turns() {
    let (_folder, jobs) = jobs("echo \"$@\"\nprintf '<p>compared</p>' > \"$7\"");
    let id = enqueue_all(&jobs, &["a.yaml", "b.yml"]);
    advance_as(&jobs, Kind::Comparison);
    await_that(|| jobs.job(&id).unwrap().exit.is_some());
    let job = jobs.job(&id).unwrap();
    let report = jobs.place(&id).join(REPORT);
    let asked =
        format!("compare a.yaml b.yml --repeat 2 --html {} --exclusive --detach --store", report.display());
    assert!(job.output.starts_with(&asked) && job.output.contains("--quick"), "{}", job.output);
    assert_eq!((job.kind, job.named().as_str(), job.has_report), (Kind::Comparison, "a.yaml, b.yml", true));
    assert_eq!(jobs.report(&id).unwrap(), "<p>compared</p>");
}

#[test]
fn the_queue_keeps_its_order_and_one_can_leave_it() {
    let (folder, jobs) = jobs("true");
    let ids: Vec<JobId> = (0..MOST_WAITING).map(|_| enqueue(&jobs)).collect();
    let scenarios = [FileName::parse("a.yaml").unwrap()];
    let full = jobs.enqueue(Wish { scenarios: &scenarios, quick: false, turns: 1 });
    assert!(matches!(full, Err(QueueError::Full)), "{full:?}");
    let waiting = |jobs: &Jobs| jobs.at_work().waiting.into_iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!(waiting(&jobs), ids);
    let again = Jobs::new("x".into(), "x".into(), "x".into(), folder.path());
    again.remove(&ids[0]).unwrap();
    assert!(matches!(jobs.remove(&ids[0]), Err(StopError::Ended)));
    assert_eq!(waiting(&jobs), ids[1..]);
    let removed = jobs.job(&ids[0]).unwrap();
    assert!(removed.is_over() && removed.not_started.as_deref() == Some(REMOVED), "{removed:?}");
    // One that may not be started any more leaves the queue and says why.
    jobs.start_next(|job| Err(format!("{} is wrong", job.named())));
    assert_eq!(jobs.job(&ids[1]).unwrap().not_started.as_deref(), Some("a.yaml is wrong"));
    assert_eq!(waiting(&jobs), ids[2..]);
    // A second server does not start what the first one has taken.
    assert!(jobs.claim(&ids[2]) && !again.claim(&ids[2]));
    assert_eq!(waiting(&again), ids[3..]);
}

#[test]
fn a_process_that_took_over_the_number_is_not_stopped() {
    let (_folder, jobs) = jobs("true");
    let id = JobId::fresh().unwrap();
    let place = jobs.folder.join(&id.0);
    fs::create_dir_all(&place).unwrap();
    let own = identity_of(std::process::id()).unwrap();
    let other = format!("{own}1");
    write(
        &place.join(JOB),
        &Kept {
            scenarios: vec!["a.yaml".into()],
            quick: false,
            turns: 1,
            kind: Kind::Run,
            started: String::new(),
            process: Some(other),
            waits: false,
            not_started: None,
            tells: false,
        },
    )
    .unwrap();
    assert!(!jobs.job(&id).unwrap().goes_on);
    assert!(matches!(jobs.stop(&id), Err(StopError::Ended)));
}

#[test]
fn the_end_of_a_long_output_begins_with_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(OUTPUT);
    fs::write(&path, "a line that is long enough\n".repeat(1000)).unwrap();
    let end = end_of(&path).unwrap();
    assert!(end.starts_with("a line") && end.len() as u64 <= SHOWN_OUTPUT);
    fs::write(&path, "short").unwrap();
    assert_eq!(end_of(&path).unwrap(), "short");
}
