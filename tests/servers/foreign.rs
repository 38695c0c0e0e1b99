//! A client of another make, with nothing but the commands that all Redlock clients share, on the
//! same masters: it and this library exclude each other.

use fredlock::{AcquireError, Redlock};

use crate::acquirers::{BOTH, Stopwatch, TTL, build, settled};
use crate::support::resp::{Connection, Resp};
use crate::support::servers::Servers;

/// The script that every Redlock client releases by.
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// One raw connection to each master.
struct Foreign(Vec<Connection>);

impl Foreign {
    async fn connect(servers: &Servers) -> Self {
        let mut connections = Vec::new();
        for server in servers {
            connections.push(server.connect().await.expect("connection"));
        }
        Self(connections)
    }

    /// `SET key random NX PX ttl` on every master: on how many it was set.
    async fn acquire(&mut self, key: &str, random: &str) -> usize {
        let ttl_ms = TTL.as_millis().to_string();
        let mut set = 0;
        for connection in &mut self.0 {
            let command = ["SET", key, random, "NX", "PX", &ttl_ms];
            let reply = connection.call(&command).await.expect("reply");
            assert!(reply.is_ok() || reply.is_nil(), "{reply:?}");
            set += usize::from(reply.is_ok());
        }
        set
    }

    /// Compares and deletes on every master: on how many it was deleted.
    async fn release(&mut self, key: &str, random: &str) -> usize {
        let mut deleted = 0;
        for connection in &mut self.0 {
            let reply = connection.call(&["EVAL", RELEASE, "1", key, random]).await;
            let reply = reply.expect("reply");
            assert!(matches!(reply, Resp::Int(0 | 1)), "{reply:?}");
            deleted += usize::from(reply == Resp::Int(1));
        }
        deleted
    }
}

/// Servers, a client of theirs for each kind of fencing, and a foreign one.
async fn both_makes() -> (Servers, Vec<Redlock>, Foreign) {
    let servers = Servers::start(5).await;
    let mut ours = Vec::new();
    for fencing in BOTH {
        ours.push(build(servers.urls(), |builder| builder.fencing(fencing())).await);
    }
    let foreign = Foreign::connect(&servers).await;
    (servers, ours, foreign)
}

#[tokio::test]
async fn a_client_of_another_make_gets_nothing_while_we_hold_the_lock() {
    let (servers, ours, mut foreign) = both_makes().await;
    for redlock in &ours {
        let mut lock = redlock.acquire(["job"], TTL).await.unwrap();
        settled(redlock).await;
        assert_eq!(foreign.acquire("job", "random").await, 0);
        lock.extend(TTL * 2).await.unwrap();
        settled(redlock).await;
        assert_eq!(foreign.acquire("job", "random").await, 0);
        assert_eq!(
            foreign.release("job", "random").await,
            0,
            "nor can it release ours"
        );
        // What it compares with is the token, as it stands.
        assert_eq!(servers[2].get("job").await, Some(lock.token().reveal()));

        lock.release().await.unwrap();
        settled(redlock).await;
        assert_eq!(foreign.acquire("job", "random").await, 5);
        assert_eq!(foreign.release("job", "random").await, 5);
    }
}

#[tokio::test]
async fn we_get_nothing_while_a_client_of_another_make_holds_the_lock() {
    let (servers, ours, mut foreign) = both_makes().await;
    for redlock in &ours {
        assert_eq!(foreign.acquire("job", "random").await, 5);
        let time = Stopwatch::start();
        let error = redlock.acquire(["job"], TTL).await.unwrap_err();
        assert!(matches!(error, AcquireError::Busy(_)), "{error}");
        let error = redlock
            .try_acquire(["other", "job"], TTL)
            .await
            .unwrap_err();
        assert!(matches!(error, AcquireError::Busy(_)), "{error}");
        time.assert_at_once();
        settled(redlock).await;
        assert_eq!(
            servers.values_of("job").await,
            vec![Some("random".to_owned()); 5]
        );
        assert_eq!(
            servers.values_of("other").await,
            vec![None; 5],
            "all or none"
        );
        assert!(servers[0].pttl("job").await <= 60_000, "its ttl is its own");

        assert_eq!(foreign.release("job", "random").await, 5);
        let lock = redlock.acquire(["other", "job"], TTL).await.unwrap();
        // A quorum holds it; now the rest has been asked too.
        settled(redlock).await;
        assert_eq!(foreign.acquire("job", "random").await, 0);
        lock.release().await.unwrap();
        settled(redlock).await;
    }
}

#[tokio::test]
async fn a_foreign_lock_without_expiry_is_busy_too() {
    let (servers, ours, _foreign) = both_makes().await;
    for server in &servers {
        server.set("job", "for ever").await;
    }
    for redlock in &ours {
        let error = redlock.acquire(["job"], TTL).await.unwrap_err();
        assert!(matches!(error, AcquireError::Busy(_)), "{error}");
        assert!(error.to_string().contains("held without expiry"), "{error}");
        settled(redlock).await;
        assert_eq!(servers[4].pttl("job").await, -1);
    }
}

#[tokio::test]
async fn the_foreign_holder_of_a_quorum_wins_over_us_and_we_over_that_of_a_minority() {
    let (servers, ours, _foreign) = both_makes().await;
    for redlock in &ours {
        for held in 0..=5 {
            for (index, server) in servers.iter().enumerate() {
                server.del("job").await;
                if index < held {
                    server.set_for("job", "random", TTL).await;
                }
            }
            let result = redlock.acquire(["job"], TTL).await;
            assert_eq!(result.is_ok(), held < 3, "{held} of 5 held: {result:?}");
            drop(result);
            settled(redlock).await;
            let ours = servers.values_of("job").await;
            let theirs = ours.iter().filter(|value| value.is_some()).count();
            assert_eq!(
                theirs, held,
                "what is theirs stays, and nothing else: {ours:?}"
            );
        }
    }
}
