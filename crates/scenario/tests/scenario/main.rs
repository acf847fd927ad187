//! Scenario files and the file-less form, from text to plan.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod bad_files;
mod commands;
mod contracts;
mod engines;
mod filters;
mod plans;
mod populations;
mod quick;
mod support;
