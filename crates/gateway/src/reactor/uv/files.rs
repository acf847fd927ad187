//! Files that libuv writes: opened, written to the last byte and closed, one request for all three.

use super::Inner;
use super::api::{Buffer, FS, Request, data, free, memory};
use crate::reactor::Happened;
use crate::work::letters;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A file that is being written, as its request's data.
struct Writing {
    inner: *mut Inner,
    event_loop: *mut c_void,
    number: u64,
    /// How long it shall be, and how long it is.
    bytes: usize,
    written: usize,
    file: c_int,
    /// What went wrong before the file was closed.
    failure: c_int,
}

/// Begins to write a file; the number comes back with its end.
///
/// # Safety
/// Both live until the end is told, and no callback runs now.
pub(super) unsafe fn begin(
    inner: *mut Inner,
    event_loop: *mut c_void,
    number: u64,
    path: &Path,
    bytes: usize,
) {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "a path with a zero in it");
        // SAFETY: as demanded above.
        return unsafe { (*inner).happened.push(Happened::Written(number, Err(error))) };
    };
    let writing = Writing { inner, event_loop, number, bytes, written: 0, file: -1, failure: 0 };
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
    // SAFETY: the request's data is a `Writing`. libuv copies the descriptions of buffers; what they describe lives as long as the
    // program, and is only read.
    unsafe {
        let writing = &mut *data::<Writing>(request);
        let api = &(*writing.inner).api;
        (api.fs_req_cleanup)(request);
        let rest: Vec<Buffer> = letters(writing.bytes.saturating_sub(writing.written))
            .map(|piece| Buffer { base: piece.as_ptr().cast_mut(), length: piece.len() })
            .collect();
        let failed = if rest.is_empty() || writing.failure != 0 {
            (api.fs_close)(writing.event_loop, request, writing.file, on_file_closed)
        } else {
            let (first, count) = (rest.as_ptr(), rest.len() as c_uint);
            (api.fs_write)(writing.event_loop, request, writing.file, first, count, -1, on_written)
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
