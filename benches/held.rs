//! Very many `using` at once: the memory that each takes, the CPU that it takes to keep them, and
//! how many were lost.
//!
//!     compose/with-masters cargo bench --bench held
//!
//! Settings, from the environment: `FREDLOCK_BENCH_HELD` (default 10000), `FREDLOCK_BENCH_TTL_S`
//! (10), `FREDLOCK_BENCH_SECONDS` (60), `FREDLOCK_BENCH_BUSY` (0; how many other processes keep a
//! core busy meanwhile).
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::cast_precision_loss,
    reason = "a program"
)]

use std::{
    alloc::System,
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fredlock::{Redlock, Retry};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

#[path = "speed/contender.rs"]
#[allow(dead_code, unreachable_pub, reason = "speed uses the rest")]
mod contender;
#[path = "speed/measure.rs"]
#[allow(dead_code, unreachable_pub, reason = "speed uses the rest")]
mod measure;

use measure::{client_cpu, masters_cpu, now};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How many are acquired at a time.
const AT_ONCE: usize = 200;

fn main() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(held())
}

async fn held() -> Result<(), String> {
    let count = setting("FREDLOCK_BENCH_HELD", 10_000)?;
    let ttl = Duration::from_secs(setting("FREDLOCK_BENCH_TTL_S", 10)? as u64);
    let seconds = setting("FREDLOCK_BENCH_SECONDS", 60)?;
    let masters =
        std::env::var("FREDLOCK_MASTERS").map_err(|_| "run it under compose/with-masters")?;
    let pids =
        std::env::var("FREDLOCK_MASTER_PIDS").map_err(|_| "run it under compose/with-masters")?;
    let pids: Vec<u32> = pids.split(',').filter_map(|pid| pid.parse().ok()).collect();
    let redlock = Redlock::builder()
        .urls(masters.split(','))
        .settings(|settings| settings.retry(Retry::none().count(20)))
        .connect()
        .await
        .map_err(|error| error.to_string())?;
    // Warm: connections, buffers and the allocator's arenas are there before it counts.
    let (lost, stop) = hold(&redlock, AT_ONCE, ttl, "warm").await?;
    stop.cancel();
    drop(lost);
    sleep(Duration::from_millis(500)).await;

    let (before, before_heap) = (resident()?, in_use());
    let begun = now();
    let (running, stop) = hold(&redlock, count, ttl, "held").await?;
    println!("{count} acquired in {:.1?}", begun.elapsed());
    let _busy: Vec<Busy> = (0..setting("FREDLOCK_BENCH_BUSY", 0)?)
        .map(|_| Busy::start())
        .collect::<Result<_, _>>()?;
    for second in 0..=seconds {
        if [1, 5, 10, 20, 40].contains(&second) || second == seconds {
            let each = (resident()? - before) as f64 / count as f64;
            let heap = (in_use() - before_heap) as f64 / count as f64;
            println!("after {second} s: {each:.0} bytes each, {heap:.0} of them in use");
        }
        if second < seconds {
            let (client, masters) = (client_cpu()?, masters_cpu(&pids)?);
            sleep(Duration::from_secs(1)).await;
            if second == seconds / 2 {
                println!(
                    "in second {second}: {:.1} % of a core for the client, {:.1} % for all masters",
                    client_cpu()?.saturating_sub(client).as_secs_f64() * 100.0,
                    masters_cpu(&pids)?.saturating_sub(masters).as_secs_f64() * 100.0
                );
            }
        }
    }
    let begun = now();
    stop.cancel();
    let results = running.join_all().await;
    let failed: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    println!(
        "lost: {}; released in {:.1?}",
        failed.len(),
        begun.elapsed()
    );
    if let Some(first) = failed.first() {
        println!("the first: {first}");
    }
    Ok(())
}

type Running = JoinSet<Result<(), String>>;

/// Starts so many routines, and returns once all of them run.
async fn hold(
    redlock: &Redlock,
    count: usize,
    ttl: Duration,
    name: &str,
) -> Result<(Running, CancellationToken), String> {
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    let entries = Arc::new(Semaphore::new(AT_ONCE));
    let begun = Arc::new(AtomicUsize::new(0));
    for number in 0..count {
        let entry = Arc::clone(&entries)
            .acquire_owned()
            .await
            .map_err(|error| error.to_string())?;
        let (redlock, stop) = (redlock.clone(), stop.clone());
        let begun = Arc::clone(&begun);
        let name = format!("{name}:{number}");
        running.spawn(async move {
            // The least that a routine can be: its own memory is in the figure.
            let using = redlock.using([name], ttl, async |_| {
                drop(entry);
                begun.fetch_add(1, Ordering::Relaxed);
                stop.cancelled().await;
            });
            using.await.map_err(|error| error.to_string())
        });
    }
    while begun.load(Ordering::Relaxed) < count {
        if let Some(ended) = running.try_join_next() {
            return Err(format!("one ended: {ended:?}"));
        }
        sleep(Duration::from_millis(1)).await;
    }
    Ok((running, stop))
}

/// Another program, which keeps a core busy until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Result<Self, String> {
        let child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn();
        child.map(Self).map_err(|error| error.to_string())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What the program has of the heap and has not given back.
fn in_use() -> usize {
    let stats = HEAP.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn resident() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    let kb: u64 = number.and_then(|kb| kb.parse().ok()).ok_or("no VmRSS")?;
    Ok(kb * 1024)
}

fn setting(name: &str, default: usize) -> Result<usize, String> {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("{name} is no number: {text}")),
        Err(_) => Ok(default),
    }
}
