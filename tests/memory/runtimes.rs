//! Locks on several runtimes, on runtimes that end, and on none.

use std::time::Duration;

use fredlock::{Redlock, testing::MemoryMasters};
use tokio::{
    runtime::{Builder, Runtime},
    time::{sleep, timeout},
};

const TTL: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(10);

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

fn client(runtime: &Runtime, masters: &MemoryMasters) -> Redlock {
    runtime.block_on(crate::client(masters, |settings| {
        settings.command_timeout(Duration::from_millis(300))
    }))
}

/// Waits in this thread, which has no runtime.
fn eventually(home: &Runtime, what: &str, mut condition: impl FnMut() -> bool) {
    let waited = home.block_on(async {
        let holds = async {
            while !condition() {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(SOON, holds).await
    });
    waited.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"));
}

#[test]
fn a_lock_dropped_in_a_thread_without_runtime_is_released() {
    let (home, masters) = (runtime(), MemoryMasters::new(3));
    let redlock = client(&home, &masters);
    let lock = home.block_on(redlock.acquire(["a"], TTL)).unwrap();
    std::thread::spawn(move || drop(lock)).join().unwrap();
    eventually(&home, "released", || masters.get(0, "a").is_none());
}

#[test]
fn what_a_short_lived_runtime_began_is_finished_on_the_one_of_the_masters() {
    let (home, masters) = (runtime(), MemoryMasters::new(5));
    let redlock = client(&home, &masters);
    let away = Builder::new_current_thread().enable_all().build().unwrap();
    // Two masters that hear nothing: the calls to them, and the release, outlive the runtime.
    masters.deafen(3);
    masters.deafen(4);
    away.block_on(async {
        let lock = redlock.acquire(["a"], TTL).await.unwrap();
        lock.release().await.unwrap();
    });
    drop(away);
    let heard = masters.calls(3);
    eventually(&home, "asked again to release", || masters.calls(3) > heard);
    masters.heal(3);
    masters.heal(4);
    eventually(&home, "released where it was heard", || {
        (3..5).all(|master| masters.get(master, "{a}:fence").is_some())
    });
    eventually(&home, "no task left", || redlock.background_tasks() == 0);
}

#[test]
fn a_lock_dropped_after_its_runtime_has_gone_panics_nowhere() {
    let masters = MemoryMasters::new(3);
    let home = runtime();
    let redlock = client(&home, &masters);
    let lock = home.block_on(redlock.acquire(["a"], TTL)).unwrap();
    let other = home.block_on(redlock.acquire(["b"], TTL)).unwrap();
    drop(home);
    drop(lock);
    runtime().block_on(async { drop(other) });
    drop(redlock);
}

#[test]
fn a_lock_that_a_task_holds_while_its_runtime_ends_panics_nowhere() {
    let masters = MemoryMasters::new(3);
    let home = runtime();
    let redlock = client(&home, &masters);
    for _ in 0..20 {
        let redlock = redlock.clone();
        home.spawn(async move {
            let _never = redlock
                .using(["a"], TTL, async |_| std::future::pending::<()>().await)
                .await;
        });
    }
    eventually(&home, "held", || masters.get(0, "a").is_some());
    drop(redlock);
    drop(home);
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_no_task_tries_a_release_until_the_end_of_a_long_ttl() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| settings).await;
    let lock = redlock.acquire(["a"], TTL).await.unwrap();
    masters.hang(0);
    drop(lock);
    assert!(!redlock.shutdown(Duration::from_millis(500)).await);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(redlock.background_tasks(), 0);
}

#[tokio::test]
async fn using_runs_in_a_local_set() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| settings).await;
    let local = tokio::task::LocalSet::new();
    let ran = local.run_until(async {
        let local = tokio::task::spawn_local(async move {
            let using = redlock.using(["a"], Duration::from_millis(300), async |signal| {
                sleep(Duration::from_millis(700)).await;
                signal.check().is_ok()
            });
            using.await
        });
        local.await.unwrap()
    });
    assert!(ran.await.unwrap(), "extended while it ran");
}
