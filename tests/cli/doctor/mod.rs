//! `fredlock doctor` against masters that are set up wrong on purpose, one test for each finding.

mod data;
mod reach;
mod rights;
mod servers;

use serde_json::Value;

use crate::support::{server::Server, servers::Servers};
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
    let has_native = !version.starts_with("redis 6") && !version.starts_with("redis 7");
    assert_eq!(
        !master["native_commands"].as_array().unwrap().is_empty(),
        has_native
    );
    assert!(master["round_trip_ms"].as_f64().unwrap() > 0.0);
    assert!(master["clock_offset_ms"].as_f64().unwrap().abs() < 1000.0);
    assert_eq!(master["error"], Value::Null);
    assert_eq!(master["restart_guard"], false);
    assert_eq!(
        (&report["quorum"], &report["ttl_ms"]),
        (&2.into(), &30_000.into())
    );
    let words = ["--ttl", "2500ms"];
    let report = expect(&server.url(), &server.addr(), &words, &[]).await;
    assert_eq!(report["ttl_ms"], 2_500);
}

#[tokio::test]
async fn a_master_with_a_restart_guard_is_told_as_such() {
    let servers = Servers::start_with(3, &DURABLE).await;
    servers[1].set("fredlock:guard:marker", "1").await;
    let (_, report) = doctor(&servers.urls(), &[]).await;
    let guards = [0, 1, 2].map(|index| report["masters"][index]["restart_guard"].clone());
    assert_eq!(guards, [false, true, false].map(Value::from));
    let masters = servers.urls().join(",");
    let output = output(tool(&["doctor", "--masters", &masters])).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let guarded: Vec<_> = text
        .lines()
        .map(|line| line.ends_with(", restart guard"))
        .collect();
    assert_eq!(guarded[..3], [false, true, false], "{text}");
}

#[tokio::test]
async fn masters_that_are_down_are_told_with_the_reason_each_and_the_advice_once() {
    let servers = Servers::start_with(3, &DURABLE).await;
    servers.kill(&[0, 1]).await;
    let (_, report) = doctor(&servers.urls(), &[]).await;
    for (index, is_down) in [(0, true), (1, true), (2, false)] {
        let master = &report["masters"][index];
        assert_eq!(master["reachable"], !is_down, "{report:#}");
        assert_eq!(master["error"].is_string(), is_down, "{report:#}");
    }
    let masters = servers.urls().join(",");
    let output = output(tool(&["doctor", "--masters", &masters])).await;
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).unwrap();
    let down = |line: &&str| line.contains("  no connection: ");
    assert_eq!(text.lines().filter(down).count(), 2, "{text}");
    // For the quorum, and for both masters together.
    for advice in ["  why: ", "  do:  "] {
        let begins = |line: &&str| line.starts_with(advice);
        assert_eq!(text.lines().filter(begins).count(), 2, "{text}");
    }
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
async fn every_check_that_help_names_is_expected_by_a_test() {
    let help = String::from_utf8(output(tool(&["help", "doctor"])).await.stdout).unwrap();
    let checks = help.split_once("Checks:").unwrap().1;
    let checks = checks.split_once("\n\n").unwrap().0;
    let checks: Vec<_> = checks
        .split([',', '\n'])
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(checks.len(), 20, "{checks:?}");
    let tests = [
        include_str!("data.rs"),
        include_str!("reach.rs"),
        include_str!("rights.rs"),
        include_str!("servers.rs"),
    ]
    .concat();
    for check in checks {
        let is_expected = ["unknown", "warning", "broken"]
            .iter()
            .any(|level| tests.contains(&format!("\"{check} {level} ")));
        assert!(is_expected, "{check}");
    }
}
