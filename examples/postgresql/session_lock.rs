//! One at a time, for as long as a connection lasts.

use tokio_postgres::{Client, Error};

/// Takes the lock, unless somebody has it: `false`. The connection has it from then on, through any
/// number of transactions.
pub async fn try_lock(db: &Client, name: &str) -> Result<bool, Error> {
    let sql = include_str!("sql/session_lock.sql");
    db.query_one(sql, &[&name]).await?.try_get(0)
}

/// Gives it back; `false` if this connection did not have it.
pub async fn unlock(db: &Client, name: &str) -> Result<bool, Error> {
    let sql = include_str!("sql/session_unlock.sql");
    db.query_one(sql, &[&name]).await?.try_get(0)
}
