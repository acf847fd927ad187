//! One driver a folder or file.

pub mod mqtt;
pub mod null;
pub mod request;
