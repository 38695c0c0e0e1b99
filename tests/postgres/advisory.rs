//! Advisory locks: who has them, for how long, and what happens when a worker dies.

use tokio::{task::JoinSet, time::timeout};

use super::{
    SOON, cents, database, pid,
    session_lock::{try_lock, unlock},
    terminate,
    transaction_lock::charge,
    waiting,
};

#[tokio::test]
async fn charges_under_a_transaction_lock_lose_nothing() {
    let postgres = database().await;
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let mut worker = postgres.connect().await;
        workers.spawn(async move {
            for _ in 0..10 {
                charge(&mut worker.client, 1, 5).await.unwrap();
            }
        });
    }
    workers.join_all().await;
    assert_eq!(cents(&postgres.connect().await, 1).await, Some(8 * 10 * 5));
}

/// How a worker with an open transaction can go.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Its process dies, and the kernel closes its socket.
    SocketClosed,
    /// Its backend dies.
    BackendKilled,
}

#[tokio::test]
async fn a_transaction_lock_goes_to_the_next_when_its_worker_dies() {
    let postgres = database().await;
    let observer = postgres.connect().await;
    for (end, sum) in [(End::SocketClosed, 5), (End::BackendKilled, 10)] {
        let worker = postgres.connect().await;
        let begin = "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('invoice:1', 0));
            INSERT INTO invoices (id, cents) VALUES (2, 999)";
        worker.client.batch_execute(begin).await.unwrap();
        let mut next = postgres.connect().await;
        let next = tokio::spawn(async move { charge(&mut next.client, 1, 5).await });
        waiting(&observer, 1).await;
        match end {
            End::SocketClosed => worker.die().await,
            End::BackendKilled => terminate(&observer, pid_of_idle(&observer).await).await,
        }
        let next = timeout(SOON, next).await.expect("it has the lock");
        next.unwrap().unwrap();
        assert_eq!(cents(&observer, 1).await, Some(sum), "{end:?}");
        let half_done = cents(&observer, 2).await;
        assert_eq!(half_done, None, "{end:?}: rolled back");
    }
}

/// The backend of the connection that sits in its transaction.
async fn pid_of_idle(observer: &super::Worker) -> i32 {
    let sql = "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'";
    observer.client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_session_lock_outlives_transactions_and_is_given_back_by_its_owner_only() {
    let postgres = database().await;
    let (one, two) = (postgres.connect().await, postgres.connect().await);
    let (one, two) = (&one.client, &two.client);
    assert!(try_lock(one, "export").await.unwrap());
    assert!(!try_lock(two, "export").await.unwrap());
    assert!(try_lock(two, "import").await.unwrap(), "another name");
    one.batch_execute("BEGIN; ROLLBACK; BEGIN; COMMIT")
        .await
        .unwrap();
    assert!(!try_lock(two, "export").await.unwrap());
    assert!(!unlock(two, "export").await.unwrap());
    assert!(unlock(one, "export").await.unwrap());
    assert!(try_lock(two, "export").await.unwrap());
}

/// The trap of pools: a connection that goes back with its lock still has it, and takes it again.
#[tokio::test]
async fn a_session_lock_counts_and_has_to_be_given_back_as_often() {
    let postgres = database().await;
    let (one, two) = (postgres.connect().await, postgres.connect().await);
    assert!(try_lock(&one.client, "export").await.unwrap());
    assert!(
        try_lock(&one.client, "export").await.unwrap(),
        "no wall against oneself"
    );
    assert!(unlock(&one.client, "export").await.unwrap());
    assert!(!try_lock(&two.client, "export").await.unwrap());
    one.client.batch_execute("DISCARD ALL").await.unwrap();
    assert!(try_lock(&two.client, "export").await.unwrap());
}

#[tokio::test]
async fn a_session_lock_is_free_when_its_worker_dies_and_a_dead_connection_says_so() {
    let postgres = database().await;
    let (gone, killed, next) = (
        postgres.connect().await,
        postgres.connect().await,
        postgres.connect().await,
    );
    assert!(try_lock(&gone.client, "export").await.unwrap());
    gone.die().await;
    let freed = async { while !try_lock(&next.client, "export").await.unwrap() {} };
    timeout(SOON, freed)
        .await
        .expect("its backend sees the closed socket");
    assert!(unlock(&next.client, "export").await.unwrap());

    assert!(try_lock(&killed.client, "export").await.unwrap());
    terminate(&next, pid(&killed).await).await;
    assert!(try_lock(&next.client, "export").await.unwrap());
    // It works on all the same, unless it asks its connection.
    unlock(&killed.client, "export").await.unwrap_err();
    let closed = async {
        while !killed.client.is_closed() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, closed).await.expect("the worker can tell");
}
