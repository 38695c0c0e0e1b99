//! Waiting: how soon a lock goes from one process to another, what waiting costs, and how fairly
//! many share one key. The processes are this one, started again.
//!
//!     compose/with-masters cargo bench --all-features --bench handover
//!
//! `FREDLOCK_BENCH_RUNS` is the number of runs of which the median is shown; 5 by default, which
//! take about four minutes.

#![allow(missing_docs, missing_debug_implementations, reason = "a program")]

use std::{
    error::Error,
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use fredlock::{
    Fencing, Redlock, Retry, Settings,
    fred::interfaces::ClientLike,
    fred::types::{ClusterHash, CustomCommand, config::Config},
};
use nix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const TTL: Duration = Duration::from_secs(10);
/// Each process has it so often in one run of the hand-over.
const HANDOVERS: usize = 100;
const HOLD: Duration = Duration::from_millis(10);
const LENGTH: Duration = Duration::from_secs(10);
const WORKERS: usize = 8;
const CROWD: usize = 1_000;

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    match std::env::var("FREDLOCK_BENCH_ROLE") {
        Ok(role) => runtime.block_on(play(&role)),
        Err(_) => runtime.block_on(measure()),
    }
}

async fn measure() -> Outcome<()> {
    let runs = match std::env::var("FREDLOCK_BENCH_RUNS") {
        Ok(runs) => runs.parse::<usize>()?.max(1),
        Err(_) => 5,
    };
    println!("| what | median of {runs} runs | each run |");
    println!("| --- | --- | --- |");
    for fencing in ["fenced", "Fencing::Off"] {
        let (mut medians, mut nines) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            let mut times = hand_over(fencing)?;
            times.sort_unstable();
            medians.push(ms(times[times.len() / 2]));
            nines.push(ms(times[times.len() * 99 / 100]));
        }
        row(
            &format!("hand-over between two processes, {fencing}: median, ms"),
            &medians,
        );
        row(
            &format!("hand-over between two processes, {fencing}: 99th percentile, ms"),
            &nines,
        );
    }
    let (mut processes, mut tasks) = (Vec::new(), Vec::new());
    let (mut cpu, mut commands) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        processes.push(work_in_processes()?);
        tasks.push(work_in_tasks().await?);
        cpu.push(wait_in_processes().await?);
        commands.push(crowd().await?);
    }
    for (who, counts) in [("processes", processes), ("tasks of one process", tasks)] {
        let possible = LENGTH.as_secs_f64() / HOLD.as_secs_f64();
        let share = |counts: &Vec<u32>| f64::from(counts.iter().sum::<u32>()) / possible;
        let evenness = |counts: &Vec<u32>| {
            let (least, most) = (counts.iter().min(), counts.iter().max());
            f64::from(*least.unwrap_or(&0)) / f64::from(*most.unwrap_or(&1)).max(1.0)
        };
        let what = format!("{WORKERS} {who} on one key, {HOLD:?} holds, {LENGTH:?}");
        row(
            &format!("{what}: acquisitions against the possible"),
            &counts.iter().map(share).collect::<Vec<_>>(),
        );
        row(
            &format!("{what}: least against most by one"),
            &counts.iter().map(evenness).collect::<Vec<_>>(),
        );
    }
    row(
        &format!("client CPU while {WORKERS} processes wait {LENGTH:?}: the busiest, % of a core"),
        &cpu,
    );
    row(
        &format!(
            "{CROWD} tasks of one process want one key: commands at a master, against one task"
        ),
        &commands,
    );
    Ok(())
}

fn row(what: &str, runs: &[f64]) {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let each: Vec<_> = runs.iter().map(|run| format!("{run:.2}")).collect();
    println!(
        "| {what} | {:.2} | {} |",
        sorted[sorted.len() / 2],
        each.join(", ")
    );
}

/// From the call of `release` in one process to the lock in the other.
fn hand_over(fencing: &str) -> Outcome<Vec<Duration>> {
    let mut players = [
        Player::start("hand-over", fencing)?,
        Player::start("hand-over", fencing)?,
    ];
    for player in &mut players {
        player.go()?;
    }
    let mut turns = Vec::new();
    for (number, player) in players.into_iter().enumerate() {
        for line in player.told()? {
            let (acquired, released) = line.split_once(' ').ok_or("two times")?;
            turns.push((acquired.parse::<u64>()?, released.parse::<u64>()?, number));
        }
    }
    turns.sort_unstable();
    let between = turns.windows(2).filter(|pair| pair[0].2 != pair[1].2);
    Ok(between
        .map(|pair| Duration::from_nanos(pair[1].0.saturating_sub(pair[0].1)))
        .collect())
}

fn work_in_processes() -> Outcome<Vec<u32>> {
    let mut players = Vec::new();
    for _ in 0..WORKERS {
        players.push(Player::start("work", "fenced")?);
    }
    for player in &mut players {
        player.go()?;
    }
    let mut counts = Vec::new();
    for player in players {
        counts.push(player.told()?.first().ok_or("a count")?.parse()?);
    }
    Ok(counts)
}

async fn work_in_tasks() -> Outcome<Vec<u32>> {
    let redlock = connect("fenced").await?;
    let mut tasks = Vec::new();
    for _ in 0..WORKERS {
        tasks.push(tokio::spawn(work(redlock.clone())));
    }
    let mut counts = Vec::new();
    for task in tasks {
        counts.push(task.await??);
    }
    redlock.shutdown(Duration::from_secs(2)).await;
    Ok(counts)
}

async fn wait_in_processes() -> Outcome<f64> {
    let redlock = connect("fenced").await?;
    let held = redlock.acquire(["bench:handover"], TTL * 6).await?;
    let mut players = Vec::new();
    for _ in 0..WORKERS {
        players.push(Player::start("wait", "fenced")?);
    }
    for player in &mut players {
        player.go()?;
    }
    let mut most = 0.0_f64;
    for player in players {
        most = most.max(player.told()?.first().ok_or("a share")?.parse()?);
    }
    held.release().await?;
    redlock.shutdown(Duration::from_secs(2)).await;
    Ok(most)
}

/// Commands at the first master while so many tasks wait, against those while one does.
async fn crowd() -> Outcome<f64> {
    let redlock = connect("fenced").await?;
    let held = redlock.acquire(["bench:handover"], TTL * 6).await?;
    let mut counts = Vec::new();
    for count in [1, CROWD] {
        let tasks: Vec<_> = (0..count)
            .map(|_| {
                let redlock = redlock.clone();
                tokio::spawn(
                    async move { redlock.acquire(["bench:handover"], TTL).await.map(drop) },
                )
            })
            .collect();
        let before = commands().await?;
        sleep(LENGTH / 2).await;
        counts.push(f64::from(commands().await? - before));
        for task in tasks {
            task.abort();
            drop(task.await);
        }
    }
    held.release().await?;
    redlock.shutdown(Duration::from_secs(2)).await;
    Ok(counts[1] / counts[0])
}

/// How many commands the first master has done; this question is one.
async fn commands() -> Outcome<u32> {
    let url = masters()?.first().ok_or("a master")?.clone();
    let client = fredlock::fred::clients::Client::new(Config::from_url(&url)?, None, None, None);
    client.init().await?;
    let command = CustomCommand::new_static("INFO", ClusterHash::Random, false);
    let info: String = client.custom(command, vec!["stats"]).await?;
    client.quit().await?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("total_commands_processed:"));
    Ok(line.ok_or("a count")?.trim().parse()?)
}

/// What one of the processes does: it says that it is ready, waits for a line, plays, and tells.
async fn play(role: &str) -> Outcome<()> {
    let fencing = std::env::var("FREDLOCK_BENCH_FENCING")?;
    let redlock = connect(&fencing).await?;
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    match role {
        "hand-over" => {
            let mut turns = Vec::new();
            for _ in 0..HANDOVERS {
                let lock = redlock.acquire(["bench:handover"], TTL).await?;
                let acquired = now(ClockId::CLOCK_MONOTONIC)?;
                sleep(HOLD).await;
                turns.push((acquired, now(ClockId::CLOCK_MONOTONIC)?));
                lock.release().await?;
                // The other one has its turn.
                sleep(HOLD / 2).await;
            }
            for (acquired, released) in turns {
                println!("{} {}", acquired.as_nanos(), released.as_nanos());
            }
        }
        "work" => println!("{}", work(redlock.clone()).await?),
        "wait" => {
            let before = now(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
            let waiting = redlock.with(|settings| settings.wait_limit(LENGTH));
            if waiting.acquire(["bench:handover"], TTL).await.is_ok() {
                return Err("it was to be held".into());
            }
            let used = now(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.saturating_sub(before);
            println!("{}", used.as_secs_f64() / LENGTH.as_secs_f64() * 100.0);
        }
        other => return Err(format!("no role: {other}").into()),
    }
    redlock.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

/// Acquires, holds and releases; gives how often.
async fn work(redlock: Redlock) -> Outcome<u32> {
    let begun = now(ClockId::CLOCK_MONOTONIC)?;
    let mut count = 0;
    while now(ClockId::CLOCK_MONOTONIC)?.saturating_sub(begun) < LENGTH {
        let lock = redlock.acquire(["bench:handover"], TTL).await?;
        hold().await?;
        lock.release().await?;
        count += 1;
    }
    Ok(count)
}

/// So long, to a tenth of a millisecond: tokio's timers round up to the next, and it is the way from
/// one to the other that is measured.
#[expect(clippy::disallowed_methods, reason = "it has a thread of its own")]
async fn hold() -> Outcome<()> {
    Ok(tokio::task::spawn_blocking(|| std::thread::sleep(HOLD)).await?)
}

async fn connect(fencing: &str) -> Outcome<Redlock> {
    let fencing = match fencing {
        "fenced" => Fencing::default(),
        _ => Fencing::Off,
    };
    let builder = Redlock::builder()
        .urls(masters()?)
        .fencing(fencing)
        .settings(patient);
    Ok(builder.connect().await?)
}

/// The pauses of the default, without end; and a machine that stands still does not end the run.
fn patient(settings: Settings) -> Settings {
    let retry = Retry::default().unlimited();
    settings.retry(retry).command_timeout(TTL / 4)
}

fn masters() -> Outcome<Vec<String>> {
    let masters =
        std::env::var("FREDLOCK_MASTERS").map_err(|_| "run it under compose/with-masters")?;
    Ok(masters.split(',').map(str::to_owned).collect())
}

/// All processes of a machine share the monotonic clock.
fn now(clock: ClockId) -> Outcome<Duration> {
    Ok(Duration::from(clock_gettime(clock)?))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// One more process. Whoever waits for it blocks: nothing else is to be done meanwhile.
struct Player {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Player {
    fn start(role: &str, fencing: &str) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .env("FREDLOCK_BENCH_ROLE", role)
            .env("FREDLOCK_BENCH_FENCING", fencing)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(process.stdout.take().ok_or("stdout")?).lines();
        let mut player = Self { process, lines };
        match player.lines.next().transpose()? {
            Some(line) if line == "ready" => Ok(player),
            other => Err(format!("a process did not start: {other:?}").into()),
        }
    }

    fn go(&mut self) -> Outcome<()> {
        let stdin = self.process.stdin.as_mut().ok_or("stdin")?;
        stdin.write_all(b"go\n")?;
        Ok(())
    }

    fn told(mut self) -> Outcome<Vec<String>> {
        let lines = self.lines.by_ref().collect::<Result<_, _>>()?;
        let status = self.process.wait()?;
        if status.success() {
            Ok(lines)
        } else {
            Err(format!("a process ended with {status}").into())
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // One that has ended is none any more.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
