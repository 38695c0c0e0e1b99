//! Trying again: after a split vote, after a lost reply, and for how long.

use std::time::Duration;

use fredlock::{AcquireError, Retry, Settings};
use tokio::time::timeout;

use crate::acquirers::{
    AT_ONCE, BOTH, PATIENCE, Stopwatch, TTL, build, hold_replies, hold_requests, on_all, patient,
    relays, settled, urls,
};
use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::servers::Servers;

/// Tries again soon, for ever.
fn insistent(settings: Settings) -> Settings {
    let retry = Retry::default().unlimited();
    settings.retry(
        retry
            .delay(Duration::from_millis(20))
            .jitter(Duration::from_millis(15)),
    )
}

#[tokio::test]
async fn a_split_vote_fails_at_once_and_is_rolled_back() {
    for count in [2, 4] {
        let servers = Servers::start(count).await;
        for index in 0..count / 2 {
            servers[index].set_for("job", "foreign", TTL).await;
        }
        for fencing in BOTH {
            let redlock = build(servers.urls(), |builder| builder.fencing(fencing())).await;
            let time = Stopwatch::start();
            let error = redlock.acquire(["job"], TTL).await.unwrap_err();
            time.assert_at_once();
            assert!(matches!(error, AcquireError::Busy(_)), "{error}");
            settled(&redlock).await;
            let mut expected = vec![None; count];
            expected[..count / 2].fill(Some("foreign".to_owned()));
            assert_eq!(servers.values_of("job").await, expected);
        }
    }
}

/// Each of two clients gets its half of the masters before it reaches the other's.
#[tokio::test]
async fn two_clients_that_split_the_vote_both_get_the_lock_in_the_end() {
    for count in [2, 4] {
        let servers = Servers::start(count).await;
        let (one, other) = (relays(&servers).await, relays(&servers).await);
        let mut tasks = Vec::new();
        for (relays, held) in [(&one, 0..count / 2), (&other, count / 2..count)] {
            let redlock = patient(urls(relays)).await.with(insistent);
            hold_requests(&relays[held], true);
            tasks.push(tokio::spawn(async move {
                let lock = redlock.acquire(["job"], TTL).await.unwrap();
                let token = lock.token().reveal();
                lock.release().await.unwrap();
                (redlock, token)
            }));
        }
        eventually("the vote is split", AT_ONCE, async || {
            let mut values = servers.values_of("job").await;
            let all = values.iter().all(Option::is_some);
            values.dedup();
            all && values.len() == 2
        })
        .await;
        let split = servers.values_of("job").await;
        let time = Stopwatch::start();
        hold_requests(&one, false);
        hold_requests(&other, false);
        for task in tasks {
            let (redlock, token) = timeout(AT_ONCE, task).await.expect("no livelock").unwrap();
            assert!(
                !split.contains(&Some(token)),
                "a token is used for one attempt"
            );
            settled(&redlock).await;
        }
        time.assert_at_once();
        assert_eq!(servers.values_of("job").await, vec![None; count]);
    }
}

#[tokio::test]
async fn clients_that_contend_for_an_even_number_of_masters_all_get_their_turns() {
    for count in [2, 4] {
        let servers = Servers::start(count).await;
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let redlock = patient(servers.urls()).await.with(insistent);
            tasks.push(tokio::spawn(async move {
                for _ in 0..5 {
                    let lock = redlock.acquire(["job"], TTL).await.unwrap();
                    lock.release().await.unwrap();
                }
            }));
        }
        for task in tasks {
            timeout(PATIENCE, task).await.expect("no livelock").unwrap();
        }
    }
}

#[tokio::test]
async fn the_attempt_after_a_lost_reply_is_not_blocked_by_the_key_of_the_one_before() {
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    for fencing in BOTH {
        let redlock = build(urls(&relays), |builder| {
            builder.fencing(fencing()).settings(|settings| {
                let once_more = Retry::none().count(1).delay(Duration::ZERO);
                settings
                    .command_timeout(Duration::from_secs(1))
                    .retry(once_more.jitter(Duration::ZERO))
            })
        })
        .await;
        hold_replies(&relays[1..], true);
        let acquire = tokio::spawn({
            let redlock = redlock.clone();
            async move { redlock.acquire(["job"], TTL).await }
        });
        let mut first = Vec::new();
        eventually("all masters have written", AT_ONCE, async || {
            first = servers.values_of("job").await;
            first.iter().all(Option::is_some)
        })
        .await;
        eventually("the second attempt is under way", AT_ONCE, async || {
            let now = servers[0].get("job").await;
            now.is_some() && now != first[0]
        })
        .await;
        hold_replies(&relays[1..], false);
        let lock = acquire.await.unwrap().expect("the second attempt gets it");
        settled(&redlock).await;
        let second = servers.values_of("job").await;
        assert_eq!(second, on_all(3, &lock));
        assert_ne!(first, second, "by a token of its own");
        lock.release().await.unwrap();
        settled(&redlock).await;
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_after_the_write_does_not_block_the_next_attempts() {
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    let redlock = patient(urls(&relays)).await.with(insistent);
    for _ in 0..3 {
        relays[1..].iter().for_each(Relay::cut_on_next_reply);
        let time = Stopwatch::start();
        let lock = redlock.acquire(["job"], TTL).await.unwrap();
        time.assert_at_once();
        lock.release().await.unwrap();
    }
    settled(&redlock).await;
    assert_eq!(servers.values_of("job").await, [None, None, None]);
}

#[tokio::test]
async fn the_wait_limit_holds_while_somebody_else_holds_the_lock() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server.set_for("job", "foreign", TTL).await;
    }
    let limit = Duration::from_secs(2);
    let redlock = patient(servers.urls())
        .await
        .with(|settings| insistent(settings).wait_limit(limit));
    let time = Stopwatch::start();
    let error = redlock.acquire(["job"], TTL).await.unwrap_err();
    let took = time.elapsed();
    assert!(took >= limit / 2 && took < limit + AT_ONCE / 2, "{took:?}");
    assert!(
        matches!(error, AcquireError::Timeout { .. }) && error.is_busy(),
        "{error}"
    );
    assert!(error.outcomes().is_some());
}

/// Also where a single command might take longer than the limit.
#[tokio::test]
async fn the_wait_limit_holds_while_a_majority_of_masters_hangs() {
    let servers = Servers::start(5).await;
    let limit = Duration::from_secs(1);
    for command_timeout in [None, Some(PATIENCE)] {
        let redlock = build(servers.urls(), |builder| {
            builder.settings(|settings| {
                insistent(settings)
                    .command_timeout(command_timeout)
                    .wait_limit(limit)
            })
        })
        .await;
        servers.freeze(&[0, 1, 2]);
        let time = Stopwatch::start();
        let error = redlock.acquire(["job"], TTL).await.unwrap_err();
        let took = time.elapsed();
        assert!(took >= limit / 2 && took < limit + AT_ONCE / 2, "{took:?}");
        assert!(matches!(error, AcquireError::Timeout { .. }), "{error}");
        assert!(!error.is_busy(), "{error}");
        servers.thaw(&[0, 1, 2]);
    }
}

#[tokio::test]
async fn a_wait_limit_below_the_command_timeout_is_waited_for_all_the_same() {
    let servers = Servers::start(3).await;
    let redlock = patient(servers.urls())
        .await
        .with(|settings| insistent(settings).wait_limit(PATIENCE / 2));
    for server in &servers {
        server
            .set_for("job", "foreign", Duration::from_secs(1))
            .await;
    }
    let time = Stopwatch::start();
    let lock = redlock.acquire(["job"], TTL).await;
    let lock = lock.expect("free well within the limit");
    time.assert_at_once();
    lock.release().await.unwrap();
}

#[tokio::test]
async fn a_wait_limit_of_nothing_ends_at_once_even_while_masters_hang() {
    let servers = Servers::start(3).await;
    let redlock = patient(servers.urls())
        .await
        .with(|settings| insistent(settings).wait_limit(Duration::ZERO));
    servers.freeze(&[0, 1, 2]);
    let time = Stopwatch::start();
    let error = timeout(AT_ONCE, redlock.acquire(["job"], TTL)).await;
    let error = error.expect("an end").unwrap_err();
    time.assert_at_once();
    assert!(matches!(error, AcquireError::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn without_retries_one_round_is_made_and_no_pause() {
    let servers = Servers::start(3).await;
    for index in [0, 1] {
        servers[index].set_for("job", "foreign", TTL).await;
    }
    let redlock = patient(servers.urls()).await;
    let insistent = redlock.with(|settings| {
        settings.retry(
            Retry::default()
                .unlimited()
                .delay(TTL)
                .jitter(Duration::ZERO),
        )
    });
    let mut before = Vec::new();
    for server in &servers {
        before.push(server.calls("evalsha").await);
    }
    let time = Stopwatch::start();
    let error = redlock.acquire(["job"], TTL).await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::Busy(a) if a.count == 1),
        "{error}"
    );
    settled(&redlock).await;
    let error = insistent.try_acquire(["job"], TTL).await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::Busy(a) if a.count == 1),
        "{error}"
    );
    time.assert_at_once();
    settled(&redlock).await;
    for (server, before) in servers.iter().zip(before) {
        let calls = server.calls("evalsha").await - before;
        assert_eq!(calls, 2 * 2, "an acquire and its roll-back, twice");
    }
}
