//! Writes that arrive after the release of the lock they were for.

use std::time::Duration;

use fredlock::{Fencing, Redlock};

use crate::support::{eventually, relay::Relay, servers::Servers};
use crate::voters::{AT_ONCE, LONG, all_vote, both, client, everywhere, gone, idle};

/// Three servers, the last of them behind a relay, and a client on them.
async fn last_behind_relay(fencing: Fencing) -> (Servers, Relay, Redlock) {
    let servers = Servers::start(3).await;
    let relay = Relay::before(&servers[2]).await;
    let urls = [servers[0].url(), servers[1].url(), relay.url()];
    let redlock = client(urls, fencing).await;
    all_vote(&redlock, &servers).await;
    (servers, relay, redlock)
}

/// Waits until a request is on its way.
async fn held_back(relay: &Relay) {
    eventually("the request is held", AT_ONCE, async || {
        relay.requests_held() > 0
    })
    .await;
}

/// Breaks the client's connection, keeping for later what it had sent, and waits until the last
/// server takes part again.
async fn send_later(relay: &Relay, servers: &Servers, redlock: &Redlock) {
    relay.detach().await;
    relay.hold_requests(false);
    crate::voters::they_vote(redlock, &[&servers[2]]).await;
}

#[tokio::test]
async fn release_overtakes_no_acquire_of_its_own_on_the_same_connection() {
    for fencing in both() {
        let (servers, relay, redlock) = last_behind_relay(fencing).await;
        relay.hold_requests(true);
        let lock = redlock.acquire(["k"], LONG).await.expect("acquired");
        held_back(&relay).await;
        lock.release().await.expect("released by a quorum");
        let executed = servers[2].commands_processed().await;
        relay.hold_requests(false);
        eventually("it has come", AT_ONCE, async || {
            servers[2].commands_processed().await > executed
        })
        .await;
        idle(&redlock).await;
        gone(&servers, "k").await;
    }
}

#[tokio::test]
async fn acquire_that_arrives_after_its_release_writes_no_key() {
    let (servers, relay, redlock) = last_behind_relay(Fencing::default()).await;
    relay.hold_requests(true);
    let lock = redlock.acquire(["k"], LONG).await.expect("acquired");
    held_back(&relay).await;
    send_later(&relay, &servers, &redlock).await;
    lock.release().await.expect("released");
    idle(&redlock).await;
    assert!(relay.release_detached().await > 0);
    assert_eq!(servers.values_of("k").await, [None, None, None]);
}

#[tokio::test]
async fn put_back_that_arrives_after_the_release_writes_no_key() {
    let (servers, relay, redlock) = last_behind_relay(Fencing::default()).await;
    let mut lock = redlock.acquire(["k"], LONG).await.expect("acquired");
    let token = lock.token().reveal();
    everywhere(&servers, "k", &token).await;
    idle(&redlock).await;
    servers[2].flush_all().await;
    // The answer to the extension comes, and the put-back that it leads to does not get through.
    relay.hold_replies(true);
    lock.extend(LONG).await.expect("extended by a quorum");
    eventually("the answer is on its way", AT_ONCE, async || {
        relay.replies_held() > 0
    })
    .await;
    relay.hold_requests(true);
    relay.hold_replies(false);
    held_back(&relay).await;
    send_later(&relay, &servers, &redlock).await;
    lock.release().await.expect("released");
    idle(&redlock).await;
    assert!(relay.release_detached().await > 0);
    assert_eq!(servers.values_of("k").await, [None, None, None]);
}

#[tokio::test]
async fn answer_to_an_extension_that_comes_after_the_release_puts_nothing_back() {
    for fencing in both() {
        let (servers, relay, redlock) = last_behind_relay(fencing).await;
        let mut lock = redlock.acquire(["k"], LONG).await.expect("acquired");
        everywhere(&servers, "k", &lock.token().reveal()).await;
        idle(&redlock).await;
        servers[2].flush_all().await;
        relay.hold_replies(true);
        lock.extend(LONG).await.expect("extended by a quorum");
        eventually("the answer is on its way", AT_ONCE, async || {
            relay.replies_held() > 0
        })
        .await;
        lock.release().await.expect("released by a quorum");
        relay.hold_replies(false);
        idle(&redlock).await;
        assert_eq!(servers.values_of("k").await, [None, None, None]);
    }
}

#[tokio::test]
async fn without_fencing_an_acquire_that_arrives_after_its_release_blocks_for_one_ttl_at_most() {
    let (servers, relay, redlock) = last_behind_relay(Fencing::Off).await;
    let ttl = Duration::from_millis(1500);
    relay.hold_requests(true);
    let lock = redlock.acquire(["k"], ttl).await.expect("acquired");
    held_back(&relay).await;
    relay.detach().await;
    relay.hold_requests(false);
    lock.release().await.expect("released by a quorum");
    assert!(relay.release_detached().await > 0);
    let left = servers[2].pttl("k").await;
    assert!(left <= 1500 && left != -1, "{left}");
    gone(&servers, "k").await;
}

#[tokio::test]
async fn lock_that_is_released_at_once_leaves_no_key_while_most_answers_are_under_way() {
    for fencing in both() {
        let (servers, relay, redlock) = last_behind_relay(fencing).await;
        relay.delay(Duration::from_millis(20));
        for _ in 0..20 {
            let lock = redlock.acquire(["k"], LONG).await.expect("acquired");
            lock.release().await.expect("released");
        }
        idle(&redlock).await;
        assert_eq!(servers.values_of("k").await, [None, None, None]);
    }
}
