//! What the operation of a service rests on, against real servers: its readiness, and the examples of
//! its life.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod examples;
mod health;
#[cfg(feature = "metrics")]
mod metrics;
#[path = "../cli/support.rs"]
mod support;

use std::time::Duration;

use fredlock::{Builder, Redlock};
use tokio::time::{Instant, sleep};

/// How long a client waits for a master: long enough for a machine that is busy with tests.
const PATIENCE: Duration = Duration::from_secs(20);
/// Far longer than anything here takes on such a machine; only what hangs is cut off by it.
const LIMIT: Duration = Duration::from_secs(30);

/// A patient client, to which `masters` have joined.
async fn build(urls: Vec<String>, change: impl FnOnce(Builder) -> Builder) -> Redlock {
    let masters = urls.len();
    let builder = Redlock::builder().urls(urls);
    let builder = builder.settings(|settings| settings.command_timeout(PATIENCE));
    let redlock = change(builder).connect().await.unwrap();
    eventually("all masters have joined", async || {
        redlock.health().await.voting() == masters
    })
    .await;
    redlock
}

/// Waits until nothing of the client is under way any more.
async fn settled(redlock: &Redlock) {
    eventually("the client has nothing under way", async || {
        redlock.background_tasks() == 0
    })
    .await;
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds().await {
        assert!(Instant::now() < end, "{what}: not within {LIMIT:?}");
        sleep(Duration::from_millis(10)).await;
    }
}
