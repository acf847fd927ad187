//! Relays between real sockets. Times are only bounded from below: a busy machine adds to them.

#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_model::Nanos;
use plimsoll_stats::queue::Stall;
use plimsoll_target::relay::{Network, Relay, Settings, Totals};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(20);
const DELAYED: Network =
    Network { delay: Nanos::from_millis(20), jitter: Nanos::ZERO, rate: None, loss: 0.0 };
const PATIENCE: Duration = Duration::from_secs(20);

/// A relay before an echo, and what clients of it do.
struct Bench {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    relay: Option<JoinHandle<Totals>>,
}

impl Bench {
    fn new(network: Network, cut: Option<Stall>, half_open: Option<Nanos>) -> Bench {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || echo(stream.unwrap()));
            }
        });
        Bench::before(to, network, cut, half_open)
    }

    /// A relay before an echo that hears orders at a file.
    fn ordered(control: &Path) -> Bench {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || echo(stream.unwrap()));
            }
        });
        let settings = Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            to: vec![to],
            network: Network::default(),
            cut: None,
            half_open: None,
            control: Some(control.to_owned()),
            seed: 1,
        };
        Bench::with(settings)
    }

    fn before(to: SocketAddr, network: Network, cut: Option<Stall>, half_open: Option<Nanos>) -> Bench {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Bench::with(Settings { listen, to: vec![to], network, cut, half_open, control: None, seed: 1 })
    }

    fn with(settings: Settings) -> Bench {
        let relay = Relay::bind(settings).unwrap();
        let address = relay.address().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let relay = Some(std::thread::spawn(move || relay.run(&seen).unwrap()));
        Bench { address, stop, relay }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client
    }

    fn end(mut self) -> Totals {
        self.stop.store(true, Ordering::Relaxed);
        self.relay.take().unwrap().join().unwrap()
    }
}

/// Returns what comes, until that ends.
fn echo(mut stream: TcpStream) {
    let mut scratch = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut scratch) {
        if stream.write_all(&scratch[..count]).is_err() {
            return;
        }
    }
}

fn ask(client: &mut TcpStream, question: &[u8]) -> std::io::Result<Vec<u8>> {
    client.write_all(question)?;
    let mut answer = vec![0; question.len()];
    client.read_exact(&mut answer)?;
    Ok(answer)
}

#[test]
fn what_is_sent_comes_back_whole_and_late() {
    let bench = Bench::new(DELAYED, None, None);
    let mut client = bench.connect();
    let begin = Instant::now();
    assert_eq!(ask(&mut client, b"hello").unwrap(), b"hello");
    assert!(begin.elapsed() >= 2 * DELAY, "{:?}", begin.elapsed());
    // More than a relay holds of one way.
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let mut sender = client.try_clone().unwrap();
    let sent = content.clone();
    let sending = std::thread::spawn(move || sender.write_all(&sent).unwrap());
    let mut answer = vec![0; content.len()];
    client.read_exact(&mut answer).unwrap();
    sending.join().unwrap();
    assert!(answer == content);
    let bytes = content.len() as u64 + 5;
    let expected =
        Totals { connections: 1, bytes: [bytes, bytes], in_connections: 2 * bytes, ..Totals::default() };
    assert_eq!(bench.end(), expected);
}

#[test]
fn the_end_of_one_way_leaves_the_other_open() {
    let bench = Bench::new(DELAYED, None, None);
    let mut client = bench.connect();
    client.write_all(b"last words").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"last words");
    bench.end();
}

#[test]
fn a_rate_is_shared_by_all_connections() {
    // 800 kbit/s are 100 kB in a second: of each of two clients, 10 kB there and back take 0.1 s and more.
    let network = Network { rate: Some(800_000), ..Network::default() };
    let bench = Bench::new(network, None, None);
    let begin = Instant::now();
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let mut client = bench.connect();
            std::thread::spawn(move || ask(&mut client, &[7; 10_000]).unwrap())
        })
        .collect();
    clients.into_iter().for_each(|client| assert_eq!(client.join().unwrap(), [7; 10_000]));
    assert!(begin.elapsed() >= Duration::from_millis(200), "{:?}", begin.elapsed());
    bench.end();
}

#[test]
fn a_cut_resets_connections_and_ends() {
    let cut = Stall { every: Nanos::from_millis(1500), length: Nanos::from_millis(500) };
    let bench = Bench::new(Network::default(), Some(cut), None);
    let mut client = bench.connect();
    assert_eq!(ask(&mut client, b"before").unwrap(), b"before");
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    // Others are reset too, until the cut is over.
    let begin = Instant::now();
    let mut refused = 0;
    while ask(&mut bench.connect(), b"after").is_err() {
        refused += 1;
        assert!(begin.elapsed() < PATIENCE, "no connection is served after {refused} attempts");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(bench.end().broken > refused.max(1) / 2);
}

#[test]
fn a_half_open_connection_takes_everything_and_answers_nothing() {
    let bench = Bench::new(Network::default(), None, Some(Nanos::from_millis(1000)));
    let mut client = bench.connect();
    assert_eq!(ask(&mut client, b"before").unwrap(), b"before");
    let begin = Instant::now();
    client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let silence = loop {
        match ask(&mut client, b"still there?") {
            Ok(_) => assert!(begin.elapsed() < PATIENCE, "it never became half-open"),
            Err(error) => break error,
        }
    };
    assert_eq!(silence.kind(), ErrorKind::WouldBlock, "silence, and no end: {silence}");
    client.write_all(b"nobody reads that").unwrap();
    drop(client);
    assert!(bench.end().broken >= 1);
}

#[test]
fn a_server_that_is_not_there_ends_the_connection() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let bench = Bench::before(nobody, Network::default(), None, None);
    let mut client = bench.connect();
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    assert_eq!(bench.end().bytes, [0, 0]);
}

/// What a client sent before it left gets to the server, although it no longer takes answers.
#[test]
fn a_client_that_leaves_has_sent_what_it_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bench = Bench::before(listener.local_addr().unwrap(), DELAYED, None, None);
    let mut client = bench.connect();
    client.write_all(b"gone soon").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    server.write_all(b"an answer that nobody reads").unwrap();
    // Closed with something unread, or soon to be: a reset.
    drop(client);
    let mut content = Vec::new();
    server.read_to_end(&mut content).unwrap();
    assert_eq!(content, b"gone soon");
    bench.end();
}

/// More than a relay holds and kernels take, to a client that begins to read late.
#[test]
fn a_late_reader_gets_everything() {
    const LENGTH: usize = 20 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bench = Bench::before(listener.local_addr().unwrap(), Network::default(), None, None);
    let mut client = bench.connect();
    let (mut server, _) = listener.accept().unwrap();
    let sending = std::thread::spawn(move || server.write_all(&vec![7; LENGTH]).unwrap());
    std::thread::sleep(Duration::from_millis(500));
    let mut content = Vec::new();
    client.read_to_end(&mut content).unwrap();
    assert_eq!(content.len(), LENGTH);
    sending.join().unwrap();
    bench.end();
}

/// A client whose way was full when its server was lost goes on to be read, and is forgotten when it ends.
#[test]
fn a_blocked_client_of_a_half_open_connection_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let every = Some(Nanos::from_millis(1500));
    let bench = Bench::before(listener.local_addr().unwrap(), Network::default(), None, every);
    let mut client = bench.connect();
    let (_server, _) = listener.accept().unwrap();
    client.set_write_timeout(Some(PATIENCE)).unwrap();
    // The server reads nothing, so that this waits until nobody has to.
    client.write_all(&vec![7; 30 << 20]).unwrap();
    assert_eq!(bench.end().broken, 1);
}

/// An echo of datagrams at the port of a bench's relay, and a client of it.
fn datagrams(network: Network, cut: Option<Stall>) -> (Bench, UdpSocket) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut scratch = [0; 2048];
        while let Ok((count, client)) = server.recv_from(&mut scratch) {
            let _ = server.send_to(&scratch[..count], client);
        }
    });
    let bench = Bench::before(to, network, cut, None);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(bench.address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    (bench, client)
}

#[test]
fn datagrams_come_back_to_whom_they_belong_and_late() {
    let (bench, first) = datagrams(DELAYED, None);
    let second = UdpSocket::bind("127.0.0.1:0").unwrap();
    second.connect(bench.address).unwrap();
    second.set_read_timeout(Some(PATIENCE)).unwrap();
    let begin = Instant::now();
    first.send(b"first").unwrap();
    second.send(b"second").unwrap();
    first.send(b"").unwrap();
    let receive = |client: &UdpSocket| {
        let mut scratch = [0; 64];
        let count = client.recv(&mut scratch).unwrap();
        String::from_utf8_lossy(&scratch[..count]).into_owned()
    };
    assert_eq!([receive(&first), receive(&first), receive(&second)], ["first", "", "second"]);
    assert!(begin.elapsed() >= 2 * DELAY, "{:?}", begin.elapsed());
    let totals = bench.end();
    assert_eq!((totals.datagrams, totals.bytes, totals.lost), ([3, 3], [11, 11], 0));
}

#[test]
fn datagrams_are_lost_as_wanted_and_all_are_accounted_for() {
    const SENT: u64 = 1000;
    let (bench, client) = datagrams(Network { loss: 0.3, ..Network::default() }, None);
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut answered = 0;
    // One after another, so that no socket's buffer overflows.
    for number in 0..SENT {
        client.send(&number.to_be_bytes()).unwrap();
        client.set_nonblocking(true).unwrap();
        std::thread::sleep(Duration::from_micros(200));
        answered += u64::from(client.recv(&mut [0; 64]).is_ok());
    }
    client.set_nonblocking(false).unwrap();
    while client.recv(&mut [0; 64]).is_ok() {
        answered += 1;
    }
    let totals = bench.end();
    assert_eq!(totals.datagrams[1], answered);
    assert_eq!(totals.datagrams[1] + totals.lost, SENT, "{totals:?}");
    // 51 % lost, with a standard error of 1.6 %.
    assert!((440..=580).contains(&totals.lost), "{totals:?}");
}

#[test]
fn connections_lose_segments_and_nothing_of_what_is_sent() {
    const SENT: usize = 200;
    let bench = Bench::new(Network { loss: 0.1, ..Network::default() }, None, None);
    let port = bench.address.port();
    let mut client = bench.connect();
    client.set_nodelay(true).unwrap();
    for number in 0..SENT {
        let mut answer = [0; 8];
        client.write_all(&number.to_be_bytes()).unwrap();
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, number.to_be_bytes());
    }
    drop(client);
    let totals = bench.end();
    assert_eq!(totals.bytes, [(8 * SENT) as u64; 2]);
    // At least 400 segments and their acknowledgements, with a standard deviation of 6 around 40.
    assert!(totals.segments_lost >= 15, "{totals:?}");
    let tables = std::process::Command::new("/usr/sbin/nft").args(["list", "tables"]).output().unwrap();
    let tables = String::from_utf8_lossy(&tables.stdout).into_owned();
    assert!(!tables.contains(&format!("_{port}\n")), "it takes its rules with it: {tables}");
}

#[test]
fn a_cut_loses_datagrams_and_ends() {
    let cut = Stall { every: Nanos::from_millis(300), length: Nanos::from_millis(100) };
    let (bench, client) = datagrams(Network::default(), Some(cut));
    client.set_nonblocking(true).unwrap();
    let (begin, mut answered) = (Instant::now(), Vec::new());
    // Numbered, so that an answer that comes late is one all the same.
    let take = |answered: &mut Vec<bool>| {
        let mut number = [0; 8];
        while client.recv(&mut number).is_ok() {
            answered[usize::try_from(u64::from_be_bytes(number)).unwrap()] = true;
        }
    };
    while begin.elapsed() < Duration::from_secs(1) {
        client.send(&(answered.len() as u64).to_be_bytes()).unwrap();
        answered.push(false);
        std::thread::sleep(Duration::from_millis(2));
        take(&mut answered);
    }
    std::thread::sleep(Duration::from_millis(100));
    take(&mut answered);
    let first_lost = answered.iter().position(|answered| !answered);
    let again = answered.iter().skip(first_lost.unwrap()).any(|answered| *answered);
    assert!(answered[0] && again, "{answered:?}");
    assert!(bench.end().lost > 0);
}

/// Who orders faults of a relay, and hears when they were there.
struct Orders {
    socket: UnixDatagram,
    to: std::path::PathBuf,
}

impl Orders {
    fn new(folder: &Path) -> Orders {
        let socket = UnixDatagram::bind(folder.join("told")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Orders { socket, to: folder.join("orders") }
    }

    /// Orders a fault from now on for so long.
    fn order(&self, kind: &str, length: Duration, more: &str) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = now.tv_sec * 1_000_000_000 + now.tv_nsec;
        let to = now + length.as_nanos() as i64;
        self.socket.send_to(format!("{kind} {now} {to}{more}").as_bytes(), &self.to).unwrap();
    }

    /// What is told of the next fault that is over.
    fn heard(&self) -> String {
        let mut line = [0; 512];
        let count = self.socket.recv(&mut line).unwrap();
        String::from_utf8_lossy(&line[..count]).into_owned()
    }
}

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn a_cut_by_order_resets_connections_and_is_over_when_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::ordered(&folder.path().join("orders"));
    let orders = Orders::new(folder.path());
    let mut client = bench.connect();
    assert_eq!(ask(&mut client, b"before").unwrap(), b"before");
    orders.order("cut", SHORT, "");
    let mut byte = [0];
    assert!(client.read(&mut byte).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    let told = orders.heard();
    assert!(told.starts_with("fault ") && told.ends_with("by a relay before it"), "{told}");
    let mut client = bench.connect();
    assert_eq!(ask(&mut client, b"after").unwrap(), b"after");
    assert!(bench.end().broken >= 1);
}

#[test]
fn half_open_by_order_silences_connections_for_ever_and_new_ones_for_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::ordered(&folder.path().join("orders"));
    let orders = Orders::new(folder.path());
    let mut client = bench.connect();
    assert_eq!(ask(&mut client, b"before").unwrap(), b"before");
    orders.order("half-open", SHORT, "");
    // Until the relay has heard of it, it answers.
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    while ask(&mut client, b"x").is_ok() {}
    let mut meanwhile = bench.connect();
    assert!(orders.heard().starts_with("fault "));
    for client in [&mut client, &mut meanwhile] {
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let kind = ask(client, b"anybody").unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut), "it is open and silent: {kind}");
    }
    let mut later = bench.connect();
    assert_eq!(ask(&mut later, b"after").unwrap(), b"after");
    drop((client, meanwhile, later));
    bench.end();
}

#[test]
fn what_passes_is_slow_by_order_for_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::ordered(&folder.path().join("orders"));
    let orders = Orders::new(folder.path());
    let mut client = bench.connect();
    orders.order("slow", SHORT, " 30000000 0");
    let begin = Instant::now();
    // Until the relay has heard of it, it is fast.
    let slowest = |client: &mut TcpStream| {
        let begin = Instant::now();
        ask(client, b"x").unwrap();
        begin.elapsed()
    };
    let mut longest = Duration::ZERO;
    while longest < Duration::from_millis(60) && begin.elapsed() < PATIENCE {
        longest = longest.max(slowest(&mut client));
    }
    assert!(longest >= Duration::from_millis(60), "30 ms each way: {longest:?}");
    let told = orders.heard();
    let times: Vec<i64> = told.split(' ').skip(1).take(3).map(|word| word.parse().unwrap()).collect();
    assert!(times[1] >= times[0] && times[2] - times[0] >= SHORT.as_nanos() as i64, "{told}");
    let fastest = (0..50).map(|_| slowest(&mut client)).min().unwrap();
    assert!(fastest < Duration::from_millis(60), "it is over: {fastest:?}");
    bench.end();
}
