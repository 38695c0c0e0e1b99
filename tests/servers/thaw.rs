//! Masters that hang for a while and go on.

use std::time::Duration;

use fredlock::{Fencing, Redlock};
use tokio::time::Instant;

use crate::support::{relay::Relay, servers::Servers};
use crate::voters::{AT_ONCE, LONG, client, they_vote};

/// Acquires and releases without a pause for as long.
async fn traffic(redlock: &Redlock, duration: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < duration {
        // On a machine that is busy, others may be late too: this is about what is sent.
        if let Ok(lock) = redlock.try_acquire(["k"], LONG).await {
            drop(lock.release().await);
        }
    }
}

/// Freezes the last of three masters under traffic, thaws it, and gives how often the client
/// connected to it again.
async fn reconnections(frozen: Duration) -> usize {
    let servers = Servers::start(3).await;
    let relay = Relay::before(&servers[2]).await;
    let urls = [servers[0].url(), servers[1].url(), relay.url()];
    let redlock = client(urls, Fencing::default()).await;
    let redlock = redlock.with(|settings| settings.command_timeout(Duration::from_millis(400)));
    they_vote(&redlock, &[&servers[2]]).await;
    let before = relay.accepted();
    servers.freeze(&[2]);
    traffic(&redlock, frozen).await;
    servers.thaw(&[2]);
    let thawed = Instant::now();
    they_vote(&redlock, &[&servers[2]]).await;
    assert!(thawed.elapsed() < AT_ONCE, "{:?}", thawed.elapsed());
    // And it stays connected.
    traffic(&redlock, Duration::from_millis(500)).await;
    assert_eq!(relay.connections(), 1);
    relay.accepted() - before
}

#[tokio::test]
async fn master_that_hangs_and_goes_on_takes_part_again_with_one_reconnection_at_most() {
    assert!(reconnections(Duration::from_millis(1200)).await <= 1);
}

#[tokio::test]
async fn master_that_hangs_for_a_moment_keeps_its_connection() {
    assert_eq!(reconnections(Duration::from_millis(50)).await, 0);
}

#[tokio::test]
async fn hung_master_costs_no_more_than_a_connection_each_two_seconds() {
    assert!(reconnections(Duration::from_millis(3500)).await <= 3);
}
