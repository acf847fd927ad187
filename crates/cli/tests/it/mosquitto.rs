//! A Mosquitto of the tests' own, with a user and a password.

use crate::harness::Bench;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The user that the broker knows.
pub const USER: &str = "captain";
/// The user's password.
pub const PASSWORD: &str = "correct-horse-7261";

/// A running Mosquitto; it ends when it is dropped.
pub struct Mosquitto {
    child: Child,
    port: u16,
}

impl Mosquitto {
    /// Starts one that takes only [`USER`] with [`PASSWORD`], its files in the bench's folder.
    pub fn with_password(bench: &Bench) -> Mosquitto {
        Mosquitto::with_users(bench, &[(USER, PASSWORD)], "")
    }

    /// Starts one that takes only these users with their passwords, with further lines of configuration.
    pub fn with_users(bench: &Bench, users: &[(&str, &str)], lines: &str) -> Mosquitto {
        let file = bench.write("passwords", "");
        for (user, password) in users {
            let status =
                Command::new("mosquitto_passwd").arg("-b").arg(&file).args([user, password]).status();
            assert!(status.expect("mosquitto is not installed: apt-get install mosquitto").success());
        }
        let file = file.display();
        Mosquitto::start(bench, &format!("allow_anonymous false\npassword_file {file}\n{lines}"))
    }

    /// Starts one with those lines of configuration for its listener on a free port.
    pub fn start(bench: &Bench, lines: &str) -> Mosquitto {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let configuration = bench.write(
            "mosquitto.conf",
            // Mosquitto leaves root for a user who cannot read the bench's folder.
            &format!("user root\nlistener {port} 127.0.0.1\n{lines}"),
        );
        let mut command = Command::new("mosquitto");
        command.arg("-c").arg(configuration).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("mosquitto is not installed: apt-get install mosquitto");
        let mosquitto = Mosquitto { child, port };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(10), "mosquitto does not listen on port {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
        mosquitto
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Allows it that many open files from now on.
    pub fn limit_open_files(&self, files: u64) {
        let limit = Rlimit { current: Some(files), maximum: Some(files) };
        prlimit(Pid::from_raw(self.child.id() as i32), Resource::Nofile, limit).unwrap();
    }

    /// Its address with the user in it.
    pub fn url(&self) -> String {
        format!("mqtt://{USER}@127.0.0.1:{}", self.port)
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
