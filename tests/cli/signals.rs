//! Signals that are sent to the tool.

use nix::sys::signal::Signal;

use crate::support::servers::Servers;
use crate::tool::{PLAIN, Running, freed, is_alive, pid, run};

#[tokio::test]
async fn every_signal_is_passed_on_to_the_command_which_decides() {
    let servers = Servers::start(1).await;
    for (signal, name) in [
        (Signal::SIGINT, "INT"),
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGQUIT, "QUIT"),
    ] {
        let script =
            format!("trap 'echo {name}; exit 41' {name}; echo on; while :; do sleep 0.02; done");
        let mut running = Running::start(run(&servers, &["job", "--", "sh", "-c", &script]));
        assert_eq!(running.line().await.as_deref(), Some("on"));
        running.signal(signal);
        assert_eq!(running.rest().await, [name]);
        assert_eq!(running.status().await, 41);
        freed(&servers, "job").await;
    }
}

#[tokio::test]
async fn a_signal_reaches_the_whole_group() {
    let servers = Servers::start(1).await;
    let script = "sleep 1000 & echo $!; sh -c 'echo $$; exec sleep 1000' & wait";
    let mut running = Running::start(run(&servers, &["job", "--", "sh", "-c", script]));
    let children = [running.line().await.unwrap(), running.line().await.unwrap()];
    running.signal(Signal::SIGTERM);
    assert_eq!(running.status().await, 143);
    for child in children {
        assert!(!is_alive(pid(&child)));
    }
}

#[tokio::test]
async fn while_a_majority_hangs_every_signal_reaches_the_group_and_leaves_none_of_it() {
    let servers = Servers::start(3).await;
    for (signal, name) in [
        (Signal::SIGINT, "INT"),
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGQUIT, "QUIT"),
    ] {
        // One child dies of the signal, the other is left behind by the command, and does not heed
        // SIGTERM either.
        let stubborn =
            "trap \"\" INT TERM HUP QUIT; echo $$; exec >&-; while :; do sleep 0.05; done";
        let script = format!(
            "trap 'echo {name}; exit 41' {name}; sleep 1000 >&- & echo $!; sh -c '{stubborn}' & while :; do sleep 0.02; done"
        );
        let words = [
            "--ttl",
            "6s",
            "--command-timeout",
            "500ms",
            "--grace",
            "300ms",
            "job",
            "--",
            "sh",
            "-c",
            &script,
        ];
        let mut running = Running::start(run(&servers, &words));
        let children = [running.line().await.unwrap(), running.line().await.unwrap()];
        servers.freeze(&[0, 1]);
        running.signal(signal);
        assert_eq!(running.rest().await, [name]);
        assert_eq!(running.status().await, 41);
        for child in children {
            assert!(!is_alive(pid(&child)), "{name}");
        }
        servers.thaw(&[0, 1]);
        freed(&servers, "job").await;
    }
}

#[tokio::test]
async fn a_signal_that_the_command_ignores_changes_nothing() {
    let servers = Servers::start(1).await;
    let script = "trap '' INT HUP; echo on; read line; echo $line; exit 5";
    let mut command = run(&servers, &["job", "--", "sh", "-c", script]);
    command.stdin(std::process::Stdio::piped());
    let mut running = Running::start(command);
    assert_eq!(running.line().await.as_deref(), Some("on"));
    for _ in 0..3 {
        running.signal(Signal::SIGINT);
        running.signal(Signal::SIGHUP);
    }
    let mut stdin = running.process.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"still here\n")
        .await
        .unwrap();
    assert_eq!(running.rest().await, ["still here"]);
    assert_eq!(running.status().await, 5);
}

#[tokio::test]
async fn what_was_ignored_at_the_start_stays_ignored_for_the_command_too() {
    let servers = Servers::start(1).await;
    let tool = env!("CARGO_BIN_EXE_fredlock");
    let script = format!("trap '' HUP; exec {tool} run job -- sh -c 'kill -HUP $$; echo alive'");
    let mut command = tokio::process::Command::new(PLAIN[0]);
    command.args([PLAIN[1], "sh"]);
    command
        .args(["-c", &script])
        .env("FREDLOCK_MASTERS", servers.urls().join(","))
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true);
    let mut running = Running::start(command);
    assert_eq!(running.rest().await, ["alive"]);
    assert_eq!(running.status().await, 0);
}
