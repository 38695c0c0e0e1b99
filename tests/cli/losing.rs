//! The lock is lost, or about to be: nothing of the command runs past its end.
//!
//! Commands write the time, by the clock that masters count expiry on: one machine has one.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::servers::Servers;
use crate::tool::{BEATS, Running, eventually, expiry, held, is_alive, pid, run};

/// Waits for an extension, and gives when the lock expires since then: the next is a third of the ttl
/// away. (Not later: masters that are left over are extended on and on without a quorum.)
async fn just_extended(servers: &Servers) -> i64 {
    let mut expires = expiry(servers, 0, "job").await;
    let first = expires;
    eventually("it is extended", async || {
        expires = expiry(servers, 0, "job").await;
        expires > first + 100
    })
    .await;
    expires
}

/// In milliseconds since 1970.
fn time(line: &str) -> i64 {
    let nanoseconds: i64 = line
        .parse()
        .unwrap_or_else(|_| panic!("{line:?} is no time"));
    nanoseconds / 1_000_000
}

#[tokio::test]
async fn a_command_ends_before_the_lock_does_while_a_majority_hangs() {
    let servers = Servers::start(5).await;
    let script = format!("trap 'echo term' TERM; {BEATS}");
    let words = [
        "--ttl", "3s", "--grace", "1s", "job", "--", "sh", "-c", &script,
    ];
    let mut running = Running::start(run(&servers, &words));
    running.line().await;
    held(&servers, "job").await;
    let expires = just_extended(&servers).await;
    servers.freeze(&[0, 1, 2]);
    let lines = running.rest().await;
    assert_eq!(running.status().await, 76);
    let last = time(lines.last().unwrap());
    assert!(last < expires, "it ran {} ms past the end", last - expires);
    let term = lines
        .iter()
        .position(|line| line == "term")
        .expect("SIGTERM comes first");
    let grace = last - time(&lines[term + 1]);
    assert!(grace > 400, "SIGKILL came {grace} ms after SIGTERM");
}

#[tokio::test]
async fn a_command_that_heeds_the_first_signal_is_not_killed_and_gives_76_all_the_same() {
    let servers = Servers::start(3).await;
    let script = "trap 'echo tidied up; exit 0' TERM; echo on; while :; do sleep 0.02; done";
    let mut running = Running::start(run(
        &servers,
        &["--ttl", "2s", "job", "--", "sh", "-c", script],
    ));
    running.line().await;
    servers.kill(&[0, 1]).await;
    assert_eq!(running.rest().await, ["tidied up"]);
    assert_eq!(running.status().await, 76);
}

#[tokio::test]
async fn a_lock_whose_keys_are_deleted_kills_the_command_at_the_next_extension() {
    let servers = Servers::start(3).await;
    let words = [
        "--ttl",
        "9s",
        "--grace",
        "3s",
        "job",
        "--",
        "sh",
        "-c",
        "trap '' TERM; echo on; while :; do sleep 0.02; done",
    ];
    let begun = tokio::time::Instant::now();
    let mut running = Running::start(run(&servers, &words));
    running.line().await;
    held(&servers, "job").await;
    for server in &servers {
        server.flush_all().await;
    }
    assert_eq!(running.rest().await, [""; 0]);
    // Without a grace: somebody else may hold it. The extension comes with 6 s left.
    assert!(
        begun.elapsed() < Duration::from_millis(5700),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(running.status().await, 76);
}

#[tokio::test]
async fn what_has_left_the_group_does_not_outlive_a_lost_lock() {
    let servers = Servers::start(3).await;
    let stubborn = "trap \"\" TERM HUP; echo $$; while :; do sleep 0.05; done";
    let script = format!(
        "setsid sh -c '{stubborn}' & sh -c 'setsid sh -c '\\''{stubborn}'\\'' &' & {stubborn}"
    );
    let mut running = Running::start(run(
        &servers,
        &["--ttl", "1500ms", "job", "--", "sh", "-c", &script],
    ));
    let mut processes = Vec::new();
    for _ in 0..3 {
        processes.push(pid(&running.line().await.unwrap()));
    }
    servers.freeze(&[0, 1]);
    assert_eq!(running.status().await, 76);
    for process in processes {
        assert!(!is_alive(process), "{process}");
    }
}

#[tokio::test]
async fn a_tool_that_is_stopped_past_the_end_does_not_save_its_command() {
    let servers = Servers::start(3).await;
    let script = format!("echo $$; {BEATS}");
    let mut running = Running::start(run(
        &servers,
        &["--ttl", "3s", "job", "--", "sh", "-c", &script],
    ));
    let command = pid(&running.line().await.unwrap());
    held(&servers, "job").await;
    running.signal(Signal::SIGSTOP);
    let mut expires = 0;
    eventually("the command has ended", async || {
        expires = expiry(&servers, 0, "job").await.max(expires);
        !is_alive(command)
    })
    .await;
    // A stopped tool says nothing any more, so all that comes is the command's.
    running.signal(Signal::SIGCONT);
    let lines = running.rest().await;
    let last = time(lines.last().unwrap());
    assert!(last <= expires, "it ran {} ms past the end", last - expires);
    assert_eq!(running.status().await, 76);
}

#[tokio::test]
async fn a_command_is_guarded_before_it_begins() {
    let servers = Servers::start(1).await;
    // Stopped by the very first thing that the command does.
    let script = format!("kill -STOP $PPID; echo $$; {BEATS}");
    for _ in 0..3 {
        let mut running = Running::start(run(
            &servers,
            &["--ttl", "500ms", "job", "--", "sh", "-c", &script],
        ));
        let command = pid(&running.line().await.unwrap());
        eventually("the command has ended", async || !is_alive(command)).await;
        running.signal(Signal::SIGCONT);
        assert_eq!(running.status().await, 76);
    }
}

#[tokio::test]
async fn nobody_who_reads_what_is_said_holds_up_the_end() {
    let servers = Servers::start(3).await;
    // More than a pipe holds, which nobody reads.
    let script = format!("yes 2>/dev/null | head -c 200000 >&2 & {BEATS}");
    let words = ["--verbose", "--ttl", "3s", "job", "--", "sh", "-c", &script];
    let mut running = Running::start(run(&servers, &words));
    running.line().await;
    held(&servers, "job").await;
    let expires = just_extended(&servers).await;
    servers.freeze(&[0, 1]);
    let lines = running.rest().await;
    let last = time(lines.last().unwrap());
    assert!(last < expires, "it ran {} ms past the end", last - expires);
    assert_eq!(running.status().await, 76);
}

#[tokio::test]
async fn a_stopped_command_keeps_the_lock_and_hears_of_its_loss() {
    let servers = Servers::start(3).await;
    let script = "trap 'echo term; exit 0' TERM; echo $$; while :; do sleep 0.02; done";
    let mut running = Running::start(run(
        &servers,
        &["--ttl", "3s", "job", "--", "sh", "-c", script],
    ));
    let command = pid(&running.line().await.unwrap());
    nix::sys::signal::kill(command, Signal::SIGSTOP).unwrap();
    held(&servers, "job").await;
    let first = expiry(&servers, 0, "job").await;
    eventually("it is extended", async || {
        expiry(&servers, 0, "job").await > first + 500
    })
    .await;
    servers.freeze(&[0, 1]);
    assert_eq!(running.rest().await, ["term"]);
    assert_eq!(running.status().await, 76);
}
