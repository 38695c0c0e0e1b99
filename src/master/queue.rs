//! The queue in front of one master: operations that wait for it travel together.
//!
//! A command costs both ends more than what it does: a system call, a wake-up, a look into the
//! queue of the connection. So where many callers want one master at once, their operations are
//! sent as one call of a script. A lone operation goes out at once, from its own task.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    task::yield_now,
    time::{Instant, timeout},
};

use super::{Asking, CALL_TIMEOUT_MIN, Call, Due, Master, Question, Reply, Request, Sight, Watch};
use crate::{
    answers::{Answers, Owed},
    background::Background,
    meter::{Asked, MasterMeter},
    outcome::MasterError,
    resources::{RESOURCES_MAX, Resources},
};

/// The most operations in one group. A master does nothing else meanwhile: 64 take it a tenth of a
/// millisecond or two.
const GROUP_MAX: usize = 64;
/// The most resources in one group, for the same reason. No operation has more.
const GROUP_RESOURCES_MAX: usize = RESOURCES_MAX;

/// How long a group is waited for before the next one is sent after it. Where the way is long, this
/// keeps the master from idling; and an answer that is slow holds nobody else up for longer.
const NEXT_AFTER: Duration = Duration::from_millis(2);

/// The way to a master, beneath its queue.
pub(crate) trait Wire: Send + Sync + fmt::Debug + 'static {
    /// As [`Master::name`].
    fn name(&self) -> &Arc<str>;

    /// Sends one at the first poll. The answer comes within `timeout`, from then on.
    fn send(&self, request: &Request, timeout: Duration) -> impl Future<Output = Reply> + Send;

    /// Sends several at the first poll, in this order, and gives a reply for each. A failure of
    /// the whole is one of each: after a timeout, any of them may have been done.
    fn send_group(
        &self,
        group: &[Arc<Request>],
        timeout: Duration,
    ) -> impl Future<Output = Result<Vec<Reply>, MasterError>> + Send;

    /// As [`Master::ask`].
    fn ask(
        &self,
        question: &Question,
        timeout: Duration,
    ) -> impl Future<Output = Result<Sight, MasterError>> + Send;

    /// As [`Master::watch`].
    fn watch(&self, resources: &Resources) -> Watch;

    /// As [`Master::close`].
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A master with a queue in front of it.
#[derive(Debug)]
pub(crate) struct Queue<W>(Arc<Inner<W>>);

#[derive(Debug)]
struct Inner<W> {
    wire: W,
    /// So many calls may be under way by themselves; what comes then is queued.
    direct_max: usize,
    background: Background,
    /// Counts every operation once, where its reply is known whoever listens.
    meter: MasterMeter,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Calls under way by themselves.
    direct: usize,
    /// First come, first sent. It needs no bound of its own: each entry belongs to a call that is
    /// waited for, and leaves it when that one's time is up.
    waiting: VecDeque<Waiting>,
    /// A task empties the queue. While it does nothing is sent directly, or it would overtake.
    is_flushing: bool,
}

#[derive(Debug)]
struct Waiting {
    request: Arc<Request>,
    deadline: Instant,
    asked: Asked,
    owed: Owed,
}

impl<W: Wire> Queue<W> {
    /// How many calls may be under way to a real master before more are queued: enough that one
    /// caller, whose release follows the stragglers of its acquisition, is never queued.
    pub(crate) const DIRECT_MAX: usize = 4;

    /// Groups are driven in the background given, whoever waits for them.
    pub(crate) fn new(wire: W, direct_max: usize, background: Background) -> Self {
        Self(Arc::new(Inner {
            meter: MasterMeter::new(wire.name()),
            wire,
            direct_max,
            background,
            state: Mutex::default(),
        }))
    }
}

impl<W: Wire> Master for Queue<W> {
    fn name(&self) -> &Arc<str> {
        self.0.wire.name()
    }

    fn send(
        &self,
        request: &Arc<Request>,
        due: Due,
        answers: &Arc<Answers>,
        index: usize,
    ) -> Option<Call> {
        if let Some(place) = self.0.go_direct() {
            let request = Arc::clone(request);
            return Some(Box::pin(async move {
                let asked = Asked::now();
                let reply = place.0.wire.send(&request, due.timeout).await;
                place.0.meter.answered(asked, &reply);
                reply
            }));
        }
        self.0.enqueue(Waiting {
            request: Arc::clone(request),
            deadline: due.deadline,
            asked: Asked::now(),
            owed: answers.owe(index),
        });
        None
    }

    fn ask(&self, question: &Question, timeout: Duration) -> Asking {
        let (inner, question) = (Arc::clone(&self.0), question.clone());
        Box::pin(async move { inner.wire.ask(&question, timeout).await })
    }

    fn watch(&self, resources: &Resources) -> Watch {
        self.0.wire.watch(resources)
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.wire.close()
    }
}

impl<W: Wire> Inner<W> {
    /// Takes a place among the calls under way by themselves, if nothing waits.
    fn go_direct(self: &Arc<Self>) -> Option<Place<W>> {
        let mut state = self.state();
        let may = !state.is_flushing && state.direct < self.direct_max;
        state.direct += usize::from(may);
        may.then(|| Place(Arc::clone(self)))
    }

    fn enqueue(self: &Arc<Self>, waiting: Waiting) {
        let mut state = self.state();
        state.waiting.push_back(waiting);
        let is_first = !std::mem::replace(&mut state.is_flushing, true);
        drop(state);
        if is_first {
            // A task of its own, since a caller may stop polling: then nobody else must wait for
            // that. By the time it runs, whoever was ready has queued up.
            let flush = Flush {
                inner: Arc::clone(self),
                has_ended: false,
            };
            self.background.spawn(flush.run());
        }
    }

    /// The next group, without what came too late; `None`, and the end of flushing, when nothing
    /// waits.
    fn next_group(&self) -> Option<Vec<Waiting>> {
        let mut state = self.state();
        let (mut group, mut late, mut resources) = (Vec::new(), Vec::new(), 0);
        let now = Instant::now();
        while let Some(first) = state.waiting.pop_front() {
            // Nothing is sent for a caller that was told that its time is up. (That nobody listens any
            // more is no reason: a lock is to stand on all masters, though a quorum was enough to wait for.)
            if first.deadline <= now {
                late.push(first);
                continue;
            }
            resources += first.request.resources.len();
            if group.len() >= GROUP_MAX || resources > GROUP_RESOURCES_MAX {
                state.waiting.push_front(first);
                break;
            }
            group.push(first);
        }
        if group.is_empty() {
            state.is_flushing = false;
        }
        drop(state);
        for waiting in late {
            self.meter.failed(&MasterError::Timeout);
            waiting.owed.put(Err(MasterError::Timeout));
        }
        (!group.is_empty()).then_some(group)
    }

    /// Sends a group, and gives each its own reply.
    async fn send(self: Arc<Self>, group: Vec<Waiting>) {
        let last = group.iter().map(|waiting| waiting.deadline).max();
        let left = last.map_or(Duration::ZERO, |last| {
            last.saturating_duration_since(Instant::now())
        });
        let left = left.max(CALL_TIMEOUT_MIN);
        let (requests, owed): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|waiting| {
                let Waiting {
                    request,
                    deadline,
                    asked,
                    owed,
                } = waiting;
                (request, (deadline, asked, owed))
            })
            .unzip();
        let replies = match &requests[..] {
            [request] => Ok(vec![self.wire.send(request, left).await]),
            group => self.wire.send_group(group, left).await,
        };
        let mut replies = match replies {
            Ok(replies) => replies.into_iter(),
            Err(error) => vec![Err(error); requests.len()].into_iter(),
        };
        let now = Instant::now();
        for (deadline, asked, owed) in owed {
            let reply = replies
                .next()
                .unwrap_or_else(|| Err(MasterError::Unexpected("no reply of its own".to_owned())));
            if deadline < now {
                self.meter.failed(&MasterError::Timeout);
            } else {
                self.meter.answered(asked, &reply);
            }
            // Whoever gave up was told already.
            owed.put(reply);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends with its call, however that does.
struct Place<W: Wire>(Arc<Inner<W>>);

impl<W: Wire> Drop for Place<W> {
    fn drop(&mut self) {
        self.0.state().direct -= 1;
    }
}

/// The duty to empty the queue.
struct Flush<W: Wire> {
    inner: Arc<Inner<W>>,
    has_ended: bool,
}

impl<W: Wire> Flush<W> {
    async fn run(mut self) {
        loop {
            // Who was just answered often wants the next thing at once: that is to travel with what waits by
            // now, not by itself.
            yield_now().await;
            let Some(group) = self.inner.next_group() else {
                break;
            };
            let mut sent = Box::pin(Arc::clone(&self.inner).send(group));
            if timeout(NEXT_AFTER, &mut sent).await.is_err() {
                self.inner.background.spawn(sent);
            }
        }
        self.has_ended = true;
    }
}

impl<W: Wire> Drop for Flush<W> {
    fn drop(&mut self) {
        // Only with its runtime does it end early: nobody is to wait for it any longer.
        if !self.has_ended {
            let mut state = self.inner.state();
            state.is_flushing = false;
            let left = std::mem::take(&mut state.waiting);
            drop(state);
            drop(left);
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
