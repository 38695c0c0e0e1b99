//! The exit statuses of a lock that was not had: no quorum of masters (69), and busy (75).

use std::time::Duration;

use crate::support::{relay::Relay, server::Server, servers::Servers};
use crate::tool::{freed, outcome, run, tool};

#[tokio::test]
async fn no_quorum_of_masters_gives_69_and_names_them() {
    let servers = Servers::start(3).await;
    servers.kill(&[0, 1]).await;
    for words in [&["--no-wait"][..], &["--wait", "300ms"], &["--quiet", "-n"]] {
        let words = [words, &["job", "--", "true"]].concat();
        let ended = outcome(run(&servers, &words)).await;
        assert_eq!(ended.0, 69, "{words:?}: {ended:?}");
        assert!(
            ended.1.contains(&servers[0].addr()) && ended.1.lines().count() == 1,
            "{ended:?}"
        );
    }
    freed(&servers, "job").await;
}

#[tokio::test]
async fn a_majority_that_hangs_gives_69_too() {
    let servers = Servers::start(3).await;
    servers.freeze(&[0, 1]);
    // Nor is it the status of a lock that is busy.
    for words in [&["--wait", "300ms"][..], &["-n"], &["-n", "-E", "3"]] {
        let words = [words, &["job", "--", "true"]].concat();
        let ended = outcome(run(&servers, &words)).await;
        assert_eq!(ended.0, 69, "{words:?}: {ended:?}");
        assert!(ended.1.contains(&servers[0].addr()), "{ended:?}");
    }
    for words in [
        &["inspect", "job"][..],
        &["init"],
        &["break", "--yes", "job"],
    ] {
        let mut command = tool(words);
        command.env("FREDLOCK_MASTERS", servers.urls().join(","));
        let ended = outcome(command).await;
        assert_eq!(ended.0, 69, "{words:?}: {ended:?}");
    }
}

#[tokio::test]
async fn masters_that_are_too_slow_for_the_ttl_give_69() {
    let server = Server::start().await;
    let relay = Relay::before(&server).await;
    relay.delay(Duration::from_millis(260));
    let url = relay.url();
    let words = ["run", "--ttl", "500ms", "--wait", "4s", "--masters", &url];
    let mut command = tool(&words);
    command.args(["--command-timeout", "5s", "job", "--", "true"]);
    let ended = outcome(command).await;
    assert_eq!(ended.0, 69, "{ended:?}");
    assert!(
        ended.1.contains(&format!("{} timed out", relay.addr())),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_fence_that_is_used_up_gives_69() {
    let servers = Servers::start(1).await;
    servers[0].set("{job}:fence", "9007199254740990").await;
    let ended = outcome(run(&servers, &["job", "--", "true"])).await;
    assert_eq!(ended.0, 69, "{ended:?}");
    assert!(ended.1.contains("used up"), "{ended:?}");
}

#[tokio::test]
async fn a_master_that_must_not_vote_gives_69_and_is_named() {
    let (master, other) = (Server::start().await, Server::start().await);
    let port = master.port().to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    let masters = [master.url(), other.url(), replica.url()].join(",");
    let ended = outcome(tool(&[
        "run",
        "-n",
        "--masters",
        &masters,
        "job",
        "--",
        "true",
    ]))
    .await;
    assert_eq!(ended.0, 69, "{ended:?}");
    assert!(
        ended.1.contains(&replica.addr()) && ended.1.contains("slave"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_busy_lock_gives_75_or_what_was_asked_for() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server
            .set_for("job", "another", Duration::from_secs(60))
            .await;
    }
    for (words, status) in [
        (&["--no-wait"][..], 75),
        (&["-n", "-E", "0"], 0),
        (&["--wait", "300ms", "--conflict-exit-code", "3"], 3),
        (&["--wait", "0"], 75),
    ] {
        let words = [words, &["job", "--", "touch", "/no/such/directory/ran"]].concat();
        let ended = outcome(run(&servers, &words)).await;
        assert_eq!(ended.0, status, "{words:?}: {ended:?}");
        assert!(
            ended.1.contains("job is held by somebody else"),
            "{ended:?}"
        );
        assert_eq!(ended.1.lines().count(), 1, "{ended:?}");
    }
    // A minority that hangs changes nothing.
    servers[2].freeze();
    for (words, status) in [(&["-n"][..], 75), (&["--wait", "300ms", "-E", "9"], 9)] {
        let words = [words, &["job", "--", "true"]].concat();
        let ended = outcome(run(&servers, &words)).await;
        assert_eq!(ended.0, status, "{words:?}: {ended:?}");
    }
    let quiet = outcome(run(&servers, &["-n", "--quiet", "job", "--", "true"])).await;
    assert_eq!(quiet, (75, String::new()));
}

#[tokio::test]
async fn without_waiting_a_lock_that_is_free_is_had() {
    let servers = Servers::start(3).await;
    for words in [&["-n"][..], &["--wait", "0"]] {
        let words = [words, &["job", "--", "sh", "-c", "exit 7"]].concat();
        let ended = outcome(run(&servers, &words)).await;
        assert_eq!(ended, (7, String::new()), "{words:?}");
    }
}

#[tokio::test]
async fn the_wait_that_runs_out_was_as_long_as_asked_for() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server.set("job", "another").await;
    }
    let begun = tokio::time::Instant::now();
    let mut waits = run(&servers, &["--wait", "2500ms", "job", "--", "true"]);
    // So long before its end the last attempt begins.
    waits.env("FREDLOCK_COMMAND_TIMEOUT", "500ms");
    let ended = outcome(waits).await;
    assert_eq!(ended.0, 75, "{ended:?}");
    assert!(
        begun.elapsed() > Duration::from_millis(1900),
        "{:?}",
        begun.elapsed()
    );
}
