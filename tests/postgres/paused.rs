//! A holder that is paused past its ttl, between real masters and a real database.

use std::time::Duration;

use fredlock::{Redlock, Retry, UsingError};
use tokio_postgres::NoTls;

use super::{
    cents, database, fenced,
    masters::{paused::PausedHolder, servers::Servers},
};

const TTL: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_paused_holders_write_is_refused_after_its_successors() {
    let (postgres, masters) = (database().await, Servers::start(3).await);
    let url = postgres.url();
    let paused = PausedHolder::start(masters.urls(), "invoice:1", TTL, async move |fence| {
        let (db, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let unfenced = "UPDATE invoices SET cents = 100 WHERE id = 2";
        db.execute(unfenced, &[]).await.unwrap();
        let updated = fenced::update(&db, 1, 100, fence).await.unwrap();
        let upserted = fenced::upsert(&db, 1, 100, fence).await.unwrap();
        (updated, upserted)
    })
    .await;

    let redlock = Redlock::connect(masters.urls()).await.unwrap();
    let patient = Retry::default().unlimited();
    let redlock = redlock.with(|settings| settings.retry(patient).wait_limit(TTL * 5));
    let successor = redlock.acquire(["invoice:1"], TTL * 10).await.unwrap();
    assert!(successor.fence() > paused.fence);
    let worker = postgres.connect().await;
    for invoice in [1, 2] {
        assert!(
            fenced::upsert(&worker.client, invoice, 200, successor.fence())
                .await
                .unwrap()
        );
    }

    let woken = paused.wake().await;
    let Err(UsingError::Lost { output, .. }) = woken else {
        panic!("it was paused past its ttl: {woken:?}");
    };
    assert_eq!(output, Some((false, false)), "both forms refuse it");
    assert_eq!(cents(&worker, 1).await, Some(200));
    assert_eq!(
        cents(&worker, 2).await,
        Some(100),
        "the damage without a fence"
    );
    successor.release().await.unwrap();
}
