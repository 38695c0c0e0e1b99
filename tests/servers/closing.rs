//! Connections and tasks that must not outlive what they are for.

use std::time::Duration;

use fredlock::{AcquireError, BuildError, Fencing, Redlock};
use tokio::runtime::Handle;

use crate::support::{eventually, relay::Relay, server::Server, servers::Servers};
use crate::voters::{AT_ONCE, LONG, both, client, client_of, they_vote};

/// Waits until no client is connected to any of them.
async fn nobody_connected<'a>(servers: impl IntoIterator<Item = &'a Server>) {
    for server in servers {
        eventually("nobody is connected", AT_ONCE, async || {
            server.connected_clients().await == 0
        })
        .await;
    }
}

#[tokio::test]
async fn connections_are_closed_with_the_last_handle_and_not_before() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        let second = redlock.clone();
        let third = second.with(|settings| settings.hold_limit(LONG));
        drop(redlock);
        drop(second);
        let lock = third.try_acquire(["k"], LONG).await.expect("acquired");
        drop(third);
        for server in &servers {
            // The test's own last connection may be there for a moment still.
            eventually("the lock keeps one connection", AT_ONCE, async || {
                server.connected_clients().await == 1
            })
            .await;
        }
        lock.release()
            .await
            .expect("released after all handles went");
        nobody_connected(&servers).await;
    }
}

#[tokio::test]
async fn shutdown_closes_connections_and_gives_no_lock_any_more() {
    let servers = Servers::start(3).await;
    let redlock = client_of(&servers, Fencing::default()).await;
    assert!(redlock.shutdown(AT_ONCE).await);
    nobody_connected(&servers).await;
    let refused = redlock.acquire(["k"], LONG).await;
    assert!(
        matches!(refused, Err(AcquireError::ShutDown)),
        "{refused:?}"
    );
    assert!(redlock.shutdown(AT_ONCE).await, "once more");
    drop(redlock);
    nobody_connected(&servers).await;
}

#[tokio::test]
async fn shutdown_right_after_the_connect_leaves_no_connection() {
    let servers = Servers::start(3).await;
    let relay = Relay::before(&servers[0]).await;
    let builder = Redlock::builder()
        .urls([relay.url(), servers[1].url()])
        .connect_timeout(Duration::ZERO);
    let redlock = builder.connect().await.expect("connected");
    assert!(redlock.shutdown(AT_ONCE).await);
    nobody_connected(&servers).await;
    no_more_connections(&relay).await;
    drop(redlock);
}

/// Nobody tries to connect for longer than the pause between two tries.
async fn no_more_connections(relay: &Relay) {
    let before = relay.accepted();
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(relay.accepted(), before);
}

#[tokio::test]
async fn connect_that_is_cancelled_leaves_no_connection() {
    let servers = Servers::start(3).await;
    servers.freeze(&[0, 1]);
    for patience_ms in [0, 1, 5, 50] {
        let connect = Redlock::connect(servers.urls());
        let patience = Duration::from_millis(patience_ms);
        let cancelled = tokio::time::timeout(patience, connect).await;
        assert!(cancelled.is_err(), "it waits for a majority");
    }
    servers.thaw(&[0, 1]);
    nobody_connected(&servers).await;
}

#[tokio::test]
async fn connect_that_is_refused_leaves_no_connection() {
    let servers = Servers::start(2).await;
    let relay = Relay::before(&servers[0]).await;
    let urls = [servers[0].url(), servers[1].url(), relay.url()];
    let refused = Redlock::connect(urls).await;
    assert!(
        matches!(refused, Err(BuildError::Unfit { .. })),
        "{refused:?}"
    );
    nobody_connected(&servers).await;
}

#[tokio::test]
async fn client_that_is_dropped_while_a_master_is_frozen_waits_for_no_answer_to_its_goodbye() {
    let servers = Servers::start(3).await;
    let relay = Relay::before(&servers[1]).await;
    let urls = [servers[0].url(), relay.url(), servers[2].url()];
    let redlock = client(urls, Fencing::default()).await;
    they_vote(&redlock, &[&servers[1]]).await;
    servers.freeze(&[1]);
    drop(redlock);
    nobody_connected([&servers[0], &servers[2]]).await;
    eventually("its side is closed", AT_ONCE, async || {
        relay.connections() == 0
    })
    .await;
    servers.thaw(&[1]);
    nobody_connected(&servers).await;
    no_more_connections(&relay).await;
}

#[tokio::test]
async fn client_that_is_dropped_during_a_handshake_gives_it_up_and_begins_no_other() {
    let servers = Servers::start(1).await;
    let relay = Relay::before(&servers[0]).await;
    servers.freeze(&[0]);
    let builder = Redlock::builder()
        .url(relay.url())
        .connect_timeout(Duration::from_millis(50));
    let redlock = builder.connect().await.expect("connected");
    eventually("a handshake is under way", AT_ONCE, async || {
        relay.connections() == 1
    })
    .await;
    drop(redlock);
    // A handshake fails by itself after two seconds, and the next one follows.
    let limit = Duration::from_millis(1500);
    eventually("it is given up", limit, async || relay.connections() == 0).await;
    no_more_connections(&relay).await;
}

#[tokio::test]
async fn client_that_is_dropped_while_a_master_is_down_never_connects_to_it_again() {
    let servers = Servers::start(1).await;
    let relay = Relay::before(&servers[0]).await;
    relay.refuse(true).await;
    let redlock = client([relay.url()], Fencing::default()).await;
    eventually("it keeps trying", AT_ONCE, async || relay.accepted() > 2).await;
    drop(redlock);
    relay.refuse(false).await;
    nobody_connected(&servers).await;
    no_more_connections(&relay).await;
}

#[tokio::test]
async fn tasks_and_connections_of_a_hundred_clients_are_gone_after_them() {
    let servers = Servers::start(3).await;
    let before = Handle::current().metrics().num_alive_tasks();
    for round in 0..100 {
        let redlock = client(servers.urls(), Fencing::default()).await;
        let lock = redlock.try_acquire(["k"], LONG).await.expect("acquired");
        if round % 2 == 0 {
            drop(lock);
        } else {
            lock.release().await.expect("released");
        }
        if round % 3 == 0 {
            redlock.shutdown(AT_ONCE).await;
        }
    }
    nobody_connected(&servers).await;
    eventually("no task is left", AT_ONCE, async || {
        Handle::current().metrics().num_alive_tasks() <= before
    })
    .await;
}
