//! One component: its files, what is done before its start, its process.

use crate::PlatformError;
use crate::environment;
use crate::folder::{make_private, private, write_private};
use crate::guard::{Bounds, Call, Guarded, ToldDose, guarded};
use crate::options::Options;
use crate::output::{first_line, last_words};
use crate::placeholders::Placeholders;
use crate::quota_keeping::Keeping;
use crate::relays::RelayOf;
use crate::strays::MARK;
use crate::user::{self, User};
use plimsoll_scenario::plan::{FaultNeeds, QuotaPlan};
use plimsoll_scenario::profile::Component;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a component may take to end by itself before it is killed.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// How long what goes before a start may take.
const PREPARATION: Duration = Duration::from_secs(300);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A component's process and how it was started.
#[derive(Debug)]
pub(crate) struct Running {
    pub name: String,
    start: Start,
    /// What prints its version.
    version: Option<Vec<String>>,
    pub process: Guarded,
    pub log: PathBuf,
    pub reported: bool,
    /// Where it accepts connections once it is up; `None` where it listens nowhere.
    pub ready_port: Option<u16>,
    /// Whether it was started again and not seen up since.
    pub returning: bool,
    /// What it stands before, and is no component itself; `None` of a component.
    pub relay: Option<RelayOf>,
    /// How its quota is kept, for people; `None` without one.
    pub quota_kept: Option<String>,
    /// What guards of earlier processes have told and nobody has taken.
    doses: Vec<ToldDose>,
}

/// What a component may use at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowed {
    /// Processors and memory.
    pub quota: QuotaPlan,
    /// What it must have because of planned faults.
    pub needs: FaultNeeds,
}

/// A command with its placeholders filled in, and what it is started with.
#[derive(Clone, Debug)]
struct Start {
    command: Vec<String>,
    environment: BTreeMap<String, Option<String>>,
    folder: PathBuf,
    bounds: Bounds,
}

impl Running {
    /// Writes the component's files, does what goes before its start, and starts it.
    pub fn start(
        component: &Component,
        dir: &Path,
        placeholders: &mut Placeholders,
        Allowed { quota, needs }: Allowed,
        options: &Options,
    ) -> Result<Running, PlatformError> {
        let name = component.name.clone();
        let failed = |what: String| {
            let component = component.name.clone();
            move |cause| PlatformError::Start { component, what, cause }
        };
        let unfilled = || failed("cannot fill in the variables of its profile".into());
        let what = format!("cannot limit it to {quota} (platform.quotas)");
        let squeezable =
            needs.squeeze.then(|| Keeping::squeezable(dir, quota, &options.processors)).flatten();
        let kept = || Keeping::of(dir, quota, &options.processors);
        let keeping = squeezable.map_or_else(kept, Ok).map_err(failed(what))?;
        let owner = component.user.as_deref().and_then(user::to_become).transpose();
        let owner = owner.map_err(failed("cannot run it as the user of its profile".into()))?;
        let folder = component.folder.as_deref().map_or(dir.to_owned(), |folder| dir.join(folder));
        make_folders(dir, component.folder.as_deref().map(Path::new), owner.as_ref())
            .map_err(failed(format!("cannot make the folder {}", folder.display())))?;
        for (path, text) in &component.files {
            let text = placeholders.fill(text).map_err(unfilled())?;
            let path = Path::new(path);
            let written = make_folders(dir, path.parent(), owner.as_ref())
                .and_then(|()| write_private(&dir.join(path), &text))
                .and_then(|()| give(&dir.join(path), owner.as_ref()));
            written.map_err(failed(format!("cannot write {}", path.display())))?;
        }
        let mut fill = |words: &[String]| {
            words.iter().map(|word| placeholders.fill(word)).collect::<io::Result<Vec<String>>>()
        };
        let command = fill(&component.command).map_err(unfilled())?;
        let prepare: io::Result<Vec<_>> = component.prepare.iter().map(|words| fill(words)).collect();
        let prepare = prepare.map_err(unfilled())?;
        let version = component.version.as_deref().map(&mut fill).transpose().map_err(unfilled())?;
        let mut environment = component.environment.clone();
        for value in environment.values_mut().flatten() {
            *value = placeholders.fill(value).map_err(unfilled())?;
        }
        let user = component.user.clone().filter(|_| owner.is_some());
        // Only one that asks for the key has it.
        if let Some(key) = placeholders.key().filter(|_| component.texts().any(|text| text.contains("{key}")))
        {
            give(key, owner.as_ref()).map_err(failed("cannot give it the key of its certificate".into()))?;
        }
        if let Some(owner) = owner {
            environment.entry("HOME".into()).or_insert(Some(owner.home));
        }
        let bounds = Bounds {
            processors: options.processors.clone(),
            quota: QuotaPlan::default(),
            data: None,
            user,
            folder: Some(dir.to_owned()),
            small_folder: None,
            private: true,
            leaves: false,
            input: None,
        };
        let log = log_of(&name, dir, options).map_err(failed("cannot make the folder of its log".into()))?;
        let mut start = Start { command, environment, folder, bounds };
        for command in prepare {
            let step = Start { command, ..start.clone() };
            step.require(component)?;
            step.run_to_end(&name, &log, dir, options)?;
        }
        start.require(component)?;
        start.bounds.small_folder = needs.folder.map(|size| (start.folder.clone(), size));
        start.bounds.quota = keeping.quota;
        start.bounds.processors = keeping.processors;
        start.bounds.data = keeping.data;
        let process = start.spawn(&name, &log, dir, options)?;
        Ok(Running {
            name,
            start,
            version,
            process,
            log,
            reported: false,
            ready_port: None,
            returning: false,
            relay: None,
            doses: Vec::new(),
            quota_kept: keeping.in_words,
        })
    }

    /// The first line that the component's version command prints, whatever its exit status; nothing where the command does not
    /// exist or takes too long.
    pub fn version(&self, dir: &Path, options: &Options) -> Option<String> {
        let installed = |command: &Vec<String>| command.first().is_some_and(|program| is_installed(program));
        let command = self.version.clone().filter(installed)?;
        let path = dir.join("version.txt");
        // Of another component.
        let _ = fs::remove_file(&path);
        let output = private(&path).ok()?;
        let errors = output.try_clone().ok()?;
        let mut start = Start { command, folder: dir.to_owned(), ..self.start.clone() };
        (start.bounds.quota, start.bounds.small_folder) = (QuotaPlan::default(), None);
        let mut call = start.call(options, dir);
        call.guard.stdout(output).stderr(errors);
        let mut process = Guarded::start(call).ok()?;
        let begin = Instant::now();
        while !process.await_end(PAUSE) && begin.elapsed() < GRACE && !options.stop.load(Ordering::Relaxed) {}
        process.kill();
        first_line(&path)
    }

    /// What it may use at most.
    pub fn quota(&self) -> QuotaPlan {
        self.start.bounds.quota
    }

    /// The doses that were told so far, each once.
    pub fn take_doses(&mut self) -> Vec<ToldDose> {
        self.doses.extend(self.process.take_doses());
        std::mem::take(&mut self.doses)
    }

    /// Starts it again, with the same command, ports and files.
    pub fn start_again(&mut self, dir: &Path, options: &Options) -> Result<(), PlatformError> {
        self.doses.extend(self.process.take_doses());
        self.process = self.start.spawn(&self.name, &self.log, dir, options)?;
        (self.reported, self.returning) = (false, true);
        Ok(())
    }
}

/// The file that takes what a component says.
fn log_of(name: &str, dir: &Path, options: &Options) -> io::Result<PathBuf> {
    if let Some(folder) = &options.logs {
        make_private(folder)?;
    }
    Ok(options.logs.as_deref().unwrap_or(dir).join(format!("{name}.log")))
}

impl Start {
    /// Refuses a command that does not exist.
    fn require(&self, component: &Component) -> Result<(), PlatformError> {
        let command = self.command.first().cloned().unwrap_or_default();
        if is_installed(&command) {
            return Ok(());
        }
        let hint = component.install.as_ref().map(|how| format!("; install it with: {how}"));
        let (component, hint) = (component.name.clone(), hint.unwrap_or_default());
        Err(PlatformError::Missing { component, command, hint })
    }

    /// Starts the command; what it says is added to the component's log.
    fn spawn(&self, name: &str, log: &Path, dir: &Path, options: &Options) -> Result<Guarded, PlatformError> {
        let failed = |cause| {
            let (component, what) = (name.to_owned(), "cannot make its log file".to_owned());
            PlatformError::Start { component, what, cause }
        };
        let output = private(log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let mut call = self.call(options, dir);
        call.guard.stdout(output).stderr(errors);
        Guarded::start(call).map_err(|cause| PlatformError::Program { path: options.program.clone(), cause })
    }

    fn call(&self, options: &Options, dir: &Path) -> Call {
        let mut call = guarded(&options.program, &self.bounds, &self.command);
        let environment = environment::of(&self.environment);
        call.guard.env_clear().envs(environment).env(MARK, dir).current_dir(&self.folder);
        call
    }

    /// Runs the command to its end, which must be a good one.
    fn run_to_end(&self, name: &str, log: &Path, dir: &Path, options: &Options) -> Result<(), PlatformError> {
        let mut process = self.spawn(name, log, dir, options)?;
        let failed = |what: String| PlatformError::Prepare {
            component: name.to_owned(),
            command: self.command.join(" "),
            what,
            log: last_words(log),
        };
        let begin = Instant::now();
        loop {
            match process.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(failed(format!("ended with {status}"))),
                _ if options.stop.load(Ordering::Relaxed) => return Err(PlatformError::Interrupted),
                _ if begin.elapsed() > PREPARATION => {
                    return Err(failed(format!("took longer than {} s", PREPARATION.as_secs())));
                }
                _ => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// Whether a command exists.
pub fn is_installed(executable: &str) -> bool {
    if executable.contains('/') {
        return Path::new(executable).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|folder| Path::new(folder).join(executable).is_file())
}

/// Makes the folders of a path below `dir`, each its owner's.
fn make_folders(dir: &Path, below: Option<&Path>, owner: Option<&User>) -> io::Result<()> {
    let mut folder = dir.to_owned();
    for part in below.into_iter().flat_map(Path::components) {
        folder.push(part);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => give(&folder, owner)?,
            // A link that another component has put there may lead anywhere.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(&folder)?.is_dir() {
                    return Err(io::Error::other(format!("{} is no folder", folder.display())));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn give(path: &Path, owner: Option<&User>) -> io::Result<()> {
    owner.map_or(Ok(()), |user| chown(path, Some(user.id), Some(user.group)))
}
