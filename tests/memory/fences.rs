//! Fences while clocks disagree.

use std::time::Duration;

use fredlock::{
    Fence, Redlock,
    testing::{Fate, MemoryMasters},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

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

/// Each acquisition reaches another three of five, so that two of one and two of the next are
/// strangers to each other; and one master after the other forgets, under a guard that is longer
/// than the ttl and the clocks' skew.
#[tokio::test(start_paused = true)]
async fn fences_rise_across_disjoint_minorities_flushed_masters_and_clocks_an_hour_apart() {
    let masters = MemoryMasters::new(5);
    let start = tokio::time::Instant::now();
    let guard = TTL + Duration::from_secs(2 * 3600);
    let mut clients = Vec::new();
    for ahead in [HOUR_US, 2 * HOUR_US, 3 * HOUR_US] {
        let clock = move || ahead + u64::try_from(start.elapsed().as_micros()).unwrap();
        let builder = Redlock::builder().memory(&masters).wall_clock(clock);
        clients.push(builder.restart_guard(guard).connect().await.unwrap());
    }
    clients[0].initialise().await.unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let (mut last, mut acquired, mut forgotten) = (Fence::NONE, 0, 0);
    for number in 0.. {
        if acquired == 10_000 {
            break;
        }
        let cut: [usize; 2] = [rng.gen_range(0..5), rng.gen_range(0..5)];
        masters.set_network(move |message| {
            if cut.contains(&message.master) {
                Fate::default().refuse()
            } else {
                Fate::default()
            }
        });
        if number % 500 == 0 {
            masters.restart_empty(rng.gen_range(0..5));
            forgotten += 1;
        }
        // It takes four restarts or so until the guard of the first is over.
        tokio::time::sleep(Duration::from_secs(rng.gen_range(0..60))).await;
        let client = &clients[rng.gen_range(0..3)];
        let Ok(lock) = client.try_acquire(["a"], TTL).await else {
            continue;
        };
        assert!(lock.fence() > last, "{} after {last}", lock.fence());
        (last, acquired) = (lock.fence(), acquired + 1);
        drop(lock.release().await);
    }
    assert!(forgotten > 20, "{forgotten}");
}
