//! A service that ends in good order when it is told to: on SIGTERM (or Ctrl-C) it takes no new lock,
//! lets each routine finish the step that it is at, releases, and has ended within a deadline.
//!
//! ```sh
//! compose/with-masters cargo run --example service     # on five local servers; end it with Ctrl-C
//! cargo run --example service                          # on masters in memory
//! cargo run --example service -- --stubborn            # with a routine that does not heed its signal
//! ```
//!
//! Whoever sends SIGTERM mostly sends SIGKILL later (systemd after 90 s, Kubernetes after 30 s): the
//! deadline has to be shorter. Exit status: 0 if all had ended by then, 1 if not; what had not is left
//! to the ttl of its lock, and to the fence.

use std::{env, error::Error, process::ExitCode, time::Duration};

use fredlock::{AcquireError, Redlock, Signal, UsingError, testing::MemoryMasters};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

const TTL: Duration = Duration::from_secs(10);
/// In a service of yours: less than the time between SIGTERM and SIGKILL.
const DEADLINE: Duration = Duration::from_secs(2);
/// How long one step of the work takes: the shorter, the sooner a routine heeds its signal.
const STEP: Duration = Duration::from_millis(50);

/// Works off a queue for as long as there is a lock to be had.
async fn serve(redlock: Redlock, queue: &'static str, stubborn: bool) {
    loop {
        let result = redlock
            .using([queue], TTL, async |signal| {
                println!("{queue}: begins with fence {}", signal.fence());
                work(&signal, stubborn).await
            })
            .await;
        match result {
            Ok(steps) => println!("{queue}: all done, in {steps} steps"),
            // Every step was finished, and none begun after the signal.
            Err(UsingError::Lost {
                output: Some(steps),
                reason,
                ..
            }) => println!("{queue}: stopped after {steps} steps: {reason}"),
            Err(UsingError::Acquire(AcquireError::ShutDown)) => break,
            Err(error) => {
                println!("{queue}: {error}");
                sleep(STEP).await;
            }
        }
    }
    println!("{queue}: ended");
}

async fn work(signal: &Signal, stubborn: bool) -> u32 {
    let mut steps = 0;
    // A look costs nothing: it compares the clock.
    while stubborn || !signal.is_aborted() {
        sleep(STEP).await;
        steps += 1;
    }
    steps
}

async fn connect() -> Result<Redlock, Box<dyn Error>> {
    let urls = env::var("FREDLOCK_MASTERS").unwrap_or_default();
    if urls.is_empty() {
        let masters = MemoryMasters::new(5);
        return Ok(Redlock::builder().memory(&masters).connect().await?);
    }
    Ok(Redlock::connect(urls.split(',')).await?)
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    // Before anything is begun: without them either signal would end the process at once.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stubborn = env::args().any(|word| word == "--stubborn");
    let redlock = connect().await?;
    println!("{}", redlock.health().await);
    let queues = ["invoices", "reminders"];
    let serving = queues.map(|queue| tokio::spawn(serve(redlock.clone(), queue, stubborn)));

    tokio::select! {
        _ = terminate.recv() => println!("SIGTERM: shutting down"),
        _ = interrupt.recv() => println!("SIGINT: shutting down"),
    }
    let begun = Instant::now();
    let in_time = redlock.shutdown(DEADLINE).await;
    println!("all had ended: {in_time}, after {:?}", begun.elapsed());
    for task in serving {
        if in_time {
            task.await?;
        } else {
            task.abort();
        }
    }
    Ok(ExitCode::from(u8::from(!in_time)))
}
