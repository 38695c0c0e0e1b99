//! What a master keeps, and what it may lose.

use super::{DURABLE, expect, with};
use crate::support::server::Server;
use crate::tool::eventually;

#[tokio::test]
async fn a_policy_that_can_drop_locks_is_broken_with_a_limit_and_a_warning_without() {
    let limited = with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).await;
    expect(
        &limited.url(),
        &limited.addr(),
        &[],
        &["eviction broken it"],
    )
    .await;
    let unlimited = with(&["--maxmemory-policy", "volatile-ttl"]).await;
    expect(
        &unlimited.url(),
        &unlimited.addr(),
        &[],
        &["eviction warning it"],
    )
    .await;
}

#[tokio::test]
async fn memory_that_is_nearly_used_up_is_found() {
    let server = Server::start_with(&DURABLE).await;
    // So much that what the doctor itself takes is nothing beside it. Made by the server: what it is
    // sent stands in buffers too, which it frees later.
    let last = (20_u32 << 20).to_string();
    let reply = server.command(&["SETRANGE", "filler", &last, "x"]).await;
    assert_eq!(reply.int(), Some((20 << 20) + 1));
    let used: u64 = server.info("memory").await["used_memory"].parse().unwrap();
    let set = async |limit: u64| {
        let reply = server
            .command(&["CONFIG", "SET", "maxmemory", &limit.to_string()])
            .await;
        assert!(reply.is_ok(), "{reply:?}");
    };
    set(used * 100 / 92).await;
    expect(&server.url(), &server.addr(), &[], &["memory warning it"]).await;
    set(used * 100 / 86).await;
    expect(&server.url(), &server.addr(), &[], &[]).await;
}

#[tokio::test]
async fn data_that_can_be_lost_at_a_restart_is_found_whatever_is_kept() {
    // Up for longer than the ttl.
    let ttl = ["--ttl", "1s"];
    for (extra, text) in [
        (&["--appendonly", "no"][..], "nothing is kept"),
        (&["--appendonly", "no", "--save", "60 1"], "only snapshots"),
        (
            &["--appendonly", "yes", "--appendfsync", "everysec"],
            "appendfsync is everysec",
        ),
    ] {
        let server = Server::start_with(extra).await;
        eventually("it is up for 2 s", async || {
            server.info("server").await["uptime_in_seconds"]
                .parse::<u64>()
                .unwrap()
                >= 2
        })
        .await;
        let report = expect(
            &server.url(),
            &server.addr(),
            &ttl,
            &["persistence warning it"],
        )
        .await;
        let finding = report["findings"][0]["finding"].as_str().unwrap();
        assert!(finding.contains(text), "{finding}");
    }
}

#[tokio::test]
async fn a_restart_guard_stands_in_for_persistence() {
    let server = Server::start().await;
    server.set("fredlock:guard:marker", "1").await;
    expect(&server.url(), &server.addr(), &[], &[]).await;
}

#[tokio::test]
async fn a_master_that_has_forgotten_what_may_be_held_is_found() {
    let server = Server::start().await;
    expect(
        &server.url(),
        &server.addr(),
        &["--ttl", "1h"],
        &["persistence warning it", "restarted warning it"],
    )
    .await;
}
