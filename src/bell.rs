//! One wake-up for many answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Wake, Waker},
};

use futures::task::AtomicWaker;

/// Wakes one waiter once it was rung often enough: a task that needs three answers is not run for
/// the first two.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: AtomicUsize,
    enough: AtomicUsize,
    waiter: AtomicWaker,
}

impl Bell {
    /// Begins to count anew, for this waiter, who looks at what rings the bell only after this. Until
    /// it is [armed](Self::arm) nobody is woken.
    pub(crate) fn reset(&self, waiter: &Waker) {
        self.enough.store(usize::MAX, Ordering::SeqCst);
        self.rings.store(0, Ordering::SeqCst);
        self.waiter.register(waiter);
    }

    /// Wakes the waiter when it has been rung so often since it was reset; at once, if it has.
    ///
    /// A ring that the waiter's look has answered already counts too: then it is woken early.
    pub(crate) fn arm(&self, enough: usize) {
        // One of the two sees what the other wrote: here the rings, or in `ring` how many are enough.
        self.enough.store(enough, Ordering::SeqCst);
        if self.rings.load(Ordering::SeqCst) >= enough {
            self.waiter.wake();
        }
    }

    fn ring(&self) {
        let rings = self.rings.fetch_add(1, Ordering::SeqCst) + 1;
        if rings >= self.enough.load(Ordering::SeqCst) {
            self.waiter.wake();
        }
    }
}

/// To wake it is to ring it.
impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn bell() -> (Arc<Bell>, Arc<Woken>) {
        let (bell, woken) = (Arc::<Bell>::default(), Arc::<Woken>::default());
        bell.reset(&Waker::from(Arc::clone(&woken)));
        (bell, woken)
    }

    fn woken(woken: &Woken) -> u32 {
        woken.0.load(Ordering::SeqCst)
    }

    #[test]
    fn it_wakes_when_it_was_rung_often_enough_and_not_before() {
        let (bell, waiter) = bell();
        bell.arm(3);
        for _ in 0..2 {
            bell.ring();
        }
        assert_eq!(woken(&waiter), 0);
        bell.ring();
        assert_eq!(woken(&waiter), 1);
    }

    #[test]
    fn rings_before_it_is_armed_count() {
        let (bell, waiter) = bell();
        bell.ring();
        bell.ring();
        assert_eq!(woken(&waiter), 0, "not armed yet");
        bell.arm(2);
        assert_eq!(woken(&waiter), 1);
    }

    #[test]
    fn a_reset_begins_anew() {
        let (bell, waiter) = bell();
        bell.arm(1);
        bell.ring();
        bell.reset(&Waker::from(Arc::clone(&waiter)));
        bell.arm(1);
        assert_eq!(woken(&waiter), 1, "not rung since");
        bell.ring();
        assert_eq!(woken(&waiter), 2);
    }

    #[test]
    fn nobody_is_forgotten_whoever_is_first() {
        for round in 0..2_000 {
            let (bell, waiter) = bell();
            let ringers: Vec<_> = (0..3)
                .map(|_| {
                    let bell = Arc::clone(&bell);
                    std::thread::spawn(move || bell.ring())
                })
                .collect();
            bell.arm(3);
            for ringer in ringers {
                ringer.join().unwrap();
            }
            assert!(woken(&waiter) > 0, "round {round}");
        }
    }
}
