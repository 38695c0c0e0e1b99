//! The order of fences, through quorums that have little in common, clocks that are hours apart,
//! and masters that forget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fredlock::{AcquireError, Builder, Fence, Redlock, Retry};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;

use crate::support::eventually;
use crate::support::servers::Servers;

const RESOURCES: usize = 32;
/// In all, half of them before a master forgets and half after it.
const ACQUISITIONS: usize = 10_000;
const TTL: Duration = Duration::from_secs(60);
const HOUR: i64 = 3_600_000_000;

const LIMIT: Duration = Duration::from_secs(5);

/// Nothing listens there: a master out of reach for good.
const NOBODY: &str = "redis://127.0.0.1:";

fn clock(ahead_us: i64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "as the library's own")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_micros()).unwrap();
    u64::try_from(now + ahead_us).unwrap()
}

/// A client that reaches these masters alone, and whose wall clock is off.
async fn client(
    servers: &Servers,
    reaches: &[usize],
    ahead_us: i64,
    change: impl Fn(Builder) -> Builder,
) -> Redlock {
    let urls = servers.urls();
    let urls = (0..servers.len()).map(|index| {
        if reaches.contains(&index) {
            urls[index].clone()
        } else {
            // One address must not be named twice.
            format!("{NOBODY}{}", index + 1)
        }
    });
    let settings = |s: fredlock::Settings| {
        s.command_timeout(Duration::from_secs(20))
            .retry(Retry::none())
    };
    let builder = Redlock::builder()
        .urls(urls)
        .wall_clock(move || clock(ahead_us));
    let redlock = change(builder.settings(settings)).connect().await.unwrap();
    eventually("it has a quorum", LIMIT, async || {
        let seen = redlock.inspect("warm-up").await.unwrap();
        seen.findings()
            .filter(|finding| finding.state().is_ok())
            .count()
            == reaches.len()
    })
    .await;
    redlock
}

/// Each resource is acquired by one random client after another.
async fn rise(clients: Vec<Redlock>, last: Vec<Fence>, count: usize) -> Vec<Fence> {
    let (clients, left) = (Arc::new(clients), Arc::new(AtomicUsize::new(count)));
    let mut holders = JoinSet::new();
    for (resource, mut last) in last.into_iter().enumerate() {
        let (clients, left) = (Arc::clone(&clients), Arc::clone(&left));
        holders.spawn(async move {
            let mut rng = StdRng::seed_from_u64(resource as u64);
            let take = |left: usize| left.checked_sub(1);
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
            {
                let client = &clients[rng.gen_range(0..clients.len())];
                let name = format!("resource-{resource}");
                let lock = client.acquire([name], TTL).await.unwrap();
                assert!(lock.fence() > last, "{} after {last}", lock.fence());
                last = lock.fence();
                lock.release().await.unwrap();
            }
            (resource, last)
        });
    }
    let mut fences = vec![Fence::NONE; RESOURCES];
    while let Some(holder) = holders.join_next().await {
        let (resource, fence) = holder.unwrap();
        fences[resource] = fence;
    }
    fences
}

/// All resources are held once more through the first client, whose clock is ahead, before masters
/// forget; the second reaches no more than those and some that never knew. It gets nothing then.
async fn assert_that_nothing_is_had_of_who_forgot(
    ahead: &Redlock,
    behind: &Redlock,
    forget: impl AsyncFn(),
) -> Vec<Fence> {
    let name = |resource| [format!("resource-{resource}")];
    let mut fences = Vec::new();
    for resource in 0..RESOURCES {
        let lock = ahead.acquire(name(resource), TTL).await.unwrap();
        fences.push(lock.fence());
        lock.release().await.unwrap();
    }
    forget().await;
    for (resource, fence) in fences.iter().enumerate() {
        match behind.acquire(name(resource), TTL).await {
            Ok(lock) => panic!("{} after {fence}", lock.fence()),
            Err(AcquireError::Quarantined(_) | AcquireError::NoQuorum(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    // What it wrote on the masters that it reached is taken back by then.
    eventually("all is taken back", LIMIT, async || {
        behind.background_tasks() == 0
    })
    .await;
    fences
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_rise_across_disjoint_minorities_a_flushed_master_and_clocks_hours_apart() {
    let servers = Servers::start(5).await;
    // The ttl, and as much as the clocks may be apart.
    let guard = Duration::from_secs(3 * 3600);
    let guarded = |builder: Builder| builder.restart_guard(guard);
    let mut clients = Vec::new();
    for (reaches, ahead) in [(&[0, 1, 2], HOUR), (&[2, 3, 4], -HOUR), (&[0, 2, 4], 0)] {
        clients.push(client(&servers, reaches, ahead, guarded).await);
    }
    // One that reaches all, to initialise.
    let whole = client(&servers, &[0, 1, 2, 3, 4], 0, guarded).await;
    whole.initialise().await.unwrap();
    let ahead = clients[0].clone();
    rise(clients, vec![Fence::NONE; RESOURCES], ACQUISITIONS / 2).await;

    // The one master that all of them shared.
    let behind = client(&servers, &[2, 3, 4], -HOUR, guarded).await;
    let forget = async || servers[2].flush_all().await;
    let fences = assert_that_nothing_is_had_of_who_forgot(&ahead, &behind, forget).await;
    let mut clients = Vec::new();
    for (missing, ahead) in [(0, -HOUR), (1, HOUR), (3, 0), (4, -HOUR)] {
        let reaches: Vec<_> = (0..5).filter(|&index| index != missing).collect();
        clients.push(client(&servers, &reaches, ahead, guarded).await);
    }
    rise(clients, fences, ACQUISITIONS / 2).await;
    assert!(servers[2].pttl("fredlock:guard:quarantine").await > 0);
}

/// No guard, and no time to wait: any two quorums share three masters, two of which may forget.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_quorum_of_four_of_five_fences_rise_though_two_masters_forget() {
    let servers = Servers::start(5).await;
    let four = |builder: Builder| builder.quorum(4);
    let mut clients = Vec::new();
    for (missing, ahead) in [(0, HOUR), (1, -HOUR), (3, 0), (4, -HOUR)] {
        let reaches: Vec<_> = (0..5).filter(|&index| index != missing).collect();
        clients.push(client(&servers, &reaches, ahead, four).await);
    }
    rise(clients.clone(), vec![Fence::NONE; RESOURCES], 500).await;
    // Of the four masters of the last holder two forget, and one was never asked.
    let behind = client(&servers, &[0, 1, 2], -HOUR, four).await;
    let forget = async || {
        servers[1].flush_all().await;
        servers[2].flush_all().await;
    };
    let fences = assert_that_nothing_is_had_of_who_forgot(&clients[0], &behind, forget).await;
    rise(clients, fences, 500).await;
}
