//! Who takes part in a load thread beside its devices: subscribers that listen, queriers, and readers of what a component of
//! the platform tells.

pub mod coap_listener;
pub mod http_listener;
pub mod listening;
pub mod mux;
