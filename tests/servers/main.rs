//! Tests against real servers: each is named for what must hold.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod blocked;
mod clients;
mod conformance;
mod faults;
mod keeping;
mod limits;
mod load;
mod native;
mod shutdown;
mod signal;
mod support;
mod using;
mod wrapper;
