//! Brings a platform that runs already back to its first state by a command of the user's.

use crate::PlatformError;
use crate::folder::{Folder, private};
use crate::guard::{Bounds, Guarded, guarded};
use crate::interruptible::{pause, unless_stopped};
use crate::options::Options;
use crate::output::last_words;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long the command may take, and then the platform until it accepts connections.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long the command may take to end when it is told to.
const GRACE: Duration = Duration::from_secs(3);
/// How long a connection is waited for.
const ATTEMPT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// Runs the command to its end, with the platform's place as its environment gives it, and shows its last words where it
/// fails.
///
/// # Errors
/// It cannot be started, fails, or takes longer than five minutes; the user stopped the run.
pub fn reset(command: &[String], options: &Options) -> Result<(), PlatformError> {
    let told = command.join(" ");
    let failed = |what: String| PlatformError::Reset { command: told.clone(), what };
    let folder = Folder::fresh(&options.program)
        .map_err(|error| failed(format!("no folder for its output: {error}")))?;
    let log = folder.path().join("reset.log");
    let output = private(&log).map_err(|error| failed(error.to_string()))?;
    let errors = output.try_clone().map_err(|error| failed(error.to_string()))?;
    let mut call = guarded(&options.program, &Bounds { leaves: true, ..Bounds::default() }, command);
    call.guard.stdout(output).stderr(errors);
    let mut child = Guarded::start(call).map_err(|error| failed(error.to_string()))?;
    let outcome = await_end(&mut child, options);
    child.end(GRACE);
    match outcome? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(failed(format!("it ended with {status}; its last words:\n{}", last_words(&log)))),
        None => Err(failed(format!("it took longer than {} s", PATIENCE.as_secs()))),
    }
}

fn await_end(
    child: &mut Guarded,
    options: &Options,
) -> Result<Option<std::process::ExitStatus>, PlatformError> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if options.stop.load(Ordering::Relaxed) {
            return Err(PlatformError::Interrupted);
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Ok(Some(status));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(None)
}

/// Waits until a platform accepts connections with which that was `done`: it was reset, or brought up.
///
/// # Errors
/// It does not within five minutes; the user stopped the run.
pub fn await_return(address: SocketAddr, done: &'static str, options: &Options) -> Result<(), PlatformError> {
    let begin = Instant::now();
    let accepts = move || TcpStream::connect_timeout(&address, ATTEMPT).is_ok();
    while !unless_stopped(&options.stop, accepts).ok_or(PlatformError::Interrupted)? {
        if begin.elapsed() >= PATIENCE {
            return Err(PlatformError::NotBack { address, done, seconds: PATIENCE.as_secs() });
        }
        if !pause(&options.stop, PAUSE) {
            return Err(PlatformError::Interrupted);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_platform_that_does_not_answer_is_not_waited_for_after_the_users_word() {
        // A server whose queue of connections is full does not answer the next one.
        let full = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = full.local_addr().unwrap();
        rustix::net::listen(&full, 0).unwrap();
        let _waiting: Vec<_> =
            (0..4).map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(50))).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let options = Options {
            program: PathBuf::new(),
            processors: Vec::new(),
            logs: None,
            mqtt5: false,
            stop: Arc::clone(&stop),
        };
        let waiting = std::thread::spawn(move || await_return(address, "reset", &options));
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        assert!(matches!(waiting.join().unwrap(), Err(PlatformError::Interrupted)));
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    }
}
