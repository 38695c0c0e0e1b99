//! Tests against real servers: each is named for what must hold.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod blocked;
mod cancel;
mod clients;
mod closing;
mod conformance;
mod connect;
mod credentials;
mod drop;
mod extend;
mod extend_faults;
mod faults;
mod identity;
mod keeping;
mod limits;
mod load;
mod native;
mod readme;
mod release;
mod several;
mod shutdown;
mod signal;
mod steady;
mod stragglers;
mod support;
mod thaw;
mod tls;
mod using;
mod voters;
mod wrapper;
