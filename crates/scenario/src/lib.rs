//! Scenario and platform-profile files: read with locations, checked whole, turned into a [`plan::Plan`].

pub mod plan;
pub mod profile;
