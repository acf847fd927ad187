//! Workers on this host: a NATS server on the loopback network and workers at it, which end with this process.

use plimsoll_platform::folder::Folder;
use plimsoll_platform::guard::{Bounds, Guarded, guarded};
use plimsoll_platform::{free_port, is_installed};
use plimsoll_workers::post::Server;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The program of the server.
const NATS: &str = "nats-server";
/// How long it may take until it accepts connections.
const STARTING: Duration = Duration::from_secs(10);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// See the module. All of it ends when this is dropped.
pub struct Local {
    // Workers end before their server, and the folder goes last.
    _workers: Vec<Guarded>,
    _nats: Guarded,
    _folder: Folder,
    server: Server,
}

impl Local {
    /// Starts a server and so many workers. Each has one of the processors, in turn; without any, all run on all.
    ///
    /// # Errors
    /// The server is not installed or does not start, or the operating system refuses a process.
    pub fn start(program: &Path, count: usize, processors: &[usize]) -> io::Result<Local> {
        if !is_installed(NATS) {
            return Err(io::Error::other(
                "workers on this host need `nats-server`: install it (Debian: apt-get install nats-server)",
            ));
        }
        let folder = Folder::fresh(program)?;
        let port = free_port::free_port(|_| false)?;
        // Other users of this host are kept out.
        let token = format!("{:016x}", RandomState::new().hash_one(port));
        let configuration = format!("listen: \"127.0.0.1:{port}\"\nauthorization {{ token: \"{token}\" }}\n");
        let of_server = private(&folder.path().join("nats.conf"), &configuration)?;
        let of_token = private(&folder.path().join("token"), &token)?;
        let start = |command: &[String], processors: Vec<usize>| {
            let bounds = Bounds { processors, private: true, ..Bounds::default() };
            let mut call = guarded(program, &bounds, command);
            call.guard.stdout(Stdio::null()).stderr(Stdio::null());
            Guarded::start(call)
        };
        let nats = start(&[NATS.to_owned(), "--config".into(), of_server.display().to_string()], Vec::new())?;
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > STARTING {
                return Err(io::Error::other(format!("`{NATS}` does not accept connections at port {port}")));
            }
            std::thread::sleep(LOOK);
        }
        let url = format!("nats://127.0.0.1:{port}");
        let worker = |number: usize| {
            let own: Vec<usize> =
                processors.get(number % processors.len().max(1)).copied().into_iter().collect();
            let name = format!("local-{}", number + 1);
            let mut command =
                vec![program.display().to_string(), "worker".into(), "--join".into(), url.clone()];
            command.extend([
                "--name".into(),
                name,
                "--nats-token-file".into(),
                of_token.display().to_string(),
            ]);
            command.extend(match own.first() {
                Some(own) => ["--processors".to_owned(), own.to_string()],
                None => ["--threads".to_owned(), "1".to_owned()],
            });
            start(&command, own)
        };
        let workers: io::Result<Vec<Guarded>> = (0..count).map(worker).collect();
        let server = Server { url: url.clone(), token: Some(token), ..Server::default() };
        Ok(Local { _workers: workers?, _nats: nats, _folder: folder, server })
    }

    /// Its server.
    pub fn server(&self) -> &Server {
        &self.server
    }
}

/// Writes a file that its owner alone may read.
fn private(path: &Path, text: &str) -> io::Result<PathBuf> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    Ok(path.to_owned())
}
