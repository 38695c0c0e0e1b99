//! Answers that come after the ttl, and writes of an acquisition that reach a master after the
//! acquisition is over.

use std::time::Duration;

use fredlock::{AcquireError, Redlock, Settings};
use tokio::time::sleep;

use crate::acquirers::{
    AT_ONCE, BOTH, Stopwatch, TTL, build, fence_key, hold_replies, hold_requests, on_all, patient,
    relays, settled, urls,
};
use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::server::Server;
use crate::support::servers::Servers;
use crate::watched::Watched;

#[tokio::test]
async fn answers_that_come_after_the_ttl_give_an_error_and_leave_no_key() {
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    let redlock = patient(urls(&relays)).await;
    for fencing in BOTH {
        let redlock = build(urls(&relays), |builder| builder.fencing(fencing())).await;
        hold_replies(&relays, true);
        let ttl = Duration::from_millis(500);
        let time = Stopwatch::start();
        let error = redlock.acquire(["job"], ttl).await.unwrap_err();
        time.assert_at_once();
        assert!(
            matches!(error, AcquireError::NoQuorum(_) | AcquireError::Expired(_)),
            "{error}"
        );
        hold_replies(&relays, false);
        settled(&redlock).await;
        assert_eq!(servers.values_of("job").await, [None, None, None]);
    }
    drop(redlock);
}

#[tokio::test]
async fn an_acquire_whose_thread_was_blocked_past_its_ttl_gets_no_lock() {
    let servers = Servers::start(3).await;
    let redlock = patient(servers.urls()).await;
    let ttl = Duration::from_millis(400);
    servers.freeze(&[0, 1, 2]);
    let acquire = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.acquire(["job"], ttl).await }
    });
    // The only thread of this runtime: requests leave it now, replies wait in the sockets later.
    tokio::time::sleep(ttl / 4).await;
    assert!(!acquire.is_finished());
    servers.thaw(&[0, 1, 2]);
    #[expect(
        clippy::disallowed_methods,
        reason = "blocking the thread is the point"
    )]
    std::thread::sleep(ttl * 2);
    let error = acquire.await.unwrap().unwrap_err();
    assert!(
        matches!(error, AcquireError::NoQuorum(_) | AcquireError::Expired(_)),
        "{error}"
    );
    settled(&redlock).await;
    assert_eq!(servers.values_of("job").await, [None, None, None]);
}

#[tokio::test]
async fn a_master_that_was_paused_during_a_failed_acquire_keeps_no_key() {
    let servers = Servers::start(5).await;
    for fencing in BOTH {
        let redlock = build(servers.urls(), |builder| {
            let limit = Duration::from_millis(200);
            builder
                .fencing(fencing())
                .settings(|settings| settings.command_timeout(limit))
        })
        .await;
        servers.freeze(&[0, 1, 2]);
        let error = redlock.acquire(["job"], TTL).await.unwrap_err();
        assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
        // Longer than it takes until the client gives up the connections that are silent.
        sleep(Duration::from_secs(1)).await;
        servers.thaw(&[0, 1, 2]);
        // Nothing goes by itself in this time.
        settled(&redlock).await;
        assert_eq!(servers.values_of("job").await, vec![None; 5]);
    }
}

/// Sends an acquire whose request a network keeps to itself on two of three masters, and lets the
/// client go on over new connections; `end` ends the acquire before that.
async fn with_kept_requests(
    redlock: &Redlock,
    relays: &[Relay],
    ttl: Duration,
    end: impl AsyncFnOnce(tokio::task::JoinHandle<Result<fredlock::Lock, AcquireError>>),
) {
    hold_requests(relays, true);
    let acquire = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.acquire(["job"], ttl).await }
    });
    eventually("the requests are kept", AT_ONCE, async || {
        relays.iter().all(|relay| relay.requests_held() > 0)
    })
    .await;
    for relay in relays {
        relay.detach().await;
        relay.hold_requests(false);
    }
    end(acquire).await;
}

/// How many releases a server has executed, by whatever command.
async fn releases(server: &Server) -> u64 {
    let mut count = 0;
    for name in ["eval", "evalsha", "delex", "delifeq"] {
        count += server.calls(name).await;
    }
    count
}

#[tokio::test]
async fn with_fencing_a_write_that_arrives_after_the_release_of_a_failed_acquire_creates_nothing() {
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    let redlock = patient(urls(&relays)).await;
    with_kept_requests(&redlock, &relays[1..], TTL, async |acquire| {
        let error = acquire.await.unwrap().unwrap_err();
        assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    })
    .await;
    the_late_write_creates_nothing(&redlock, &servers, &relays).await;
}

#[tokio::test]
async fn with_fencing_a_write_that_arrives_after_the_release_of_a_dropped_acquire_creates_nothing()
{
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    let redlock = patient(urls(&relays)).await;
    with_kept_requests(&redlock, &relays[1..], TTL, async |acquire| {
        acquire.abort();
        // Either way it is over.
        drop(acquire.await);
    })
    .await;
    the_late_write_creates_nothing(&redlock, &servers, &relays).await;
}

async fn the_late_write_creates_nothing(redlock: &Redlock, servers: &Servers, relays: &[Relay]) {
    settled(redlock).await;
    for (server, relay) in servers.iter().zip(relays).skip(1) {
        let tombstone = server.get(&fence_key("job")).await;
        assert!(tombstone.is_some(), "the release has been there");
        assert!(relay.release_detached().await > 0);
        assert_eq!(server.get("job").await, None, "no lock");
        assert_eq!(server.get(&fence_key("job")).await, tombstone);
    }
    let next = redlock.acquire(["job"], TTL).await;
    let lock = next.expect("not kept out");
    settled(redlock).await;
    assert_eq!(servers.values_of("job").await, on_all(3, &lock));
}

/// The same after a success: the lock that is released was granted by the others.
#[tokio::test]
async fn with_fencing_a_write_that_arrives_after_the_release_of_a_lock_creates_nothing() {
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    let redlock = patient(urls(&relays)).await;
    with_kept_requests(&redlock, &relays[2..], TTL, async |acquire| {
        let lock = acquire.await.unwrap().unwrap();
        eventually("the third is connected again", AT_ONCE, async || {
            drop(redlock.acquire(["other"], TTL).await.unwrap());
            servers[2].get(&fence_key("other")).await.is_some()
        })
        .await;
        lock.release().await.unwrap();
    })
    .await;
    settled(&redlock).await;
    assert!(
        servers[2].get(&fence_key("job")).await.is_some(),
        "the release has been there"
    );
    assert!(relays[2].release_detached().await > 0);
    assert_eq!(servers.values_of("job").await, [None, None, None]);
}

#[tokio::test]
async fn without_fencing_a_late_write_stays_for_no_longer_than_one_ttl() {
    let ttl = Duration::from_millis(600);
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    let redlock = build(urls(&relays), |builder| {
        builder.fencing(fredlock::Fencing::Off)
    })
    .await;
    let mut before = Vec::new();
    for server in &servers {
        before.push(releases(server).await);
    }
    with_kept_requests(&redlock, &relays[1..], ttl, async |acquire| {
        let error = acquire.await.unwrap().unwrap_err();
        assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    })
    .await;
    settled(&redlock).await;
    for index in [1, 2] {
        assert!(
            releases(&servers[index]).await > before[index],
            "the release has been there"
        );
        assert!(relays[index].release_detached().await > 0);
        assert!(
            servers[index].get("job").await.is_some(),
            "the write came late"
        );
        let left = servers[index].pttl("job").await;
        assert!((0..=600).contains(&left), "{left}");
    }
    sleep(ttl).await;
    assert_eq!(servers.values_of("job").await, [None, None, None]);
}

/// The roll-back itself may be lost: it is repeated until it gets through.
#[tokio::test]
async fn a_master_that_was_cut_off_during_the_roll_back_is_freed_when_it_is_reached_again() {
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    for (fencing, is_dropped) in [(BOTH[0], true), (BOTH[1], true), (BOTH[0], false)] {
        let limit = Duration::from_secs(if is_dropped { 20 } else { 1 });
        let redlock = build(urls(&relays), |builder| {
            let settings = |settings: Settings| settings.command_timeout(limit);
            builder.fencing(fencing()).settings(settings)
        })
        .await;
        hold_replies(&relays, true);
        let acquire = Watched::start(&redlock, true);
        eventually("every master has written", AT_ONCE, async || {
            servers.values_of("job").await.iter().all(Option::is_some)
        })
        .await;
        hold_requests(&relays[1..], true);
        if is_dropped {
            acquire.drop_now().await;
        } else {
            let error = acquire.end().await.unwrap_err();
            assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
        }
        eventually("the roll-back is under way", AT_ONCE, async || {
            relays[1..].iter().all(|relay| relay.requests_held() > 0)
        })
        .await;
        for relay in &relays[1..] {
            relay.refuse(true).await;
        }
        hold_requests(&relays, false);
        hold_replies(&relays, false);
        eventually("the first master is free", AT_ONCE, async || {
            servers[0].get("job").await.is_none()
        })
        .await;
        let left = servers.values_of("job").await;
        assert!(
            left[1..].iter().all(Option::is_some),
            "no way there: {left:?}"
        );
        for relay in &relays[1..] {
            relay.refuse(false).await;
        }
        settled(&redlock).await;
        assert_eq!(servers.values_of("job").await, [None, None, None]);
    }
}
