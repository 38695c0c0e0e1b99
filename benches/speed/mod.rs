//! Acquire and release of fredlock beside other ways to do it, in one process, in turns.
//!
//! Settings, from the environment: `FREDLOCK_BENCH_ROUNDS` (default 7, at least 5 for a figure worth
//! keeping), `FREDLOCK_BENCH_TURN_MS` (default 400), `FREDLOCK_BENCH_RUNTIME` (`multi` or `current`;
//! both by default), `FREDLOCK_BENCH_ONLY` (a part of a contender's name), `FREDLOCK_BENCH_WORKERS` (1 and 64
//! by default).

use std::{env, time::Duration};

use fredlock::Fencing;
use tokio::runtime::{Builder, Runtime};

pub mod contender;
pub mod floor;
pub mod measure;

use contender::{Entrant, Ours, PATIENCE};
use floor::Floor;
use measure::{Plan, Sample, median, race, ratio};

/// Where the masters are.
pub struct Masters {
    pub urls: Vec<String>,
    pub pids: Vec<u32>,
}

impl Masters {
    pub fn from_environment() -> Result<Self, String> {
        let list = |name| {
            let list = env::var(name).map_err(|_| "run it under compose/with-masters")?;
            Ok::<_, String>(list.split(',').map(str::to_owned).collect::<Vec<_>>())
        };
        let pids = list("FREDLOCK_MASTER_PIDS")?;
        let pids = pids
            .iter()
            .map(|pid| pid.parse().map_err(|_| format!("no process id: {pid}")));
        Ok(Self {
            urls: list("FREDLOCK_MASTERS")?,
            pids: pids.collect::<Result<_, _>>()?,
        })
    }
}

/// Connects the contenders that are not ours and not the floor.
pub type Peers = fn(&[String]) -> Result<Vec<Entrant>, String>;

pub fn run(peers: Peers) -> Result<(), String> {
    let masters = Masters::from_environment()?;
    let rounds = setting("FREDLOCK_BENCH_ROUNDS", 7)?;
    let turn = Duration::from_millis(setting("FREDLOCK_BENCH_TURN_MS", 400)? as u64);
    let chosen = env::var("FREDLOCK_BENCH_RUNTIME").ok();
    for (key, name, runtime) in [
        (
            "multi",
            "multi-thread runtime, 2 workers",
            multi as fn() -> _,
        ),
        ("current", "current-thread runtime", current),
    ] {
        if chosen.as_deref().is_some_and(|chosen| chosen != key) {
            continue;
        }
        let runtime: Runtime = runtime().map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let mut entrants = vec![
                Entrant::new("bare fred", Floor::connect(&masters.urls, None).await?),
                Entrant::new(
                    "bare fred with a timeout for each command",
                    Floor::connect(&masters.urls, Some(PATIENCE)).await?,
                ),
                Entrant::new(
                    "fredlock, `Fencing::Off`",
                    Ours::connect(&masters.urls, Fencing::Off).await?,
                ),
                Entrant::new(
                    "fredlock, fenced",
                    Ours::connect(&masters.urls, Fencing::default()).await?,
                ),
            ];
            entrants.extend(peers(&masters.urls)?);
            if let Ok(only) = env::var("FREDLOCK_BENCH_ONLY") {
                entrants.retain(|entrant| entrant.name.contains(&only));
            }
            let workers = match setting("FREDLOCK_BENCH_WORKERS", 0)? {
                0 => vec![1, 64],
                workers => vec![workers],
            };
            for workers in workers {
                let plan = Plan {
                    workers,
                    turn,
                    rounds,
                };
                let samples = race(&entrants, plan, &masters.pids).await?;
                table(name, plan, &entrants, &samples);
            }
            Ok::<_, String>(())
        })?;
    }
    Ok(())
}

fn table(runtime: &str, plan: Plan, entrants: &[Entrant], samples: &[Vec<Sample>]) {
    let workers = if plan.workers == 1 {
        "alone".to_owned()
    } else {
        format!("{} workers", plan.workers)
    };
    println!(
        "\n{workers}, {runtime}; medians of {} rounds of {:?}; ratios of the same rounds\n",
        plan.rounds, plan.turn
    );
    print!("| what | median pair | pairs/s | client µs/pair | masters µs/pair |");
    let others: Vec<usize> = (0..entrants.len())
        .filter(|&index| !entrants[index].name.starts_with("fredlock"))
        .collect();
    for &other in &others {
        print!(" time, pairs/s, CPU against {} |", entrants[other].name);
    }
    println!(
        "\n| --- | --- | --- | --- | --- |{}",
        " --- |".repeat(others.len())
    );
    for (entrant, own) in entrants.iter().zip(samples) {
        print!(
            "| {} | {:.0} µs | {:.0} | {:.1} | {:.1} |",
            entrant.name,
            median(own, time),
            median(own, |sample| sample.pairs_per_second),
            median(own, |sample| sample.client_us),
            median(own, |sample| sample.masters_us),
        );
        for &other in &others {
            let theirs = &samples[other];
            print!(
                " {:.2}, {:.2}, {:.2} |",
                ratio(own, theirs, time),
                ratio(own, theirs, |sample| sample.pairs_per_second),
                ratio(own, theirs, |sample| sample.client_us + sample.masters_us),
            );
        }
        println!();
    }
}

fn time(sample: &Sample) -> f64 {
    sample.median.as_secs_f64() * 1e6
}

fn setting(name: &str, default: usize) -> Result<usize, String> {
    match env::var(name) {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("{name} is no number: {text}")),
        Err(_) => Ok(default),
    }
}

fn multi() -> std::io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}

fn current() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
