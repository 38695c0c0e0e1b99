//! A seeded simulation of many clients and masters on paused time, without sockets, on one thread
//! a seed; after each run a checker goes over what happened. `CONTRIBUTING.md` says how to replay
//! a seed.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod check;
mod client;
mod duel;
mod faults;
mod forgetting;
mod history;
mod hold;
mod keys;
mod look;
mod mutants;
mod network;
mod plan;
mod run;
mod seeds;
mod waiting;
