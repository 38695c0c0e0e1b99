//! Tests against a real PostgreSQL, which each test starts for itself: the fenced writes, and what the
//! guide says of PostgreSQL's own locks. The code under test is that of `examples/postgresql`.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(
    unreachable_pub,
    reason = "`pub` marks what an example or a harness offers"
)]

#[path = "../../examples/postgresql/demo.rs"]
mod demo;
#[path = "../../examples/postgresql/fenced.rs"]
mod fenced;
#[path = "../../examples/postgresql/queue.rs"]
mod queue;
#[path = "../../examples/postgresql/row_lock.rs"]
mod row_lock;
#[path = "../../examples/postgresql/session_lock.rs"]
mod session_lock;
#[path = "../../examples/postgresql/transaction_lock.rs"]
mod transaction_lock;

mod advisory;
mod guide;
mod jobs;
mod masters;
mod paused;
mod rows;
mod server;
mod server_tests;
mod writes;

use std::time::Duration;

use server::{Postgres, Worker};

/// Within this happens what must happen at once, on a machine with other work to do.
const SOON: Duration = Duration::from_secs(20);

/// A server with the tables of the example.
async fn database() -> Postgres {
    let postgres = Postgres::start().await;
    let worker = postgres.connect().await;
    let schema = include_str!("../../examples/postgresql/sql/schema.sql");
    worker.client.batch_execute(schema).await.unwrap();
    postgres
}

/// Waits until so many connections wait for a lock.
async fn waiting(observer: &Worker, count: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let all_wait = async {
        while observer
            .client
            .query_one(sql, &[])
            .await
            .unwrap()
            .get::<_, i64>(0)
            != count
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(SOON, all_wait).await;
    waited.unwrap_or_else(|_| panic!("{count} connections do not wait for a lock"));
}

/// Ends the server's process of a connection, as an operator or a crash does.
async fn terminate(observer: &Worker, pid: i32) {
    let sql = "SELECT pg_terminate_backend($1, 20000)";
    let ended: bool = observer
        .client
        .query_one(sql, &[&pid])
        .await
        .unwrap()
        .get(0);
    assert!(ended, "{pid} does not end");
}

async fn pid(worker: &Worker) -> i32 {
    let row = worker
        .client
        .query_one("SELECT pg_backend_pid()", &[])
        .await;
    row.unwrap().get(0)
}

async fn cents(observer: &Worker, invoice: i64) -> Option<i64> {
    let sql = "SELECT cents FROM invoices WHERE id = $1";
    let row = observer.client.query_opt(sql, &[&invoice]).await.unwrap();
    row.map(|row| row.get(0))
}
