//! Extensions that meet faults on the way, or come too late.

use std::time::Duration;

use fredlock::{Answer, ExtendError, Fencing, Lock, Redlock};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{eventually, relay::Relay, servers::Servers};
use crate::voters::{AT_ONCE, LONG, all_vote, both, client, client_of, everywhere, gone, idle};

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
async fn extension_without_a_quorum_is_tried_again_and_harms_nothing_on_healthy_masters() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let relays = [
            Relay::before(&servers[0]).await,
            Relay::before(&servers[1]).await,
        ];
        let urls = [relays[0].url(), relays[1].url(), servers[2].url()];
        let redlock = client(urls, fencing).await;
        all_vote(&redlock, &servers).await;
        let mut lock = held(&redlock, &servers).await;
        let token = lock.token().reveal();
        let deletes = servers[2].calls("del").await;
        for relay in &relays {
            relay.hold_requests(true);
        }
        let begun = Instant::now();
        let faults = async {
            for relay in &relays {
                eventually("the extension is held", AT_ONCE, async || {
                    relay.requests_held() > 0
                })
                .await;
            }
            assert_eq!(servers[2].get("k").await.as_ref(), Some(&token));
            for relay in &relays {
                relay.cut().await;
                relay.hold_requests(false);
            }
        };
        let (extended, ()) = tokio::join!(lock.extend(LONG), faults);
        extended.expect("extended in a later round");
        assert!(begun.elapsed() < TTL / 4, "{:?}", begun.elapsed());
        assert!(lock.remaining() > TTL);
        assert_eq!(servers[2].calls("del").await, deletes);
        everywhere(&servers, "k", &token).await;
        // Whichever came back first made the quorum; the other is extended by the next round.
        eventually("a quorum is extended", AT_ONCE, async || {
            let mut extended = 0;
            for server in &servers {
                extended += usize::from(server.pttl("k").await > BETWEEN_MS);
            }
            extended >= 2
        })
        .await;
    }
}

#[tokio::test]
async fn late_extension_is_refused_without_asking_the_masters() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let redlock = client_of(&servers, fencing).await;
        let ttl = Duration::from_millis(300);
        let mut lock = redlock.acquire(["k"], ttl).await.expect("acquired");
        idle(&redlock).await;
        sleep(lock.remaining()).await;
        eventually("it has expired", AT_ONCE, async || !lock.is_valid()).await;
        let mut before = Vec::new();
        for server in &servers {
            before.push(server.commands_processed().await);
        }
        let refused = lock.extend(LONG).await.expect_err("late");
        assert!(
            matches!(&refused, ExtendError::Expired { outcomes, .. } if outcomes.iter().len() == 0),
            "{refused:?}"
        );
        assert!(
            refused.to_string().contains("nothing was sent"),
            "{refused}"
        );
        idle(&redlock).await;
        for (server, before) in servers.iter().zip(before) {
            assert_eq!(server.commands_processed().await, before);
        }
    }
}

#[tokio::test]
async fn extension_that_masters_confirm_after_the_end_revives_nothing_and_is_taken_back() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        let mut relays = Vec::new();
        for server in &servers {
            relays.push(Relay::before(server).await);
        }
        let redlock = client(relays.iter().map(Relay::url), fencing).await;
        all_vote(&redlock, &servers).await;
        let ttl = Duration::from_secs(1);
        let mut lock = redlock.acquire(["k"], ttl).await.expect("acquired");
        idle(&redlock).await;
        for relay in &relays {
            relay.hold_replies(true);
        }
        let late = timeout(ttl * 3, lock.extend(LONG)).await.expect("in time");
        assert!(matches!(late, Err(ExtendError::Expired { .. })), "{late:?}");
        for server in &servers {
            assert!(server.pttl("k").await > BETWEEN_MS, "it was extended there");
        }
        for relay in &relays {
            relay.hold_replies(false);
        }
        idle(&redlock).await;
        assert!(!lock.is_valid());
        assert!(lock.extend(LONG).await.is_err());
        drop(lock);
        gone(&servers, "k").await;
    }
}

#[tokio::test]
async fn connection_error_on_one_master_does_not_cancel_the_extension_on_the_others() {
    let servers = Servers::start(3).await;
    let mut relays = Vec::new();
    for server in &servers {
        relays.push(Relay::before(server).await);
    }
    let redlock = client(relays.iter().map(Relay::url), Fencing::default()).await;
    all_vote(&redlock, &servers).await;
    let mut lock = held(&redlock, &servers).await;
    let before = servers[1].calls("evalsha").await;
    for relay in &relays {
        relay.hold_requests(true);
    }
    let faults = async {
        for relay in &relays {
            eventually("the extension is held", AT_ONCE, async || {
                relay.requests_held() > 0
            })
            .await;
        }
        // One fails before any other has answered.
        let accepted = relays[0].accepted();
        relays[0].cut().await;
        eventually("the client has noticed", AT_ONCE, async || {
            relays[0].accepted() > accepted
        })
        .await;
        relays[1].hold_requests(false);
        relays[2].hold_requests(false);
    };
    let (extended, ()) = tokio::join!(lock.extend(LONG), faults);
    extended.expect("extended by the others");
    assert_eq!(
        servers[1].calls("evalsha").await,
        before + 1,
        "in the same round"
    );
    let outcomes = lock.outcomes();
    assert!(
        matches!(
            answers(outcomes)[..],
            [Answer::Failed(_), Answer::Extended, Answer::Extended]
        ),
        "{outcomes}"
    );
}
