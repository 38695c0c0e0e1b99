//! Clients that wait, and what the servers know of them.

use std::time::Duration;

use fredlock::{Builder, Lock, Redlock, Retry};
use tokio::task::JoinHandle;

use crate::acquirers::{AT_ONCE, TTL, build};
use crate::support::{eventually, server::Server};

/// Clients that wait for ever, and ask again after so long.
pub(crate) async fn asking_every(
    delay: Duration,
    urls: impl IntoIterator<Item = String>,
    change: impl FnOnce(Builder) -> Builder,
) -> Redlock {
    let retry = Retry::default().unlimited().delay(delay);
    let redlock = build(urls, change).await;
    redlock.with(|settings| settings.retry(retry.jitter(Duration::ZERO)))
}

pub(crate) fn acquire(redlock: &Redlock) -> JoinHandle<Lock> {
    let redlock = redlock.clone();
    tokio::spawn(async move { redlock.acquire(["job"], TTL).await.unwrap() })
}

/// How many keys some client wants to be told of.
pub(crate) async fn tracked_keys(server: &Server) -> u64 {
    let stats = server.info("stats").await;
    stats["tracking_total_keys"].parse().unwrap()
}

pub(crate) async fn tracking_clients(server: &Server) -> u64 {
    let clients = server.info("clients").await;
    clients["tracking_clients"].parse().unwrap()
}

/// All of these masters will tell the waiter.
pub(crate) async fn listens(servers: impl IntoIterator<Item = &Server>) {
    for server in servers {
        eventually("the waiter listens", AT_ONCE, async || {
            tracked_keys(server).await > 0
        })
        .await;
    }
}
