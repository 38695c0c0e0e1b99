//! One at a time, for as long as a transaction takes.

use tokio_postgres::{Client, Error};

/// Adds to an invoice, which is made if there is none, while nobody else does.
pub async fn charge(db: &mut Client, invoice: i64, cents: i64) -> Result<(), Error> {
    let tx = db.transaction().await?;
    let name = format!("invoice:{invoice}");
    // Waits for whoever has it. No unlock: the transaction's end is the lock's.
    tx.execute(include_str!("sql/transaction_lock.sql"), &[&name])
        .await?;
    let read = "SELECT cents FROM invoices WHERE id = $1";
    let row = tx.query_opt(read, &[&invoice]).await?;
    let before: i64 = row.map_or(0, |row| row.get("cents"));
    let sum = before + cents;
    let write = "INSERT INTO invoices (id, cents) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET cents = $2";
    tx.execute(write, &[&invoice, &sum]).await?;
    tx.commit().await
}
