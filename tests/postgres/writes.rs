//! Fenced writes: an older fence changes nothing, in whatever order and however many at once.

use fredlock::Fence;
use tokio::task::JoinSet;

use super::{cents, database, fenced, waiting};

fn fence(number: u64) -> Fence {
    number.try_into().unwrap()
}

#[tokio::test]
async fn an_older_fence_updates_nothing() {
    let postgres = database().await;
    let worker = postgres.connect().await;
    let db = &worker.client;
    assert!(
        !fenced::update(db, 1, 10, fence(5)).await.unwrap(),
        "no such invoice"
    );
    db.execute("INSERT INTO invoices (id) VALUES (1)", &[])
        .await
        .unwrap();
    assert!(fenced::update(db, 1, 10, fence(5)).await.unwrap());
    assert!(fenced::update(db, 1, 20, fence(7)).await.unwrap());
    assert!(!fenced::update(db, 1, 30, fence(6)).await.unwrap());
    assert_eq!(cents(&worker, 1).await, Some(20));
    assert!(
        fenced::update(db, 1, 40, fence(7)).await.unwrap(),
        "the same holder"
    );
    assert_eq!(cents(&worker, 1).await, Some(40));
}

#[tokio::test]
async fn an_older_fence_inserts_nothing_over_a_newer_one() {
    let postgres = database().await;
    let worker = postgres.connect().await;
    let db = &worker.client;
    let largest = fence((1 << 53) - 2);
    assert!(fenced::upsert(db, 1, 10, fence(5)).await.unwrap());
    assert!(fenced::upsert(db, 1, 20, largest).await.unwrap());
    assert!(
        !fenced::upsert(db, 1, 30, fence((1 << 53) - 3))
            .await
            .unwrap()
    );
    assert_eq!(cents(&worker, 1).await, Some(20));
    assert!(
        fenced::upsert(db, 1, 40, largest).await.unwrap(),
        "the same holder"
    );
    assert_eq!(cents(&worker, 1).await, Some(40));
}

#[tokio::test]
async fn after_a_fenced_read_no_earlier_holder_writes() {
    let postgres = database().await;
    let worker = postgres.connect().await;
    let db = &worker.client;
    assert!(fenced::upsert(db, 1, 10, fence(5)).await.unwrap());
    assert_eq!(fenced::read(db, 1, fence(6)).await.unwrap(), Some(10));
    assert!(!fenced::update(db, 1, 20, fence(5)).await.unwrap());
    assert!(!fenced::upsert(db, 1, 20, fence(5)).await.unwrap());
    assert_eq!(fenced::read(db, 1, fence(5)).await.unwrap(), None);
    assert_eq!(cents(&worker, 1).await, Some(10));
}

/// The earlier holder's transaction is under way when the later one comes: it waits, and is last.
#[tokio::test]
async fn a_later_holder_waits_for_the_transaction_of_an_admitted_earlier_one() {
    let postgres = database().await;
    let (mut earlier, mut later) = (postgres.connect().await, postgres.connect().await);
    let observer = postgres.connect().await;
    let tx = earlier.client.transaction().await.unwrap();
    assert!(fenced::admit(&tx, "invoice:1", fence(5)).await.unwrap());
    let write = "INSERT INTO invoices (id, cents) VALUES (1, 10)";
    tx.execute(write, &[]).await.unwrap();
    let waiter = tokio::spawn(async move {
        let tx = later.client.transaction().await.unwrap();
        assert!(fenced::admit(&tx, "invoice:1", fence(6)).await.unwrap());
        let write = "UPDATE invoices SET cents = cents * 2 WHERE id = 1";
        assert_eq!(tx.execute(write, &[]).await.unwrap(), 1);
        tx.commit().await.unwrap();
    });
    waiting(&observer, 1).await;
    tx.commit().await.unwrap();
    waiter.await.unwrap();
    assert_eq!(cents(&observer, 1).await, Some(20));
    let tx = earlier.client.transaction().await.unwrap();
    assert!(!fenced::admit(&tx, "invoice:1", fence(5)).await.unwrap());
}

/// The later holder's transaction is under way when the earlier one comes: it waits, and is refused.
#[tokio::test]
async fn an_earlier_holder_is_refused_as_soon_as_the_later_one_has_committed() {
    let postgres = database().await;
    let (mut earlier, mut later) = (postgres.connect().await, postgres.connect().await);
    let observer = postgres.connect().await;
    // A row to wait for in either form.
    assert!(
        fenced::upsert(&observer.client, 1, 0, fence(1))
            .await
            .unwrap()
    );
    let tx = later.client.transaction().await.unwrap();
    assert!(fenced::admit(&tx, "invoice:1", fence(6)).await.unwrap());
    tx.execute(
        "UPDATE invoices SET cents = 20, fence = 6 WHERE id = 1",
        &[],
    )
    .await
    .unwrap();
    let waiter = tokio::spawn(async move {
        let late = fenced::update(&earlier.client, 1, 10, fence(5))
            .await
            .unwrap();
        let tx = earlier.client.transaction().await.unwrap();
        (
            late,
            fenced::admit(&tx, "invoice:1", fence(5)).await.unwrap(),
        )
    });
    waiting(&observer, 1).await;
    tx.commit().await.unwrap();
    assert_eq!(waiter.await.unwrap(), (false, false));
    assert_eq!(cents(&observer, 1).await, Some(20));
}

#[tokio::test]
async fn a_lock_without_a_fence_is_not_admitted() {
    let postgres = database().await;
    let mut worker = postgres.connect().await;
    let tx = worker.client.transaction().await.unwrap();
    fenced::admit(&tx, "invoice:1", Fence::NONE)
        .await
        .unwrap_err();
}

/// Eighty writers in no order, by both forms: whatever is refused, the newest is what stays, and no
/// write comes after one with a larger fence.
#[tokio::test]
async fn of_many_writers_at_once_the_newest_fence_stays() {
    const WRITERS: u64 = 80;
    let postgres = database().await;
    let observer = postgres.connect().await;
    let log = "CREATE TABLE log (at bigint GENERATED ALWAYS AS IDENTITY, fence bigint);
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO log (fence) VALUES (NEW.fence); RETURN NEW; END $$;
        CREATE TRIGGER note AFTER INSERT OR UPDATE ON invoices FOR EACH ROW EXECUTE FUNCTION note();";
    observer.client.batch_execute(log).await.unwrap();
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let writer = postgres.connect().await;
        // Neither rising nor falling.
        let fence = fence(1 + number * 37 % WRITERS);
        writers.spawn(async move {
            let (db, cents) = (&writer.client, i64::from(fence) * 100);
            let upserted = fenced::upsert(db, 1, cents, fence).await.unwrap();
            let updated = fenced::update(db, 1, cents, fence).await.unwrap();
            assert!(upserted || !updated, "refused for good");
            upserted
        });
    }
    let written = writers
        .join_all()
        .await
        .into_iter()
        .filter(|it| *it)
        .count();
    assert!(written >= 1);
    assert_eq!(
        cents(&observer, 1).await,
        Some(100 * i64::try_from(WRITERS).unwrap())
    );
    let rows = observer
        .client
        .query("SELECT fence FROM log ORDER BY at", &[]);
    let order: Vec<i64> = rows.await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(order.is_sorted(), "{order:?}");
    assert!(order.len() >= 2, "{order:?}");
}
