//! What masters tell waiters: how many have to tell, and how often it is listened to.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fredlock::{
    Redlock, Retry, Settings,
    testing::{Fate, MemoryMasters, MessageKind},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const MASTERS: usize = 3;

/// Waits for ever; between two attempts an hour, unless something wakes it.
pub(crate) fn by_news_alone(settings: Settings) -> Settings {
    let retry = Retry::default().unlimited();
    settings.retry(retry.delay(HOUR).jitter(Duration::ZERO))
}

pub(crate) fn waiter(redlock: &Redlock) -> JoinHandle<()> {
    let redlock = redlock.clone();
    tokio::spawn(async move { redlock.acquire(["a"], HOUR).await.unwrap().forget() })
}

/// Somebody else takes it, from whoever has it, on one master.
pub(crate) fn another_takes_it(masters: &MemoryMasters, master: usize) {
    masters.delete(master, "a");
    masters.set(master, "a", "another", None);
}

pub(crate) fn another_takes_it_everywhere(masters: &MemoryMasters) {
    (0..MASTERS).for_each(|master| another_takes_it(masters, master));
}

/// What the first master was sent, and when. An acquire is one of every attempt.
#[derive(Clone, Default)]
pub(crate) struct Sent {
    noted: Arc<Mutex<Vec<(MessageKind, Instant)>>>,
    lost: Arc<Mutex<Option<MessageKind>>>,
}

impl Sent {
    /// From now on. The network does nothing else any more.
    pub(crate) fn noted_on(masters: &MemoryMasters) -> Self {
        let sent = Self::default();
        let noted = sent.clone();
        masters.set_network(move |message| {
            if message.master == 0 {
                let mut sent = noted.noted.lock().unwrap();
                sent.push((message.kind, Instant::now()));
            }
            if *noted.lost.lock().unwrap() == Some(message.kind) {
                return Fate::default().lose_request();
            }
            Fate::default()
        });
        sent
    }

    /// Requests of this kind are lost, on their way to any master.
    pub(crate) fn lose(&self, kind: MessageKind) {
        *self.lost.lock().unwrap() = Some(kind);
    }

    pub(crate) fn count(&self, kind: MessageKind) -> usize {
        let sent = self.noted.lock().unwrap();
        sent.iter().filter(|(of, _)| *of == kind).count()
    }

    /// How long after that moment it was asked what it has.
    pub(crate) fn asked_after(&self, moment: Instant) -> Duration {
        let sent = self.noted.lock().unwrap();
        let asked =
            |(kind, at): &&(MessageKind, Instant)| *kind == MessageKind::Watch && *at >= moment;
        sent.iter().find(asked).expect("it was asked").1 - moment
    }
}

/// A client that has been too late so often, because somebody else had the lock whenever it was
/// asked for though it was said to be free, that its waiters spread over 16 ms.
pub(crate) async fn crowded(masters: &MemoryMasters) -> Redlock {
    let builder = Redlock::builder().memory(masters).seed(1);
    let redlock = builder.settings(by_news_alone).connect().await.unwrap();
    let servers = masters.clone();
    masters.set_network(move |message| {
        match message.kind {
            MessageKind::Watch => drop(servers.delete(message.master, "a")),
            MessageKind::Acquire => another_takes_it(&servers, message.master),
            _ => {}
        }
        Fate::default()
    });
    let waiting = waiter(&redlock);
    sleep(SECOND / 2).await;
    waiting.abort();
    drop(waiting.await);
    another_takes_it_everywhere(masters);
    redlock
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_tells_wakes_nobody_and_a_quorum_does() {
    let masters = MemoryMasters::new(MASTERS);
    another_takes_it_everywhere(&masters);
    let sent = Sent::noted_on(&masters);
    let waiting = waiter(&crate::client(&masters, by_news_alone).await);
    sleep(SECOND).await;
    another_takes_it(&masters, 0);
    sleep(SECOND).await;
    assert_eq!(sent.count(MessageKind::Acquire), 1, "one of three has told");
    another_takes_it(&masters, 1);
    sleep(SECOND).await;
    assert_eq!(sent.count(MessageKind::Acquire), 2, "two of three have");
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_says_that_it_is_free_is_not_believed() {
    let masters = MemoryMasters::new(MASTERS);
    let redlock = crowded(&masters).await;
    let sent = Sent::noted_on(&masters);
    let waiting = waiter(&redlock);
    sleep(30 * MS).await;
    masters.delete(0, "a");
    // It is told of changes by two, asks both, and is told of another one by one of them.
    for _ in 0..5 {
        another_takes_it(&masters, 1);
        sleep(30 * MS).await;
    }
    assert_eq!(sent.count(MessageKind::Acquire), 1);
    masters.delete(1, "a");
    let acquired = timeout(SECOND, waiting).await;
    acquired.expect("two of three are free").unwrap();
}

/// Where others want it too, a notice is followed up by a question; whoever learns that it is held
/// still has to be told of the next change.
#[tokio::test(start_paused = true)]
async fn a_waiter_listens_again_after_a_notice_that_came_to_nothing() {
    let masters = MemoryMasters::new(MASTERS);
    another_takes_it_everywhere(&masters);
    let sent = Sent::noted_on(&masters);
    let waiting = waiter(&crate::client(&masters, by_news_alone).await);
    sleep(SECOND / 2).await;
    // It comes too late once, and knows from then on that it is not alone.
    another_takes_it_everywhere(&masters);
    sleep(SECOND / 2).await;
    assert_eq!(sent.count(MessageKind::Acquire), 2);
    // Its holder extends it: no reason for an attempt.
    for _ in 0..10 {
        another_takes_it_everywhere(&masters);
        // (Refusals are forgotten after a second.)
        sleep(SECOND / 20).await;
    }
    assert_eq!(sent.count(MessageKind::Acquire), 2);
    masters.lose("a");
    timeout(SECOND, waiting).await.expect("told").unwrap();
    assert_eq!(sent.count(MessageKind::Acquire), 3);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_extends_without_end_is_not_asked_after_each_time() {
    let masters = MemoryMasters::new(MASTERS);
    let redlock = crowded(&masters).await;
    let sent = Sent::noted_on(&masters);
    let waiting = waiter(&redlock);
    for _ in 0..2_000 {
        another_takes_it_everywhere(&masters);
        sleep(MS).await;
    }
    // At once 64 times, and then every 20 ms.
    let asked = sent.count(MessageKind::Watch);
    assert!((80..=300).contains(&asked), "{asked} times in two seconds");
    waiting.abort();
}
