//! An acquisition to be dropped at a moment that the test chooses.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fredlock::{AcquireError, Lock, Redlock};
use tokio::task::JoinHandle;

use crate::acquirers::TTL;

/// An acquisition in a task of its own, which counts how often it is polled: a reply that it has
/// looked at is told from one that is still on its way through the client.
#[derive(Debug)]
pub(crate) struct Watched {
    task: JoinHandle<Result<Lock, AcquireError>>,
    polls: Arc<AtomicUsize>,
}

impl Watched {
    /// Starts to acquire `job`.
    pub(crate) fn start(redlock: &Redlock, tries_once: bool) -> Self {
        let (redlock, polls) = (redlock.clone(), Arc::<AtomicUsize>::default());
        let count = Arc::clone(&polls);
        let task = tokio::spawn(async move {
            let mut acquire = pin!(async {
                if tries_once {
                    redlock.try_acquire(["job"], TTL).await
                } else {
                    redlock.acquire(["job"], TTL).await
                }
            });
            poll_fn(|cx| {
                let polled = acquire.as_mut().poll(cx);
                count.fetch_add(1, Ordering::SeqCst);
                polled
            })
            .await
        });
        Self { task, polls }
    }

    /// How often it was polled so far.
    pub(crate) fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }

    /// Lets it come to its own end.
    pub(crate) async fn end(self) -> Result<Lock, AcquireError> {
        self.task.await.expect("no panic")
    }

    /// Drops it where it stands.
    pub(crate) async fn drop_now(self) {
        assert!(!self.task.is_finished(), "it was to be dropped under way");
        self.task.abort();
        let error = self.task.await.expect_err("dropped under way");
        assert!(error.is_cancelled(), "{error}");
    }
}
