//! Stopping a client as SIGSTOP would stop its process.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
};

/// Pauses a client: nothing that it does goes on until it is resumed, while time does.
///
/// Give it to [`Builder::pause`](crate::Builder::pause), and run the client's own calls through
/// [`run`](Self::run). Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub struct Pause(Arc<Switch>);

#[derive(Default)]
struct Switch {
    is_paused: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Pause {
    /// Not paused.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the client before its next step.
    pub fn pause(&self) {
        self.0.is_paused.store(true, Ordering::Release);
    }

    /// Lets it go on. It sees what time it is then.
    pub fn resume(&self) {
        self.0.is_paused.store(false, Ordering::Release);
        let waiting = std::mem::take(&mut *self.waiting());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Runs a future of the client: it is polled only while the client is not paused.
    pub async fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if self.0.is_paused.load(Ordering::Acquire) {
                self.waiting().push(cx.waker().clone());
                return Poll::Pending;
            }
            future.as_mut().poll(cx)
        })
        .await
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pause").field(&self.0.is_paused).finish()
    }
}
