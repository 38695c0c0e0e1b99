//! Chaos on real servers: processes of clients against masters that are killed, frozen and cut off;
//! afterwards the simulation's own checker goes over what the clients saw. `tests/README.md` says
//! how to run it for longer, and how to replay a seed.
//!
//! Clocks cannot be made to run wrong for one process: that is left to the simulation.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../sim/check.rs"]
mod check;
#[path = "../sim/hold.rs"]
mod hold;

mod client;
mod clock;
mod core_waits;
mod nemesis;
mod network;
mod notice;
mod plan;
mod record;
mod report;
mod run;
mod runs;
mod schedule;
mod section;
mod store;
mod support;
mod verdict;
mod worker;
