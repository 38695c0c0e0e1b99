//! Tests against real servers: each is named for what must hold.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod conformance;
mod faults;
mod native;
mod support;
