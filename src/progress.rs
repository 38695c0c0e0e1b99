//! How far the two tasks of one `using` have come: its caller's, and its keeper's.

use std::{
    future::poll_fn,
    sync::atomic::{AtomicU8, Ordering},
    task::{Context, Poll},
};

use futures::task::AtomicWaker;

/// A step that one of the two waits for. Each is reached once, and stays so.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Step {
    /// The keeper runs.
    Started = 1,
    /// The routine has ended, however it did.
    RoutineEnded = 1 << 1,
    /// Exclusivity is over, by whatever reason.
    Over = 1 << 2,
    /// The keeper has released the lock, or is gone, and has left that to others.
    Released = 1 << 3,
}

/// The steps that were reached, and who waits for one.
///
/// It lives in the lease, which both hold: three channels took several times as much memory, and there
/// may be a hundred thousand of these.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    reached: AtomicU8,
    caller: AtomicWaker,
    keeper: AtomicWaker,
}

impl Progress {
    /// Reaches the step, and wakes who may be waiting for it.
    pub(crate) fn reach(&self, step: Step) {
        self.reached.fetch_or(step as u8, Ordering::AcqRel);
        self.waiter(step).wake();
    }

    /// Ready once the step was reached. Only one task may wait for the steps of either side.
    pub(crate) fn poll(&self, step: Step, cx: &Context<'_>) -> Poll<()> {
        if !self.has_reached(step) {
            self.waiter(step).register(cx.waker());
            // It may have been reached before that waker was there to be woken.
            if !self.has_reached(step) {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// Waits for the step.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(crate) async fn wait(&self, step: Step) {
        poll_fn(|cx| self.poll(step, cx)).await;
    }

    fn has_reached(&self, step: Step) -> bool {
        self.reached.load(Ordering::Acquire) & step as u8 != 0
    }

    fn waiter(&self, step: Step) -> &AtomicWaker {
        match step {
            Step::Started | Step::Released => &self.caller,
            Step::RoutineEnded | Step::Over => &self.keeper,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const ALL: [Step; 4] = [
        Step::Started,
        Step::RoutineEnded,
        Step::Over,
        Step::Released,
    ];

    #[test]
    fn each_step_is_reached_by_itself_and_stays_so() {
        let cx = Context::from_waker(Waker::noop());
        for step in ALL {
            let progress = Progress::default();
            progress.reach(step);
            for other in ALL {
                let is_same = other as u8 == step as u8;
                let polled = progress.poll(other, &cx);
                assert_eq!(polled.is_ready(), is_same, "{step:?}, {other:?}");
            }
            progress.reach(step);
            assert!(progress.poll(step, &cx).is_ready(), "{step:?}");
        }
    }

    #[tokio::test]
    async fn whoever_waits_for_a_step_is_woken_by_it() {
        for step in ALL {
            let progress = Progress::default();
            let reach = async {
                tokio::task::yield_now().await;
                progress.reach(step);
            };
            tokio::join!(progress.wait(step), reach);
        }
    }
}
