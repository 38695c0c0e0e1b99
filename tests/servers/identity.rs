//! Servers that must not vote, or not twice, are refused and named for what they are.

use std::fs;

use fredlock::{AcquireError, BuildError, Fencing, Redlock};

use tokio::time::Instant;

use crate::support::{eventually, relay::Relay, server::Server, servers::Servers};
use crate::voters::{AT_ONCE, LONG, client, idle, they_vote};

/// Why these URLs cannot be masters together.
async fn refusal(urls: &[String]) -> BuildError {
    let refused = Redlock::connect(urls.iter().cloned()).await;
    refused.expect_err("not fit to be masters")
}

/// What an acquisition says while too few masters may vote.
async fn no_quorum(redlock: &Redlock) -> String {
    match redlock.try_acquire(["k"], LONG).await {
        Err(error @ AcquireError::NoQuorum(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn two_ways_to_one_server_are_refused_with_both_names() {
    let socket = ["--unixsocket", "server.sock"];
    let servers = Servers::start_with(2, &socket).await;
    let relay = Relay::before(&servers[0]).await;
    let path = servers[0].path("server.sock").display().to_string();
    let by_tcp = servers[0].addr();
    let same = [
        (format!("redis://localhost:{}", servers[0].port()), None),
        (relay.url(), Some(relay.addr())),
        (format!("redis+unix://{path}"), Some(path)),
    ];
    for (url, name) in same {
        let name = name.unwrap_or_else(|| url.replace("redis://", ""));
        let error = refusal(&[servers[0].url(), servers[1].url(), url]).await;
        assert!(matches!(error, BuildError::Unfit { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&by_tcp) && text.contains(&name), "{text}");
        assert!(text.contains("one server must not vote twice"), "{text}");
    }
}

#[tokio::test]
async fn one_address_given_twice_is_refused_whether_or_not_it_is_up() {
    let server = Server::start().await;
    server.kill().await;
    for twice in [
        [server.url(), server.url()],
        [format!("{}/1", server.url()), format!("{}/2", server.url())],
        [server.url(), format!("{}/2", server.url())],
    ] {
        let error = refusal(&twice).await;
        assert!(matches!(error, BuildError::SameAddress(_)), "{error:?}");
        assert!(error.to_string().contains(&server.addr()), "{error}");
    }
}

#[tokio::test]
async fn replica_cluster_node_and_sentinel_are_named_as_what_they_are() {
    let master = Server::start().await;
    let port = master.port().to_string();
    let file = master.path("sentinel.conf");
    fs::write(&file, format!("sentinel monitor m 127.0.0.1 {port} 1\n")).expect("written");
    let file = file.display().to_string();
    let unfit = [
        (
            "role is slave",
            Server::start_with(&["--replicaof", "127.0.0.1", &port]).await,
        ),
        (
            "cluster",
            Server::start_with(&["--cluster-enabled", "yes"]).await,
        ),
        ("sentinel", Server::start_with(&[&file, "--sentinel"]).await),
    ];
    for (what, server) in unfit {
        let error = refusal(&[master.url(), server.url()]).await;
        assert!(matches!(error, BuildError::Unfit { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains(what) && text.contains(&server.addr()),
            "{text}"
        );
    }
}

#[tokio::test]
async fn cluster_url_is_refused_without_a_look_at_it() {
    let error = refusal(&["redis-cluster://127.0.0.1:1".to_owned()]).await;
    assert!(matches!(error, BuildError::Cluster(_)), "{error:?}");
}

#[tokio::test]
async fn master_that_comes_up_as_a_replica_votes_once_it_is_promoted() {
    let servers = Servers::start(2).await;
    servers[1].kill().await;
    let redlock = client(servers.urls(), Fencing::default()).await;
    let port = servers[0].port().to_string();
    servers[1]
        .restart_with(&["--replicaof", "127.0.0.1", &port])
        .await;
    eventually("it is named as a replica", AT_ONCE * 2, async || {
        let text = no_quorum(&redlock).await;
        text.contains("refused as a master") && text.contains("slave")
    })
    .await;
    servers[1].command(&["REPLICAOF", "NO", "ONE"]).await;
    they_vote(&redlock, &[&servers[0], &servers[1]]).await;
}

#[tokio::test]
async fn master_that_turns_out_to_be_the_same_server_as_another_never_votes() {
    let server = Server::start().await;
    let relay = Relay::before(&server).await;
    relay.refuse(true).await;
    let redlock = client([server.url(), relay.url()], Fencing::default()).await;
    relay.refuse(false).await;
    eventually("it is named as the same server", AT_ONCE * 2, async || {
        let text = no_quorum(&redlock).await;
        text.contains("refused as a master") && text.contains("must not vote twice")
    })
    .await;
    idle(&redlock).await;
    assert_eq!(server.get("k").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn address_that_comes_to_lead_to_another_masters_server_never_votes_twice() {
    let servers = Servers::start(2).await;
    let relay = Relay::before(&servers[0]).await;
    let urls = [relay.url(), servers[1].url()];
    let redlock = client(urls, Fencing::default()).await;
    they_vote(&redlock, &[&servers[0], &servers[1]]).await;
    relay.redirect(&servers[1]);
    // From the first cut on, no two servers can say yes.
    for _ in 0..20 {
        let accepted = relay.accepted();
        relay.cut().await;
        let reconnected = Instant::now() + AT_ONCE;
        let mut more = 100;
        while more > 0 {
            let granted = redlock.try_acquire(["k"], LONG).await;
            assert!(granted.is_err(), "{granted:?}");
            tokio::task::yield_now().await;
            more -= usize::from(relay.accepted() > accepted);
            assert!(Instant::now() < reconnected, "no reconnection");
        }
    }
    eventually("it is named as the same server", AT_ONCE * 2, async || {
        no_quorum(&redlock).await.contains("must not vote twice")
    })
    .await;
}
