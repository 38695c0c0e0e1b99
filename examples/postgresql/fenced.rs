//! Writes that a later holder's fence stops.

use fredlock::Fence;
use tokio_postgres::{Client, Error, Transaction};

/// Sets the sum of an invoice. `false`: refused, as a later holder has been here (or there is no such
/// invoice).
pub async fn update(db: &Client, id: i64, cents: i64, fence: Fence) -> Result<bool, Error> {
    let sql = include_str!("sql/fenced_update.sql");
    let changed = db.execute(sql, &[&id, &cents, &i64::from(fence)]).await?;
    Ok(changed == 1)
}

/// Sets the sum of an invoice that need not be there yet. `false`: refused.
pub async fn upsert(db: &Client, id: i64, cents: i64, fence: Fence) -> Result<bool, Error> {
    let sql = include_str!("sql/fenced_upsert.sql");
    let changed = db.execute(sql, &[&id, &cents, &i64::from(fence)]).await?;
    Ok(changed == 1)
}

/// Reads a sum on which this holder's next write depends: no earlier holder writes from here on.
/// `None`: refused (or there is no such invoice).
pub async fn read(db: &Client, id: i64, fence: Fence) -> Result<Option<i64>, Error> {
    let sql = include_str!("sql/fenced_read.sql");
    let row = db.query_opt(sql, &[&id, &i64::from(fence)]).await?;
    row.map(|row| row.try_get("cents")).transpose()
}

/// First of all in a transaction: whatever it writes after that is fenced. `false`: refused, roll back.
pub async fn admit(tx: &Transaction<'_>, resource: &str, fence: Fence) -> Result<bool, Error> {
    let sql = include_str!("sql/admit.sql");
    let changed = tx.execute(sql, &[&resource, &i64::from(fence)]).await?;
    Ok(changed == 1)
}
