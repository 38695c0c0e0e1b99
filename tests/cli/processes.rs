//! What becomes of the processes that a command starts.

use nix::sys::signal::{Signal, kill};

use crate::support::servers::Servers;
use crate::tool::{Running, eventually, freed, is_alive, pid, run};

#[tokio::test]
async fn what_a_command_leaves_behind_in_its_group_is_ended_before_the_lock_is_released() {
    let servers = Servers::start(3).await;
    let script = "sleep 1000 > /dev/null & echo $!; sh -c 'trap \"\" TERM; echo $$; exec > /dev/null; while :; do sleep 0.05; done' & sleep 0.3; exit 4";
    let mut running = Running::start(run(
        &servers,
        &["--grace", "500ms", "job", "--", "sh", "-c", script],
    ));
    let children = running.rest().await;
    assert_eq!(children.len(), 2, "{children:?}");
    eventually("the lock is released", async || {
        servers[0].get("job").await.is_none()
    })
    .await;
    for child in children {
        assert!(!is_alive(pid(&child)));
    }
    assert_eq!(running.status().await, 4);
}

#[tokio::test]
async fn a_daemon_outlives_the_command_that_has_ended_by_itself() {
    let servers = Servers::start(1).await;
    let script = "setsid sh -c 'echo $$; exec sleep 1000 > /dev/null 2>&1' & sleep 0.3";
    let mut running = Running::start(run(&servers, &["job", "--", "sh", "-c", script]));
    let daemon = pid(&running.line().await.unwrap());
    assert_eq!(running.status().await, 0);
    let is_left = is_alive(daemon);
    kill(daemon, Signal::SIGKILL).unwrap();
    assert!(is_left);
}

#[tokio::test]
async fn nothing_of_the_group_outlives_a_killed_tool() {
    tokio::join!(kills_a_tool(false), kills_a_tool(true));
}

async fn kills_a_tool(a_majority_hangs: bool) {
    let servers = Servers::start(3).await;
    let script = "trap '' TERM HUP; echo $$; sh -c 'trap \"\" TERM HUP; echo $$; while :; do sleep 0.05; done' & wait; while :; do sleep 0.05; done";
    let mut running = Running::start(run(&servers, &["job", "--", "sh", "-c", script]));
    let processes = [running.line().await.unwrap(), running.line().await.unwrap()];
    if a_majority_hangs {
        servers.freeze(&[0, 1]);
    }
    running.signal(Signal::SIGKILL);
    for process in processes {
        eventually("it has ended", async || !is_alive(pid(&process))).await;
    }
}

#[tokio::test]
async fn the_command_dies_with_a_tool_that_is_killed_together_with_its_guard() {
    let servers = Servers::start(1).await;
    let mut running = Running::start(run(
        &servers,
        &["job", "--", "sh", "-c", "echo $$; exec sleep 1000"],
    ));
    let command = pid(&running.line().await.unwrap());
    let tool = running.process.id().unwrap();
    // The other child of the tool.
    let children = std::process::Command::new("pgrep")
        .args(["-P", &tool.to_string()])
        .output()
        .unwrap();
    let children = String::from_utf8(children.stdout).unwrap();
    let guards: Vec<_> = children
        .lines()
        .map(pid)
        .filter(|child| *child != command)
        .collect();
    assert_eq!(guards.len(), 1, "{children}");
    kill(guards[0], Signal::SIGKILL).unwrap();
    running.signal(Signal::SIGKILL);
    eventually("it has ended", async || !is_alive(command)).await;
}

#[tokio::test]
async fn the_guard_ends_with_the_tool() {
    let servers = Servers::start(1).await;
    let mut running = Running::start(run(
        &servers,
        &["job", "--", "sh", "-c", "echo on; pgrep -P $PPID; echo $$"],
    ));
    let lines = running.rest().await;
    let own = lines.last().unwrap().clone();
    let others: Vec<_> = lines[1..lines.len() - 1]
        .iter()
        .filter(|line| **line != own)
        .collect();
    assert_eq!(others.len(), 1, "{lines:?}");
    assert_eq!(running.status().await, 0);
    eventually("the guard has ended", async || !is_alive(pid(others[0]))).await;
    freed(&servers, "job").await;
}
