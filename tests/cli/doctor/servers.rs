//! Servers that cannot be masters, or not so many.

use serde_json::Value;

use super::{DURABLE, doctor, expect, found, healthy_two, with};
use crate::support::{
    fake::{FakeServer, raw},
    relay::Relay,
    server::Server,
    servers::Servers,
};
use crate::tool::{eventually, output, tool};

#[tokio::test]
async fn the_same_server_under_two_addresses_is_found() {
    let [one, two] = healthy_two().await;
    let relay = Relay::before(&one).await;
    let (status, report) = doctor(&[one.url(), two.url(), relay.url()], &[]).await;
    assert_eq!(status, 2);
    assert_eq!(
        found(&report),
        ["same-server broken it".replace("it", &relay.addr())]
    );
    assert!(
        report["findings"][0]["finding"]
            .as_str()
            .unwrap()
            .contains(&one.addr()),
        "{report:#}"
    );
}

#[tokio::test]
async fn a_replica_and_a_master_with_replicas_are_found() {
    let master = Server::start_with(&DURABLE).await;
    let port = master.port().to_string();
    let replica = with(&["--replicaof", "127.0.0.1", &port]).await;
    eventually("the replica is attached", async || {
        master.info("replication").await["connected_slaves"] == "1"
    })
    .await;
    expect(&replica.url(), &replica.addr(), &[], &["replica broken it"]).await;
    expect(
        &master.url(),
        &master.addr(),
        &[],
        &["replicas-attached warning it"],
    )
    .await;
}

#[tokio::test]
async fn a_node_of_a_cluster_is_found() {
    let node = with(&["--cluster-enabled", "yes"]).await;
    let two = healthy_two().await;
    let (status, report) = doctor(&[two[0].url(), two[1].url(), node.url()], &[]).await;
    assert_eq!(status, 2);
    assert!(
        found(&report).contains(&"cluster-node broken it".replace("it", &node.addr())),
        "{report:#}"
    );
}

#[tokio::test]
async fn an_old_version_is_found() {
    let server = Server::start_with(&DURABLE).await;
    let info = server.command(&["INFO"]).await.text().unwrap().to_owned();
    let old: String = info
        .lines()
        .filter(|line| !line.starts_with("valkey_version"))
        .map(|line| {
            if line.starts_with("redis_version") {
                "redis_version:5.0.7\r\n".to_owned()
            } else {
                format!("{line}\r\n")
            }
        })
        .collect();
    let fake = FakeServer::over(&server, move |command| {
        (command[0] == "INFO").then(|| raw::bulk(&old))
    })
    .await;
    expect(&fake.url(), &fake.addr(), &[], &["version warning it"]).await;
}

#[tokio::test]
async fn an_even_number_and_a_single_master_are_found() {
    let two = healthy_two().await;
    let (status, report) = doctor(&[two[0].url(), two[1].url()], &[]).await;
    assert_eq!(
        (status, found(&report)),
        (1, vec!["even-number warning all".to_owned()])
    );
    let (status, report) = doctor(&[two[0].url()], &[]).await;
    assert_eq!(
        (status, found(&report)),
        (1, vec!["single-master warning all".to_owned()])
    );
}

#[tokio::test]
async fn a_larger_quorum_is_what_counts() {
    let servers = Servers::start_with(3, &DURABLE).await;
    servers.kill(&[0]).await;
    let (status, report) = doctor(&servers.urls(), &[]).await;
    assert_eq!((status, &report["quorum"]), (1, &Value::from(2)));
    let (status, report) = doctor(&servers.urls(), &["--quorum", "3"]).await;
    assert_eq!((status, &report["quorum"]), (2, &Value::from(3)));
    for wrong in ["1", "4"] {
        let words = [
            "doctor",
            "--quorum",
            wrong,
            "--masters",
            &servers.urls().join(","),
        ];
        assert_eq!(
            output(tool(&words)).await.status.code(),
            Some(64),
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn a_sentinel_is_found() {
    let watched = Server::start().await;
    let file = watched.path("sentinel.conf");
    let port = watched.port();
    std::fs::write(&file, format!("sentinel monitor m 127.0.0.1 {port} 1\n")).unwrap();
    let sentinel = Server::start_with(&[file.to_str().unwrap(), "--sentinel"]).await;
    let two = healthy_two().await;
    let (status, report) = doctor(&[two[0].url(), two[1].url(), sentinel.url()], &[]).await;
    assert_eq!(status, 2);
    let finding = "sentinel broken it".replace("it", &sentinel.addr());
    assert!(found(&report).contains(&finding), "{report:#}");
}

#[tokio::test]
async fn each_server_is_told_with_its_version_uptime_and_native_commands() {
    let server = Server::start_with(&DURABLE).await;
    let info = server.command(&["INFO"]).await.text().unwrap().to_owned();
    for (kind, version, native) in [
        ("redis", "6.2.0", &[][..]),
        ("redis", "8.3.9", &[]),
        ("redis", "8.4.0", &["SET IFEQ", "DELEX IFEQ"]),
        ("valkey", "7.2.0", &[]),
        ("valkey", "8.1.0", &["SET IFEQ"]),
        ("valkey", "9.0.0", &["SET IFEQ", "DELIFEQ"]),
    ] {
        let own = |line: &&str| !line.contains("_version:") && !line.starts_with("uptime_in_s");
        let lines: Vec<_> = info.lines().filter(own).map(str::to_owned).collect();
        let told = format!(
            "{kind}_version:{version}\r\nuptime_in_seconds:4711\r\n{}",
            lines.join("\r\n")
        );
        let fake = FakeServer::over(&server, move |command| {
            (command[0] == "INFO").then(|| raw::bulk(&told))
        })
        .await;
        let report = expect(&fake.url(), &fake.addr(), &[], &[]).await;
        let master = &report["masters"][2];
        let server = master["server"].as_str().unwrap();
        assert_eq!(server.to_lowercase(), format!("{kind} {version}"));
        assert_eq!(
            master["native_commands"],
            Value::from(native.to_vec()),
            "{server}"
        );
        assert_eq!(master["uptime_seconds"], 4711);
    }
}
