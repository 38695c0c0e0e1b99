//! Which servers may vote, and those that come up late.

use std::time::Duration;

use fredlock::{AcquireError, BuildError, Redlock};

use crate::acquirers::{AT_ONCE, Stopwatch, TTL, build_early, on_all, settled};
use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::server::Server;
use crate::support::servers::Servers;

#[tokio::test]
async fn a_master_that_was_down_at_the_start_gets_keys_soon_after_it_comes_up() {
    let servers = Servers::start(3).await;
    servers.kill(&[2]).await;
    let time = Stopwatch::start();
    let redlock = early(servers.urls()).await;
    time.assert_at_once();
    let lock = redlock.acquire(["job"], TTL).await.unwrap();
    servers[2].restart().await;
    let mut rounds = 0;
    eventually("the third master has keys", AT_ONCE, async || {
        rounds += 1;
        let name = format!("job-{rounds}");
        let lock = redlock.acquire([name.as_str()], TTL).await.unwrap();
        settled(&redlock).await;
        servers.values_of(&name).await == on_all(3, &lock)
    })
    .await;
    lock.release().await.unwrap();
}

#[tokio::test]
async fn a_quorum_is_one_of_all_configured_masters_and_not_of_the_connected_ones() {
    let servers = Servers::start(5).await;
    servers.kill(&[0, 1, 2]).await;
    let redlock = early(servers.urls()).await;
    let error = redlock.acquire(["job"], TTL).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    settled(&redlock).await;
    assert_eq!(servers.values_of("job").await, vec![None; 5]);
    servers[1].restart().await;
    eventually("three of five are a quorum", AT_ONCE, async || {
        redlock.acquire(["job"], TTL).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn two_urls_of_one_server_are_refused_with_both_names() {
    let servers = Servers::start(3).await;
    let relay = Relay::before(&servers[0]).await;
    let mut given = servers.urls();
    given[2] = relay.url();
    let error = Redlock::connect(given).await.unwrap_err();
    assert!(matches!(error, BuildError::Unfit { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&relay.addr()) && text.contains(&servers[0].addr()),
        "{text}"
    );
    assert!(text.contains("same server"), "{text}");

    let twice = [
        servers[0].url(),
        servers[1].url(),
        format!("{}/1", servers[0].url()),
    ];
    let error = Redlock::connect(twice).await.unwrap_err();
    assert!(
        matches!(&error, BuildError::SameAddress(name) if *name == servers[0].addr()),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_turns_out_to_be_another_master_later_has_no_second_vote() {
    let servers = Servers::start(2).await;
    let relay = Relay::before(&servers[0]).await;
    relay.refuse(true).await;
    let redlock = hasty([servers[0].url(), servers[1].url(), relay.url()]).await;
    servers.kill(&[1]).await;
    relay.refuse(false).await;
    eventually("it is refused with both names", AT_ONCE, async || {
        let error = redlock
            .acquire(["job"], TTL)
            .await
            .expect_err("one vote of three");
        assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
        let text = error.to_string();
        text.contains(&format!("{} refused as a master", relay.addr()))
            && text.contains(&format!("same server as {}", servers[0].addr()))
    })
    .await;
}

#[tokio::test]
async fn a_replica_is_refused_as_what_it_is() {
    let servers = Servers::start(3).await;
    replicate(&servers[2], &servers[0]).await;
    let error = Redlock::connect(servers.urls()).await.unwrap_err();
    let BuildError::Unfit { master, reason, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*master, servers[2].addr());
    assert!(reason.contains("slave"), "{reason}");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused_as_what_it_is() {
    let servers = Servers::start(2).await;
    let node = Server::start_with(&["--cluster-enabled", "yes"]).await;
    let given = [servers[0].url(), servers[1].url(), node.url()];
    let error = Redlock::connect(given).await.unwrap_err();
    let BuildError::Unfit { master, reason, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*master, node.addr());
    assert!(reason.contains("cluster"), "{reason}");
}

#[tokio::test]
async fn a_replica_that_is_promoted_may_vote_without_a_new_connection() {
    let servers = Servers::start(3).await;
    servers.kill(&[2]).await;
    let redlock = hasty(servers.urls()).await;
    let master = servers[0].port().to_string();
    servers[2]
        .restart_with(&["--replicaof", "127.0.0.1", &master])
        .await;
    servers.kill(&[0]).await;
    eventually("the replica is refused", AT_ONCE, async || {
        let error = redlock.acquire(["job"], TTL).await.err();
        error.is_some_and(|error| error.to_string().contains("its role is slave"))
    })
    .await;
    assert!(
        servers[2]
            .command(&["REPLICAOF", "NO", "ONE"])
            .await
            .is_ok()
    );
    eventually("it may vote", AT_ONCE, async || {
        redlock.acquire(["job"], TTL).await.is_ok()
    })
    .await;
}

/// A client some of whose masters are down.
async fn early(urls: impl IntoIterator<Item = String>) -> Redlock {
    build_early(urls, |builder| builder).await
}

/// A client that does not wait long for a master that was killed the moment before.
async fn hasty(urls: impl IntoIterator<Item = String>) -> Redlock {
    let limit = Duration::from_millis(200);
    early(urls)
        .await
        .with(|settings| settings.command_timeout(limit))
}

/// Makes a server the replica of another, and waits until it says so.
async fn replicate(replica: &Server, master: &Server) {
    let port = master.port().to_string();
    assert!(
        replica
            .command(&["REPLICAOF", "127.0.0.1", &port])
            .await
            .is_ok()
    );
    let limit = Duration::from_secs(5);
    eventually("it is a replica", limit, async || {
        replica.info("replication").await["role"] == "slave"
    })
    .await;
}
