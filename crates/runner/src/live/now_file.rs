//! Keeps what a run does in a file, for programs that watch it, such as the page of `plimsoll serve`. A file needs no port, and it
//! stays when its reader ends. A thread of its own writes it, so the run never waits for a disk.

use super::Live;
use super::now::{Board, Now};
use super::past::Past;
use plimsoll_observe::process::own_identity;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the file is written: who looks every quarter of a second sees what is less than a second old.
const INTERVAL: Duration = Duration::from_millis(500);
/// Names of topics, addresses and components may be nobody else's business.
const MODE: u32 = 0o600;

/// The file. Finished, it says that the run is over.
pub struct NowFile {
    board: Arc<Board>,
    /// That it is dropped says to the thread that all is over.
    goes_on: Sender<()>,
    thread: JoinHandle<()>,
}

impl NowFile {
    /// Begins to write it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(path: &Path, live: Arc<Live>) -> io::Result<NowFile> {
        let board = Arc::new(Board::default());
        let process = own_identity();
        let (path, shown) = (path.to_owned(), Arc::clone(&board));
        let (mut past, began) = (Past::default(), Instant::now());
        let mut told = move |is_over: bool| {
            let mut now = Now { process: process.clone(), is_over, ..shown.now() };
            live.add_to(&mut now);
            past.add_to(&mut now, began.elapsed().as_secs_f64());
            now
        };
        write(&path, &told(false))?;
        let (goes_on, ends) = channel();
        let keep = move || {
            let mut last = None;
            loop {
                let is_over = ends.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
                let now = told(is_over);
                if last.as_ref() != Some(&now) {
                    // A full disk is noticed by the run store, which matters.
                    let _ = write(&path, &now);
                    last = Some(now);
                }
                if is_over {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("now".into()).spawn(keep)?;
        Ok(NowFile { board, goes_on, thread })
    }

    /// What takes in the progress of the run.
    pub fn board(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    /// Writes that all is over.
    pub fn finish(self) {
        drop(self.goes_on);
        let _ = self.thread.join();
    }
}

/// Writes the whole file in the place of the one before: a reader never sees a part of it.
fn write(path: &Path, now: &Now) -> io::Result<()> {
    let text = serde_json::to_vec(now)?;
    let beside = beside(path);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(MODE).open(&beside)?;
    file.write_all(&text)?;
    fs::rename(&beside, path)
}

/// What the file is called until it is whole.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_there_at_once_and_says_at_the_end_that_all_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("now.json");
        let live = Arc::new(Live::default());
        let file = NowFile::begin(&path, Arc::clone(&live)).unwrap();
        let read = || serde_json::from_slice::<Now>(&fs::read(&path).unwrap()).unwrap();
        let first = read();
        assert_eq!((first.process, first.is_over), (own_identity(), false));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        live.begin("small", "abc");
        file.finish();
        let last = read();
        assert_eq!((last.run.as_str(), last.is_over), ("abc", true));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_at_once() {
        assert!(NowFile::begin(Path::new("/nowhere/now.json"), Arc::default()).is_err());
    }
}
