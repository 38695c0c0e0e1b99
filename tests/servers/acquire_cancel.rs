//! Acquisitions that are dropped at every stage: whatever was written is taken back by the
//! library's own tasks.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use fredlock::{Fencing, Redlock, Retry};
use tokio::time::sleep;

use crate::acquirers::{
    AT_ONCE, BOTH, Stopwatch, TTL, build, fence_key, hold_replies, hold_requests, patient, relays,
    settled, urls,
};
use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::server::Server;
use crate::support::servers::Servers;
use crate::watched::Watched;

/// How many masters there are here, and how many of them decide.
const MASTERS: usize = 5;
const QUORUM: usize = 3;

/// By which call the lock is acquired.
const CALLS: [bool; 2] = [true, false];

/// Five masters behind relays, and a client for each kind of fencing.
async fn relayed() -> (Servers, Vec<Relay>, Vec<Redlock>) {
    let servers = Servers::start(MASTERS).await;
    let relays = relays(&servers).await;
    let mut clients = Vec::new();
    for fencing in BOTH {
        clients.push(build(urls(&relays), |builder| builder.fencing(fencing())).await);
    }
    (servers, relays, clients)
}

async fn nothing_is_left(redlock: &Redlock, servers: &Servers) {
    let time = Stopwatch::start();
    settled(redlock).await;
    time.assert_at_once();
    assert_eq!(servers.values_of("job").await, vec![None; servers.len()]);
}

#[tokio::test]
async fn an_acquire_that_is_never_polled_sends_nothing() {
    let servers = Servers::start(1).await;
    let redlock = patient(servers.urls()).await;
    let before = servers[0].commands_processed().await;
    drop(redlock.acquire(["job"], TTL));
    drop(redlock.try_acquire(["job"], TTL));
    settled(&redlock).await;
    assert_eq!(servers[0].commands_processed().await, before);
}

#[tokio::test]
async fn an_acquire_that_is_dropped_before_its_requests_arrive_leaves_nothing() {
    let (servers, relays, clients) = relayed().await;
    for redlock in &clients {
        for tries_once in CALLS {
            hold_requests(&relays, true);
            let acquire = Watched::start(redlock, tries_once);
            eventually("the requests are under way", AT_ONCE, async || {
                relays.iter().all(|relay| relay.requests_held() > 0)
            })
            .await;
            acquire.drop_now().await;
            assert_eq!(servers.values_of("job").await, vec![None; MASTERS]);
            hold_requests(&relays, false);
            nothing_is_left(redlock, &servers).await;
        }
    }
    for server in &servers {
        assert!(
            server.get(&fence_key("job")).await.is_some(),
            "it did arrive"
        );
    }
}

#[tokio::test]
async fn an_acquire_that_is_dropped_after_any_number_of_replies_leaves_nothing() {
    let (servers, relays, clients) = relayed().await;
    for redlock in &clients {
        for tries_once in CALLS {
            for replies in 0..QUORUM {
                hold_replies(&relays, true);
                let acquire = Watched::start(redlock, tries_once);
                eventually("every master has written", AT_ONCE, async || {
                    relays.iter().all(|relay| relay.replies_held() > 0)
                })
                .await;
                let written = servers.values_of("job").await;
                assert!(written.iter().all(Option::is_some), "{written:?}");
                for relay in &relays[MASTERS - replies..] {
                    let polls = acquire.polls();
                    relay.hold_replies(false);
                    eventually("the reply was looked at", AT_ONCE, async || {
                        acquire.polls() > polls
                    })
                    .await;
                }
                acquire.drop_now().await;
                hold_replies(&relays, false);
                nothing_is_left(redlock, &servers).await;
            }
        }
    }
}

/// The masters that answer are freed while the rest does not.
#[tokio::test]
async fn a_dropped_acquire_is_taken_back_at_once_where_masters_answer() {
    let (servers, relays, clients) = relayed().await;
    for redlock in &clients {
        hold_replies(&relays[..QUORUM], true);
        let acquire = Watched::start(redlock, false);
        eventually("every master has written", AT_ONCE, async || {
            servers.values_of("job").await.iter().all(Option::is_some)
        })
        .await;
        acquire.drop_now().await;
        eventually(
            "every master is free, though three are silent",
            AT_ONCE,
            async || servers.values_of("job").await.iter().all(Option::is_none),
        )
        .await;
        hold_replies(&relays, false);
        nothing_is_left(redlock, &servers).await;
    }
}

/// The lock is there, and nobody has looked.
#[tokio::test]
async fn an_acquire_that_is_dropped_with_all_replies_unread_leaves_nothing() {
    let (servers, _relays, clients) = relayed().await;
    for redlock in &clients {
        let mut acquire = Box::pin(redlock.acquire(["job"], TTL));
        let first = acquire
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(first.is_pending());
        eventually("every master has written", AT_ONCE, async || {
            servers.values_of("job").await.iter().all(Option::is_some)
        })
        .await;
        drop(acquire);
        nothing_is_left(redlock, &servers).await;
    }
}

#[tokio::test]
async fn a_lock_that_is_dropped_before_all_have_answered_leaves_nothing() {
    let (servers, relays, clients) = relayed().await;
    for redlock in &clients {
        for silent in 0..=MASTERS - QUORUM {
            hold_replies(&relays[..silent], true);
            let lock = redlock.acquire(["job"], TTL).await.unwrap();
            drop(lock);
            hold_replies(&relays, false);
            nothing_is_left(redlock, &servers).await;
        }
    }
}

#[tokio::test]
async fn an_acquire_that_is_dropped_while_it_raises_its_fence_leaves_nothing() {
    let (servers, relays, clients) = relayed().await;
    let redlock = &clients[0];
    for is_written in [false, true] {
        // Beyond what any clock proposes for long, and more each time: the client remembers.
        let ahead = if is_written {
            "4000000000000000"
        } else {
            "3000000000000000"
        };
        for server in &servers {
            server.set(&fence_key("job"), ahead).await;
        }
        hold_replies(&relays, true);
        let acquire = Watched::start(redlock, true);
        eventually(
            "every master has refused the first fence",
            AT_ONCE,
            async || relays.iter().all(|relay| relay.replies_held() > 0),
        )
        .await;
        for relay in &relays {
            relay.hold_requests(true);
            relay.hold_replies(false);
        }
        eventually("the larger fence is under way", AT_ONCE, async || {
            relays.iter().all(|relay| relay.requests_held() > 0)
        })
        .await;
        assert_eq!(servers.values_of("job").await, vec![None; MASTERS]);
        if is_written {
            for relay in &relays {
                relay.hold_replies(true);
                relay.hold_requests(false);
            }
            eventually("every master has written", AT_ONCE, async || {
                servers.values_of("job").await.iter().all(Option::is_some)
            })
            .await;
        }
        acquire.drop_now().await;
        for relay in &relays {
            relay.hold_replies(false);
            relay.hold_requests(false);
        }
        nothing_is_left(redlock, &servers).await;
        for server in &servers {
            let fence = server.get(&fence_key("job")).await.expect("a tombstone");
            assert!(
                fence.parse::<u64>().unwrap() > ahead.parse().unwrap(),
                "{fence}"
            );
        }
    }
}

#[tokio::test]
async fn an_acquire_that_is_dropped_between_two_attempts_leaves_nothing_and_makes_no_more() {
    let servers = Servers::start(3).await;
    for index in [0, 1] {
        servers[index].set("job", "foreign").await;
    }
    let pause = Duration::from_millis(400);
    for fencing in BOTH {
        let redlock = build(servers.urls(), |builder| {
            let retry = Retry::default()
                .unlimited()
                .delay(pause)
                .jitter(Duration::ZERO);
            builder
                .fencing(fencing())
                .settings(|settings| settings.retry(retry))
        })
        .await;
        let before = attempts(&servers[2]).await;
        let acquire = Watched::start(&redlock, false);
        eventually(
            "the first attempt was made and taken back",
            AT_ONCE,
            async || attempts(&servers[2]).await >= before + 2 && redlock.background_tasks() == 0,
        )
        .await;
        acquire.drop_now().await;
        nothing_is_left_beside_the_foreign(&redlock, &servers).await;
        let mut before = Vec::new();
        for server in &servers {
            before.push(attempts(server).await);
        }
        // The next attempt would have been made by then.
        sleep(pause * 2).await;
        for (server, before) in servers.iter().zip(before) {
            assert_eq!(attempts(server).await, before);
        }
    }
}

/// Commands of attempts and of their roll-backs; what listens for a release lingers for a while.
async fn attempts(server: &Server) -> u64 {
    let mut calls = 0;
    for name in ["set", "evalsha", "eval", "del"] {
        calls += server.calls(name).await;
    }
    calls
}

async fn nothing_is_left_beside_the_foreign(redlock: &Redlock, servers: &Servers) {
    settled(redlock).await;
    let foreign = Some("foreign".to_owned());
    assert_eq!(
        servers.values_of("job").await,
        [foreign.clone(), foreign, None]
    );
}

#[tokio::test]
async fn a_timeout_around_an_acquire_is_safe_at_any_moment() {
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    relays.iter().enumerate().for_each(|(index, relay)| {
        relay.delay(Duration::from_millis(2 + 3 * u64::try_from(index).unwrap()));
    });
    let redlock = build(urls(&relays), |builder| builder.fencing(Fencing::default())).await;
    let mut ends = [0, 0];
    for half_ms in 0..50 {
        let limit = Duration::from_micros(500 * half_ms);
        let acquire = tokio::time::timeout(limit, redlock.acquire(["job"], TTL));
        ends[usize::from(acquire.await.is_ok_and(|lock| lock.is_ok()))] += 1;
        settled(&redlock).await;
        assert_eq!(servers.values_of("job").await, [None, None, None]);
    }
    assert!(
        ends.iter().all(|&count| count > 0),
        "some in time, some not: {ends:?}"
    );
}
