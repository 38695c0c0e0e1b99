//! Having the lock: waiting for it, what the command is told, how long it is held.

use std::{process::Stdio, time::Duration};

use nix::sys::signal::Signal;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    time::Instant,
};

use crate::support::servers::Servers;
use crate::tool::{LIMIT, Running, eventually, freed, outcome, output, run, tool};

#[tokio::test]
async fn it_waits_until_the_holder_has_gone_however_long_that_is() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server.set("job", "another").await;
    }
    let mut waiting = Running::start(run(&servers, &["job", "--", "echo", "mine"]));
    let no_line = tokio::time::timeout(Duration::from_millis(2500), waiting.lines.next_line());
    assert!(
        no_line.await.is_err(),
        "it runs while somebody else holds the lock"
    );
    for server in &servers {
        server.del("job").await;
    }
    assert_eq!(waiting.line().await.as_deref(), Some("mine"));
    assert_eq!(waiting.status().await, 0);
}

#[tokio::test]
async fn a_signal_ends_the_waiting_and_leaves_no_key() {
    let servers = Servers::start(3).await;
    servers[0].set("job", "another").await;
    servers[1].set("job", "another").await;
    for (signal, status) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGQUIT, 131),
    ] {
        let before = servers[2].calls("evalsha").await;
        let mut waiting = Running::start(run(&servers, &["job", "--", "echo", "ran"]));
        eventually("it has begun to ask", async || {
            servers[2].calls("evalsha").await > before
        })
        .await;
        waiting.signal(signal);
        assert_eq!(waiting.status().await, status);
        assert_eq!(waiting.rest().await, [""; 0], "the command ran");
        assert_eq!(servers[2].get("job").await, None);
    }
}

#[tokio::test]
async fn a_signal_ends_the_waiting_while_a_majority_hangs() {
    let servers = Servers::start(3).await;
    for (signal, status) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGQUIT, 131),
    ] {
        servers.freeze(&[0, 1]);
        let before = servers[2].calls("evalsha").await;
        let mut waiting = Running::start(run(
            &servers,
            &["--ttl", "3s", "--wait", "1h", "job", "--", "echo", "ran"],
        ));
        eventually("it has begun to ask", async || {
            servers[2].calls("evalsha").await > before
        })
        .await;
        let begun = Instant::now();
        waiting.signal(signal);
        assert_eq!(waiting.status().await, status);
        // Not as long as it would have waited.
        assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
        assert_eq!(waiting.rest().await, [""; 0], "the command ran");
        servers.thaw(&[0, 1]);
        freed(&servers, "job").await;
    }
}

#[tokio::test]
async fn masters_in_quarantine_are_waited_for() {
    let servers = Servers::start(3).await;
    for index in [0, 1] {
        servers[index].set("fredlock:guard:marker", "1").await;
        servers[index]
            .set_for("fredlock:guard:quarantine", "1", Duration::from_secs(4))
            .await;
    }
    let words = [
        "--ttl",
        "1s",
        "--restart-guard",
        "4s",
        "--wait",
        "1h",
        "job",
        "--",
        "echo",
        "ran",
    ];
    let mut waiting = Running::start(run(&servers, &words));
    assert_eq!(waiting.line().await.as_deref(), Some("ran"));
    assert_eq!(waiting.status().await, 0);
}

#[tokio::test]
async fn the_command_finds_resources_fence_and_label_in_its_environment_over_what_was_inherited() {
    let servers = Servers::start(3).await;
    let mut last = 0;
    for _ in 0..2 {
        let script = "echo \"$FREDLOCK_RESOURCES\"; echo $FREDLOCK_FENCE; echo \"$FREDLOCK_LABEL\"";
        let mut command = run(&servers, &["b", "a", "b", "--", "sh", "-c", script]);
        command
            .env("FREDLOCK_LABEL", "inherited")
            .env("FREDLOCK_RESOURCES", "inherited")
            .env("FREDLOCK_FENCE", "1");
        let said = String::from_utf8(output(command).await.stdout).unwrap();
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[..2], ["a", "b"], "{said}");
        let fence: u64 = lines[2].parse().unwrap();
        assert!(fence > last.max(1), "{fence} after {last}");
        last = fence;
        assert!(lines[3].contains('/') && lines[3] != "inherited", "{said}");
    }
}

#[tokio::test]
async fn the_standard_streams_pass_through() {
    let servers = Servers::start(1).await;
    let mut command = run(&servers, &["job", "--", "sh", "-c", "cat; echo err >&2"]);
    command.stdin(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(b"through\0binary\xff").await.unwrap();
    drop(stdin);
    let output = tokio::time::timeout(LIMIT, process.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(output.stdout, b"through\0binary\xff");
    assert_eq!(output.stderr, b"err\n");
}

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

#[tokio::test]
async fn who_holds_it_is_told_by_the_label() {
    let servers = Servers::start(3).await;
    let words = [
        "--label",
        "web 1: deploy",
        "job",
        "--",
        "sh",
        "-c",
        "echo $FREDLOCK_LABEL; exec sleep 1000",
    ];
    let mut holding = Running::start(run(&servers, &words));
    assert_eq!(holding.line().await.as_deref(), Some("web 1: deploy"));
    let busy = outcome(run(&servers, &["-n", "job", "--", "true"])).await;
    assert_eq!(busy.0, 75);
    assert!(
        busy.1.contains("job is held by web 1: deploy (")
            && busy.1.contains("more unless extended"),
        "{busy:?}"
    );
    holding.signal(Signal::SIGTERM);
    assert_eq!(holding.status().await, 143);
    let wrong = outcome(run(&servers, &["--label", "", "job", "--", "true"])).await;
    assert_eq!(wrong.0, 64, "{wrong:?}");
}

#[tokio::test]
async fn a_restart_guard_keeps_new_masters_out_until_they_are_initialised() {
    let servers = Servers::start(3).await;
    let guarded = [
        "-n",
        "--ttl",
        "1s",
        "--restart-guard",
        "1m",
        "job",
        "--",
        "true",
    ];
    let too_long = outcome(run(
        &servers,
        &["--ttl", "2m", "--restart-guard", "1m", "job", "--", "true"],
    ))
    .await;
    assert_eq!(too_long.0, 64, "{too_long:?}");
    let early = outcome(run(&servers, &guarded)).await;
    assert_eq!(early.0, 69, "{early:?}");
    let masters = servers.urls().join(",");
    let init = async || outcome(tool(&["init", "--masters", &masters])).await;
    assert_eq!(init().await, (0, String::new()));
    assert_eq!(outcome(run(&servers, &guarded)).await, (0, String::new()));
    // Again, which is harmless; and with a master that came up empty, which has to wait.
    assert_eq!(init().await.0, 0);
    servers[0].flush_all().await;
    let in_use = init().await;
    assert_eq!(in_use.0, 75, "{in_use:?}");
    assert_eq!(servers[0].keys().await, [""; 0]);
    servers.kill(&[1]).await;
    let unanswered = init().await;
    assert_eq!(unanswered.0, 69, "{unanswered:?}");
    assert!(unanswered.1.contains(&servers[1].addr()), "{unanswered:?}");
}
