//! What a hung minority costs: pairs of acquire and release with all masters up, and with two of
//! five under SIGSTOP, in one run.
//!
//!     compose/with-masters cargo bench --bench minority

use std::{
    error::Error,
    process::Command,
    time::{Duration, Instant},
};

use fredlock::{Fencing, Redlock};

const PAIRS: usize = 200;
const TTL: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(compare())
}

async fn compare() -> Result<(), Box<dyn Error>> {
    let masters =
        std::env::var("FREDLOCK_MASTERS").map_err(|_| "run it under compose/with-masters")?;
    let pids =
        std::env::var("FREDLOCK_MASTER_PIDS").map_err(|_| "run it under compose/with-masters")?;
    let pids: Vec<_> = pids.split(',').collect();
    for (name, fencing) in [
        ("fenced", Fencing::default()),
        ("Fencing::Off", Fencing::Off),
    ] {
        let builder = Redlock::builder().urls(masters.split(',')).fencing(fencing);
        let redlock = builder.connect().await?;
        pairs(&redlock).await?; // warm
        let up = pairs(&redlock).await?;
        signal("STOP", &pids[..2])?;
        let hung = pairs(&redlock).await;
        signal("CONT", &pids[..2])?;
        let hung = hung?;
        let ratio = hung[PAIRS / 2].as_secs_f64() / up[PAIRS / 2].as_secs_f64();
        println!(
            "{name}: median of {PAIRS} pairs {:?} with all up, {:?} with two of {} hung: ratio {ratio:.2} (slowest {:?}, {:?})",
            up[PAIRS / 2],
            hung[PAIRS / 2],
            pids.len(),
            up[PAIRS - 1],
            hung[PAIRS - 1],
        );
        redlock.shutdown(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// The times of so many pairs, sorted.
#[expect(clippy::disallowed_methods, reason = "this measures true time")]
async fn pairs(redlock: &Redlock) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut times = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let begun = Instant::now();
        redlock.acquire(["bench"], TTL).await?.release().await?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}

fn signal(name: &str, pids: &[&str]) -> Result<(), Box<dyn Error>> {
    let status = Command::new("kill")
        .arg(format!("-{name}"))
        .args(pids)
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("kill -{name} {pids:?} failed").into())
    }
}
