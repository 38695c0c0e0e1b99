//! Four workers bill twelve invoices: every worker tries every invoice, and each is billed once.
//!
//! ```sh
//! compose/with-masters cargo run --example invoice_job             # on five local servers
//! compose/with-masters cargo run --example invoice_job -- --kill   # of which two are killed
//! cargo run --example invoice_job                                  # on masters in memory
//! ```
//!
//! `worker.rs` shows how a lock is used, and `ledger.rs` what a fence is for.

#![allow(unreachable_pub, reason = "a program has no public surface")]

mod journal;
mod ledger;
mod masters;
mod worker;

use std::{error::Error, process::ExitCode, sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::sleep};

use crate::{journal::Journal, ledger::Ledger, masters::Masters, worker::Worker};

const WORKERS: usize = 4;
const INVOICES: usize = 12;

type Done = Result<(), Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: invoice_job [--kill]

  --kill   kills two masters in the middle of the work

From the environment, as compose/with-masters sets it:
  FREDLOCK_MASTERS       URLs of the masters, with commas between; without it they are in memory
  FREDLOCK_MASTER_PIDS   their process ids in the same order, for --kill";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let kill = match arguments.as_slice() {
        [] => false,
        [flag] if flag == "--kill" => true,
        _ => return fail(2, USAGE),
    };
    let masters = match Masters::from_environment(kill) {
        Ok(masters) => masters,
        Err(error) => return fail(2, &error),
    };
    match bill_all(masters, kill).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, &error.to_string()),
    }
}

async fn bill_all(masters: Masters, kill: bool) -> Done {
    let journal = Journal::begin();
    journal.say(format!(
        "{WORKERS} workers bill {INVOICES} invoices, locked on {masters}"
    ));
    let ledger = Arc::new(Ledger::new(INVOICES));
    let mut tasks = JoinSet::new();
    for number in 1..=WORKERS {
        // Each has connections of its own, as if it were another process.
        let redlock = masters.connect().await?;
        let worker = Worker::new(number, redlock, Arc::clone(&ledger), journal);
        tasks.spawn(worker.bill_all(INVOICES));
    }
    if kill {
        tasks.spawn(kill_two(masters, Arc::clone(&ledger), journal));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    ledger.audit()?;
    journal.say(format!(
        "all {INVOICES} invoices are billed, each exactly once"
    ));
    Ok(())
}

/// Kills two masters when a third of the invoices is billed.
async fn kill_two(masters: Masters, ledger: Arc<Ledger>, journal: Journal) -> Done {
    while ledger.billed() < INVOICES / 3 {
        sleep(Duration::from_millis(10)).await;
    }
    journal.say(masters.kill_two()?);
    Ok(())
}

fn fail(status: u8, why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(status)
}
