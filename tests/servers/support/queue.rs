//! The bytes that are under way in one direction of a link, each with the time at which it arrives.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::tcp::WriteHalf;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Chunks of bytes in their order. The end of the stream travels with them, as an empty chunk.
///
/// Bytes leave the queue in the same step as they enter the socket: whatever drops the task that
/// sends them, none is lost or sent twice.
#[derive(Debug, Default)]
pub(super) struct Queue {
    chunks: Mutex<VecDeque<Chunk>>,
    pushed: Notify,
}

/// Bytes that were read together.
#[derive(Debug)]
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

impl Queue {
    /// Adds bytes that arrive after `delay`; none of them is the end.
    pub(super) fn push(&self, bytes: &[u8], delay: Duration) {
        self.chunks().push_back(Chunk {
            due: Instant::now() + delay,
            bytes: bytes.to_vec(),
        });
        self.pushed.notify_one();
    }

    /// How many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.chunks().iter().map(|chunk| chunk.bytes.len()).sum()
    }

    /// Waits until the front is due; `false` if it is the end.
    pub(super) async fn due(&self) -> bool {
        loop {
            let front = self
                .chunks()
                .front()
                .map(|chunk| (chunk.due, !chunk.bytes.is_empty()));
            if let Some((due, more)) = front {
                sleep_until(due).await;
                return more;
            }
            self.pushed.notified().await;
        }
    }

    /// Removes the front without sending it and says how many bytes it was.
    pub(super) fn drop_front(&self) -> usize {
        self.chunks()
            .pop_front()
            .map_or(0, |chunk| chunk.bytes.len())
    }

    /// Sends the front. When the receiver is gone the bytes are too.
    pub(super) async fn send_front(&self, to: &WriteHalf<'_>) {
        while !self.try_send_front(to) {
            // An error shows again at the next attempt, which deals with it.
            to.writable().await.ok();
        }
    }

    /// Removes all bytes.
    pub(super) fn take_all(&self) -> Vec<u8> {
        self.chunks()
            .drain(..)
            .flat_map(|chunk| chunk.bytes)
            .collect()
    }

    /// Sends what the socket takes of the front; whether nothing of it is left.
    fn try_send_front(&self, to: &WriteHalf<'_>) -> bool {
        let mut chunks = self.chunks();
        let Some(front) = chunks.front_mut() else {
            return true;
        };
        match to.try_write(&front.bytes) {
            Ok(count) => drop(front.bytes.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => front.bytes.clear(),
        }
        let all = front.bytes.is_empty();
        if all {
            chunks.pop_front();
        }
        all
    }

    fn chunks(&self) -> MutexGuard<'_, VecDeque<Chunk>> {
        self.chunks.lock().expect("queue's chunks")
    }
}
