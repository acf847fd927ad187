//! The event loop under the cooperative models: connections, files and calls from other threads, none of which it waits for.
//! What has come about is told in the order in which it did; the state machines of the dispatcher are on the other side.

pub mod epoll;
pub mod uv;

use crate::configuration;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What has come about.
#[derive(Debug)]
pub enum Happened {
    /// Somebody wants to connect: [`Reactor::accept`] lets them in. Nobody else is told of before that.
    Incoming,
    /// That connection is made.
    Connected(usize),
    /// Bytes came on it.
    Data(usize, Vec<u8>),
    /// Nothing more comes on it; it may still be sent on, and stays until it is closed.
    Ended(usize),
    /// It is no more: why.
    Closed(usize, String),
    /// The file of that number is written, or not.
    Written(u64, io::Result<()>),
    /// The time of that timer has come.
    Elapsed(usize),
}

/// Wakes a loop from another thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// An event loop. Connections are known by the slots that the caller gives them.
pub trait Reactor {
    /// Begins to connect a slot that is free.
    fn connect(&mut self, slot: usize, address: SocketAddr);

    /// Tells from now on of those who connect to that socket; once in the life of a loop.
    fn listen(&mut self, listener: TcpListener) -> io::Result<()>;

    /// Gives the connection that waits a slot that is free. `false` where nobody waits any more. Where it is an error,
    /// nobody is told of before it was tried again.
    fn accept(&mut self, slot: usize) -> io::Result<bool>;

    /// Lets a connection wait: nothing is read of it, so that the other side has to wait too; or reads on. Of one that had
    /// ended, that may be told again.
    fn hold(&mut self, slot: usize, is_held: bool);

    /// Bytes of a connection that the other side has left no room for.
    fn unsent(&self, slot: usize) -> usize;

    /// Sends on a connection.
    fn send(&mut self, slot: usize, bytes: &[u8]);

    /// Closes a connection; nothing more is told of it.
    fn close(&mut self, slot: usize);

    /// Begins to write a file of so many letters; that number comes back with its end.
    fn write(&mut self, number: u64, path: PathBuf, bytes: usize);

    /// Tells after that time; a timer that runs already begins anew.
    fn after(&mut self, slot: usize, time: Duration);

    /// Lets happen what can happen, and adds it; waits for something where that is wanted.
    fn turn(&mut self, wait: bool, happened: &mut Vec<Happened>);

    /// What ends a wait in [`Reactor::turn`].
    fn waker(&self) -> Waker;

    /// What it is, with its version.
    fn name(&self) -> String;
}

/// Why there is no loop.
#[derive(Debug, thiserror::Error)]
pub enum ReactorError {
    /// The library is not there.
    #[error("libuv cannot be loaded: {0}; install it: apt-get install libuv1, or choose --loop epoll")]
    NoLibrary(String),
    /// The kernel refused.
    #[error("the event loop cannot be made: {0}")]
    Io(#[from] io::Error),
}

/// Sockets that a turn of our own loop looks at.
const READY: usize = 256;

/// Makes a loop, with so many threads for files.
pub fn make(kind: configuration::Reactor, threads: usize) -> Result<Box<dyn Reactor>, ReactorError> {
    match kind {
        configuration::Reactor::Libuv => Ok(Box::new(uv::Uv::new(threads)?)),
        configuration::Reactor::Epoll => Ok(Box::new(epoll::Epoll::new(threads, READY)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    fn until(reactor: &mut dyn Reactor, all: &mut Vec<Happened>, done: impl Fn(&[Happened]) -> bool) {
        let begin = Instant::now();
        while !done(all) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{all:?}");
            reactor.turn(true, all);
        }
    }

    /// The same is demanded of each.
    fn does_all(kind: configuration::Reactor) {
        let mut reactor = make(kind, 2).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut one, _) = listener.accept().unwrap();
            let mut bytes = [0; 5];
            one.read_exact(&mut bytes).unwrap();
            one.write_all(&bytes).unwrap();
            // Until the client closes.
            let _ = one.read(&mut bytes);
            let (other, _) = listener.accept().unwrap();
            drop(other);
        });
        let mut all = Vec::new();
        reactor.connect(3, address);
        until(&mut *reactor, &mut all, |all| matches!(all, [Happened::Connected(3)]));
        all.clear();
        reactor.send(3, b"hello");
        until(&mut *reactor, &mut all, |all| {
            let came: Vec<u8> = all
                .iter()
                .flat_map(|one| match one {
                    Happened::Data(3, bytes) => bytes.clone(),
                    other => panic!("{other:?}"),
                })
                .collect();
            came == b"hello"
        });
        all.clear();
        reactor.close(3);
        // The slot is free at once.
        reactor.connect(3, address);
        until(&mut *reactor, &mut all, |all| matches!(all, [Happened::Connected(3), Happened::Ended(3)]));
        server.join().unwrap();
        reactor.close(3);
        all.clear();
        // Nobody listens any more.
        reactor.connect(4, address);
        until(
            &mut *reactor,
            &mut all,
            |all| matches!(all, [Happened::Closed(4, reason)] if !reason.is_empty()),
        );
        all.clear();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("content");
        // More than there are letters in one piece.
        reactor.write(7, path.clone(), 3_000_000);
        reactor.write(8, folder.path().join("no/such/folder"), 1);
        until(&mut *reactor, &mut all, |all| all.len() == 2);
        for one in &all {
            match one {
                Happened::Written(7, result) => assert!(result.is_ok(), "{result:?}"),
                Happened::Written(8, result) => {
                    assert_eq!(result.as_ref().unwrap_err().kind(), io::ErrorKind::NotFound)
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(std::fs::read(&path).unwrap() == vec![b'e'; 3_000_000]);
        all.clear();

        listens(&mut *reactor);

        let begin = Instant::now();
        // A timer that runs begins anew; another one does not.
        reactor.after(5, Duration::from_secs(3600));
        reactor.after(6, Duration::ZERO);
        reactor.after(5, Duration::from_millis(20));
        until(&mut *reactor, &mut all, |all| matches!(all, [Happened::Elapsed(6), Happened::Elapsed(5)]));
        assert!(begin.elapsed() >= Duration::from_millis(19));
        all.clear();

        let waker = reactor.waker();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            waker();
        });
        reactor.turn(true, &mut all);
        assert!(all.is_empty());
        other.join().unwrap();
        reactor.turn(false, &mut all);
        assert!(all.is_empty());
    }

    /// Lets others connect, and those who send too much wait.
    fn listens(reactor: &mut dyn Reactor) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        reactor.listen(listener).unwrap();
        let mut all = Vec::new();
        let mut one = TcpStream::connect(address).unwrap();
        let other = TcpStream::connect(address).unwrap();
        until(reactor, &mut all, |all| matches!(all, [Happened::Incoming]));
        all.clear();
        assert!(reactor.accept(10).unwrap());
        until(reactor, &mut all, |all| matches!(all, [Happened::Incoming]));
        all.clear();
        assert!(reactor.accept(11).unwrap());
        assert!(!reactor.accept(12).unwrap(), "nobody else has come");
        drop(other);
        until(reactor, &mut all, |all| matches!(all, [Happened::Ended(11)]));
        all.clear();
        reactor.close(11);

        reactor.hold(10, true);
        one.write_all(b"some").unwrap();
        // Whatever is told within this time, it is not what was sent.
        reactor.after(5, Duration::from_millis(50));
        until(reactor, &mut all, |all| matches!(all, [Happened::Elapsed(5)]));
        all.clear();
        reactor.hold(10, false);
        until(reactor, &mut all, |all| matches!(all, [Happened::Data(10, bytes)] if bytes == b"some"));
        all.clear();

        // More than any socket takes: the rest is known, and goes when there is room.
        let much = vec![b'm'; 32 << 20];
        reactor.send(10, &much);
        assert!(reactor.unsent(10) > 0);
        // Who says nothing more may still read; it is told once.
        one.shutdown(std::net::Shutdown::Write).unwrap();
        until(reactor, &mut all, |all| matches!(all, [Happened::Ended(10)]));
        let reader = std::thread::spawn(move || {
            let mut read = vec![0; 32 << 20];
            one.read_exact(&mut read).unwrap();
            (read, one)
        });
        while reactor.unsent(10) > 0 {
            reactor.turn(true, &mut all);
        }
        let (read, one) = reader.join().unwrap();
        assert!(read == much);
        drop(one);
        reactor.after(5, Duration::from_millis(50));
        until(reactor, &mut all, |all| matches!(all.last(), Some(Happened::Elapsed(5))));
        // Whether it is seen that the other side has gone altogether, depends on the loop.
        assert!(
            matches!(all[..], [Happened::Ended(10), .., Happened::Elapsed(5)]) && all.len() <= 3,
            "{all:?}"
        );
        reactor.close(10);
        assert_eq!(reactor.unsent(10), 0);
    }

    #[test]
    fn libuv_does_all() {
        does_all(configuration::Reactor::Libuv);
    }

    #[test]
    fn epoll_does_all() {
        does_all(configuration::Reactor::Epoll);
    }
}
