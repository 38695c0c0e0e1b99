//! Waiting for the lock: for how long, for whom, and what ends it.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use crate::support::servers::Servers;
use crate::tool::{LIMIT, Running, eventually, freed, outcome, run, tool};

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
