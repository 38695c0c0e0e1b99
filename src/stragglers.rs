//! What was sent and goes on, though nobody waits for it any more.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::sleep;

use crate::background::Background;

/// So much later they are looked at.
const LATER: Duration = Duration::from_millis(1);

type Straggler = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Those that were not looked at yet. While there are any, there is a driver.
#[derive(Default)]
pub(crate) struct Stragglers(Mutex<Lot>);

#[derive(Default)]
struct Lot {
    waiting: Vec<Straggler>,
    is_driven: bool,
}

impl Stragglers {
    /// One more; says whether a driver has to be started.
    pub(crate) fn add(&self, straggler: Straggler) -> bool {
        let mut lot = self.lot();
        lot.waiting.push(straggler);
        !std::mem::replace(&mut lot.is_driven, true)
    }

    /// All of them. Where there are none, the driver ends.
    fn take(&self) -> Vec<Straggler> {
        let mut lot = self.lot();
        lot.is_driven = !lot.waiting.is_empty();
        std::mem::take(&mut lot.waiting)
    }

    /// The driver is gone before its time.
    fn abandon(&self) -> Vec<Straggler> {
        let mut lot = self.lot();
        lot.is_driven = false;
        std::mem::take(&mut lot.waiting)
    }

    fn lot(&self) -> MutexGuard<'_, Lot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Stragglers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().finish_non_exhaustive()
    }
}

/// The one task that looks at them, for as long as there are any.
pub(crate) struct Driver {
    background: Background,
    /// Has it ended, so that there may be another one?
    has_ended: bool,
}

impl Driver {
    pub(crate) fn new(background: &Background) -> Self {
        Self {
            background: background.clone(),
            has_ended: false,
        }
    }

    pub(crate) async fn run(mut self) {
        loop {
            sleep(LATER).await;
            let stragglers = self.background.stragglers().take();
            self.has_ended = stragglers.is_empty();
            if self.has_ended {
                return;
            }
            // A master that hangs does not keep the others of the next time waiting.
            let mut all = Box::pin(futures::future::join_all(stragglers));
            if futures::poll!(all.as_mut()).is_pending() {
                self.background.spawn(async move {
                    all.await;
                });
            }
        }
    }
}

impl Drop for Driver {
    /// With its runtime, it may be, and them with it: they own what they stand in.
    fn drop(&mut self) {
        if !self.has_ended {
            let left = self.background.stragglers().abandon();
            // With the lock free: what is dropped may leave something here in turn.
            drop(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};

    use tokio::{runtime::Builder, sync::Notify, time::Instant};

    use super::*;

    /// One that ends when it is told to, or when it is dropped; and what is gone by then.
    fn straggler(told: &Arc<Notify>) -> (impl Future<Output = ()> + Send + 'static, Weak<()>) {
        let (held, told) = (Arc::new(()), Arc::clone(told));
        let there = Arc::downgrade(&held);
        let straggler = async move {
            told.notified().await;
            drop(held);
        };
        (straggler, there)
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_driven_to_its_end_though_another_hangs() {
        let background = Background::new();
        let (first, second) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (hangs, is_hanging) = straggler(&first);
        let (ends, is_there) = straggler(&second);
        background.follow(hangs);
        background.follow(ends);
        sleep(10 * LATER).await;
        second.notify_one();
        sleep(LATER).await;
        assert!(is_there.upgrade().is_none());
        let (later, later_is_there) = straggler(&second);
        background.follow(later);
        second.notify_one();
        sleep(3 * LATER).await;
        assert!(later_is_there.upgrade().is_none());
        assert!(is_hanging.upgrade().is_some());
        first.notify_one();
        background.idle().await;
        assert!(is_hanging.upgrade().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn one_task_looks_at_all_and_ends_when_there_are_none() {
        let background = Background::new();
        let told = Arc::new(Notify::new());
        for _ in 0..100 {
            background.follow(straggler(&told).0);
        }
        assert_eq!(background.running(), 1);
        told.notify_waiters();
        let begun = Instant::now();
        background.idle().await;
        assert!(begun.elapsed() < 5 * LATER, "{:?}", begun.elapsed());
        // What has ended already needs none.
        background.follow(std::future::ready(()));
        assert_eq!(background.running(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_woken_for_what_he_left_behind() {
        let background = Background::new();
        let told = Arc::new(Notify::new());
        let mut polls = 0;
        let mut left = Some(Box::pin(straggler(&told).0));
        let mut timer = Box::pin(sleep(5 * LATER));
        std::future::poll_fn(|cx| {
            polls += 1;
            if let Some(mut future) = left.take() {
                assert!(future.as_mut().poll(cx).is_pending());
                background.follow(future);
                told.notify_one();
            }
            timer.as_mut().poll(cx)
        })
        .await;
        assert_eq!(polls, 2, "for the timer");
    }

    #[test]
    fn they_are_gone_with_their_runtime() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let told = Arc::new(Notify::new());
        let (before, after) = runtime.block_on(async {
            let background = Background::new();
            let (waits, before) = straggler(&told);
            background.follow(waits);
            (before, background)
        });
        drop(runtime);
        assert!(before.upgrade().is_none());
        let (waits, is_there) = straggler(&told);
        after.follow(waits);
        assert!(is_there.upgrade().is_none());
    }
}
