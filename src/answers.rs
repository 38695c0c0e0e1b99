//! The answers to one round, as they come from whoever drives the calls.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::Waker,
};

use futures::task::AtomicWaker;

use crate::{master::Reply, outcome::MasterError};

/// A place for the reply of each master, and a bell that is rung with each.
///
/// The bell wakes one waiter once it was rung often enough: a task that needs three answers is not
/// run for the first two.
pub(crate) struct Answers {
    replies: Box<[OnceLock<Reply>]>,
    /// How many replies are owed yet.
    owed: AtomicUsize,
    rings: AtomicUsize,
    enough: AtomicUsize,
    waiter: AtomicWaker,
    last: Mutex<Option<Last>>,
}

/// What is done with the last reply.
type Last = Box<dyn FnOnce() + Send>;

impl Answers {
    /// To so many calls.
    pub(crate) fn of(calls: usize) -> Arc<Self> {
        Arc::new(Self {
            replies: (0..calls).map(|_| OnceLock::new()).collect(),
            owed: AtomicUsize::new(0),
            rings: AtomicUsize::new(0),
            enough: AtomicUsize::new(usize::MAX),
            waiter: AtomicWaker::new(),
            last: Mutex::default(),
        })
    }

    /// The duty to give the reply to this call.
    pub(crate) fn owe(self: &Arc<Self>, index: usize) -> Owed {
        self.owed.fetch_add(1, Ordering::SeqCst);
        Owed {
            answers: Arc::clone(self),
            index,
        }
    }

    /// The reply to a call, once it is there.
    pub(crate) fn get(&self, index: usize) -> Option<&Reply> {
        self.replies[index].get()
    }

    /// Begins to count anew, for this waiter, who looks for replies only after this. Until it is
    /// [armed](Self::arm) nobody is woken.
    pub(crate) fn reset(&self, waiter: &Waker) {
        self.enough.store(usize::MAX, Ordering::SeqCst);
        self.rings.store(0, Ordering::SeqCst);
        self.waiter.register(waiter);
    }

    /// Wakes the waiter when so many replies have come since it was reset; at once, if they have.
    ///
    /// One that the waiter has found already may count too: then it is woken early.
    pub(crate) fn arm(&self, enough: usize) {
        // One of the two sees what the other wrote: here the rings, or in `ring` how many are enough.
        self.enough.store(enough, Ordering::SeqCst);
        if self.rings.load(Ordering::SeqCst) >= enough {
            self.waiter.wake();
        }
    }

    /// Does this with the last reply that is owed, wherever that comes from; at once, if none is.
    pub(crate) fn with_last(&self, last: impl FnOnce() + Send + 'static) {
        *self.last() = Some(Box::new(last));
        // As above: one of the two sees the other.
        if self.owed.load(Ordering::SeqCst) == 0 {
            self.end();
        }
    }

    fn put(&self, index: usize, reply: Reply) {
        if self.replies[index].set(reply).is_err() {
            return;
        }
        let rings = self.rings.fetch_add(1, Ordering::SeqCst) + 1;
        if rings >= self.enough.load(Ordering::SeqCst) {
            self.waiter.wake();
        }
        if self.owed.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.end();
        }
    }

    fn end(&self) {
        let last = self.last().take();
        if let Some(last) = last {
            last();
        }
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The duty to give a reply. Dropped without one, it tells that nobody is left to give it.
#[derive(Debug)]
pub(crate) struct Owed {
    answers: Arc<Answers>,
    index: usize,
}

impl Owed {
    pub(crate) fn put(self, reply: Reply) {
        self.answers.put(self.index, reply);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if self.answers.get(self.index).is_none() {
            // Gone with the runtime on which the connections live.
            let ended = MasterError::ConnectionLost("the runtime has ended".to_owned());
            self.answers.put(self.index, Err(ended));
        }
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replies = self.replies.iter().map(OnceLock::get);
        f.debug_list().entries(replies).finish()
    }
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
