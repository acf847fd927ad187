//! What of libuv is used, as its documentation declares it (docs.libuv.org).

use super::ReactorError;
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The names under which the library may be found.
const NAMES: [&str; 2] = ["libuv.so.1", "libuv.so"];
/// Numbers of handles (`uv_handle_type`) and requests (`uv_req_type`).
pub(super) const ASYNC: c_int = 1;
pub(super) const TCP: c_int = 12;
pub(super) const TIMER: c_int = 13;
pub(super) const CONNECT: c_int = 2;
pub(super) const WRITE: c_int = 3;
pub(super) const FS: c_int = 6;
/// What is read at the end of a stream (`UV_EOF`, on Unix).
pub(super) const EOF: isize = -4095;
/// Of `uv_run`.
pub(super) const ONCE: c_int = 1;
pub(super) const NOWAIT: c_int = 2;

pub(super) type Handle = *mut c_void;
pub(super) type Request = *mut c_void;
pub(super) type AllocCallback = unsafe extern "C" fn(Handle, usize, *mut Buffer);
pub(super) type ReadCallback = unsafe extern "C" fn(Handle, isize, *const Buffer);
pub(super) type HandleCallback = unsafe extern "C" fn(Handle);
pub(super) type StatusCallback = unsafe extern "C" fn(Request, c_int);
pub(super) type FileCallback = unsafe extern "C" fn(Request);

/// `uv_buf_t` as it is on Unix.
#[repr(C)]
pub(super) struct Buffer {
    pub base: *mut u8,
    pub length: usize,
}

macro_rules! library {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are used.
        pub(super) struct Api {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
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
    tcp_open: fn(Handle, c_int) -> c_int;
    tcp_connect: fn(Request, Handle, *const c_void, StatusCallback) -> c_int;
    listen: fn(Handle, c_int, StatusCallback) -> c_int;
    accept: fn(Handle, Handle) -> c_int;
    read_start: fn(Handle, AllocCallback, ReadCallback) -> c_int;
    read_stop: fn(Handle) -> c_int;
    stream_get_write_queue_size: fn(Handle) -> usize;
    try_write: fn(Handle, *const Buffer, c_uint) -> c_int;
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
    pub fn load() -> Result<Api, ReactorError> {
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

    pub fn words(&self, error: c_int) -> String {
        // SAFETY: libuv gives a text that is never freed.
        unsafe { CStr::from_ptr((self.strerror)(error)) }.to_string_lossy().into_owned()
    }
}

/// Memory for a structure of libuv, as strictly aligned as any of them.
pub(super) fn memory(size: usize) -> *mut c_void {
    let words = vec![0_u128; size.div_ceil(size_of::<u128>())].into_boxed_slice();
    Box::into_raw(words).cast()
}

/// Gives such memory back.
///
/// # Safety
/// It came from [`memory`] with the same size, and libuv has no use for it any more.
pub(super) unsafe fn free(memory: *mut c_void, size: usize) {
    let words = std::ptr::slice_from_raw_parts_mut(memory.cast::<u128>(), size.div_ceil(size_of::<u128>()));
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(words) });
}

/// The data of a handle or a request: the first member of each.
pub(super) unsafe fn data<T>(of: *mut c_void) -> *mut T {
    // SAFETY: `data` is the first, public member of `uv_handle_t` and `uv_req_t` in all versions of libuv 1.
    unsafe { *of.cast::<*mut T>() }
}
