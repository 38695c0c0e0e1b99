//! Jobs, each of which is done by one worker.

use tokio_postgres::{Client, Error, Transaction};

/// Does the oldest job that nobody else is at; `false` if there is none.
///
/// If `work` fails, or this worker dies, the job is there for the next one.
pub async fn work_on_one<E: From<Error>>(
    db: &mut Client,
    work: impl AsyncFnOnce(&Transaction<'_>, &str) -> Result<(), E>,
) -> Result<bool, E> {
    let tx = db.transaction().await?;
    let taken = tx
        .query_opt(include_str!("sql/queue_take.sql"), &[])
        .await?;
    let Some(job) = taken else {
        return Ok(false);
    };
    work(&tx, job.get("payload")).await?;
    tx.execute(
        include_str!("sql/queue_done.sql"),
        &[&job.get::<_, i64>("id")],
    )
    .await?;
    tx.commit().await?;
    Ok(true)
}
