//! Running a routine under a lock.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    core::Core,
    error::UsingError,
    keeper::Keeper,
    lock::Lock,
    settings::{AbortMode, Settings},
    signal::{Lease, LostReason, Signal},
};

/// A lock that a keeper extends, and releases once this is gone.
pub(crate) struct Kept {
    lease: Arc<Lease>,
    stop: DropGuard,
    started: oneshot::Receiver<()>,
    released: oneshot::Receiver<()>,
}

/// Gives the lock to a keeper, which is a task of its own from then on.
///
/// (No part of the future below: that would have room for the lock, for as long as the routine runs.)
pub(crate) fn keep(core: &Core, settings: &Settings, lock: Lock, ttl: Duration) -> Kept {
    let lease = Arc::new(Lease::new(
        lock.fence(),
        lock.valid_until(),
        lock.outcomes().clone(),
    ));
    let stop = CancellationToken::new();
    let keeper = Keeper::new(
        lock,
        Arc::clone(&lease),
        stop.clone(),
        core.shutdown.clone(),
        settings,
        ttl,
    );
    let (started_tx, started) = oneshot::channel();
    let (released_tx, released) = oneshot::channel();
    let keeper = Box::new(keeper);
    core.background.spawn(keeper.run(started_tx, released_tx));
    Kept {
        lease,
        stop: stop.drop_guard(),
        started,
        released,
    }
}

/// Runs the routine, and waits for the release.
///
/// # Cancel safety
/// Dropping the future, or a panic of the routine, drops `stop`; the keeper then releases.
pub(crate) async fn run<F, Fut>(
    kept: Kept,
    abort_mode: AbortMode,
    routine: F,
) -> Result<Fut::Output, UsingError<Fut::Output>>
where
    F: FnOnce(Signal) -> Fut,
    Fut: Future,
{
    let Kept {
        lease,
        stop,
        started,
        released,
    } = kept;
    // A task that was only just spawned may wait in a place of this thread from which no other
    // takes it; the routine may block this thread. So it has to have started. (The
    // keeper drops its end of either channel; nothing is ever sent.)
    drop(started.await);

    let signal = Signal::new(Arc::clone(&lease));
    let output = match abort_mode {
        // The ttl is too short, the start was too long in coming, or it is time to shut down.
        _ if signal.is_aborted() => None,
        AbortMode::Cooperative => Some(routine(signal).await),
        AbortMode::DropRoutine => {
            let aborted = signal.clone();
            let routine = pin!(routine(signal));
            tokio::select! {
                biased;
                output = routine => Some(output),
                _ = aborted.aborted() => None,
            }
        }
    };
    // Compares the clock: was it ours to the very end?
    let reason = lease.lose(LostReason::Ended);
    drop(stop);
    drop(released.await);
    match (output, reason) {
        (Some(output), LostReason::Ended) => Ok(output),
        (output, reason) => Err(UsingError::Lost { output, reason }),
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
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
        let (stop, shutdown) = (CancellationToken::new(), CancellationToken::new());
        let settings = Settings::default();
        let keeper = Keeper::new(lock, Arc::new(lease), stop, shutdown, &settings, ttl);
        let keeper = Box::new(keeper).run(oneshot::channel().0, oneshot::channel().0);
        let sizes = (size_of_val(&using), size_of_val(&keeper));
        println!("using and keeper: {sizes:?} bytes");
        assert!(sizes.0 <= 900 && sizes.1 <= 900, "{sizes:?}");
    }
}
