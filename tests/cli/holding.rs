//! How long `fredlock run` holds the lock.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::Instant,
};

use crate::support::servers::Servers;
use crate::tool::{LIMIT, Running, freed, run};

#[tokio::test]
async fn a_command_that_runs_for_several_ttls_holds_the_lock_to_its_end() {
    let servers = Servers::start(3).await;
    let mut running = Running::start(run(
        &servers,
        &[
            "--ttl",
            "1500ms",
            "job",
            "--",
            "sh",
            "-c",
            "echo on; sleep 3.5",
        ],
    ));
    running.line().await;
    let token = servers[0].get("job").await.expect("it is held");
    while running.process.try_wait().unwrap().is_none() {
        let values = servers.values_of("job").await;
        let ours = values
            .iter()
            .flatten()
            .filter(|value| **value == token)
            .count();
        let has_ended = running.process.try_wait().unwrap().is_some() || ours == 3;
        if !has_ended {
            // It may be just releasing.
            assert_eq!(running.line().await, None, "{values:?}");
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(running.status().await, 0);
    freed(&servers, "job").await;
}

#[tokio::test]
async fn the_lock_is_kept_for_the_shortest_hold_after_a_short_command() {
    let servers = Servers::start(3).await;
    let begun = Instant::now();
    let words = [
        "--ttl",
        "1500ms",
        "--min-hold",
        "3s",
        "job",
        "--",
        "sh",
        "-c",
        "echo ran; exit 3",
    ];
    let mut running = Running::start(run(&servers, &words));
    assert_eq!(running.line().await.as_deref(), Some("ran"));
    while begun.elapsed() < Duration::from_millis(2700) {
        let holds = servers.values_of("job").await.iter().flatten().count();
        assert!(
            holds >= 2 || begun.elapsed() >= Duration::from_secs(3),
            "{:?}",
            begun.elapsed()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(running.status().await, 3);
    assert!(begun.elapsed() >= Duration::from_secs(3));
    freed(&servers, "job").await;
}

#[tokio::test]
async fn a_signal_ends_the_shortest_hold_and_leaves_the_lock_to_its_ttl() {
    let servers = Servers::start(3).await;
    let words = [
        "--verbose",
        "--min-hold",
        "1h",
        "job",
        "--",
        "sh",
        "-c",
        "exit 3",
    ];
    let mut running = Running::start(run(&servers, &words));
    let mut said = BufReader::new(running.process.stderr.take().unwrap()).lines();
    loop {
        let line = tokio::time::timeout(LIMIT, said.next_line())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        if line.contains("holds on for") {
            break;
        }
    }
    running.signal(Signal::SIGTERM);
    assert_eq!(running.status().await, 3, "the command's own");
    let mut kept = 0;
    for server in &servers {
        kept += i32::from(server.pttl("job").await > 1000);
    }
    // One may have been connected to too late to have it.
    assert!(kept >= 2, "{kept}");
}

#[tokio::test]
async fn the_longest_hold_ends_the_command_and_the_lock_by_then() {
    let servers = Servers::start(3).await;
    let script = "trap 'echo term' TERM; echo on; while :; do sleep 0.05; done";
    let words = [
        "--max-hold",
        "1500ms",
        "--grace",
        "300ms",
        "job",
        "--",
        "sh",
        "-c",
        script,
    ];
    let begun = Instant::now();
    let mut running = Running::start(run(&servers, &words));
    assert_eq!(running.rest().await, ["on", "term"]);
    assert!(
        begun.elapsed() >= Duration::from_millis(1400),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(running.status().await, 76);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "long before the ttl"
    );
    freed(&servers, "job").await;
}
