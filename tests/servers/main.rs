//! Tests against real servers: each is named for what must hold.

mod cancel;
mod clients;
mod closing;
mod connect;
mod credentials;
mod drop;
mod extend;
mod extend_faults;
mod identity;
mod release;
mod several;
mod stragglers;
mod support;
mod thaw;
#[cfg(feature = "rustls")]
mod tls;
