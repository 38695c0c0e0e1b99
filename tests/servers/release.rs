//! Releasing a lock: the keys go, also late, and a successor's never do.

use std::time::Duration;

use fredlock::{Answer, Fencing, Lock, MasterError, Outcomes, Redlock, ReleaseError};
use tokio::time::{Instant, sleep};

use crate::support::{eventually, relay::Relay, server::Server, servers::Servers};
use crate::voters::{
    AT_ONCE, COMMAND_TIMEOUT, LONG, all_vote, both, client, client_of, everywhere, gone, idle,
    they_vote,
};

/// A lock on `k` that stands on every server.
async fn held(redlock: &Redlock, servers: &Servers, ttl: Duration) -> Lock {
    let lock = redlock.acquire(["k"], ttl).await.expect("acquired");
    everywhere(servers, "k", &lock.token().reveal()).await;
    idle(redlock).await;
    lock
}

/// Servers behind relays, and a client that sees only these.
async fn behind_relays(fencing: Fencing) -> (Servers, Vec<Relay>, Redlock) {
    let servers = Servers::start(3).await;
    let mut relays = Vec::new();
    for server in &servers {
        relays.push(Relay::before(server).await);
    }
    let redlock = client(relays.iter().map(Relay::url), fencing).await;
    all_vote(&redlock, &servers).await;
    (servers, relays, redlock)
}

/// Waits until no server has the key any more because its time was over.
async fn expired(servers: &Servers, lock: &Lock) {
    sleep(lock.remaining()).await;
    gone(servers, "k").await;
    assert!(!lock.is_valid());
}

/// What the master with this index answered.
fn answer(outcomes: &Outcomes, index: usize) -> Answer {
    let outcome = outcomes.iter().nth(index).expect("one for each master");
    outcome.answer().clone()
}

/// Waits until the client knows that these masters are down: a command that is sent before it has
/// tried to connect again finds no route to it, or waits for its answer.
async fn known_down(redlock: &Redlock, indices: &[usize]) {
    eventually("they are known to be down", AT_ONCE, async || {
        let probe = redlock.with(|settings| settings.command_timeout(AT_ONCE / 10));
        let outcomes = match probe.try_acquire(["probe"], LONG).await {
            Ok(lock) => lock.outcomes().clone(),
            Err(error) => error.outcomes().expect("it was sent").clone(),
        };
        indices.iter().all(|&index| {
            matches!(
                answer(&outcomes, index),
                Answer::Failed(MasterError::NotConnected(reason)) if !reason.contains("route")
            )
        })
    })
    .await;
}

#[tokio::test]
async fn release_after_expiry_says_so_at_once_and_leaves_the_successor_alone() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        let old = held(&redlock, &servers, Duration::from_millis(300)).await;
        expired(&servers, &old).await;
        let mut successor = held(&redlock, &servers, LONG).await;
        let begun = Instant::now();
        let released = old.release().await;
        assert!(begun.elapsed() < AT_ONCE);
        assert!(
            matches!(released, Err(ReleaseError::Expired { .. })),
            "{released:?}"
        );
        idle(&redlock).await;
        everywhere(&servers, "k", &successor.token().reveal()).await;
        successor.extend(LONG).await.expect("still held");
    }
}

#[tokio::test]
async fn release_names_the_master_that_is_down_and_frees_the_rest() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        servers[2].kill().await;
        known_down(&redlock, &[2]).await;
        let lock = redlock.acquire(["k"], LONG).await.expect("acquired");
        let begun = Instant::now();
        let outcomes = lock.release().await.expect("released by a quorum");
        assert!(begun.elapsed() < AT_ONCE);
        assert!(
            matches!(
                answer(&outcomes, 2),
                Answer::Failed(MasterError::NotConnected(_))
            ),
            "{outcomes}"
        );
        assert_eq!(answer(&outcomes, 0), Answer::Released);
        assert_eq!(answer(&outcomes, 1), Answer::Released);
        assert!(outcomes.to_string().contains(&servers[2].addr()));
        gone(&servers, "k").await;
    }
}

#[tokio::test]
async fn release_without_a_quorum_is_an_error_that_names_the_masters_and_frees_the_rest() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        let lock = held(&redlock, &servers, LONG).await;
        servers.kill(&[1, 2]).await;
        known_down(&redlock, &[1, 2]).await;
        let begun = Instant::now();
        let released = lock.release().await;
        assert!(begun.elapsed() < AT_ONCE);
        let Err(error @ ReleaseError::NoQuorum { .. }) = released else {
            panic!("{released:?}")
        };
        for server in [&servers[1], &servers[2]] {
            assert!(error.to_string().contains(&server.addr()), "{error}");
        }
        eventually("the rest is free", AT_ONCE, async || {
            servers[0].get("k").await.is_none()
        })
        .await;
    }
}

#[tokio::test]
async fn master_that_was_down_at_the_release_is_freed_when_it_comes_back() {
    for fencing in both() {
        let persistent = ["--appendonly", "yes", "--appendfsync", "always"];
        let servers = Servers::start_with(3, &persistent).await;
        let relay = Relay::before(&servers[2]).await;
        let urls = [servers[0].url(), servers[1].url(), relay.url()];
        let redlock = client(urls, fencing).await;
        all_vote(&redlock, &servers).await;
        let lock = held(&redlock, &servers, LONG).await;
        let token = lock.token().reveal();
        relay.refuse(true).await;
        servers[2].kill().await;
        known_down(&redlock, &[2]).await;
        lock.release().await.expect("released by a quorum");
        servers[2].restart().await;
        assert_eq!(servers[2].get("k").await, Some(token));
        relay.refuse(false).await;
        gone(&servers, "k").await;
        idle(&redlock).await;
    }
}

#[tokio::test]
async fn frozen_master_costs_a_release_nothing_and_is_freed_when_it_is_thawed() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        let lock = held(&redlock, &servers, LONG).await;
        servers.freeze(&[0]);
        let begun = Instant::now();
        let outcomes = lock.release().await.expect("released by a quorum");
        assert!(begun.elapsed() < AT_ONCE, "not after {COMMAND_TIMEOUT:?}");
        assert_eq!(answer(&outcomes, 0), Answer::Pending);
        servers.thaw(&[0]);
        gone(&servers, "k").await;
    }
}

#[tokio::test]
async fn release_that_is_repeated_since_its_replies_were_lost_leaves_the_successor_alone() {
    for fencing in both() {
        let (servers, relays, redlock) = behind_relays(fencing).await;
        let short = redlock.with(|settings| settings.command_timeout(Duration::from_millis(200)));
        let old = held(&short, &servers, LONG).await;
        for relay in &relays {
            relay.drop_replies(true);
        }
        let ambiguous = old.release().await;
        assert!(
            matches!(ambiguous, Err(ReleaseError::NoQuorum { .. })),
            "{ambiguous:?}"
        );
        gone(&servers, "k").await;
        let direct = client_of_unflushed(&servers, fencing).await;
        let mut successor = held(&direct, &servers, LONG).await;
        let fence = servers[0].get("{k}:fence").await;
        let mut calls = Vec::new();
        for server in &servers {
            calls.push(script_or_delete_calls(server).await);
        }
        for relay in &relays {
            relay.drop_replies(false);
        }
        for (server, calls) in servers.iter().zip(calls) {
            eventually("the release is repeated", AT_ONCE * 2, async || {
                script_or_delete_calls(server).await > calls
            })
            .await;
        }
        idle(&redlock).await;
        everywhere(&servers, "k", &successor.token().reveal()).await;
        assert_eq!(servers[0].get("{k}:fence").await, fence);
        successor.extend(LONG).await.expect("still held");
    }
}

/// A client of which every server is connected, without a look at the keys.
async fn client_of_unflushed(servers: &Servers, fencing: Fencing) -> Redlock {
    let redlock = client(servers.urls(), fencing).await;
    they_vote(&redlock, &servers.iter().collect::<Vec<_>>()).await;
    redlock
}

/// How often a release, by whatever command, may have been executed.
async fn script_or_delete_calls(server: &Server) -> u64 {
    let mut calls = 0;
    for command in ["evalsha", "eval", "delex", "delifeq"] {
        calls += server.calls(command).await;
    }
    calls
}

#[tokio::test]
async fn release_that_arrives_after_the_successor_leaves_it_alone() {
    for fencing in both() {
        let (servers, relays, redlock) = behind_relays(fencing).await;
        let short = redlock.with(|settings| settings.command_timeout(Duration::from_millis(100)));
        let old = held(&short, &servers, Duration::from_millis(1500)).await;
        for relay in &relays {
            relay.hold_requests(true);
        }
        let ambiguous = old.release().await;
        assert!(
            matches!(ambiguous, Err(ReleaseError::NoQuorum { .. })),
            "{ambiguous:?}"
        );
        for relay in &relays {
            relay.detach().await;
        }
        gone(&servers, "k").await;
        let direct = client_of_unflushed(&servers, fencing).await;
        let mut successor = held(&direct, &servers, LONG).await;
        for relay in &relays {
            assert!(relay.release_detached().await > 0);
        }
        everywhere(&servers, "k", &successor.token().reveal()).await;
        successor.extend(LONG).await.expect("still held");
        for relay in &relays {
            relay.hold_requests(false);
        }
    }
}
