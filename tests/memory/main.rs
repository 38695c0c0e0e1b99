//! Tests on in-memory masters, most of them on paused time: each is named for what must hold.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod api;
mod crowds;
mod extension;
mod fences;
mod guard;
mod health;
mod initialise;
mod inspect;
mod keeping;
mod limits;
mod notices;
mod quorums;
mod runtimes;
mod suspended;
mod tracing;
mod turns;
mod wait_limits;
mod waiting;

use fredlock::{Redlock, Settings, testing::MemoryMasters};

/// A client of these masters.
async fn client(masters: &MemoryMasters, settings: impl FnOnce(Settings) -> Settings) -> Redlock {
    let builder = Redlock::builder().memory(masters).settings(settings);
    builder.connect().await.expect("masters of memory")
}
