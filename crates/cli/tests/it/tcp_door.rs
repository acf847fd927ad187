//! A door before a broker that can be slammed: connections through it break as on a bad network.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A door. Connections that it has let in go on while the tests run.
#[derive(Clone)]
pub struct TcpDoor {
    port: u16,
    /// Both sides of each connection, in the order of coming.
    connections: Arc<Mutex<Vec<[TcpStream; 2]>>>,
    /// Whether what the broker says is thrown away.
    deaf: Arc<AtomicBool>,
}

impl TcpDoor {
    /// Opens a door to the broker at that port.
    pub fn open(broker: u16) -> TcpDoor {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let door = TcpDoor { port, connections: Arc::default(), deaf: Arc::default() };
        let within = door.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, broker) = (client.unwrap(), TcpStream::connect(("127.0.0.1", broker)).unwrap());
                let copies = [client.try_clone().unwrap(), broker.try_clone().unwrap()];
                within.connections.lock().unwrap().push(copies);
                let ears = Arc::clone(&within.deaf);
                pass(client.try_clone().unwrap(), broker.try_clone().unwrap(), Arc::default());
                pass(broker, client, ears);
            }
        });
        door
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on clients hear nothing of the broker, until the door is slammed.
    pub fn muffle(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }

    /// Breaks every connection but the first so many; what comes after is let in as before.
    pub fn slam(&self, spared: usize) {
        for side in self.connections.lock().unwrap().iter().skip(spared).flatten() {
            // Those that have ended already cannot be broken.
            let _ = side.shutdown(Shutdown::Both);
        }
        self.deaf.store(false, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, deaf: Arc<AtomicBool>) {
    from.set_nodelay(true).unwrap();
    to.set_nodelay(true).unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length) = from.read(&mut buffer) {
            if length == 0 || (!deaf.load(Ordering::SeqCst) && to.write_all(&buffer[..length]).is_err()) {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
