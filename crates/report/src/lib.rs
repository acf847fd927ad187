//! What a run's result looks like: in the terminal, as JSON, as CSV, as one HTML file.

pub mod csv;
pub mod findings;
pub mod html;
pub mod json;
pub mod terminal;
