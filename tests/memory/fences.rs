//! Fences while clocks disagree.

use std::time::Duration;

use fredlock::{Redlock, testing::MemoryMasters};

const TTL: Duration = Duration::from_secs(10);
const HOUR_US: u64 = 3_600_000_000;

async fn client_at(masters: &MemoryMasters, clock_us: u64) -> Redlock {
    let builder = Redlock::builder()
        .memory(masters)
        .wall_clock(move || clock_us);
    builder.connect().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_clock_is_behind_pays_for_it_once_and_not_every_time() {
    let masters = MemoryMasters::new(3);
    let ahead = client_at(&masters, 2 * HOUR_US).await;
    let behind = client_at(&masters, HOUR_US).await;
    let mut last = ahead.acquire(["a"], TTL).await.unwrap();
    for count in 0..10 {
        let fence = last.fence();
        last.release().await.unwrap();
        let calls = masters.calls(0);
        last = behind.acquire(["a"], TTL).await.unwrap();
        assert!(last.fence() > fence);
        let rounds = masters.calls(0) - calls;
        let allowed = if count == 0 { 2 } else { 1 };
        assert_eq!(rounds, allowed, "acquisition {count}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_costs_the_next_one_no_round() {
    let masters = MemoryMasters::new(3);
    let ahead = client_at(&masters, 2 * HOUR_US).await;
    let behind = client_at(&masters, HOUR_US).await;
    let held = ahead.acquire(["a"], TTL).await.unwrap();
    for _ in 0..3 {
        behind.try_acquire(["a"], TTL).await.unwrap_err();
    }
    held.release().await.unwrap();
    let calls = masters.calls(0);
    drop(behind.acquire(["a"], TTL).await.unwrap());
    assert_eq!(masters.calls(0) - calls, 1);
}
