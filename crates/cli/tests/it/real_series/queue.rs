//! A platform of two processes with a queue in a real Redis between them.

use crate::harness::{Bench, Finished};
use crate::wire_cause::{PROFILE, free_port, started};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SCRIPT: &str = include_str!("queue.py");

/// A process that ends when it is dropped.
pub(super) struct Process(pub(super) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Redis that keeps everything in memory, and its port.
pub(super) fn redis(bench: &Bench) -> (Child, u16) {
    let port = free_port();
    let mut command = bench.in_folder("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    let mut redis =
        command.stdout(Stdio::null()).spawn().expect("redis-server is installed by scripts/peers");
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begin.elapsed() > Duration::from_secs(10) {
            let _ = redis.kill();
            let _ = redis.wait();
            panic!("redis-server does not listen");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    (redis, port)
}

/// Runs it with a worker that takes so long for each message, and looks into the queue only so often; seconds.
pub(super) fn run(pause: f64, gap: f64) -> Finished {
    let bench = Bench::new();
    let (queue, queue_port) = redis(&bench);
    let _queue = Process(queue);
    let script = bench.write("queue.py", SCRIPT);
    let begin = |role: &str| {
        let port = free_port();
        let mut command = Command::new("python3");
        command.arg(&script).args([role, &port.to_string(), &queue_port.to_string()]);
        command.args([pause.to_string(), gap.to_string()]);
        (Process(started(command)), port)
    };
    let ((_worker, worker_port), (_front, front_port)) = (begin("worker"), begin("front"));
    bench.write("context.yaml", PROFILE);
    let scenario = format!(
        "name: queue\nplatform:\n  profile: ./context.yaml\n  address: \"http://127.0.0.1:{front_port}\"\n  ports: {{ context: {worker_port} }}\n\
         \x20 components: [{{ name: front, port: {front_port} }}, {{ name: worker, port: {worker_port} }}, {{ name: queue, port: {queue_port} }}]\n\
         population: {{ devices: 5, subscribers: 1 }}\nmessage: {{ size: 60, marker: ascii }}\n\
         load: {{ arrivals: constant, levels: [40], warm_up: 500ms, hold: 5s, samples: 5, drain: 3s, again: 0s }}\n\
         objectives: {{ publish_p99: null, delivered: null, achieved: null }}\n"
    );
    bench.start(bench.run_command(&scenario).arg("--capture")).finish()
}
