//! Tasks that outlive the call that started them: stragglers, roll-backs, keepers.

use std::{
    future::Future,
    sync::Arc,
    task::{Context, Waker},
};

use tokio::{
    runtime::{EnterGuard, Handle},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use crate::stragglers::{Driver, Stragglers};

/// How many clean-ups may go on trying at once, over all locks of one `Redlock`. One beyond that
/// is left to the ttl.
const CLEANUPS_MAX: usize = 1024;

/// Where the library's own tasks run, and how they are waited for.
#[derive(Debug, Clone)]
pub(crate) struct Background(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    runtime: Handle,
    tasks: TaskTracker,
    /// Calls that may start a task yet.
    calls: TaskTracker,
    cleanups: Arc<Semaphore>,
    stragglers: Stragglers,
    #[cfg(feature = "testing")]
    pause: crate::testing::Pause,
}

impl Background {
    /// On the runtime of the caller, whichever thread later drops a lock.
    #[cfg(any(test, not(feature = "testing")))]
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner::new()))
    }

    /// The same. A test may stop the tasks for a while.
    #[cfg(feature = "testing")]
    pub(crate) fn paused_by(pause: Option<crate::testing::Pause>) -> Self {
        Self(Arc::new(Inner {
            pause: pause.unwrap_or_default(),
            ..Inner::new()
        }))
    }

    /// Runs the future to its end. On a runtime that has shut down it is dropped.
    pub(crate) fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        #[cfg(feature = "testing")]
        let future = {
            let pause = self.0.pause.clone();
            async move { pause.run(future).await }
        };
        drop(self.0.tasks.spawn_on(future, &self.0.runtime));
    }

    /// Drives the future to its end, a little later: for what was sent already, and is waited for by
    /// nobody. Mostly it has ended by then.
    ///
    /// A task for each would rouse one thread more of the runtime, twice for every lock.
    pub(crate) fn follow<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut future = Box::pin(future);
        // Whoever waited for it until now is not woken for it any more.
        let mut cx = Context::from_waker(Waker::noop());
        if future.as_mut().poll(&mut cx).is_pending() && self.0.stragglers.add(future) {
            self.spawn(Driver::new(self).run());
        }
    }

    pub(crate) fn stragglers(&self) -> &Stragglers {
        &self.0.stragglers
    }

    /// Makes timers of this runtime until the guard is dropped.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.0.runtime.enter()
    }

    /// A call that runs on its caller's task begins. It ends with the value, by which time it has
    /// started whatever tasks have to follow it up.
    pub(crate) fn begin_call(&self) -> TaskTrackerToken {
        self.0.calls.token()
    }

    /// A place among the clean-ups that keep trying; `None` when there are too many.
    pub(crate) fn cleanup_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.cleanups).try_acquire_owned().ok()
    }

    /// How many tasks are running.
    pub(crate) fn running(&self) -> usize {
        self.0.tasks.len()
    }

    /// Waits until no call and no task is left.
    pub(crate) async fn idle(&self) {
        for tracker in [&self.0.calls, &self.0.tasks] {
            tracker.close();
            tracker.wait().await;
            tracker.reopen();
        }
    }
}

impl Inner {
    fn new() -> Self {
        Self {
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            calls: TaskTracker::new(),
            cleanups: Arc::new(Semaphore::new(CLEANUPS_MAX)),
            stragglers: Stragglers::default(),
            #[cfg(feature = "testing")]
            pause: crate::testing::Pause::default(),
        }
    }
}
