//! What 100,000 pairs of acquire and release leave behind: memory of this process, in use and
//! resident, its tasks, and keys on the masters; and how often each pair allocates.
//!
//!     compose/with-masters cargo bench --bench soak

use std::{
    alloc::System,
    error::Error,
    time::{Duration, Instant},
};

use fredlock::{
    Fencing, Redlock,
    fred::interfaces::ClientLike,
    fred::types::{ClusterHash, CustomCommand, config::Config},
};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PAIRS: usize = 100_000;
/// All that is made once is there by then.
const WARM: usize = 1_000;
const TTL: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(soak())
}

async fn soak() -> Result<(), Box<dyn Error>> {
    let masters =
        std::env::var("FREDLOCK_MASTERS").map_err(|_| "run it under compose/with-masters")?;
    let masters: Vec<_> = masters.split(',').collect();
    for (name, fencing) in [
        ("fenced", Fencing::default()),
        ("Fencing::Off", Fencing::Off),
    ] {
        let redlock = Redlock::builder()
            .urls(masters.iter().copied())
            .fencing(fencing)
            .connect()
            .await?;
        let before = (resident_kb()?, tasks());
        let begun = now();
        let mut allocations = HEAP.stats().allocations;
        for pair in 0..PAIRS {
            redlock.acquire(["soak"], TTL).await?.release().await?;
            if pair + 1 == WARM {
                allocations = HEAP.stats().allocations;
            }
            if [WARM, 2_000, 5_000, 10_000].contains(&(pair + 1)) || (pair + 1) % 25_000 == 0 {
                println!(
                    "{name}: {:>7} pairs, {:>5} kB in use, {:>6} kB resident, {} tasks",
                    pair + 1,
                    in_use_kb(),
                    resident_kb()?,
                    tasks()
                );
            }
        }
        let took = begun.elapsed();
        let allocations = HEAP.stats().allocations - allocations;
        while redlock.background_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        println!(
            "{name}: {} allocations a pair",
            allocations / (PAIRS - WARM)
        );
        println!(
            "{name}: {PAIRS} pairs in {took:.1?}; {} kB and {} tasks before, {} kB and {} tasks after; keys left on the masters: {:?}",
            before.0,
            before.1,
            resident_kb()?,
            tasks(),
            keys(&masters).await?,
        );
        redlock.shutdown(Duration::from_secs(1)).await;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this measures true time")]
fn now() -> Instant {
    Instant::now()
}

fn tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

/// What is allocated and was not given back.
fn in_use_kb() -> usize {
    let stats = HEAP.stats();
    (stats.bytes_allocated - stats.bytes_deallocated) / 1024
}

fn resident_kb() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmRSS")?.parse()?)
}

/// The keys of each master; with fencing, the fence stays for its retention.
async fn keys(masters: &[&str]) -> Result<Vec<Vec<String>>, Box<dyn Error>> {
    let mut all = Vec::new();
    for url in masters {
        let client = fredlock::fred::clients::Client::new(Config::from_url(url)?, None, None, None);
        client.init().await?;
        let command = CustomCommand::new_static("KEYS", ClusterHash::Random, false);
        all.push(client.custom(command, vec!["*"]).await?);
        client.quit().await?;
    }
    Ok(all)
}
