//! The marker that every message carries.
