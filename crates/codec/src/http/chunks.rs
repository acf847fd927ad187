//! What frames the chunks of a body (RFC 9112 section 7.1).

use super::HttpError;
use super::head::LARGEST_HEAD;

/// Longest line that says the size of a chunk, in bytes.
const LONGEST_SIZE_LINE: usize = 256;

/// The size of the chunk that begins here, and the bytes of the line that says it; `None` while the line is not whole.
///
/// # Errors
/// It is no such line.
pub fn size_line(bytes: &[u8]) -> Result<Option<(usize, usize)>, HttpError> {
    let Some(line_end) = memchr::memchr(b'\n', bytes.get(..LONGEST_SIZE_LINE).unwrap_or(bytes)) else {
        return if bytes.len() >= LONGEST_SIZE_LINE { Err(HttpError::Chunk) } else { Ok(None) };
    };
    let line = bytes.get(..line_end).unwrap_or_default();
    let size = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let size = str::from_utf8(size).ok().filter(|text| !text.starts_with('+'));
    let size = size.and_then(|text| usize::from_str_radix(text, 16).ok()).ok_or(HttpError::Chunk)?;
    Ok(Some((size, line_end + 1)))
}

/// Where the trailer section ends: with its empty line.
///
/// # Errors
/// It is longer than a head may be.
pub fn end_of_trailers(rest: &[u8]) -> Result<Option<usize>, HttpError> {
    if rest.starts_with(b"\r\n") {
        return Ok(Some(2));
    }
    match memchr::memmem::find(rest, b"\r\n\r\n") {
        Some(at) => Ok(Some(at + 4)),
        None if rest.len() > LARGEST_HEAD => Err(HttpError::HeadTooLong(LARGEST_HEAD)),
        None => Ok(None),
    }
}
