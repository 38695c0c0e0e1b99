//! Masters that are out of reach, slow or full, or whose clocks are apart.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{DURABLE, doctor, expect, found, with};
use crate::support::{
    fake::{FakeServer, raw},
    relay::Relay,
    server::Server,
    servers::Servers,
};

#[tokio::test]
async fn a_master_that_is_down_is_unreachable() {
    let server = Server::start().await;
    server.kill().await;
    expect(
        &server.url(),
        &server.addr(),
        &[],
        &["unreachable warning it"],
    )
    .await;
}

#[tokio::test]
async fn a_master_that_hangs_is_unreachable_and_the_doctor_ends() {
    let server = Server::start().await;
    server.freeze();
    expect(
        &server.url(),
        &server.addr(),
        &[],
        &["unreachable warning it"],
    )
    .await;
}

#[tokio::test]
async fn a_wrong_password_is_unreachable_and_says_so() {
    let server = with(&["--requirepass", "secret"]).await;
    let report = expect(
        &server.url(),
        &server.addr(),
        &[],
        &["unreachable warning it"],
    )
    .await;
    assert!(
        report["findings"][0]["finding"]
            .as_str()
            .unwrap()
            .contains("NOAUTH"),
        "{report:#}"
    );
}

#[tokio::test]
async fn too_few_masters_for_a_quorum_are_broken() {
    let servers = Servers::start_with(3, &DURABLE).await;
    servers.kill(&[0, 1]).await;
    let (status, report) = doctor(&servers.urls(), &[]).await;
    assert_eq!(status, 2);
    assert_eq!(found(&report)[0], "quorum broken all");
}

#[tokio::test]
async fn a_master_behind_a_slow_link_is_slow_against_the_ttl() {
    let server = Server::start_with(&DURABLE).await;
    let relay = Relay::before(&server).await;
    relay.delay(Duration::from_millis(80));
    // 160 ms; at most 100 ms are allowed with any ttl.
    let report = expect(&relay.url(), &relay.addr(), &[], &["slow warning it"]).await;
    let patient = ["--command-timeout", "5s"];
    expect(&relay.url(), &relay.addr(), &patient, &[]).await;
    assert!(
        report["masters"][2]["round_trip_ms"].as_f64().unwrap() >= 160.0,
        "{report:#}"
    );
}

#[tokio::test]
async fn slow_links_to_a_majority_leave_no_quorum() {
    let servers = Servers::start_with(3, &DURABLE).await;
    let mut urls = servers.urls();
    let relays = [
        Relay::before(&servers[0]).await,
        Relay::before(&servers[1]).await,
    ];
    for (relay, url) in relays.iter().zip(&mut urls) {
        relay.delay(Duration::from_millis(80));
        *url = relay.url();
    }
    let (status, report) = doctor(&urls, &[]).await;
    assert_eq!(
        (status, found(&report)[0].as_str()),
        (2, "quorum broken all")
    );
}

#[tokio::test]
async fn clients_that_are_nearly_too_many_are_found() {
    let server = with(&["--maxclients", "20"]).await;
    let mut connections = Vec::new();
    for _ in 0..18 {
        connections.push(server.connect().await.unwrap());
    }
    expect(
        &server.url(),
        &server.addr(),
        &[],
        &["maxclients warning it"],
    )
    .await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "what a master's clock shows is the test's to say"
)]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

#[tokio::test]
async fn a_clock_that_is_apart_from_ours_and_the_others_is_found() {
    let server = Server::start_with(&DURABLE).await;
    for shift in [-30, 30] {
        let time = move |command: &[String]| {
            (command[0] == "TIME").then(|| {
                let seconds = i64::try_from(now().as_secs()).unwrap() + shift;
                raw::array(&[raw::bulk(&seconds.to_string()), raw::bulk("0")])
            })
        };
        let fake = FakeServer::over(&server, time).await;
        let findings = ["clock warning all", "clock warning it"];
        let report = expect(&fake.url(), &fake.addr(), &[], &findings).await;
        let side = if shift > 0 {
            "ahead of ours"
        } else {
            "behind ours"
        };
        assert!(
            report["findings"][1]["finding"]
                .as_str()
                .unwrap()
                .contains(side),
            "{report:#}"
        );
    }
}
