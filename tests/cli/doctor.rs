//! `fredlock doctor` against masters that are set up wrong on purpose, one test for each finding.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::{
    fake::{FakeServer, raw},
    relay::Relay,
    server::Server,
    servers::Servers,
};
use crate::tool::{output, tool};

/// What a healthy master has.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// What the doctor says, and its exit status, which goes with it.
async fn doctor(urls: &[String], words: &[&str]) -> (i32, Value) {
    let mut command = tool(&["doctor", "--json", "--masters", &urls.join(",")]);
    command.args(words);
    let output = output(command).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let report: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let status = output.status.code().unwrap();
    let says = report["status"].as_str().unwrap();
    assert_eq!(
        ["healthy", "warnings", "broken"]
            .iter()
            .position(|word| *word == says),
        usize::try_from(status).ok()
    );
    (status, report)
}

/// Each finding as `check level master`.
fn found(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap();
    let line = |finding: &Value| {
        for field in ["finding", "why", "cure"] {
            assert!(!finding[field].as_str().unwrap().is_empty(), "{finding}");
        }
        let [check, level] = ["check", "level"].map(|field| finding[field].as_str().unwrap());
        format!(
            "{check} {level} {}",
            finding["master"].as_str().unwrap_or("all")
        )
    };
    findings.iter().map(line).collect()
}

/// Two healthy masters beside the one that a test is about.
async fn healthy_two() -> [Server; 2] {
    [
        Server::start_with(&DURABLE).await,
        Server::start_with(&DURABLE).await,
    ]
}

/// Examines a server beside two healthy ones: the only findings must be those, which are about it.
async fn expect(url: &str, addr: &str, words: &[&str], findings: &[&str]) -> Value {
    let two = healthy_two().await;
    let urls = [two[0].url(), two[1].url(), url.to_owned()];
    let (status, report) = doctor(&urls, words).await;
    let expected: Vec<_> = findings
        .iter()
        .map(|finding| finding.replace("it", addr))
        .collect();
    assert_eq!(found(&report), expected, "{report:#}");
    let is_broken = findings.iter().any(|finding| finding.contains(" broken "));
    assert_eq!(
        status,
        if findings.is_empty() {
            0
        } else {
            1 + i32::from(is_broken)
        }
    );
    report
}

async fn with(extra: &[&str]) -> Server {
    Server::start_with(&[&DURABLE[..], extra].concat()).await
}

#[tokio::test]
async fn healthy_masters_give_nothing_but_what_they_are() {
    let server = Server::start_with(&DURABLE).await;
    let report = expect(&server.url(), &server.addr(), &[], &[]).await;
    let master = &report["masters"][2];
    assert_eq!(master["master"], server.addr());
    assert_eq!(master["reachable"], true);
    let version = server.version().await;
    assert_eq!(master["server"].as_str().unwrap().to_lowercase(), version);
    let has_native = !version.starts_with("redis 7");
    assert_eq!(
        !master["native_commands"].as_array().unwrap().is_empty(),
        has_native
    );
    assert!(master["round_trip_ms"].as_f64().unwrap() > 0.0);
    assert!(master["clock_offset_ms"].as_f64().unwrap().abs() < 1000.0);
    assert_eq!(report["quorum"], 2);
}

#[tokio::test]
async fn the_text_has_why_and_what_to_do_for_every_finding() {
    let servers = Servers::start(2).await;
    let urls = servers.urls().join(",");
    let output = output(tool(&["doctor", "--masters", &urls])).await;
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "WARNING even-number: there are 2 masters",
        "WARNING persistence: 127.0.0.1",
        "why:",
        "do:  CONFIG SET appendonly yes",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        text.trim_end()
            .ends_with("2 masters, quorum 2: 0 broken, 5 warnings, 0 unknown"),
        "{text}"
    );
}

#[tokio::test]
async fn a_wrong_url_or_none_is_a_usage_error() {
    for words in [
        &["doctor", "--masters", "http://h"][..],
        &["doctor"],
        &["doctor", "--ttl", "x"],
    ] {
        assert_eq!(
            output(tool(words)).await.status.code(),
            Some(64),
            "{words:?}"
        );
    }
}

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
async fn the_same_server_under_two_addresses_is_found() {
    let [one, two] = healthy_two().await;
    let relay = Relay::before(&one).await;
    let (status, report) = doctor(&[one.url(), two.url(), relay.url()], &[]).await;
    assert_eq!(status, 2);
    assert_eq!(
        found(&report),
        [format!("same-server broken {}", relay.addr())]
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
    crate::tool::eventually("the replica is attached", async || {
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
        found(&report).contains(&format!("cluster-node broken {}", node.addr())),
        "{report:#}"
    );
}

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
    let used: u64 = server.info("memory").await["used_memory"].parse().unwrap();
    let set = async |limit: u64| {
        let reply = server
            .command(&["CONFIG", "SET", "maxmemory", &limit.to_string()])
            .await;
        assert!(reply.is_ok(), "{reply:?}");
    };
    set(used + used / 50).await;
    expect(&server.url(), &server.addr(), &[], &["memory warning it"]).await;
    set(used * 4).await;
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
        crate::tool::eventually("it is up for 2 s", async || {
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
    assert_eq!(found(&report)[0], format!("info broken {}", server.addr()));
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
