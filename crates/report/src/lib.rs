//! What a run's result looks like: in the terminal, as JSON, as CSV, as one HTML file, and as what other tools read.

pub mod bundle;
pub mod capacity_plan;
pub mod chart;
pub mod compare;
mod cost;
pub mod csv;
mod curve;
pub mod dissection;
pub mod doctor;
pub mod github;
pub mod hlog;
pub mod html;
pub mod json;
pub mod jtl;
pub mod junit;
pub mod k6;
pub mod learned;
pub mod listing;
pub mod methods;
mod parquet;
pub mod plain;
pub mod plan;
pub mod series;
pub mod sweep;
pub mod terminal;
pub mod text;
mod wall_clock;
