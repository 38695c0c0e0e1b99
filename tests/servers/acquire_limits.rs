//! The smallest and the largest of what can be asked for.

use std::time::Duration;

use fredlock::{AcquireError, Fencing, InvalidResources, NAME_BYTES_MAX, RESOURCES_MAX, TTL_MAX};

use crate::acquirers::{AT_ONCE, BOTH, Stopwatch, TTL, build, fence_key, on_all, patient, settled};
use crate::support::servers::Servers;

#[tokio::test]
async fn what_cannot_be_locked_is_refused_before_anything_is_sent() {
    let servers = Servers::start(1).await;
    let redlock = patient(servers.urls()).await;
    let before = servers[0].commands_processed().await;
    let beyond = TTL_MAX + Duration::from_millis(1);
    for ttl in [
        Duration::ZERO,
        Duration::from_micros(999),
        beyond,
        Duration::MAX,
    ] {
        let error = redlock.acquire(["job"], ttl).await.unwrap_err();
        assert!(
            matches!(&error, AcquireError::InvalidTtl(e) if e.ttl == ttl),
            "{error}"
        );
        let error = redlock.try_acquire(["job"], ttl).await.unwrap_err();
        assert!(matches!(error, AcquireError::InvalidTtl(_)), "{error}");
        let error = redlock.using(["job"], ttl, async |_| ()).await.unwrap_err();
        assert!(error.to_string().contains("ttl"), "{error}");
    }
    let too_long = "x".repeat(NAME_BYTES_MAX + 1);
    let too_many: Vec<_> = (0..=RESOURCES_MAX).map(|n| n.to_string()).collect();
    let none: [&str; 0] = [];
    for (error, expected) in [
        (redlock.acquire(none, TTL).await, InvalidResources::None),
        (
            redlock.acquire([""], TTL).await,
            InvalidResources::EmptyName,
        ),
        (
            redlock.acquire(["job", ""], TTL).await,
            InvalidResources::EmptyName,
        ),
        (
            redlock.acquire([too_long], TTL).await,
            InvalidResources::NameTooLong {
                bytes: NAME_BYTES_MAX + 1,
            },
        ),
        (
            redlock.acquire(too_many, TTL).await,
            InvalidResources::TooMany,
        ),
    ] {
        let error = error.expect_err("nothing to lock");
        assert!(
            matches!(&error, AcquireError::InvalidResources(reason) if *reason == expected),
            "{error}"
        );
        assert!(error.outcomes().is_none());
    }
    assert_eq!(servers[0].commands_processed().await, before);
}

#[tokio::test]
async fn the_longest_of_everything_is_taken_by_the_masters() {
    let servers = Servers::start(3).await;
    for fencing in BOTH {
        let redlock = build(servers.urls(), |builder| builder.fencing(fencing())).await;
        let names: Vec<_> = (0..RESOURCES_MAX)
            .map(|n| format!("{n:0>NAME_BYTES_MAX$}"))
            .collect();
        let mut lock = redlock.acquire(names.clone(), TTL_MAX).await.unwrap();
        lock.extend(TTL_MAX).await.unwrap();
        settled(&redlock).await;
        assert_eq!(servers.values_of(&names[7]).await, on_all(3, &lock));
        lock.release().await.unwrap();
        settled(&redlock).await;
        assert_eq!(servers.values_of(&names[7]).await, [None, None, None]);
    }
}

#[tokio::test]
async fn the_longest_retention_of_fences_is_taken_by_the_masters() {
    let servers = Servers::start(3).await;
    for retention in [TTL_MAX, Duration::MAX] {
        let fencing = Fencing::on(retention);
        let redlock = build(servers.urls(), |builder| builder.fencing(fencing)).await;
        let lock = redlock.acquire(["job"], TTL_MAX).await.unwrap();
        assert!(servers[0].pttl(&fence_key("job")).await > 0);
        lock.release().await.unwrap();
        settled(&redlock).await;
    }
}

#[tokio::test]
async fn an_acquire_ends_also_where_its_ttl_leaves_no_validity() {
    let servers = Servers::start(3).await;
    let redlock = patient(servers.urls()).await;
    servers.freeze(&[0, 1]);
    for ttl_ms in 1..=3 {
        let time = Stopwatch::start();
        let acquire = redlock.acquire(["job"], Duration::from_millis(ttl_ms));
        let ended = tokio::time::timeout(AT_ONCE, acquire).await;
        let error = ended.expect("an end within the ttl").unwrap_err();
        // Of one and two milliseconds nothing is left once the drift is taken off.
        let is_right = match ttl_ms {
            1 | 2 => matches!(error, AcquireError::InvalidTtl(_)),
            _ => matches!(error, AcquireError::NoQuorum(_)),
        };
        assert!(is_right, "{error}");
        time.assert_at_once();
    }
}
