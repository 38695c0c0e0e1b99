//! A wrapper around `using`, as a service has one: its own names, errors and log lines in one
//! place, generic over the routine, and good for `tokio::spawn`.
//!
//! Runs by itself, on in-memory masters:
//!
//! ```sh
//! cargo run --example wrapper
//! ```

use std::{error::Error, time::Duration};

use fredlock::testing::MemoryMasters;
use fredlock::{AbortMode, AcquireError, LostReason, Redlock, Signal, UsingError};

/// The jobs of a service, each of which runs once at a time in all of its processes.
#[derive(Debug, Clone)]
struct Jobs {
    redlock: Redlock,
}

/// Why a job has no result that can be trusted.
#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error("another process is at it")]
    RunsElsewhere,
    #[error("no lock: {0}")]
    NoLock(AcquireError),
    #[error("stopped: {0}")]
    Stopped(LostReason),
}

impl Jobs {
    /// Runs the routine as the only one of its name.
    ///
    /// The bounds are those of `using`, and no more: the routine may borrow from its caller. This
    /// future is `Send` if the routine and its output are, and then it can be spawned.
    async fn run<T, F, Fut>(&self, name: &str, routine: F) -> Result<T, JobError>
    where
        F: FnOnce(Signal) -> Fut,
        Fut: Future<Output = T>,
    {
        let resource = format!("job:{name}");
        let result = self
            .redlock
            .using([resource], Duration::from_secs(5), async |signal| {
                println!("{name}: begins with fence {}", signal.fence());
                routine(signal).await
            })
            .await;
        result.map_err(|error| match error {
            UsingError::Acquire(error) if error.is_busy() => JobError::RunsElsewhere,
            UsingError::Acquire(error) => JobError::NoLock(error),
            // The output is dropped here: these jobs can be run again. A service whose jobs cannot
            // looks at it.
            UsingError::Lost { reason, .. } => JobError::Stopped(reason),
            other => unreachable!("no other error so far: {other}"),
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let masters = MemoryMasters::new(5);
    let builder = Redlock::builder().memory(&masters).settings(|settings| {
        let settings = settings.abort_mode(AbortMode::DropRoutine);
        settings.wait_for(Duration::from_millis(200))
    });
    let redlock = builder.connect().await?;
    let jobs = Jobs {
        redlock: redlock.clone(),
    };

    // It borrows from here and gives back what borrows.
    let ledger = String::from("4821 4822 4823");
    let mut rounds = 0;
    let invoices: Vec<&str> = jobs
        .run("list", async |_| {
            rounds += 1;
            ledger.split(' ').collect()
        })
        .await?;
    println!("list: {invoices:?} in {rounds} round");

    // On a task of its own; one that has the same name has to wait, and gives up.
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let endless = tokio::spawn({
        let jobs = jobs.clone();
        async move {
            jobs.run("bill", async |_| {
                // Nobody is left to tell only if the program is about to end.
                begun.send(()).ok();
                std::future::pending::<()>().await;
            })
            .await
        }
    });
    has_begun.await?;
    let second = jobs.run("bill", async |_| ()).await;
    println!("bill: {}", second.expect_err("the first is at it"));

    // Whoever shuts down stops what runs, and waits until it has been freed.
    let ended = redlock.shutdown(Duration::from_secs(1)).await;
    println!("bill: {}", endless.await?.expect_err("it never ends"));
    println!(
        "all had ended: {ended}, keys left: {:?}",
        masters.get(0, "job:bill")
    );
    Ok(())
}
