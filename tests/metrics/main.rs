//! What is counted and timed (feature `metrics`), on in-memory masters and paused time: all of it, and
//! nothing twice.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod acquisitions;
mod documented;
mod extensions;
mod holds;
mod masters;
mod recorder;
mod routines;

use std::time::Duration;

use fredlock::{Builder, Redlock, Settings, testing::MemoryMasters};
use recorder::Book;
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(10);

/// A client of these masters that makes one attempt, and what it has counted.
async fn client(masters: &MemoryMasters) -> (Redlock, Book) {
    client_with(masters, |builder| builder).await
}

async fn client_with(
    masters: &MemoryMasters,
    change: impl FnOnce(Builder) -> Builder,
) -> (Redlock, Book) {
    let book = Book::default();
    let builder = Redlock::builder().memory(masters).settings(once);
    let recorder = book.clone();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let redlock = change(builder).connect().await.unwrap();
    (redlock, book)
}

/// Another process on the same masters, of which nothing is counted.
async fn stranger(masters: &MemoryMasters) -> Redlock {
    Redlock::builder().memory(masters).connect().await.unwrap()
}

fn once(settings: Settings) -> Settings {
    settings
        .retry(fredlock::Retry::none())
        .extension_threshold(Duration::from_millis(500))
}

/// Waits until nothing of the client is under way any more.
async fn settled(redlock: &Redlock) {
    while redlock.background_tasks() > 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Timers are late by up to a millisecond or two.
#[track_caller]
fn assert_times(times: &[f64], expected: &[f64]) {
    let are_near = times
        .iter()
        .zip(expected)
        .all(|(time, expected)| (0.0..3.0).contains(&(time - expected)));
    assert!(
        times.len() == expected.len() && are_near,
        "{times:?} ms and not {expected:?} ms"
    );
}
