//! Users who may not do or see everything.

use super::{DURABLE, doctor, expect, found, healthy_two};
use crate::support::{server::Server, servers::Servers};

/// A user of the server that may do all but some commands.
async fn user(server: &Server, without: &[&str]) -> String {
    let rights = [
        &[
            "ACL", "SETUSER", "limited", "on", ">geheim", "~*", "&*", "+@all",
        ],
        without,
    ]
    .concat();
    let reply = server.command(&rights).await;
    assert!(reply.is_ok(), "{reply:?}");
    server.url().replace("redis://", "redis://limited:geheim@")
}

#[tokio::test]
async fn a_user_without_scripts_is_found() {
    let server = Server::start_with(&DURABLE).await;
    for without in [&["-eval"][..], &["-evalsha"]] {
        let url = user(&server, without).await;
        expect(&url, &server.addr(), &[], &["scripts broken it"]).await;
    }
}

#[tokio::test]
async fn a_user_without_info_is_found() {
    let server = Server::start_with(&DURABLE).await;
    let url = user(&server, &["-info"]).await;
    let two = healthy_two().await;
    let (status, report) = doctor(&[two[0].url(), two[1].url(), url], &[]).await;
    assert_eq!(status, 2);
    assert_eq!(
        found(&report)[0],
        "info broken it".replace("it", &server.addr())
    );
}

#[tokio::test]
async fn masters_that_refuse_info_or_scripts_make_no_quorum() {
    let servers = Servers::start_with(3, &DURABLE).await;
    for without in ["-info", "-eval"] {
        let mut urls = servers.urls();
        for index in [0, 1] {
            urls[index] = user(&servers[index], &[without]).await;
        }
        let (status, report) = doctor(&urls, &[]).await;
        assert_eq!(status, 2);
        assert_eq!(
            found(&report)[0],
            "quorum broken all",
            "{without}: {report:#}"
        );
    }
}

#[tokio::test]
async fn what_config_would_tell_is_unknown_where_it_is_denied_and_never_right() {
    let server = Server::start_with(&DURABLE).await;
    let url = user(&server, &["-config"]).await;
    let report = expect(
        &url,
        &server.addr(),
        &[],
        &["config unknown it", "restarted warning it"],
    )
    .await;
    let finding = report["findings"][0]["finding"].as_str().unwrap();
    assert!(
        finding.contains("appendfsync") && finding.contains("NOPERM"),
        "{finding}"
    );
    assert!(
        !report.to_string().contains("geheim"),
        "the password is shown"
    );
}

#[tokio::test]
async fn what_info_tells_is_found_also_where_config_is_denied() {
    let server =
        Server::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let url = user(&server, &["-config"]).await;
    expect(
        &url,
        &server.addr(),
        &[],
        &[
            "eviction broken it",
            "persistence warning it",
            "restarted warning it",
        ],
    )
    .await;
}

#[tokio::test]
async fn what_neither_config_nor_info_tells_is_unknown() {
    let server = Server::start_with(&DURABLE).await;
    let url = user(&server, &["-config", "-info"]).await;
    let two = healthy_two().await;
    let (_, report) = doctor(&[two[0].url(), two[1].url(), url], &[]).await;
    let text = report["findings"].to_string();
    for setting in ["maxmemory-policy", "maxmemory", "appendonly", "maxclients"] {
        assert!(
            text.contains(&format!("\"{setting} is not known: NOPERM")),
            "{setting}: {report:#}"
        );
    }
}

#[tokio::test]
async fn a_clock_that_may_not_be_looked_at_is_unknown() {
    let server = Server::start_with(&DURABLE).await;
    let url = user(&server, &["-time"]).await;
    expect(&url, &server.addr(), &[], &["clock unknown it"]).await;
}
