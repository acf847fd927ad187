//! The event loop of libuv. The library is loaded when the gateway starts, so that nothing of it is needed to build; what is
//! declared here is its documented interface of version 1 (docs.libuv.org), in which all structures are opaque: libuv says
//! itself how large they are.
//!
//! This module and those in it are the ones of Plimsoll with unsafe code. What holds it together: every structure that libuv writes to is on
//! the heap, belongs to libuv from its beginning until libuv's last callback for it, and is freed there; callbacks run on the
//! thread of the loop alone, within `turn`, and do nothing but append to a queue that lives as long as the loop.
#![allow(unsafe_code)]

mod api;
mod files;

use super::{Happened, Reactor, ReactorError, Waker};
use api::{
    ASYNC, Api, Buffer, CONNECT, EOF, Handle, NOWAIT, ONCE, Request, TCP, TIMER, WRITE, data, free, memory,
};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::IntoRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that are read at once.
const READ: usize = 1 << 14;
/// Connections that the kernel keeps until they are accepted.
const BACKLOG: c_int = 1024;

/// What callbacks reach: it stays where it is as long as the loop.
struct Inner {
    api: Api,
    happened: Vec<Happened>,
    /// What is read of any connection, until it is told.
    buffer: Vec<u8>,
}

/// A connection, as its handle's data.
struct Stream {
    inner: *mut Inner,
    slot: usize,
    /// The caller has closed it: nothing more is told of it.
    closed: bool,
}

/// Bytes under way, as their request's data.
struct Sending {
    inner: *mut Inner,
    stream: Handle,
    /// libuv reads it until it calls back.
    _bytes: Vec<u8>,
}

/// A timer, as its handle's data.
struct Timer {
    inner: *mut Inner,
    slot: usize,
}

/// The loop.
pub struct Uv {
    inner: *mut Inner,
    event_loop: *mut c_void,
    wake: Arc<Wake>,
    streams: HashMap<usize, Handle>,
    /// Where connections come in.
    listener: Option<Handle>,
    timers: HashMap<usize, Handle>,
}

/// The handle that ends a wait. `uv_async_send` is the one function that other threads may call.
struct Wake {
    handle: Handle,
    send: unsafe extern "C" fn(Handle) -> c_int,
    /// The loop is there, and the handle with it.
    alive: std::sync::Mutex<bool>,
}

// SAFETY: the handle is only given to `uv_async_send`, which may be called from any thread.
unsafe impl Send for Wake {}
// SAFETY: the same.
unsafe impl Sync for Wake {}

impl Uv {
    /// With so many threads for files.
    pub fn new(threads: usize) -> Result<Uv, ReactorError> {
        let api = Api::load()?;
        let (name, value) = (c"UV_THREADPOOL_SIZE", CString::new(threads.max(1).to_string()));
        // SAFETY: both texts end with a zero; the gateway makes its loop before it has other threads that could read the
        // environment. Structures have the size that libuv says, and are freed when `loop_close` or a callback says so.
        unsafe {
            (api.os_setenv)(name.as_ptr(), value.unwrap_or_default().as_ptr());
            let event_loop = memory((api.loop_size)());
            let failed = (api.loop_init)(event_loop);
            if failed != 0 {
                free(event_loop, (api.loop_size)());
                return Err(ReactorError::Io(io::Error::from_raw_os_error(-failed)));
            }
            let handle = memory((api.handle_size)(ASYNC));
            let failed = (api.async_init)(event_loop, handle, on_wake);
            let send = api.async_send;
            let inner = Box::into_raw(Box::new(Inner { api, happened: Vec::new(), buffer: vec![0; READ] }));
            let uv = Uv {
                inner,
                event_loop,
                wake: Arc::new(Wake { handle, send, alive: std::sync::Mutex::new(failed == 0) }),
                streams: HashMap::new(),
                listener: None,
                timers: HashMap::new(),
            };
            if failed != 0 {
                return Err(ReactorError::Io(io::Error::from_raw_os_error(-failed)));
            }
            Ok(uv)
        }
    }

    fn api(&self) -> &Api {
        // SAFETY: it lives as long as this.
        unsafe { &(*self.inner).api }
    }

    fn tell(&mut self, happened: Happened) {
        // SAFETY: no callback runs now.
        unsafe { (*self.inner).happened.push(happened) };
    }

    /// A handle for the connection of a slot, which has none yet.
    fn stream(&mut self, slot: usize) -> Result<Handle, c_int> {
        // SAFETY: the handle's memory and its data are freed by `on_stream_closed`; where libuv refuses the handle, here.
        let handle = unsafe {
            let api = self.api();
            let handle = memory((api.handle_size)(TCP));
            let failed = (api.tcp_init)(self.event_loop, handle);
            if failed != 0 {
                free(handle, (api.handle_size)(TCP));
                return Err(failed);
            }
            let stream = Stream { inner: self.inner, slot, closed: false };
            (api.handle_set_data)(handle, Box::into_raw(Box::new(stream)).cast());
            handle
        };
        self.streams.insert(slot, handle);
        Ok(handle)
    }

    fn run(&mut self, mode: c_int) {
        // SAFETY: the loop was initialised, and this is its thread.
        unsafe { (self.api().run)(self.event_loop, mode) };
    }
}

impl Reactor for Uv {
    fn connect(&mut self, slot: usize, address: SocketAddr) {
        let failed = match self.stream(slot) {
            // SAFETY: the request is freed by `on_connected`; where libuv refuses it, here.
            Ok(handle) => unsafe {
                let api = self.api();
                let request = memory((api.req_size)(CONNECT));
                (api.req_set_data)(request, handle);
                let address = socket_address(address);
                let failed = (api.tcp_connect)(request, handle, address.as_ptr().cast(), on_connected);
                if failed != 0 {
                    free(request, (api.req_size)(CONNECT));
                }
                failed
            },
            Err(failed) => failed,
        };
        if failed != 0 {
            let reason = self.api().words(failed);
            self.close(slot);
            self.tell(Happened::Closed(slot, reason));
        }
    }

    fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        // SAFETY: the handle is freed by `on_listener_closed`, which is called when the loop ends; where libuv refuses it, here.
        unsafe {
            let api = self.api();
            let handle = memory((api.handle_size)(TCP));
            let failed = (api.tcp_init)(self.event_loop, handle);
            if failed != 0 {
                free(handle, (api.handle_size)(TCP));
                return Err(io::Error::from_raw_os_error(-failed));
            }
            (api.handle_set_data)(handle, self.inner.cast());
            // The socket is libuv's from here on.
            let mut failed = (api.tcp_open)(handle, listener.into_raw_fd());
            if failed == 0 {
                failed = (api.listen)(handle, BACKLOG, on_incoming);
            }
            self.listener = Some(handle);
            if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-failed)) }
        }
    }

    fn accept(&mut self, slot: usize) -> io::Result<bool> {
        let Some(listener) = self.listener else { return Ok(false) };
        let failed = match self.stream(slot) {
            // SAFETY: both handles are open.
            Ok(handle) => unsafe {
                let api = self.api();
                match (api.accept)(listener, handle) {
                    0 => {
                        (api.tcp_nodelay)(handle, 1);
                        (api.read_start)(handle, on_memory_wanted, on_read)
                    }
                    failed => failed,
                }
            },
            Err(failed) => failed,
        };
        if failed == 0 {
            return Ok(true);
        }
        self.close(slot);
        let error = io::Error::from_raw_os_error(-failed);
        if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) }
    }

    fn hold(&mut self, slot: usize, is_held: bool) {
        let Some(&handle) = self.streams.get(&slot) else { return };
        // SAFETY: the handle is open as long as it is among the streams, and its data with it.
        let failed = unsafe {
            let api = self.api();
            if is_held {
                (api.read_stop)(handle)
            } else {
                (api.read_start)(handle, on_memory_wanted, on_read)
            }
        };
        if failed != 0 {
            let reason = self.api().words(failed);
            self.close(slot);
            self.tell(Happened::Closed(slot, reason));
        }
    }

    fn unsent(&self, slot: usize) -> usize {
        // SAFETY: the handle is open as long as it is among the streams.
        self.streams
            .get(&slot)
            .map_or(0, |&handle| unsafe { (self.api().stream_get_write_queue_size)(handle) })
    }

    fn send(&mut self, slot: usize, bytes: &[u8]) {
        let Some(&handle) = self.streams.get(&slot) else { return };
        let inner = self.inner;
        // SAFETY: libuv copies the buffers' descriptions. What the socket takes at once is read before `try_write` returns; the
        // rest until `on_sent`, which frees it and the request; where libuv refuses, this does.
        unsafe {
            let api = &(*inner).api;
            let buffer = Buffer { base: bytes.as_ptr().cast_mut(), length: bytes.len() };
            // Where the socket takes nothing, or waits for its turn, that is an error; a true one comes again.
            let sent = usize::try_from((api.try_write)(handle, &raw const buffer, 1)).unwrap_or(0);
            if sent == bytes.len() {
                return;
            }
            let rest = bytes[sent..].to_vec();
            let buffer = Buffer { base: rest.as_ptr().cast_mut(), length: rest.len() };
            let request = memory((api.req_size)(WRITE));
            let sending = Box::into_raw(Box::new(Sending { inner, stream: handle, _bytes: rest }));
            (api.req_set_data)(request, sending.cast());
            let failed = (api.write)(request, handle, &raw const buffer, 1, on_sent);
            if failed != 0 {
                drop(Box::from_raw(sending));
                free(request, (api.req_size)(WRITE));
                let reason = api.words(failed);
                self.close(slot);
                self.tell(Happened::Closed(slot, reason));
            }
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(handle) = self.streams.remove(&slot) {
            // SAFETY: the handle is open as long as it is among the streams.
            unsafe {
                let api = &(*self.inner).api;
                (*data::<Stream>(handle)).closed = true;
                (api.close)(handle, on_stream_closed);
            }
        }
        // SAFETY: no callback runs now.
        let happened = unsafe { &mut (*self.inner).happened };
        happened.retain(
            |one| !matches!(one, Happened::Closed(known, _) | Happened::Data(known, _) | Happened::Ended(known) if *known == slot),
        );
    }

    fn write(&mut self, number: u64, path: PathBuf, bytes: usize) {
        // SAFETY: no callback runs now, and the loop is there as long as this.
        unsafe { files::begin(self.inner, self.event_loop, number, &path, bytes) };
    }

    fn after(&mut self, slot: usize, time: Duration) {
        let inner = self.inner;
        // SAFETY: the handle is freed with the loop, by `on_timer_closed`.
        unsafe {
            let api = &(*inner).api;
            let handle = *self.timers.entry(slot).or_insert_with(|| {
                let handle = memory((api.handle_size)(TIMER));
                // It cannot fail (libuv's documentation of `uv_timer_init`: always 0).
                (api.timer_init)(self.event_loop, handle);
                (api.handle_set_data)(handle, Box::into_raw(Box::new(Timer { inner, slot })).cast());
                handle
            });
            // Whole milliseconds, and never too early: libuv counts from when its loop last woke up.
            (api.update_time)(self.event_loop);
            let milliseconds = time.as_nanos().div_ceil(1_000_000) as u64;
            (api.timer_start)(handle, on_elapsed, milliseconds, 0);
        }
    }

    fn turn(&mut self, wait: bool, happened: &mut Vec<Happened>) {
        // SAFETY: no callback runs now.
        let waits = wait && unsafe { (*self.inner).happened.is_empty() };
        self.run(if waits { ONCE } else { NOWAIT });
        // SAFETY: the same.
        let told = unsafe { std::mem::take(&mut (*self.inner).happened) };
        for one in told {
            if let Happened::Closed(slot, _) = &one
                && let Some(handle) = self.streams.remove(slot)
            {
                // SAFETY: the handle is open as long as it is among the streams.
                unsafe {
                    let api = &(*self.inner).api;
                    (*data::<Stream>(handle)).closed = true;
                    (api.close)(handle, on_stream_closed);
                }
            }
            happened.push(one);
        }
    }

    fn waker(&self) -> Waker {
        let wake = Arc::clone(&self.wake);
        Arc::new(move || wake.wake())
    }

    fn name(&self) -> String {
        // SAFETY: libuv gives a text that is never freed.
        let version = unsafe { CStr::from_ptr((self.api().version_string)()) };
        format!("libuv {}", version.to_string_lossy())
    }
}

impl Wake {
    fn wake(&self) {
        let alive = self.alive.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *alive {
            // SAFETY: the handle is open while the loop is alive, and the lock keeps it so.
            unsafe { (self.send)(self.handle) };
        }
    }
}

impl Drop for Uv {
    fn drop(&mut self) {
        let slots: Vec<usize> = self.streams.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.close(slot));
        let was_alive =
            std::mem::take(&mut *self.wake.alive.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        // SAFETY: all that is open is closed; the loop runs until libuv has called back for each, files that are being written
        // included, so that it can be closed and nothing of it is used again.
        unsafe {
            let api = &(*self.inner).api;
            if let Some(listener) = self.listener.take() {
                (api.close)(listener, on_listener_closed);
            }
            for handle in self.timers.drain().map(|(_, handle)| handle) {
                (api.close)(handle, on_timer_closed);
            }
            if was_alive {
                (api.handle_set_data)(self.wake.handle, self.inner.cast());
                (api.close)(self.wake.handle, on_wake_closed);
            } else {
                free(self.wake.handle, (api.handle_size)(ASYNC));
            }
            while (api.run)(self.event_loop, ONCE) != 0 {}
            if (api.loop_close)(self.event_loop) == 0 {
                free(self.event_loop, (api.loop_size)());
            }
            drop(Box::from_raw(self.inner));
        }
    }
}

/// A `sockaddr_in` or `sockaddr_in6`, in the kernel's form.
fn socket_address(address: SocketAddr) -> Vec<u8> {
    const INET: u16 = 2;
    const INET6: u16 = 10;
    match address {
        SocketAddr::V4(v4) => {
            let head = [INET.to_ne_bytes(), v4.port().to_be_bytes()].concat();
            [head, v4.ip().octets().to_vec(), vec![0; 8]].concat()
        }
        SocketAddr::V6(v6) => {
            let head = [INET6.to_ne_bytes(), v6.port().to_be_bytes()].concat();
            let flow = v6.flowinfo().to_be_bytes().to_vec();
            [head, flow, v6.ip().octets().to_vec(), v6.scope_id().to_ne_bytes().to_vec()].concat()
        }
    }
}

// What follows is called by libuv, on the thread of the loop, with the pointers that it was given.

unsafe extern "C" fn on_wake(_: Handle) {}

unsafe extern "C" fn on_wake_closed(handle: Handle) {
    // SAFETY: the data was set to the inner part right before the handle was closed.
    unsafe {
        let inner = data::<Inner>(handle);
        free(handle, ((*inner).api.handle_size)(ASYNC));
    }
}

unsafe extern "C" fn on_incoming(listener: Handle, _: c_int) {
    // SAFETY: the listener's data is the inner part. Whether somebody is there, `uv_accept` says.
    unsafe { (*data::<Inner>(listener)).happened.push(Happened::Incoming) };
}

unsafe extern "C" fn on_listener_closed(handle: Handle) {
    // SAFETY: this is libuv's last word on the handle.
    unsafe {
        let inner = data::<Inner>(handle);
        free(handle, ((*inner).api.handle_size)(TCP));
    }
}

unsafe extern "C" fn on_connected(request: Request, status: c_int) {
    // SAFETY: the request's data is the handle, whose data is a `Stream` until it is closed.
    unsafe {
        let handle: Handle = data::<c_void>(request);
        let stream = &mut *data::<Stream>(handle);
        let inner = &mut *stream.inner;
        free(request, (inner.api.req_size)(CONNECT));
        if stream.closed {
            return;
        }
        (inner.api.tcp_nodelay)(handle, 1);
        let failed =
            if status == 0 { (inner.api.read_start)(handle, on_memory_wanted, on_read) } else { status };
        let told = match failed {
            0 => Happened::Connected(stream.slot),
            failed => Happened::Closed(stream.slot, inner.api.words(failed)),
        };
        inner.happened.push(told);
    }
}

unsafe extern "C" fn on_memory_wanted(handle: Handle, _: usize, buffer: *mut Buffer) {
    // SAFETY: the buffer stays where it is as long as the loop; libuv has filled it for `on_read` before it asks again.
    unsafe {
        let inner = &mut *(*data::<Stream>(handle)).inner;
        *buffer = Buffer { base: inner.buffer.as_mut_ptr(), length: inner.buffer.len() };
    }
}

unsafe extern "C" fn on_read(handle: Handle, read: isize, _: *const Buffer) {
    // SAFETY: as above; so many bytes of the buffer were written.
    unsafe {
        let stream = &mut *data::<Stream>(handle);
        let inner = &mut *stream.inner;
        if stream.closed || read == 0 {
            return;
        }
        match usize::try_from(read) {
            Ok(read) => inner.happened.push(Happened::Data(stream.slot, inner.buffer[..read].to_vec())),
            Err(_) if read == EOF => inner.happened.push(Happened::Ended(stream.slot)),
            Err(_) => {
                let reason = inner.api.words(read as c_int);
                inner.happened.push(Happened::Closed(stream.slot, reason));
            }
        }
    }
}

unsafe extern "C" fn on_sent(request: Request, status: c_int) {
    // SAFETY: the request's data is a `Sending`; its stream is freed only after this was called.
    unsafe {
        let sending = Box::from_raw(data::<Sending>(request));
        let inner = &mut *sending.inner;
        free(request, (inner.api.req_size)(WRITE));
        let stream = &mut *data::<Stream>(sending.stream);
        if status != 0 && !stream.closed {
            let reason = inner.api.words(status);
            inner.happened.push(Happened::Closed(stream.slot, reason));
        }
    }
}

unsafe extern "C" fn on_stream_closed(handle: Handle) {
    // SAFETY: this is libuv's last word on the handle.
    unsafe {
        let stream = Box::from_raw(data::<Stream>(handle));
        free(handle, ((*stream.inner).api.handle_size)(TCP));
    }
}

unsafe extern "C" fn on_elapsed(handle: Handle) {
    // SAFETY: the timer's data is a `Timer` until it is closed.
    unsafe {
        let timer = &*data::<Timer>(handle);
        (*timer.inner).happened.push(Happened::Elapsed(timer.slot));
    }
}

unsafe extern "C" fn on_timer_closed(handle: Handle) {
    // SAFETY: this is libuv's last word on the handle.
    unsafe {
        let timer = Box::from_raw(data::<Timer>(handle));
        free(handle, ((*timer.inner).api.handle_size)(TIMER));
    }
}
