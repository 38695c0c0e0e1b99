//! Read, decide, write, under `SELECT … FOR UPDATE`.

use tokio::{task::JoinSet, time::timeout};

use super::{SOON, cents, database, row_lock::take, waiting};

#[tokio::test]
async fn of_many_who_take_no_more_succeed_than_there_is() {
    let postgres = database().await;
    let observer = postgres.connect().await;
    let add = "INSERT INTO invoices (id, cents) VALUES (1, 100)";
    observer.client.execute(add, &[]).await.unwrap();
    let mut workers = JoinSet::new();
    for _ in 0..20 {
        let mut worker = postgres.connect().await;
        workers.spawn(async move { take(&mut worker.client, 1, 30).await.unwrap() });
    }
    let taken = workers
        .join_all()
        .await
        .into_iter()
        .filter(|it| *it)
        .count();
    assert_eq!(taken, 3);
    assert_eq!(cents(&observer, 1).await, Some(10));
}

#[tokio::test]
async fn the_row_of_a_worker_that_dies_is_as_it_was_and_free() {
    let postgres = database().await;
    let (observer, worker) = (postgres.connect().await, postgres.connect().await);
    let add = "INSERT INTO invoices (id, cents) VALUES (1, 100)";
    observer.client.execute(add, &[]).await.unwrap();
    let begin = "BEGIN; SELECT cents FROM invoices WHERE id = 1 FOR UPDATE;
        UPDATE invoices SET cents = 0 WHERE id = 1";
    worker.client.batch_execute(begin).await.unwrap();
    let mut next = postgres.connect().await;
    let next = tokio::spawn(async move { take(&mut next.client, 1, 30).await });
    waiting(&observer, 1).await;
    worker.die().await;
    assert!(timeout(SOON, next).await.expect("free").unwrap().unwrap());
    assert_eq!(cents(&observer, 1).await, Some(70));
}
