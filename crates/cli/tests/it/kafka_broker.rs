//! A broker of Kafka of the tests' own.

use crate::harness::Bench;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The ports of a broker.
#[derive(Clone, Copy)]
pub struct Ports {
    clients: u16,
    quorum: u16,
}

impl Ports {
    /// Free ones.
    pub fn free() -> Ports {
        let free = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let [clients, quorum] = free.each_ref().map(|listener| listener.local_addr().unwrap().port());
        Ports { clients, quorum }
    }

    /// Where clients reach it.
    pub fn address(self) -> String {
        format!("127.0.0.1:{}", self.clients)
    }
}

impl Ports {
    /// Lets every client of the broker that has them read so many bytes a second at most.
    pub fn limit_readers(self, bytes: u32) {
        // Its program for that lies beside it.
        const CONFIGURE: &str = r#"
            beside=$(dirname "$(readlink -f "$(command -v kafka-broker)")")
            exec java -Xmx128m -cp "$beside/target/lib/*" kafka.admin.ConfigCommand "$@""#;
        let (address, limit) = (self.address(), format!("consumer_byte_rate={bytes}"));
        let mut command = Command::new("sh");
        command.args([
            "-c",
            CONFIGURE,
            "sh",
            "--bootstrap-server",
            &address,
            "--alter",
            "--add-config",
            &limit,
        ]);
        let output = command.args(["--entity-type", "clients", "--entity-default"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A running broker, which is killed when it is dropped. Its folder outlives it.
pub struct KafkaBroker(Child);

impl KafkaBroker {
    /// Starts one that is its own controller.
    pub fn start(bench: &Bench, ports: Ports) -> KafkaBroker {
        let Ports { clients, quorum } = ports;
        KafkaBroker::node(
            bench,
            (1, ports),
            &format!(
                "process.roles=broker,controller\ncontroller.quorum.voters=1@127.0.0.1:{quorum}\n\
                 listeners=PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{quorum}\n"
            ),
        )
    }

    /// Starts one more, of the cluster whose first broker has these ports.
    pub fn join(bench: &Bench, ports: Ports, first: Ports) -> KafkaBroker {
        let (clients, quorum) = (ports.clients, first.quorum);
        KafkaBroker::node(
            bench,
            (2, ports),
            &format!(
                "process.roles=broker\ncontroller.quorum.voters=1@127.0.0.1:{quorum}\n\
                 listeners=PLAINTEXT://127.0.0.1:{clients}\n"
            ),
        )
    }

    fn node(bench: &Bench, (number, ports): (u8, Ports), more: &str) -> KafkaBroker {
        let settings = format!(
            "node.id={number}\n{more}listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             controller.listener.names=CONTROLLER\nlog.dirs={}\nnum.partitions=1\n\
             offsets.topic.replication.factor=1\noffsets.topic.num.partitions=4\n\
             group.initial.rebalance.delay.ms=500\nauto.create.topics.enable=false\n",
            bench.path(&format!("kafka-{number}")).display()
        );
        let settings = bench.write(&format!("kraft-{number}.properties"), &settings);
        let mut command = Command::new("kafka-broker");
        command.arg(settings).env("JAVA_OPTS", "-Xmx256m").stdout(Stdio::null()).stderr(Stdio::null());
        let broker = KafkaBroker(command.spawn().expect("kafka-broker is installed by scripts/peers"));
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, ports.clients)).is_err() {
            assert!(Instant::now() < end, "Kafka does not start");
            thread::sleep(Duration::from_millis(50));
        }
        broker
    }
}

impl Drop for KafkaBroker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
