//! Templates of messages and requests: texts with variables, and what the variables stand for: answers that were captured
//! from the platform, rows of a file, and rows of a made-up city. A crate of its own, because each message is rendered
//! here, and `scenario`, which reads files once, is built with less optimisation.

mod captures;
pub mod cbor;
pub mod city;
mod rows;
mod template;

pub use captures::{CapturedName, Captures, Each};
pub use rows::{Table, Texts, read_texts};
pub use template::{Columns, Escape, Names, Piece, Template, TemplateError, Variables};
