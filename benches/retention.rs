//! What 100,000 resources that are locked once and never again cost the masters: memory and keys of
//! each before, during, and after the retention of their fences. The retention is short here, so that
//! the end of it can be seen.
//!
//!     compose/with-masters cargo bench --bench retention

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use fredlock::{
    Fencing, Redlock, Settings,
    fred::clients::Client,
    fred::interfaces::ClientLike,
    fred::types::{ClusterHash, CustomCommand, InfoKind, config::Config},
};
use tokio::{task::JoinSet, time::sleep};

const RESOURCES: usize = 100_000;
const WORKERS: usize = 32;
const TTL: Duration = Duration::from_secs(20);
/// Longer than all of the acquisitions take, so that there is a moment when nothing is forgotten.
const RETENTION: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let masters =
        std::env::var("FREDLOCK_MASTERS").map_err(|_| "run it under compose/with-masters")?;
    let masters: Vec<_> = masters.split(',').collect();
    let first = Client::new(Config::from_url(masters[0])?, None, None, None);
    first.init().await?;
    for (name, fencing) in [
        ("fenced", Fencing::on(RETENTION)),
        ("Fencing::Off", Fencing::Off),
    ] {
        let builder = Redlock::builder().urls(masters.iter().copied());
        // This counts memory: a machine with other work to do must not end it.
        let patient = |settings: Settings| settings.command_timeout(TTL / 2).wait_for(TTL);
        let redlock = builder.fencing(fencing).settings(patient).connect().await?;
        redlock.acquire(["warm-up"], TTL).await?.release().await?;
        let before = Look::at(&first).await?;
        println!("{name}: before              {before}");
        let begun = now();
        let redlock = Arc::new(redlock);
        for part in 0..4 {
            lock_once(&redlock, part * RESOURCES / 4..(part + 1) * RESOURCES / 4).await?;
            let done = (part + 1) * RESOURCES / 4;
            println!("{name}: after {done:>6} locks  {}", Look::at(&first).await?);
        }
        let (full, took) = (Look::at(&first).await?, begun.elapsed());
        let each = full.bytes.saturating_sub(before.bytes) / RESOURCES as u64;
        println!("{name}: {each} bytes for each resource; {RESOURCES} locks took {took:.1?}");
        if fencing != Fencing::Off {
            // The last fence was written just now, with a ttl on top of the retention.
            let wait = TTL + RETENTION;
            for part in 1..=4 {
                sleep(wait / 4).await;
                let waited = wait * part / 4;
                println!(
                    "{name}: {waited:>4.0?} later           {}",
                    Look::at(&first).await?
                );
            }
            // Masters delete what has expired at their leisure.
            let limit = now() + Duration::from_secs(60);
            while Look::at(&first).await?.keys > 0 && now() < limit {
                sleep(Duration::from_millis(100)).await;
            }
            println!("{name}: all forgotten       {}", Look::at(&first).await?);
        }
        redlock.shutdown(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Locks and releases each of these resources once.
async fn lock_once(
    redlock: &Arc<Redlock>,
    resources: std::ops::Range<usize>,
) -> Result<(), Box<dyn Error>> {
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let (redlock, resources) = (Arc::clone(redlock), resources.clone());
        workers.spawn(async move {
            for number in resources.skip(worker).step_by(WORKERS) {
                let name = format!("invoice:{number:06}");
                let lock = redlock.acquire([name], TTL).await;
                let lock = lock.map_err(|error| error.to_string())?;
                lock.release().await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        });
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    while redlock.background_tasks() > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// One master at one moment.
struct Look {
    keys: u64,
    /// What the master has allocated, its data and all else.
    bytes: u64,
    /// What the system gave it.
    resident: u64,
}

impl Look {
    async fn at(client: &Client) -> Result<Self, Box<dyn Error>> {
        let info: String = client.info(Some(InfoKind::Memory)).await?;
        let number = |name: &str| -> Result<u64, Box<dyn Error>> {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            Ok(line.ok_or("no such line in INFO")?.trim().parse()?)
        };
        let size = CustomCommand::new_static("DBSIZE", ClusterHash::Random, false);
        Ok(Self {
            keys: client.custom(size, Vec::<String>::new()).await?,
            bytes: number("used_memory:")?,
            resident: number("used_memory_rss:")?,
        })
    }
}

impl std::fmt::Display for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mb = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
        let (used, resident) = (mb(self.bytes), mb(self.resident));
        write!(
            f,
            "{:>6} keys, {used:>8} used, {resident:>8} resident",
            self.keys
        )
    }
}

#[expect(clippy::disallowed_methods, reason = "this measures true time")]
fn now() -> Instant {
    Instant::now()
}
