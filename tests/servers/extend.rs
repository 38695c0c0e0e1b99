//! Extending a lock: what it does on each master, and what it never does.

use std::time::Duration;

use fredlock::{Answer, ExtendError, Fencing, Lock, Redlock};

use crate::support::servers::Servers;
use crate::voters::{AT_ONCE, LONG, both, client_of, everywhere, gone, idle, they_vote};

const TTL: Duration = Duration::from_secs(20);
/// Whatever was set to [`TTL`] has less than this left, and what was extended to [`LONG`] has more.
const BETWEEN_MS: i64 = 30_000;

/// A lock on `k` that stands on every server.
async fn held(redlock: &Redlock, servers: &Servers) -> Lock {
    let lock = redlock.acquire(["k"], TTL).await.expect("acquired");
    everywhere(servers, "k", &lock.token().reveal()).await;
    idle(redlock).await;
    lock
}

/// The answers, without what cannot be told in advance.
fn answers(outcomes: &fredlock::Outcomes) -> Vec<&Answer> {
    outcomes.iter().map(fredlock::Outcome::answer).collect()
}

#[tokio::test]
async fn extension_of_a_lock_that_is_gone_from_every_master_says_lost_and_creates_nothing() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        let mut lock = held(&redlock, &servers).await;
        for server in &servers {
            assert!(server.del("k").await);
        }
        let lost = lock.extend(LONG).await;
        assert!(matches!(lost, Err(ExtendError::Lost { .. })), "{lost:?}");
        assert!(!lock.is_valid());
        idle(&redlock).await;
        let expected: &[&str] = match fencing {
            Fencing::Off => &[],
            _ => &["{k}:fence"],
        };
        for server in &servers {
            assert_eq!(server.keys().await, expected);
        }
    }
}

#[tokio::test]
async fn extension_of_a_lock_that_is_gone_from_a_majority_says_lost_and_puts_nothing_back() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        let mut lock = held(&redlock, &servers).await;
        servers[0].flush_all().await;
        servers[1].flush_all().await;
        let lost = lock.extend(LONG).await;
        assert!(matches!(lost, Err(ExtendError::Lost { .. })), "{lost:?}");
        idle(&redlock).await;
        assert!(servers[0].keys().await.is_empty());
        assert!(servers[1].keys().await.is_empty());
    }
}

#[tokio::test]
async fn extension_of_a_lock_that_somebody_else_holds_says_lost_and_leaves_it_to_them() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        let mut lock = held(&redlock, &servers).await;
        for server in &servers {
            server.set_for("k", "somebody else", TTL).await;
        }
        let lost = lock.extend(LONG).await;
        let Err(ExtendError::Lost { outcomes, .. }) = &lost else {
            panic!("{lost:?}")
        };
        let refusals = answers(outcomes)
            .into_iter()
            .filter(|answer| **answer == Answer::NotHeld);
        assert!(refusals.count() >= 2, "{outcomes}");
        drop(lock);
        idle(&redlock).await;
        everywhere(&servers, "k", "somebody else").await;
        for server in &servers {
            assert!(server.pttl("k").await < BETWEEN_MS);
        }
    }
}

#[tokio::test]
async fn masters_that_are_emptied_one_after_another_do_not_end_a_lock() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        let mut lock = held(&redlock, &servers).await;
        let token = lock.token().reveal();
        for emptied in &servers {
            emptied.flush_all().await;
            lock.extend(LONG).await.expect("a quorum has it still");
            everywhere(&servers, "k", &token).await;
            assert!(emptied.pttl("k").await > BETWEEN_MS);
            idle(&redlock).await;
        }
        if fencing != Fencing::Off {
            let fence = lock.fence().to_string();
            everywhere(&servers, "{k}:fence", &fence).await;
        }
        lock.release().await.expect("released");
        gone(&servers, "k").await;
    }
}

#[tokio::test]
async fn masters_that_restart_empty_one_after_another_do_not_end_a_lock() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        let mut lock = held(&redlock, &servers).await;
        let token = lock.token().reveal();
        for restarted in &servers {
            restarted.restart().await;
            they_vote(&redlock, &[restarted]).await;
            lock.extend(LONG).await.expect("a quorum has it still");
            everywhere(&servers, "k", &token).await;
        }
    }
}

#[tokio::test]
async fn nothing_is_put_back_where_a_larger_fence_has_been() {
    let servers = Servers::start(3).await;
    let redlock = client_of(&servers, Fencing::default()).await;
    let mut lock = held(&redlock, &servers).await;
    let larger = (lock.fence().get() + 1).to_string();
    servers[0].flush_all().await;
    servers[0].set("{k}:fence", &larger).await;
    lock.extend(LONG).await.expect("a quorum has it still");
    idle(&redlock).await;
    assert_eq!(servers[0].get("k").await, None);
    assert_eq!(servers[0].get("{k}:fence").await.as_deref(), Some(&*larger));
}

#[tokio::test]
async fn shorter_ttl_shortens_nothing() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        let mut lock = held(&redlock, &servers).await;
        lock.extend(LONG).await.expect("extended");
        idle(&redlock).await;
        let before = lock.remaining();
        lock.extend(Duration::from_millis(10)).await.expect("fine");
        idle(&redlock).await;
        assert!(lock.remaining() + AT_ONCE * 2 > before);
        for server in &servers {
            assert!(server.pttl("k").await > BETWEEN_MS);
        }
    }
}

#[tokio::test]
async fn extension_to_a_ttl_that_cannot_be_had_changes_and_sends_nothing() {
    let servers = Servers::start(1).await;
    let redlock = client_of(&servers, Fencing::default()).await;
    let mut lock = held(&redlock, &servers).await;
    let before = servers[0].commands_processed().await;
    for ttl in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let refused = lock.extend(ttl).await;
        assert!(
            matches!(&refused, Err(ExtendError::InvalidTtl(invalid)) if invalid.ttl == ttl),
            "{refused:?}"
        );
    }
    assert!(lock.is_valid());
    assert_eq!(servers[0].commands_processed().await, before);
}
