//! What a readiness check says, to the word and to the millisecond.

use std::time::Duration;

use fredlock::{GuardState, Health, MasterState, Redlock, testing::MemoryMasters};
use tokio::time::Instant;

const MARKER: &str = "fredlock:guard:marker";
const QUARANTINE: &str = "fredlock:guard:quarantine";

fn took(health: &Health) -> Vec<Duration> {
    health.masters().map(fredlock::MasterHealth::took).collect()
}

#[tokio::test(start_paused = true)]
async fn its_line_names_every_master_in_order_with_its_state_and_its_time() {
    let masters = MemoryMasters::new(4);
    let redlock = crate::client(&masters, |settings| settings).await;
    masters.set_latency(1, Duration::from_millis(7));
    masters.set_latency(2, Duration::from_millis(42));
    masters.fail(3, "NOPERM no");
    let health = redlock.health().await;
    assert_eq!(
        health.to_string(),
        "ready, 3 of 4 masters vote and 3 are needed: memory-0 votes (0.0 ms); \
         memory-1 votes (7.0 ms); memory-2 votes (42.0 ms); memory-3 NOPERM no (0.0 ms)"
    );
    let times = [0, 7, 42, 0].map(Duration::from_millis);
    assert_eq!(took(&health), times);
    masters.stop(1);
    let health = redlock.health().await.to_string();
    assert!(
        health.starts_with("not ready, 2 of 4 masters vote and 3 are needed: memory-0 votes"),
        "{health}"
    );
}

#[tokio::test(start_paused = true)]
async fn it_is_ready_with_a_quorum_as_large_as_was_asked_for_and_not_with_one_less() {
    for quorum in [3, 4, 5] {
        let masters = MemoryMasters::new(5);
        let builder = Redlock::builder().memory(&masters).quorum(quorum);
        let redlock = builder.connect().await.unwrap();
        for voting in (0..=5).rev() {
            let health = redlock.health().await;
            assert_eq!((health.voting(), health.quorum()), (voting, quorum));
            assert_eq!(health.is_ready(), voting >= quorum, "{health}");
            if voting > 0 {
                masters.stop(voting - 1);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_hangs_is_waited_for_as_long_as_for_a_command_and_no_other_wait_adds_up() {
    for timeout in [None, Some(Duration::from_millis(730))] {
        let masters = MemoryMasters::new(3);
        let redlock = crate::client(&masters, |settings| match timeout {
            Some(timeout) => settings.command_timeout(timeout),
            None => settings,
        })
        .await;
        let timeout = timeout.unwrap_or(Duration::from_millis(100));
        // One that answers just in time votes.
        let just = timeout.saturating_sub(Duration::from_millis(2));
        masters.set_latency(0, just);
        masters.hang(1);
        masters.hang(2);
        let begun = Instant::now();
        let health = redlock.health().await;
        assert_eq!(begun.elapsed(), timeout);
        assert_eq!(took(&health), [just, timeout, timeout], "{health}");
        assert_eq!((health.voting(), health.is_ready()), (1, false));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_restart_guard_waits_for_is_told() {
    let masters = MemoryMasters::new(3);
    let guard = Duration::from_secs(60);
    let builder = Redlock::builder().memory(&masters).restart_guard(guard);
    let redlock = builder.connect().await.unwrap();
    for master in [1, 2] {
        masters.set(master, MARKER, "1", None);
    }
    let left = Duration::from_millis(41_250);
    masters.set(1, QUARANTINE, "1", Some(left));
    let health = redlock.health().await;
    assert_eq!(
        health.to_string(),
        "not ready, 1 of 3 masters vote and 2 are needed: memory-0 is not initialised (0.0 ms); \
         memory-1 is in quarantine for 41250 ms more (0.0 ms); memory-2 votes (0.0 ms)"
    );
    let states: Vec<_> = health.masters().map(|one| one.state().clone()).collect();
    assert_eq!(states[0], MasterState::Waits(GuardState::Unmarked));
    assert!(
        matches!(
            states[1],
            MasterState::Waits(GuardState::Quarantined { time_left, .. }) if time_left == left
        ),
        "{health}"
    );
    assert_eq!(states[2], MasterState::Votes);
    // Of two that wait none counts, though both answer; and who waits no more counts at once.
    tokio::time::sleep(left + Duration::from_millis(1)).await;
    assert!(redlock.health().await.is_ready());
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_every_master_is_told_of_and_none_is_asked() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| settings).await;
    assert!(redlock.shutdown(Duration::from_secs(1)).await);
    let calls = [0, 1, 2].map(|master| masters.calls(master));
    let health = redlock.health().await;
    assert_eq!(
        health.to_string(),
        "not ready, 0 of 3 masters vote and 2 are needed: memory-0 not connected: shut down (0.0 ms); \
         memory-1 not connected: shut down (0.0 ms); memory-2 not connected: shut down (0.0 ms)"
    );
    assert_eq!([0, 1, 2].map(|master| masters.calls(master)), calls);
}
