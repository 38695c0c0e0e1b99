//! Read, decide, write, with the row to oneself in between.

use tokio_postgres::{Client, Error};

/// Takes from an invoice, unless there is not as much left: `false`.
pub async fn take(db: &mut Client, invoice: i64, cents: i64) -> Result<bool, Error> {
    let tx = db.transaction().await?;
    // Whoever else reads it FOR UPDATE, or writes it, waits for the end of this transaction.
    let row = tx
        .query_one(include_str!("sql/row_read.sql"), &[&invoice])
        .await?;
    let before: i64 = row.get("cents");
    if before < cents {
        return Ok(false);
    }
    let left = before - cents;
    tx.execute(include_str!("sql/row_write.sql"), &[&invoice, &left])
        .await?;
    tx.commit().await?;
    Ok(true)
}
