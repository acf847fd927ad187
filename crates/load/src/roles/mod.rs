//! Who takes part in a load thread beside its devices. Each of them is a driver of its protocol, which knows nothing of this
//! folder; here stands where subscribers listen, and how all take turns.

pub mod listening;
pub mod mux;
