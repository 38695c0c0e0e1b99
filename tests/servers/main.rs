//! Tests against real servers: each is named for what must hold.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod acquire;
mod acquire_cancel;
mod acquire_limits;
mod acquire_stragglers;
mod acquirers;
mod answers;
mod blocked;
mod cancel;
mod clients;
mod closing;
mod conformance;
mod connect;
mod credentials;
mod drop;
mod endurance;
mod extend;
mod extend_faults;
mod faults;
mod foreign;
mod groups;
mod identity;
mod joining;
mod keeping;
mod limits;
mod load;
mod native;
mod permissions;
mod readme;
mod release;
mod retry;
mod scripts;
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
mod watched;
mod wrapper;
