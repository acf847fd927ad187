//! libcoap's server, alone and with DTLS.

use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server with resources that a PUT makes. Dropped, it is killed.
pub struct Libcoap {
    child: Child,
    port: u16,
}

impl Libcoap {
    /// Without DTLS, on a free port.
    pub fn start() -> Libcoap {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Libcoap::on(port, "coap-server-notls", &[])
    }

    /// With DTLS and these arguments, on a free port and the one above it.
    pub fn secured(arguments: &[&str]) -> Libcoap {
        let port = loop {
            let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if free < u16::MAX && UdpSocket::bind(("127.0.0.1", free + 1)).is_ok() {
                break free;
            }
        };
        Libcoap::on(port, "coap-server-openssl", arguments)
    }

    fn on(port: u16, program: &str, arguments: &[&str]) -> Libcoap {
        let mut command = Command::new(program);
        command.args(["-A", "127.0.0.1", "-p", &port.to_string(), "-d", "100"]).args(arguments);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| panic!("{program} of libcoap3-bin: {error}"));
        let server = Libcoap { child, port };
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        socket.connect(("127.0.0.1", port)).unwrap();
        let began = Instant::now();
        loop {
            // A ping is answered with a reset.
            let _ = socket.send(&[0x40, 0, 0, 1]);
            if socket.recv(&mut [0; 16]).is_ok_and(|length| length == 4) {
                return server;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "libcoap's server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills it and starts it again at the same ports, with these arguments.
    pub fn restart(&mut self, arguments: &[&str]) {
        self.kill();
        let port = self.port;
        *self = Libcoap::on(port, "coap-server-openssl", arguments);
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The port in clear; that of DTLS is the one above.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Makes a resource.
    pub fn put(&self, name: &str) {
        assert!(self.asked(3, name, b"\xffx").is_some(), "{name} was not made");
    }

    /// Whether it has a resource.
    pub fn has(&self, name: &str) -> bool {
        const NOT_FOUND: u8 = 0x84;
        self.asked(1, name, b"").is_some_and(|code| code != NOT_FOUND)
    }

    /// The code of its answer to a request about a resource.
    fn asked(&self, method: u8, name: &str, payload: &[u8]) -> Option<u8> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut request = vec![0x40, method, 0, 7, 0xb0 | name.len() as u8];
        request.extend(name.as_bytes());
        request.extend(payload);
        socket.send_to(&request, ("127.0.0.1", self.port)).unwrap();
        let mut answer = [0; 64];
        socket.recv(&mut answer).ok().map(|_| answer[1])
    }
}

impl Drop for Libcoap {
    fn drop(&mut self) {
        self.kill();
    }
}
