//! Measuring contenders in turns, so that whatever else the machine does meets all of them alike.

use std::time::{Duration, Instant};

use super::contender::Entrant;

/// What one contender did in one round.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    pub pairs_per_second: f64,
    /// The median of the times of one pair.
    pub median: Duration,
    /// CPU time for each pair, of this process and of the masters.
    pub client_us: f64,
    pub masters_us: f64,
}

/// How many workers, for how long in each round, and how many rounds.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub workers: usize,
    pub turn: Duration,
    pub rounds: usize,
}

/// The samples of every contender, by rounds.
pub async fn race(
    entrants: &[Entrant],
    plan: Plan,
    pids: &[u32],
) -> Result<Vec<Vec<Sample>>, String> {
    for entrant in entrants {
        turn(entrant, plan, pids).await?; // warm
    }
    let mut samples = vec![Vec::new(); entrants.len()];
    for round in 0..plan.rounds {
        for place in 0..entrants.len() {
            // Nobody always comes after the same one.
            let index = (place + round) % entrants.len();
            samples[index].push(turn(&entrants[index], plan, pids).await?);
        }
    }
    Ok(samples)
}

async fn turn(entrant: &Entrant, plan: Plan, pids: &[u32]) -> Result<Sample, String> {
    let (client_before, masters_before) = (client_cpu()?, masters_cpu(pids)?);
    let begun = now();
    let workers: Vec<_> = (0..plan.workers)
        .map(|worker| {
            let contender = entrant.contender.clone();
            tokio::spawn(async move {
                let key = format!("bench:{worker}");
                let mut times = Vec::new();
                while begun.elapsed() < plan.turn {
                    let begun = now();
                    contender.pair(&key).await?;
                    times.push(begun.elapsed());
                }
                Ok::<_, String>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for worker in workers {
        let result = worker.await.map_err(|error| error.to_string())?;
        times.extend(result.map_err(|error| format!("{}: {error}", entrant.name))?);
    }
    let took = begun.elapsed();
    // What is still on its way belongs to this contender, and must not disturb the next.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let client = client_cpu()?.saturating_sub(client_before);
    let masters = masters_cpu(pids)?.saturating_sub(masters_before);
    times.sort_unstable();
    let pairs = times.len() as f64;
    Ok(Sample {
        pairs_per_second: pairs / took.as_secs_f64(),
        median: times[times.len() / 2],
        client_us: client.as_secs_f64() * 1e6 / pairs,
        masters_us: masters.as_secs_f64() * 1e6 / pairs,
    })
}

/// The median of what is taken from each sample.
pub fn median(samples: &[Sample], what: impl Fn(&Sample) -> f64) -> f64 {
    middle(samples.iter().map(what).collect())
}

/// The median of the ratios in the same rounds.
pub fn ratio(ours: &[Sample], theirs: &[Sample], what: impl Fn(&Sample) -> f64) -> f64 {
    middle(
        ours.iter()
            .zip(theirs)
            .map(|(a, b)| what(a) / what(b))
            .collect(),
    )
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[expect(clippy::disallowed_methods, reason = "this measures true time")]
pub fn now() -> Instant {
    Instant::now()
}

/// What this process has used so far.
pub fn client_cpu() -> Result<Duration, String> {
    let clock = nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID;
    let time = clock.now().map_err(|error| error.to_string())?;
    Ok(time.into())
}

/// What these processes have used so far, all threads of theirs.
pub fn masters_cpu(pids: &[u32]) -> Result<Duration, String> {
    let mut total = 0;
    for pid in pids {
        let tasks =
            std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|error| error.to_string())?;
        for task in tasks {
            let file = task
                .map_err(|error| error.to_string())?
                .path()
                .join("schedstat");
            let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
            let ns = text
                .split_whitespace()
                .next()
                .and_then(|ns| ns.parse::<u64>().ok());
            total += ns.ok_or("schedstat has no number")?;
        }
    }
    Ok(Duration::from_nanos(total))
}
