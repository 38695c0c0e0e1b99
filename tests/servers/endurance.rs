//! Memory stays flat however often an acquisition is tried.
#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};
use std::time::Duration;

use fredlock::testing::MemoryMasters;
use fredlock::{Redlock, Retry};
use tokio::time::sleep;

/// What an attempt may add to memory: less than the smallest thing that it could leave behind.
const GROWTH_BYTES_MAX: u64 = 24;

/// Tests share their process, and so what it has in memory; so the attempts run in one of their
/// own.
#[test]
fn a_hundred_thousand_attempts_leave_memory_flat() {
    let binary = std::env::current_exe().expect("this binary");
    let start = |attempts| {
        Command::new(&binary)
            .args(["--exact", attempts, "--ignored", "--nocapture"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process")
    };
    for process in ["endurance::busy", "endurance::no_quorum"].map(start) {
        let output = process.wait_with_output().expect("its end");
        let text = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
#[ignore = "run by the test above, in a process of its own"]
async fn busy() {
    let masters = MemoryMasters::new(1);
    masters.set(0, "job", "foreign", None);
    memory_stays_flat(&masters, 100_000).await;
}

/// A master that does what it is asked and never answers is asked again to roll back, for as long
/// as the ttl.
#[tokio::test(start_paused = true)]
#[ignore = "run by the test above, in a process of its own"]
async fn no_quorum() {
    let masters = MemoryMasters::new(2);
    masters.mute(1);
    memory_stays_flat(&masters, 10_000).await;
}

/// Tries for ever, and compares the memory after so many attempts with that after a fifth of them.
async fn memory_stays_flat(masters: &MemoryMasters, attempts: u64) {
    let retry = Retry::default()
        .unlimited()
        .delay(Duration::from_millis(10))
        .jitter(Duration::ZERO);
    let redlock = Redlock::builder()
        .memory(masters)
        .settings(|settings| settings.retry(retry))
        .connect()
        .await
        .expect("a Redlock");
    let acquire = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.acquire(["job"], Duration::from_secs(1)).await }
    });
    let after = async |attempts| {
        // The first master is asked to acquire and to roll back.
        while masters.calls(0) < 2 * attempts {
            assert!(!acquire.is_finished());
            sleep(Duration::from_millis(100)).await;
        }
        resident_bytes()
    };
    let warm_up = attempts / 5;
    let grew = after(warm_up).await.abs_diff(after(attempts).await);
    let tasks = redlock.background_tasks();
    acquire.abort();
    assert!(
        grew < GROWTH_BYTES_MAX * (attempts - warm_up),
        "{grew} bytes more"
    );
    assert!(tasks < 100, "{tasks} tasks");
}

/// What the process has in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("the second number of statm") * 4096
}
