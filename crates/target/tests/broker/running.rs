//! A broker in a thread, and a client of our own codec for what no real client does.

use plimsoll_codec::mqtt::{
    Connect, Packet, Properties, Publish, QoS, Subscribe, Subscription, Version, encode_connect,
    packet_length,
};
use plimsoll_target::broker::{Broker, Settings};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A broker in a thread; dropped, it ends, and a failure of it fails the test.
pub struct Running {
    pub addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What `platform: embedded` tells the broker, on two free ports.
pub fn settings() -> Settings {
    Settings {
        host: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        port_v5: Some(0),
        max_connections: 20_000,
        max_payload: 2 * 1024 * 1024,
        max_outgoing: 10_000,
        memory: 1 << 30,
        record: None,
    }
}

impl Running {
    pub fn start() -> Running {
        Running::with(&settings())
    }

    pub fn with(settings: &Settings) -> Running {
        let broker = Broker::bind(settings).unwrap();
        let addresses = broker.addresses().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || broker.run(&seen).unwrap()));
        Running { addresses, stop, thread }
    }

    pub fn port(&self) -> String {
        self.addresses[0].port().to_string()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addresses[0]).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// A client that is connected.
    pub fn client(&self, version: Version, client_id: &str) -> TcpStream {
        let mut stream = self.connect();
        let connect = Connect::clean(version, client_id);
        let mut out = Vec::new();
        encode_connect(&connect, &mut out).unwrap();
        stream.write_all(&out).unwrap();
        let answer = read_packet(&mut stream).unwrap();
        assert!(matches!(Packet::decode(version, &answer), Ok(Packet::Connack(ack)) if ack.accepted()));
        stream
    }

    /// A client of MQTT 3.1.1 that has subscribed.
    pub fn subscriber(&self, client_id: &str, filter: &str, qos: QoS) -> TcpStream {
        let mut stream = self.client(Version::V311, client_id);
        let subscriptions = vec![Subscription::new(filter, qos)];
        let subscribe = Subscribe { packet_id: 1, subscriptions, properties: Properties::default() };
        let mut out = Vec::new();
        Packet::Subscribe(subscribe).encode(Version::V311, &mut out).unwrap();
        stream.write_all(&out).unwrap();
        assert_eq!(read_packet(&mut stream), Some(vec![0x90, 3, 0, 1, qos.level()]));
        stream
    }

    /// Whether well-behaved clients are served.
    pub fn serves(&self) {
        for version in [Version::V311, Version::V5] {
            let mut stream = self.client(version, "well behaved");
            stream.write_all(&publish(version, "t", b"hello", 7)).unwrap();
            assert_eq!(read_packet(&mut stream), Some(vec![0x40, 2, 0, 7]));
        }
    }

    /// Ends the broker and waits for it.
    pub fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the broker panicked");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A PUBLISH: at QoS 1, with packet id 0 at QoS 0.
pub fn publish(version: Version, topic: &str, payload: &[u8], packet_id: u16) -> Vec<u8> {
    let publish = Publish {
        dup: false,
        qos: if packet_id == 0 { QoS::AtMostOnce } else { QoS::AtLeastOnce },
        retain: false,
        topic,
        packet_id: (packet_id != 0).then_some(packet_id),
        properties: Properties::default(),
        payload,
    };
    let mut out = Vec::new();
    Packet::Publish(publish).encode(version, &mut out).unwrap();
    out
}

/// The next packet; `None` where the broker closed the connection.
pub fn read_packet(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut packet = Vec::new();
    loop {
        let wanted = match packet_length(&packet).unwrap() {
            Some(length) if length == packet.len() => return Some(packet),
            Some(length) => length - packet.len(),
            None => 1,
        };
        let begin = packet.len();
        packet.resize(begin + wanted, 0);
        match stream.read(&mut packet[begin..]) {
            Ok(0) => return None,
            Ok(count) => packet.truncate(begin + count),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A folder of one test, removed with it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("plimsoll-broker-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
