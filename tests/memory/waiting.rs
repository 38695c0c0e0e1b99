//! Waiting: who comes first is served first, and what wakes a waiter.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fredlock::{
    Redlock, Retry, Settings,
    testing::{Fate, Message, MessageKind},
};
use tokio::{task::JoinHandle, time::sleep};

mod ends;
mod news;
mod order;

const TTL: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3_600);
const MS: Duration = Duration::from_millis(1);

/// Waits for ever; between two attempts an hour, unless something wakes it.
fn by_news_alone(settings: Settings) -> Settings {
    let retry = Retry::default().unlimited();
    settings.retry(retry.delay(HOUR).jitter(Duration::ZERO))
}

fn unlimited(settings: Settings) -> Settings {
    settings.retry(Retry::default().unlimited())
}

/// Notices never come.
fn no_news(message: &Message) -> Fate {
    match message.kind {
        MessageKind::Watch => Fate::default().lose_request(),
        _ => Fate::default(),
    }
}

/// Tasks that all want "a", one after the other, and note who gets it.
async fn line_up(redlock: &Redlock, count: usize) -> (Arc<Mutex<Vec<usize>>>, Vec<JoinHandle<()>>) {
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..count {
        let (redlock, served) = (redlock.clone(), Arc::clone(&served));
        tasks.push(tokio::spawn(async move {
            let lock = redlock.acquire(["a"], TTL).await.unwrap();
            served.lock().unwrap().push(number);
            sleep(5 * MS).await;
            lock.release().await.unwrap();
        }));
        tokio::task::yield_now().await;
    }
    (served, tasks)
}
