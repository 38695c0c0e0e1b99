//! What the tests against real servers are built on.
//!
//! - [`server::Server`] and [`servers::Servers`]: real processes, to freeze, kill, restart and look
//!   into.
//! - [`relay::Relay`]: the network in front of a server, to delay, hold, lose and cut.
//! - [`address::Address`]: an address behind which one server answers now and another then.
//! - [`fake::FakeServer`]: a server that gives the replies that a real one cannot be made to give.
//! - [`resp`]: the raw client through which the tests look, instead of the one under test.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part, and `pub` marks what they may use"
)]

pub mod address;
mod commands;
mod dir;
pub mod fake;
mod link;
pub mod paused;
mod port;
mod process;
mod queue;
pub mod relay;
pub mod resp;
pub mod server;
pub mod servers;
#[cfg(feature = "rustls")]
pub mod tls;

#[cfg(test)]
mod relay_tests;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Waits until the condition holds, and panics with `what` if it does not within `limit`.
pub async fn eventually(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}
