//! A listening socket.

use plimsoll_model::Nanos;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

/// How long accepting pauses when the system has no room for another connection.
const PAUSE: Nanos = Nanos::from_millis(100);

/// Where clients come in.
pub struct Door {
    listener: TcpListener,
    /// Its id in epoll.
    id: u64,
    /// When accepting is tried again.
    again: Option<Nanos>,
}

impl Door {
    /// Begins to listen. `id` names it in epoll.
    pub fn open(address: SocketAddr, id: u64) -> std::io::Result<Door> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Door { listener, id, again: None })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Asks epoll for events of new connections.
    pub fn register(&self, epoll: &OwnedFd) -> rustix::io::Result<()> {
        epoll::add(epoll, &self.listener, EventData::new_u64(self.id), EventFlags::IN)
    }

    /// The next client, `None` where nobody waits or the system has no room.
    pub fn accept(&mut self, epoll: &OwnedFd, now: Nanos) -> Option<TcpStream> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => return Some(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(_) => {
                    // No descriptors are left: to ask again at once would burn the processor that we serve with.
                    let data = EventData::new_u64(self.id);
                    let _ = epoll::modify(epoll, &self.listener, data, EventFlags::empty());
                    self.again = Some(now + PAUSE);
                    return None;
                }
            }
        }
    }

    /// Accepts again after a pause.
    pub fn resume(&mut self, epoll: &OwnedFd, now: Nanos) -> rustix::io::Result<()> {
        if self.again.is_some_and(|again| again <= now) {
            self.again = None;
            epoll::modify(epoll, &self.listener, EventData::new_u64(self.id), EventFlags::IN)?;
        }
        Ok(())
    }
}
