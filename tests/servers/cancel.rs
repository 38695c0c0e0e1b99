//! Futures of `extend` and `release` that are dropped: before they are polled, while requests are
//! under way, while replies are, between two replies, and while a retry is waited for.

use fredlock::{Fencing, Lock, Redlock};
use tokio::time::Instant;

use crate::support::{eventually, relay::Relay, servers::Servers};
use crate::voters::{AT_ONCE, LONG, all_vote, both, client, everywhere, gone, idle};

const TTL: std::time::Duration = std::time::Duration::from_secs(20);

/// How far a call gets before its future is dropped.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Unpolled,
    /// No master has executed it.
    Requests,
    /// Every master has executed it, and no answer has come.
    Replies,
    /// One answer has come, which decides nothing.
    OneReply,
    /// A round has failed. An extension waits before the next one; a release has ended.
    Retry,
}

const STAGES: [Stage; 5] = [
    Stage::Unpolled,
    Stage::Requests,
    Stage::Replies,
    Stage::OneReply,
    Stage::Retry,
];

struct Field {
    servers: Servers,
    relays: Vec<Relay>,
    redlock: Redlock,
    lock: Lock,
}

impl Field {
    /// Three servers behind relays, a client, and a lock on `k` that stands on every one of them.
    async fn set_up(fencing: Fencing) -> Self {
        let servers = Servers::start(3).await;
        let mut relays = Vec::new();
        for server in &servers {
            relays.push(Relay::before(server).await);
        }
        let redlock = client(relays.iter().map(Relay::url), fencing).await;
        all_vote(&redlock, &servers).await;
        let lock = redlock.acquire(["k"], TTL).await.expect("acquired");
        everywhere(&servers, "k", &lock.token().reveal()).await;
        idle(&redlock).await;
        Self {
            servers,
            relays,
            redlock,
            lock,
        }
    }
}

/// Polls the future until the stage is reached, and drops it.
async fn drop_at<F: Future>(stage: Stage, relays: &[Relay], future: F)
where
    F::Output: std::fmt::Debug,
{
    println!("dropped at {stage:?}");
    match stage {
        Stage::Unpolled => return drop(future),
        Stage::Requests | Stage::Retry => relays.iter().for_each(|r| r.hold_requests(true)),
        Stage::Replies => relays.iter().for_each(|r| r.hold_replies(true)),
        Stage::OneReply => relays[1..].iter().for_each(|r| r.hold_replies(true)),
    }
    let reached = async {
        for relay in relays {
            eventually("it has got so far", AT_ONCE, async || match stage {
                Stage::Unpolled => true,
                Stage::Requests | Stage::Retry => relay.requests_held() > 0,
                Stage::Replies => relay.replies_held() > 0,
                Stage::OneReply => relay.replies_held() > 0 || relay.port() == relays[0].port(),
            })
            .await;
        }
        if let Stage::Retry = stage {
            for relay in relays {
                relay.cut().await;
            }
        }
    };
    tokio::select! {
        biased;
        () = reached => {}
        output = future => panic!("not dropped at {stage:?}: {output:?}"),
    }
}

/// Ends every fault.
fn let_go(relays: &[Relay]) {
    for relay in relays {
        relay.hold_requests(false);
        relay.hold_replies(false);
    }
}

#[tokio::test]
async fn extension_that_is_cancelled_leaves_a_lock_that_can_be_extended_and_released() {
    for fencing in both() {
        for stage in STAGES {
            let Field {
                servers,
                relays,
                redlock,
                mut lock,
            } = Field::set_up(fencing).await;
            drop_at(stage, &relays, lock.extend(LONG)).await;
            assert!(lock.is_valid());
            assert!(lock.remaining() < TTL, "for what it was");
            let_go(&relays);
            lock.extend(LONG).await.expect("extended by the next call");
            assert!(lock.remaining() > TTL);
            lock.release().await.expect("released");
            idle(&redlock).await;
            assert_eq!(servers.values_of("k").await, [None, None, None]);
        }
    }
}

#[tokio::test]
async fn lock_that_is_dropped_with_its_cancelled_extension_leaves_no_key() {
    for fencing in both() {
        for stage in STAGES {
            let Field {
                servers,
                relays,
                redlock,
                mut lock,
            } = Field::set_up(fencing).await;
            drop_at(stage, &relays, async move { lock.extend(LONG).await }).await;
            let_go(&relays);
            gone(&servers, "k").await;
            idle(&redlock).await;
            assert_eq!(servers.values_of("k").await, [None, None, None]);
        }
    }
}

#[tokio::test]
async fn release_that_is_cancelled_goes_on() {
    for fencing in both() {
        for stage in STAGES {
            let Field {
                servers,
                relays,
                redlock,
                lock,
            } = Field::set_up(fencing).await;
            let begun = Instant::now();
            drop_at(stage, &relays, lock.release()).await;
            let_go(&relays);
            gone(&servers, "k").await;
            idle(&redlock).await;
            assert!(begun.elapsed() < TTL / 2, "not by its ttl");
            assert_eq!(servers.values_of("k").await, [None, None, None]);
            let next = redlock.acquire(["k"], LONG).await.expect("it is free");
            next.release().await.expect("released");
        }
    }
}
