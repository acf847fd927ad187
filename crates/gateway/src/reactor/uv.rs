//! The event loop of libuv. The library is loaded when the gateway starts, so that nothing of it is needed to build; what is
//! declared here is its documented interface of version 1 (docs.libuv.org), in which all structures are opaque: libuv says
//! itself how large they are.
//!
//! This is the one module of Plimsoll with unsafe code. What holds it together: every structure that libuv writes to is on
//! the heap, belongs to libuv from its beginning until libuv's last callback for it, and is freed there; callbacks run on the
//! thread of the loop alone, within `turn`, and do nothing but append to a queue that lives as long as the loop.
#![allow(unsafe_code)]

use super::{Happened, Reactor, ReactorError, Waker};
use libloading::Library;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The names under which the library may be found.
const NAMES: [&str; 2] = ["libuv.so.1", "libuv.so"];
/// Numbers of handles (`uv_handle_type`) and requests (`uv_req_type`).
const ASYNC: c_int = 1;
const TCP: c_int = 12;
const TIMER: c_int = 13;
const CONNECT: c_int = 2;
const WRITE: c_int = 3;
const FS: c_int = 6;
/// Of `uv_run`.
const ONCE: c_int = 1;
const NOWAIT: c_int = 2;
/// Bytes that are read at once.
const READ: usize = 1 << 14;

type Handle = *mut c_void;
type Request = *mut c_void;
type AllocCallback = unsafe extern "C" fn(Handle, usize, *mut Buffer);
type ReadCallback = unsafe extern "C" fn(Handle, isize, *const Buffer);
type HandleCallback = unsafe extern "C" fn(Handle);
type StatusCallback = unsafe extern "C" fn(Request, c_int);
type FileCallback = unsafe extern "C" fn(Request);

/// `uv_buf_t` as it is on Unix.
#[repr(C)]
struct Buffer {
    base: *mut u8,
    length: usize,
}

macro_rules! library {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are used.
        struct Api {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// The functions are there as long as it is.
            _library: Library,
        }

        impl Api {
            fn of(library: Library) -> Result<Api, libloading::Error> {
                // SAFETY: the types are those of libuv's documented interface.
                unsafe {
                    Ok(Api {
                        $($name: *library.get(concat!("uv_", stringify!($name)))?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

library! {
    loop_size: fn() -> usize;
    loop_init: fn(*mut c_void) -> c_int;
    loop_close: fn(*mut c_void) -> c_int;
    run: fn(*mut c_void, c_int) -> c_int;
    handle_size: fn(c_int) -> usize;
    req_size: fn(c_int) -> usize;
    handle_set_data: fn(Handle, *mut c_void);
    req_set_data: fn(Request, *mut c_void);
    close: fn(Handle, HandleCallback);
    tcp_init: fn(*mut c_void, Handle) -> c_int;
    tcp_nodelay: fn(Handle, c_int) -> c_int;
    tcp_connect: fn(Request, Handle, *const c_void, StatusCallback) -> c_int;
    read_start: fn(Handle, AllocCallback, ReadCallback) -> c_int;
    write: fn(Request, Handle, *const Buffer, c_uint, StatusCallback) -> c_int;
    async_init: fn(*mut c_void, Handle, HandleCallback) -> c_int;
    async_send: fn(Handle) -> c_int;
    timer_init: fn(*mut c_void, Handle) -> c_int;
    update_time: fn(*mut c_void);
    timer_start: fn(Handle, HandleCallback, u64, u64) -> c_int;
    fs_open: fn(*mut c_void, Request, *const c_char, c_int, c_int, FileCallback) -> c_int;
    fs_write: fn(*mut c_void, Request, c_int, *const Buffer, c_uint, i64, FileCallback) -> c_int;
    fs_close: fn(*mut c_void, Request, c_int, FileCallback) -> c_int;
    fs_get_result: fn(Request) -> isize;
    fs_req_cleanup: fn(Request);
    strerror: fn(c_int) -> *const c_char;
    version_string: fn() -> *const c_char;
    os_setenv: fn(*const c_char, *const c_char) -> c_int;
}

impl Api {
    fn load() -> Result<Api, ReactorError> {
        let mut reason = String::new();
        for name in NAMES {
            // SAFETY: loading runs the initialisers of libuv, which demand nothing.
            match unsafe { Library::new(name) }.and_then(Api::of) {
                Ok(api) => return Ok(api),
                Err(error) => reason = error.to_string(),
            }
        }
        Err(ReactorError::NoLibrary(reason))
    }

    fn words(&self, error: c_int) -> String {
        // SAFETY: libuv gives a text that is never freed.
        unsafe { CStr::from_ptr((self.strerror)(error)) }.to_string_lossy().into_owned()
    }
}

/// Memory for a structure of libuv, as strictly aligned as any of them.
fn memory(size: usize) -> *mut c_void {
    let words = vec![0_u128; size.div_ceil(size_of::<u128>())].into_boxed_slice();
    Box::into_raw(words).cast()
}

/// Gives such memory back.
///
/// # Safety
/// It came from [`memory`] with the same size, and libuv has no use for it any more.
unsafe fn free(memory: *mut c_void, size: usize) {
    let words = std::ptr::slice_from_raw_parts_mut(memory.cast::<u128>(), size.div_ceil(size_of::<u128>()));
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(words) });
}

/// What callbacks reach: it stays where it is as long as the loop.
struct Inner {
    api: Api,
    happened: Vec<Happened>,
}

/// A connection, as its handle's data.
struct Stream {
    inner: *mut Inner,
    slot: usize,
    /// The caller has closed it: nothing more is told of it.
    closed: bool,
    buffer: Vec<u8>,
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

/// A file that is being written, as its request's data.
struct Writing {
    inner: *mut Inner,
    event_loop: *mut c_void,
    number: u64,
    content: Vec<u8>,
    written: usize,
    file: c_int,
    /// What went wrong before the file was closed.
    failure: c_int,
}

/// The loop.
pub struct Uv {
    inner: *mut Inner,
    event_loop: *mut c_void,
    wake: Arc<Wake>,
    streams: HashMap<usize, Handle>,
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
            let inner = Box::into_raw(Box::new(Inner { api, happened: Vec::new() }));
            let uv = Uv {
                inner,
                event_loop,
                wake: Arc::new(Wake { handle, send, alive: std::sync::Mutex::new(failed == 0) }),
                streams: HashMap::new(),
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

    fn run(&mut self, mode: c_int) {
        // SAFETY: the loop was initialised, and this is its thread.
        unsafe { (self.api().run)(self.event_loop, mode) };
    }
}

impl Reactor for Uv {
    fn connect(&mut self, slot: usize, address: SocketAddr) {
        let api: *const Api = self.api();
        // SAFETY: the handle's memory is freed by `on_stream_closed`, the request's by `on_connected`; where libuv refuses the
        // request, here.
        let failed = unsafe {
            let api = &*api;
            let handle = memory((api.handle_size)(TCP));
            let failed = (api.tcp_init)(self.event_loop, handle);
            if failed == 0 {
                let stream = Stream { inner: self.inner, slot, closed: false, buffer: vec![0; READ] };
                (api.handle_set_data)(handle, Box::into_raw(Box::new(stream)).cast());
                (api.tcp_nodelay)(handle, 1);
                self.streams.insert(slot, handle);
                let request = memory((api.req_size)(CONNECT));
                (api.req_set_data)(request, handle);
                let address = socket_address(address);
                let failed = (api.tcp_connect)(request, handle, address.as_ptr().cast(), on_connected);
                if failed != 0 {
                    free(request, (api.req_size)(CONNECT));
                }
                failed
            } else {
                free(handle, (api.handle_size)(TCP));
                failed
            }
        };
        if failed != 0 {
            let reason = self.api().words(failed);
            self.close(slot);
            self.tell(Happened::Closed(slot, reason));
        }
    }

    fn send(&mut self, slot: usize, bytes: &[u8]) {
        let Some(&handle) = self.streams.get(&slot) else { return };
        let bytes = bytes.to_vec();
        let buffer = Buffer { base: bytes.as_ptr().cast_mut(), length: bytes.len() };
        let inner = self.inner;
        // SAFETY: libuv copies the buffer's description, and reads the bytes until `on_sent`, which frees them and the
        // request; where libuv refuses, this does.
        unsafe {
            let api = &(*inner).api;
            let request = memory((api.req_size)(WRITE));
            let sending = Box::into_raw(Box::new(Sending { inner, stream: handle, _bytes: bytes }));
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
            |one| !matches!(one, Happened::Closed(known, _) | Happened::Data(known, _) if *known == slot),
        );
    }

    fn write(&mut self, number: u64, path: PathBuf, content: Vec<u8>) {
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "a path with a zero in it");
            return self.tell(Happened::Written(number, Err(error)));
        };
        let (inner, event_loop) = (self.inner, self.event_loop);
        let writing = Writing { inner, event_loop, number, content, written: 0, file: -1, failure: 0 };
        // SAFETY: libuv copies the path; the request and its data are freed by `end_of_file`.
        unsafe {
            let api = &(*inner).api;
            let request = memory((api.req_size)(FS));
            (api.req_set_data)(request, Box::into_raw(Box::new(writing)).cast());
            let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::TRUNC;
            let failed =
                (api.fs_open)(event_loop, request, path.as_ptr(), flags.bits() as c_int, 0o644, on_opened);
            if failed < 0 {
                end_of_file(request, failed);
            }
        }
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

/// The data of a handle or a request: the first member of each.
unsafe fn data<T>(of: *mut c_void) -> *mut T {
    // SAFETY: `data` is the first, public member of `uv_handle_t` and `uv_req_t` in all versions of libuv 1.
    unsafe { *of.cast::<*mut T>() }
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
    // SAFETY: the stream's buffer stays where it is until the handle is closed.
    unsafe {
        let stream = &mut *data::<Stream>(handle);
        *buffer = Buffer { base: stream.buffer.as_mut_ptr(), length: stream.buffer.len() };
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
            Ok(read) => inner.happened.push(Happened::Data(stream.slot, stream.buffer[..read].to_vec())),
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

unsafe extern "C" fn on_opened(request: Request) {
    // SAFETY: the request's data is a `Writing`.
    unsafe {
        let writing = &mut *data::<Writing>(request);
        let api = &(*writing.inner).api;
        let file = (api.fs_get_result)(request) as c_int;
        if file < 0 {
            return end_of_file(request, file);
        }
        writing.file = file;
        write_rest(request);
    }
}

/// Writes what is left, or closes the file.
unsafe fn write_rest(request: Request) {
    // SAFETY: the request's data is a `Writing`, whose content stays where it is until the end of the file.
    unsafe {
        let writing = &mut *data::<Writing>(request);
        let api = &(*writing.inner).api;
        (api.fs_req_cleanup)(request);
        let rest = &mut writing.content[writing.written..];
        let failed = if rest.is_empty() || writing.failure != 0 {
            (api.fs_close)(writing.event_loop, request, writing.file, on_file_closed)
        } else {
            let buffer = Buffer { base: rest.as_mut_ptr(), length: rest.len() };
            (api.fs_write)(writing.event_loop, request, writing.file, &raw const buffer, 1, -1, on_written)
        };
        if failed < 0 {
            end_of_file(request, failed);
        }
    }
}

unsafe extern "C" fn on_written(request: Request) {
    // SAFETY: as above.
    unsafe {
        let writing = &mut *data::<Writing>(request);
        let written = ((*writing.inner).api.fs_get_result)(request);
        match usize::try_from(written) {
            Ok(written) if written > 0 => writing.written += written,
            Ok(_) => writing.failure = -(rustix::io::Errno::IO.raw_os_error()),
            Err(_) => writing.failure = written as c_int,
        }
        write_rest(request);
    }
}

unsafe extern "C" fn on_file_closed(request: Request) {
    // SAFETY: as above.
    unsafe {
        let writing = &*data::<Writing>(request);
        let closed = ((*writing.inner).api.fs_get_result)(request) as c_int;
        let result = if writing.failure != 0 { writing.failure } else { closed };
        end_of_file(request, result);
    }
}

/// Tells of the end and frees the request.
unsafe fn end_of_file(request: Request, result: c_int) {
    // SAFETY: nothing of this request is under way.
    unsafe {
        let writing = Box::from_raw(data::<Writing>(request));
        let inner = &mut *writing.inner;
        (inner.api.fs_req_cleanup)(request);
        free(request, (inner.api.req_size)(FS));
        // libuv's errors are the kernel's, negated.
        let result = if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) };
        inner.happened.push(Happened::Written(writing.number, result));
    }
}
