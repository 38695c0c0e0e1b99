//! A queue of jobs by `FOR UPDATE SKIP LOCKED`.

use tokio::{sync::oneshot, task::JoinSet, time::timeout};
use tokio_postgres::Error;

use super::{SOON, database, queue::work_on_one, server::Postgres};

async fn add_jobs(postgres: &Postgres, count: i32) {
    let sql = "INSERT INTO jobs (payload) SELECT 'job ' || n FROM generate_series(1, $1::int) n";
    postgres
        .connect()
        .await
        .client
        .execute(sql, &[&count])
        .await
        .unwrap();
}

async fn left(postgres: &Postgres) -> i64 {
    let sql = "SELECT count(*) FROM jobs WHERE done_at IS NULL";
    postgres
        .connect()
        .await
        .client
        .query_one(sql, &[])
        .await
        .unwrap()
        .get(0)
}

#[tokio::test]
async fn eight_workers_do_every_job_once() {
    let postgres = database().await;
    add_jobs(&postgres, 200).await;
    let done = "CREATE TABLE done (payload text)";
    postgres
        .connect()
        .await
        .client
        .batch_execute(done)
        .await
        .unwrap();
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let mut worker = postgres.connect().await;
        workers.spawn(async move {
            let mut count = 0;
            // What is written by the job's own transaction is written once.
            while work_on_one::<Error>(&mut worker.client, async |tx, payload| {
                tx.execute("INSERT INTO done VALUES ($1)", &[&payload])
                    .await
                    .map(drop)
            })
            .await
            .unwrap()
            {
                count += 1;
                assert!(count <= 200, "jobs that are done come again");
            }
            count
        });
    }
    let counts = workers.join_all().await;
    assert_eq!(counts.iter().sum::<i32>(), 200, "{counts:?}");
    let sql = "SELECT count(*), count(DISTINCT payload) FROM done";
    let row = postgres
        .connect()
        .await
        .client
        .query_one(sql, &[])
        .await
        .unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (200, 200));
}

#[tokio::test]
async fn a_worker_that_is_busy_holds_nobody_up() {
    let postgres = database().await;
    add_jobs(&postgres, 2).await;
    let (mut slow, mut quick) = (postgres.connect().await, postgres.connect().await);
    let (has_begun, begun) = oneshot::channel();
    let (finish, finished) = oneshot::channel::<()>();
    let slow = tokio::spawn(async move {
        work_on_one::<Error>(&mut slow.client, async |_, payload| {
            has_begun.send(payload.to_owned()).unwrap();
            finished.await.unwrap();
            Ok(())
        })
        .await
    });
    assert_eq!(begun.await.unwrap(), "job 1");
    let mut payloads = Vec::new();
    let all = async {
        while work_on_one::<Error>(&mut quick.client, async |_, payload| {
            payloads.push(payload.to_owned());
            Ok(())
        })
        .await
        .unwrap()
        {}
    };
    timeout(SOON, all).await.expect("it does not wait");
    assert_eq!(payloads, ["job 2"]);
    finish.send(()).unwrap();
    assert!(slow.await.unwrap().unwrap());
    assert_eq!(left(&postgres).await, 0);
}

#[tokio::test]
async fn the_job_of_a_worker_that_fails_or_dies_is_there_for_the_next() {
    let postgres = database().await;
    add_jobs(&postgres, 1).await;
    let mut worker = postgres.connect().await;
    let failed = work_on_one::<Error>(&mut worker.client, async |tx, _| {
        tx.execute("SELECT 1 / 0", &[]).await.map(drop)
    });
    failed.await.unwrap_err();
    assert_eq!(left(&postgres).await, 1);

    let (has_begun, begun) = oneshot::channel();
    let dying = postgres.connect().await;
    let dying = tokio::spawn(async move {
        let mut dying = dying;
        let work = work_on_one::<Error>(&mut dying.client, async |_, _| {
            has_begun.send(()).unwrap();
            std::future::pending().await
        });
        work.await.map(drop)
    });
    begun.await.unwrap();
    let look = work_on_one::<Error>(&mut worker.client, async |_, _| Ok(()));
    let found = timeout(SOON, look).await.expect("it does not wait");
    assert!(!found.unwrap());
    // Its connection is dropped with it.
    dying.abort();
    let redone = async {
        while !work_on_one::<Error>(&mut worker.client, async |_, _| Ok(()))
            .await
            .unwrap()
        {}
    };
    timeout(SOON, redone).await.expect("it is free again");
    assert_eq!(left(&postgres).await, 0);
}
