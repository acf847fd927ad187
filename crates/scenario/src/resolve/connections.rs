//! Levels that connect devices: so many devices, or so many connections per second.

use super::rate::check_rate;
use crate::config::Load;
use crate::context::Context;
use crate::plan::LevelPlan;

/// The keys that say what the levels of the open model are.
const COURSES: [&str; 6] = ["levels", "search", "devices", "connect_rates", "curve", "spike"];

/// Reports keys that exclude each other, and one that stands alone.
pub(super) fn check_place(load: &Load, context: &mut Context<'_>) {
    let written: Vec<&str> =
        COURSES.into_iter().filter(|key| context.written(&format!("load.{key}"))).collect();
    // Levels beside a search are told by the search.
    if let [first, second, ..] = written[..]
        && (first, second) != ("levels", "search")
    {
        context.error_with_help(
            &format!("load.{second}"),
            format!("`{first}` and `{second}` exclude each other"),
            "keep one: each of them says what the levels are",
        );
    }
    if load.rate_per_device.is_some() && load.devices.is_none() {
        context.error_with_help(
            "load.rate_per_device",
            "`rate_per_device` belongs to `devices`",
            "write `devices: [1000, 2000]`, or give the rate of all devices together in `levels`",
        );
    }
}

/// The levels of `devices` or of `connect_rates`.
pub(super) fn resolve(load: &Load, population: u32, context: &mut Context<'_>) -> Option<Vec<LevelPlan>> {
    if let Some(rates) = &load.connect_rates {
        let mut fine = true;
        for (position, rate) in rates.iter().enumerate() {
            fine &= check_rate(rate.0, &format!("load.connect_rates.{position}"), context);
        }
        return fine.then(|| rates.iter().map(|rate| LevelPlan::ConnectRate(rate.0.0)).collect());
    }
    let each = load.rate_per_device.map_or(0.0, |rate| rate.0.0);
    let mut levels = Vec::new();
    for (position, &devices) in load.devices.iter().flatten().enumerate() {
        if devices > population {
            context.error_with_help(
                &format!("load.devices.{position}"),
                format!("{devices} devices cannot be connected: the population has {population}"),
                format!("write `population: {{ devices: {devices} }}`"),
            );
        }
        levels.push(LevelPlan::Devices { devices, rate: f64::from(devices) * each });
    }
    Some(levels)
}
