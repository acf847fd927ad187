//! Accepts connections and bounds what each may take: their number, the size of a head, and the time until it has come. Bodies are bounded
//! where they are read.

use crate::routes;
use crate::site::Site;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Most connections at once.
const MOST: usize = 512;
/// How long a head may take to come, and a connection may say nothing between two requests.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are read ahead; a head has less.
const BUFFER: usize = 16 * 1024;
/// Lines that a head may have.
const MOST_HEADERS: usize = 64;
/// How long nothing is accepted where the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// A listener, with what its connections are answered from.
pub struct Connections {
    listener: TcpListener,
    site: Arc<Site>,
    free: Arc<Semaphore>,
}

impl Connections {
    /// Of that listener.
    pub fn new(listener: TcpListener, site: Arc<Site>) -> Connections {
        Connections { listener, site, free: Arc::new(Semaphore::new(MOST)) }
    }

    /// Answers for ever.
    pub async fn serve(&self) {
        loop {
            // Who comes when there are too many waits in the kernel's queue.
            let Ok(free) = Arc::clone(&self.free).acquire_owned().await else { return };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            // Events are small and should leave at once.
            let _ = stream.set_nodelay(true);
            let site = Arc::clone(&self.site);
            tokio::spawn(async move {
                let service = service_fn(|request: Request<Incoming>| {
                    let site = Arc::clone(&site);
                    async move { Ok::<_, Infallible>(routes::answer(&site, request).await) }
                });
                let served = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .max_headers(MOST_HEADERS)
                    .max_buf_size(BUFFER)
                    .serve_connection(TokioIo::new(stream), service);
                // A browser that goes away is no error of ours.
                let _ = served.await;
                drop(free);
            });
        }
    }
}
