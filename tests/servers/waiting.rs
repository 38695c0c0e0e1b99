//! Waiting for a lock that is held: who waits is woken by what masters tell, and else asks by the
//! retry policy. That is so patient here that seconds lie between the two.

use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use fredlock::{Fencing, Retry};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::acquirers::{
    AT_ONCE, BOTH, PATIENCE, Stopwatch, TTL, build, hold_replies, relays, settled, urls,
};
use crate::support::{eventually, servers::Servers};
use crate::waiters::{acquire, asking_every, listens, tracking_clients};

#[tokio::test]
async fn a_release_hands_the_lock_to_the_next_waiter_at_once() {
    let servers = Servers::start(5).await;
    for fencing in BOTH {
        let one = asking_every(PATIENCE, servers.urls(), |b| b.fencing(fencing())).await;
        let other = asking_every(PATIENCE, servers.urls(), |b| b.fencing(fencing())).await;
        let mut held = one.acquire(["job"], TTL).await.unwrap();
        for waiter in [&other, &one, &other] {
            let waiting = acquire(waiter);
            listens(&servers).await;
            let time = Stopwatch::start();
            let fence = held.fence();
            held.release().await.unwrap();
            held = waiting.await.unwrap();
            time.assert_at_once();
            assert!(held.fence() > fence || held.fence() == fredlock::Fence::NONE);
        }
        held.release().await.unwrap();
        settled(&one).await;
        settled(&other).await;
    }
}

#[tokio::test]
async fn a_lock_that_is_dropped_or_deleted_by_hand_goes_to_the_next_waiter_at_once() {
    let servers = Servers::start(3).await;
    let redlock = asking_every(PATIENCE, servers.urls(), |b| b).await;
    let held = redlock.acquire(["job"], TTL).await.unwrap();
    let waiting = acquire(&redlock);
    listens(&servers).await;
    let time = Stopwatch::start();
    drop(held);
    waiting.await.unwrap().forget();
    let waiting = acquire(&redlock);
    listens(&servers).await;
    for server in &servers {
        server.del("job").await;
    }
    drop(waiting.await.unwrap());
    time.assert_at_once();
}

#[tokio::test]
async fn a_minority_that_hangs_does_not_delay_a_hand_over() {
    let servers = Servers::start(5).await;
    let redlock = asking_every(PATIENCE, servers.urls(), |b| b).await;
    let held = redlock.acquire(["job"], TTL).await.unwrap();
    let waiting = acquire(&redlock);
    listens(&servers).await;
    servers.freeze(&[0, 1]);
    let time = Stopwatch::start();
    held.release().await.unwrap();
    let lock = timeout(AT_ONCE, waiting)
        .await
        .expect("told by the rest")
        .unwrap();
    time.assert_at_once();
    lock.forget();
    servers.thaw(&[0, 1]);
}

#[tokio::test]
async fn a_waiter_whose_notice_is_cut_off_gets_the_lock_when_it_asks_again() {
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    let delay = Duration::from_secs(1);
    let near = asking_every(PATIENCE, servers.urls(), |b| b).await;
    // Each command may take less than a pause, as its own connection is cut too.
    let far = asking_every(delay, urls(&relays), |b| b)
        .await
        .with(|settings| settings.command_timeout(delay / 2));
    let held = near.acquire(["job"], TTL).await.unwrap();
    let waiting = acquire(&far);
    listens(&servers).await;
    hold_replies(&relays, true);
    held.release().await.unwrap();
    let time = Stopwatch::start();
    for relay in &relays {
        relay.cut().await;
    }
    hold_replies(&relays, false);
    let lock = timeout(delay + AT_ONCE, waiting)
        .await
        .expect("by polling")
        .unwrap();
    println!("{:?} after the cut", time.elapsed());
    lock.release().await.unwrap();
}

/// Keeps what is told.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_waiter_whom_no_master_tells_asks_by_its_retry_policy() {
    let page = Page::default();
    let writer = page.clone();
    let told = tracing_subscriber::fmt().with_writer(move || writer.clone());
    // The runtime has this one thread.
    let _guard = tracing::subscriber::set_default(told.finish());
    let servers = Servers::start(3).await;
    let mut given = Vec::new();
    for server in &servers {
        let user = [
            "ACL",
            "SETUSER",
            "locker",
            "reset",
            "on",
            ">secret",
            "~*",
            "&*",
            "+@all",
            "-client|tracking",
        ];
        assert!(server.command(&user).await.is_ok());
        given.push(format!("redis://locker:secret@{}", server.addr()));
    }
    let delay = Duration::from_millis(300);
    let redlock = asking_every(delay, given, |b| b).await;
    let held = redlock.acquire(["job"], TTL).await.unwrap();
    let waiting = acquire(&redlock);
    for server in &servers {
        eventually("it was refused", AT_ONCE, async || {
            let log = server.command(&["ACL", "LOG"]).await;
            !log.items().is_empty()
        })
        .await;
    }
    // Several pauses: it does not try again at each.
    sleep(delay * 4).await;
    for server in &servers {
        let log = server.command(&["ACL", "LOG"]).await;
        assert_eq!(log.items().len(), 1, "{log:?}");
        assert!(format!("{log:?}").contains("client|tracking"), "{log:?}");
        assert_eq!(log.items()[0].items()[1].int(), Some(1), "{log:?}");
        assert_eq!(tracking_clients(server).await, 0);
    }
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    for server in &servers {
        let lines = text
            .lines()
            .filter(|line| line.contains("does not tell waiters") && line.contains(&server.addr()));
        assert_eq!(lines.count(), 1, "it is said once: {text}");
    }
    held.release().await.unwrap();
    drop(
        timeout(AT_ONCE, waiting)
            .await
            .expect("by polling")
            .unwrap(),
    );
}

#[tokio::test]
async fn a_lock_whose_holder_died_goes_to_the_next_waiter_when_it_expires() {
    let servers = Servers::start(3).await;
    let redlock = asking_every(PATIENCE, servers.urls(), |b| b).await;
    let ttl = Duration::from_secs(1);
    let time = Stopwatch::start();
    let dead = redlock.acquire(["job"], ttl).await.unwrap();
    let waiting = acquire(&redlock);
    let valid_for = dead.remaining();
    dead.forget();
    let lock = timeout(ttl + AT_ONCE, waiting)
        .await
        .expect("the time left")
        .unwrap();
    assert!(time.elapsed() > valid_for, "not before");
    lock.release().await.unwrap();
}

#[tokio::test]
async fn a_thousand_waiters_of_one_process_are_one_to_the_masters() {
    let servers = Servers::start(3).await;
    let redlock = build(servers.urls(), |b| b).await;
    // An attempt and its roll-back in each 100 ms at least, and one more of each.
    let (pause, length) = (Duration::from_millis(100), Duration::from_secs(2));
    let retry = Retry::default()
        .unlimited()
        .delay(pause)
        .jitter(Duration::ZERO);
    let redlock = redlock.with(|settings| settings.retry(retry));
    let held = redlock.acquire(["job"], TTL).await.unwrap();
    let mut before = Vec::new();
    for server in &servers {
        before.push(server.calls("evalsha").await);
    }
    let waiting: Vec<_> = (0..1_000).map(|_| acquire(&redlock)).collect();
    eventually("all wait", AT_ONCE, async || redlock.waiting() == 1_000).await;
    listens(&servers).await;
    let time = Stopwatch::start();
    sleep(length).await;
    for (server, calls) in servers.iter().zip(before) {
        let calls = server.calls("evalsha").await - calls;
        let most = 2 * (time.elapsed() + AT_ONCE).as_millis() / pause.as_millis();
        assert!(u128::from(calls) <= most && calls > 4, "{calls} of {most}");
        let listening = tracking_clients(server).await;
        assert_eq!(listening, 1, "they share what listens");
    }
    // Not in the order of the queue: each hands its place on.
    waiting.iter().for_each(JoinHandle::abort);
    drop(held);
    for task in waiting {
        drop(task.await);
    }
    assert_eq!(redlock.waiting(), 0);
}

/// The queue is for each process; across processes everybody comes to have a turn.
#[tokio::test]
async fn clients_that_contend_for_one_lock_all_have_their_turns() {
    const TURNS: usize = 20;
    let servers = Servers::start(5).await;
    let mut tasks = Vec::new();
    let inside = Arc::new(tokio::sync::Semaphore::new(1));
    for _ in 0..6 {
        let redlock =
            asking_every(PATIENCE, servers.urls(), |b| b.fencing(Fencing::default())).await;
        let inside = Arc::clone(&inside);
        tasks.push(tokio::spawn(async move {
            for _ in 0..TURNS {
                let lock = redlock.acquire(["job"], TTL).await.unwrap();
                let alone = inside.try_acquire().expect("one at a time");
                sleep(Duration::from_millis(1)).await;
                drop(alone);
                lock.release().await.unwrap();
            }
        }));
    }
    // Polling alone would take a pause for each turn.
    for task in tasks {
        timeout(PATIENCE, task).await.expect("woken").unwrap();
    }
}
