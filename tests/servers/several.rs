//! One lock on several resources: extended and released where a master lost one, or gave it away.

use std::time::Duration;

use fredlock::{ExtendError, Fencing, Lock, Redlock, ReleaseError};

use crate::support::servers::Servers;
use crate::voters::{LONG, both, client_of, everywhere, gone, idle};

const TTL: Duration = Duration::from_secs(20);
/// Whatever was set to [`TTL`] has less than this left, and what was extended to [`LONG`] has more.
const BETWEEN_MS: i64 = 30_000;

/// Three servers, a client, and a lock on `x` and `y` that stands on every one of them.
async fn held(fencing: Fencing) -> (Servers, Redlock, Lock) {
    let servers = Servers::start(3).await;
    let redlock = client_of(&servers, fencing).await;
    let lock = redlock.acquire(["x", "y"], TTL).await.expect("acquired");
    let token = lock.token().reveal();
    everywhere(&servers, "x", &token).await;
    everywhere(&servers, "y", &token).await;
    idle(&redlock).await;
    (servers, redlock, lock)
}

#[tokio::test]
async fn resource_that_one_master_lost_is_put_back_and_the_others_extended_there() {
    for fencing in both() {
        let (servers, redlock, mut lock) = held(fencing).await;
        servers[0].del("x").await;
        lock.extend(LONG).await.expect("a quorum has both");
        idle(&redlock).await;
        everywhere(&servers, "x", &lock.token().reveal()).await;
        for server in &servers {
            for key in ["x", "y"] {
                assert!(server.pttl(key).await > BETWEEN_MS, "{key}");
            }
        }
    }
}

#[tokio::test]
async fn resource_that_somebody_else_has_on_one_master_stays_theirs_and_nothing_else_changes_there()
{
    for fencing in both() {
        let (servers, redlock, mut lock) = held(fencing).await;
        servers[0].set_for("x", "somebody else", TTL).await;
        lock.extend(LONG).await.expect("a quorum has both");
        idle(&redlock).await;
        assert_eq!(servers[0].get("x").await.as_deref(), Some("somebody else"));
        for key in ["x", "y"] {
            assert!(servers[0].pttl(key).await < BETWEEN_MS, "{key}");
            assert!(servers[1].pttl(key).await > BETWEEN_MS, "{key}");
            assert!(servers[2].pttl(key).await > BETWEEN_MS, "{key}");
        }
        lock.release().await.expect("a quorum had both");
        idle(&redlock).await;
        gone(&servers, "y").await;
        assert_eq!(servers[0].get("x").await.as_deref(), Some("somebody else"));
    }
}

#[tokio::test]
async fn lock_is_lost_with_any_one_of_its_resources() {
    for fencing in both() {
        let (servers, redlock, mut lock) = held(fencing).await;
        servers[0].del("x").await;
        servers[1].set_for("y", "somebody else", TTL).await;
        let lost = lock.extend(LONG).await;
        assert!(matches!(lost, Err(ExtendError::Lost { .. })), "{lost:?}");
        idle(&redlock).await;
        assert_eq!(servers[0].get("x").await, None);
        for (master, key) in [(0, "y"), (1, "x"), (1, "y")] {
            assert!(
                servers[master].pttl(key).await < BETWEEN_MS,
                "{master} {key}"
            );
        }
    }
}

#[tokio::test]
async fn release_frees_the_rest_where_a_resource_was_deleted_by_hand() {
    for fencing in both() {
        for deleted_on in [1, 3] {
            let (servers, _redlock, lock) = held(fencing).await;
            for server in servers.iter().take(deleted_on) {
                server.del("x").await;
            }
            let released = lock.release().await;
            if deleted_on == 1 {
                released.expect("a quorum had both");
            } else {
                assert!(
                    matches!(released, Err(ReleaseError::Lost { .. })),
                    "{released:?}"
                );
            }
            gone(&servers, "x").await;
            gone(&servers, "y").await;
        }
    }
}
