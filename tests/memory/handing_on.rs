//! From one task to the next of the same process, without the way by the masters' notices.

use std::time::Duration;

use fredlock::{
    Redlock,
    testing::{Fate, MemoryMasters, MessageKind},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

const TTL: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);
const WAY_AND_BACK: Duration = Duration::from_millis(20);

/// A task that waits for "a", and tells when it got it.
async fn waiter(redlock: &Redlock) -> JoinHandle<Instant> {
    let redlock = redlock.clone();
    let waiter = tokio::spawn(async move {
        let lock = redlock.acquire(["a"], TTL).await.unwrap();
        let at = Instant::now();
        lock.release().await.unwrap();
        at
    });
    // It was refused, and listens.
    sleep(5 * WAY_AND_BACK).await;
    waiter
}

fn distant() -> MemoryMasters {
    let masters = MemoryMasters::new(5);
    (0..5).for_each(|master| masters.set_latency(master, WAY_AND_BACK));
    masters
}

#[tokio::test(start_paused = true)]
async fn the_next_task_asks_right_behind_the_release_and_does_not_wait_for_its_answer() {
    let masters = distant();
    let redlock = crate::client(&masters, |settings| settings).await;
    let lock = redlock.acquire(["a"], TTL).await.unwrap();
    let next = waiter(&redlock).await;
    let released = Instant::now();
    lock.release().await.unwrap();
    // One way and back, not two.
    let took = next.await.unwrap() - released;
    assert!(took < WAY_AND_BACK + 3 * MS, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_next_task_is_told_even_where_it_hears_nothing_from_the_masters() {
    let masters = distant();
    masters.set_network(|message| match message.kind {
        MessageKind::Watch => Fate::default().lose_request(),
        _ => Fate::default(),
    });
    let redlock = crate::client(&masters, |settings| settings).await;
    let using = redlock.using(["a"], TTL, async |_| waiter(&redlock).await);
    let next = using.await.unwrap();
    let released = Instant::now();
    let took = next.await.unwrap() - released;
    assert!(took < 2 * WAY_AND_BACK, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_for_something_else_is_not_woken() {
    let masters = MemoryMasters::new(5);
    let redlock = crate::client(&masters, |settings| settings).await;
    let (a, b) = (
        redlock.acquire(["a"], TTL).await.unwrap(),
        redlock.acquire(["b"], TTL).await.unwrap(),
    );
    let next = waiter(&redlock).await;
    let before = masters.calls(0);
    b.release().await.unwrap();
    sleep(MS).await;
    assert_eq!(masters.calls(0) - before, 1, "the release alone");
    a.release().await.unwrap();
    next.await.unwrap();
}
