//! The statuses of `fredlock run` while a majority of masters hangs.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::support::{relay::Relay, server::Server, servers::Servers};
use crate::tool::{Running, eventually, run, tool};

/// The status, once the lock is gone from the master that answers. As long as nobody can release it on
/// the others, it is left to its ttl there.
async fn status_and_release(mut running: Running, master: &Server) -> i32 {
    let status = running.status().await;
    eventually("it is released where that is possible", async || {
        master.get("job").await.is_none()
    })
    .await;
    status
}

/// Runs a command that goes on when it is told to, and tells it to once a majority hangs; gives the
/// status.
async fn ends_while_a_majority_hangs(end: &str) -> i32 {
    let servers = Servers::start(3).await;
    let script = format!("echo on; read line; {end}");
    let words = [
        "--command-timeout",
        "500ms",
        "job",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let mut command = run(&servers, &words);
    command.stdin(std::process::Stdio::piped());
    let mut running = Running::start(command);
    assert_eq!(running.line().await.as_deref(), Some("on"));
    servers.freeze(&[0, 1]);
    let mut stdin = running.process.stdin.take().unwrap();
    stdin.write_all(b"go\n").await.unwrap();
    status_and_release(running, &servers[2]).await
}

#[tokio::test]
async fn a_command_that_ends_while_a_majority_hangs_gives_its_own_status() {
    let ended = tokio::join!(
        ends_while_a_majority_hangs("exit 0"),
        ends_while_a_majority_hangs("exit 7"),
        ends_while_a_majority_hangs("kill -TERM $$"),
    );
    assert_eq!(ended, (0, 7, 143));
}

/// Runs a command that cannot be begun, on masters of which a majority hangs as soon as it has granted
/// the lock; gives the status.
async fn cannot_begin_while_a_majority_hangs(command: &str) -> i32 {
    let servers = Servers::start(3).await;
    let slow = [
        Relay::before(&servers[0]).await,
        Relay::before(&servers[1]).await,
    ];
    let urls = [slow[0].url(), slow[1].url(), servers[2].url()];
    let masters = urls.join(",");
    // The answers are under way for so long.
    for relay in &slow {
        relay.delay(Duration::from_millis(120));
    }
    let words = [
        "run",
        "--wait",
        "30s",
        "--command-timeout",
        "2s",
        "--masters",
        &masters,
    ];
    let mut tool = tool(&words);
    tool.args(["job", "--", command]);
    let running = Running::start(tool);
    eventually("it is granted", async || {
        let values = servers.values_of("job").await;
        values[..2].iter().all(Option::is_some)
    })
    .await;
    servers.freeze(&[0, 1]);
    status_and_release(running, &servers[2]).await
}

#[tokio::test]
async fn a_command_that_cannot_begin_while_a_majority_hangs_gives_126_or_127_too() {
    let ended = tokio::join!(
        cannot_begin_while_a_majority_hangs("/etc/passwd"),
        cannot_begin_while_a_majority_hangs("no-such-command"),
    );
    assert_eq!(ended, (126, 127));
}
