//! When PostgreSQL does the job better: each of its ways, and the fenced writes for when it does not.
//!
//! ```sh
//! export DATABASE_URL=postgresql://user:password@localhost/database
//! cargo run --example postgresql          # makes its tables in a schema of its own, and drops it again
//! ```
//!
//! `docs/postgresql.md` says which to take when, `docs/fencing.md` what a fence is for.

#![allow(unreachable_pub, reason = "a program has no public surface")]

mod demo;
mod fenced;
mod queue;
mod row_lock;
mod session_lock;
mod transaction_lock;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let Ok(url) = std::env::var("DATABASE_URL") else {
        eprintln!("set DATABASE_URL, such as postgresql://user:password@localhost/database");
        return ExitCode::from(2);
    };
    match demo::run(&url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
