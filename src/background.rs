//! Tasks that outlive the call that started them: stragglers, roll-backs, keepers.

use std::{future::Future, sync::Arc};

use tokio::{
    runtime::{EnterGuard, Handle},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// How many clean-ups may go on trying at once, over all locks of one `Redlock`. One beyond that
/// is left to the ttl.
const CLEANUPS_MAX: usize = 1024;

/// Where the library's own tasks run, and how they are waited for.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    runtime: Handle,
    tasks: TaskTracker,
    /// Calls that may start a task yet.
    calls: TaskTracker,
    cleanups: Arc<Semaphore>,
    #[cfg(feature = "testing")]
    pause: crate::testing::Pause,
}

impl Background {
    /// On the runtime of the caller, whichever thread later drops a lock.
    pub(crate) fn new() -> Self {
        Self {
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            calls: TaskTracker::new(),
            cleanups: Arc::new(Semaphore::new(CLEANUPS_MAX)),
            #[cfg(feature = "testing")]
            pause: crate::testing::Pause::default(),
        }
    }

    /// A test may stop the tasks for a while.
    #[cfg(feature = "testing")]
    pub(crate) fn paused_by(self, pause: Option<crate::testing::Pause>) -> Self {
        Self {
            pause: pause.unwrap_or_default(),
            ..self
        }
    }

    /// Runs the future to its end. On a runtime that has shut down it is dropped.
    pub(crate) fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        #[cfg(feature = "testing")]
        let future = {
            let pause = self.pause.clone();
            async move { pause.run(future).await }
        };
        drop(self.tasks.spawn_on(future, &self.runtime));
    }

    /// Makes timers of this runtime until the guard is dropped.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// A call that runs on its caller's task begins. It ends with the value, by which time it has
    /// started whatever tasks have to follow it up.
    pub(crate) fn begin_call(&self) -> TaskTrackerToken {
        self.calls.token()
    }

    /// A place among the clean-ups that keep trying; `None` when there are too many.
    pub(crate) fn cleanup_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.cleanups).try_acquire_owned().ok()
    }

    /// How many tasks are running.
    pub(crate) fn running(&self) -> usize {
        self.tasks.len()
    }

    /// Waits until no call and no task is left.
    pub(crate) async fn idle(&self) {
        for tracker in [&self.calls, &self.tasks] {
            tracker.close();
            tracker.wait().await;
            tracker.reopen();
        }
    }
}
