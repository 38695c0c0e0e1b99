//! Running a routine under a lock.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::{
    core::Core,
    error::UsingError,
    keeper::Keeper,
    lock::Lock,
    progress::Step,
    settings::{AbortMode, Settings},
    signal::{Lease, LostReason, Signal},
};

/// A lock that is kept, for a routine. Dropped when that has ended, however it did: the keeper then
/// releases.
pub(crate) struct Kept(Arc<Lease>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.progress().reach(Step::RoutineEnded);
    }
}

/// Starts a task that extends the lock.
///
/// # Cancel safety
/// What was begun ends, with a release.
pub(crate) async fn keep(
    core: &Arc<Core>,
    settings: &Settings,
    call: TaskTrackerToken,
    lock: Lock,
    ttl: Duration,
) -> Kept {
    let lease = Arc::new(Lease::new(
        lock.fence(),
        lock.valid_until(),
        lock.outcomes().clone(),
    ));
    let keeper = Keeper::new(
        lock,
        Arc::clone(&lease),
        core.shutdown.clone(),
        settings,
        ttl,
    );
    // First, so that a call that is dropped at the await below has ended the routine.
    let kept = Kept(lease);
    core.background.spawn(Box::new(keeper).run());
    drop(call);
    // A task that was only just spawned may wait in a place of this thread from which no other
    // takes it; the routine may block this thread. So it has to have started.
    kept.0.progress().wait(Step::Started).await;
    kept
}

/// Runs the routine under the lock that is kept, and waits for the release.
///
/// # Cancel safety
/// Dropping the future, or a panic of the routine, drops `kept`; the keeper then releases.
#[expect(clippy::manual_async_fn, reason = "that has each argument twice")]
pub(crate) fn run<F, Fut>(
    kept: Kept,
    abort_mode: AbortMode,
    routine: F,
) -> impl Future<Output = Result<Fut::Output, UsingError<Fut::Output>>>
where
    F: FnOnce(Signal) -> Fut,
    Fut: Future,
{
    async move {
        // The ttl may be too short, the start too long in coming, or it is time to shut down.
        let output = if kept.0.look().is_err() {
            None
        } else {
            // Boxed, as few want it.
            let mut aborted = (abort_mode == AbortMode::DropRoutine).then(|| {
                let signal = Signal::new(Arc::clone(&kept.0));
                Box::pin(async move { signal.aborted().await })
            });
            let mut routine = pin!(routine(Signal::new(Arc::clone(&kept.0))));
            poll_fn(|cx| {
                if let Poll::Ready(output) = routine.as_mut().poll(cx) {
                    return Poll::Ready(Some(output));
                }
                match &mut aborted {
                    Some(aborted) => aborted.as_mut().poll(cx).map(|_| None),
                    None => Poll::Pending,
                }
            })
            .await
        };
        // Compares the clock: was it ours to the very end?
        let reason = kept.0.lose(LostReason::Ended);
        let progress = kept.0.progress();
        progress.reach(Step::RoutineEnded);
        progress.wait(Step::Released).await;
        match (output, reason) {
            (Some(output), LostReason::Ended) => Ok(output),
            (output, reason) => Err(UsingError::Lost { output, reason }),
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Redlock, testing::MemoryMasters};

    /// What there is ten thousand times, as the compiler has laid it out. (What else is on the heap
    /// for each is what `benches/held.rs` measures.)
    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_routine_takes_little_memory() {
        let masters = MemoryMasters::new(5);
        let redlock = Redlock::builder().memory(&masters).connect().await.unwrap();
        let ttl = Duration::from_secs(10);
        let using = redlock.using(["a"], ttl, async |signal| drop(signal.aborted().await));
        let lock = redlock.acquire(["b"], ttl).await.unwrap();
        let lease = Lease::new(lock.fence(), lock.valid_until(), lock.outcomes().clone());
        let shutdown = CancellationToken::new();
        let settings = Settings::default();
        let keeper = Keeper::new(lock, Arc::new(lease), shutdown, &settings, ttl);
        let keeper = Box::new(keeper).run();
        let sizes = (size_of_val(&using), size_of_val(&keeper));
        println!("using and keeper: {sizes:?} bytes");
        assert!(sizes.0 <= 380 && sizes.1 <= 400, "{sizes:?}");
    }

    /// As one is whose runtime ends before it could begin.
    #[tokio::test(start_paused = true)]
    async fn a_keeper_that_never_ran_leaves_nobody_waiting_and_the_lock_free() {
        let masters = MemoryMasters::new(5);
        let redlock = Redlock::builder().memory(&masters).connect().await.unwrap();
        let ttl = Duration::from_secs(10);
        let lock = redlock.acquire(["a"], ttl).await.unwrap();
        let lease = Lease::new(lock.fence(), lock.valid_until(), lock.outcomes().clone());
        let (lease, settings) = (Arc::new(lease), Settings::default());
        let shutdown = CancellationToken::new();
        let keeper = Keeper::new(lock, Arc::clone(&lease), shutdown, &settings, ttl);
        drop(Box::new(keeper).run());
        assert!(matches!(lease.look(), Err(LostReason::ShutDown)));
        for step in [Step::Started, Step::Released] {
            let reached = tokio::time::timeout(ttl, lease.progress().wait(step)).await;
            assert!(reached.is_ok(), "{step:?}");
        }
        redlock
            .acquire(["a"], ttl)
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}
