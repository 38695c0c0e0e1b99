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
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    task::yield_now,
    time::{Instant, timeout},
};

use super::{
    Asking, CALL_TIMEOUT_MIN, Call, Calling, Master, Question, Reply, Request, Sight, Watch,
};
use crate::{
    background::Background,
    clock::after,
    meter::{Asked, MasterMeter},
    outcome::MasterError,
    resources::Resources,
};

/// The most operations in one group. A master does nothing else meanwhile: 64 take it about half a
/// millisecond.
const GROUP_MAX: usize = 64;
/// The most resources in one group, for the same reason. (A larger operation is a group by itself.)
const GROUP_RESOURCES_MAX: usize = 128;

/// How long a group is waited for before the next one is sent after it. Where the way is long, this
/// keeps the master from idling; and an answer that is slow holds nobody else up for longer.
const NEXT_AFTER: Duration = Duration::from_millis(2);

/// The way to a master, beneath its queue.
pub(crate) trait Wire: Send + Sync + fmt::Debug + 'static {
    /// As [`Master::name`].
    fn name(&self) -> &Arc<str>;

    /// May anything be sent now?
    fn admit(&self) -> Result<(), MasterError>;

    /// As [`Master::call`].
    fn send(&self, request: &Request, timeout: Duration) -> impl Future<Output = Reply> + Send;

    /// Sends several at the first poll, in this order, and gives a reply for each. A failure of
    /// the whole is one of each: after a timeout, any of them may have been done.
    fn send_group(
        &self,
        group: &[Request],
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
    request: Request,
    deadline: Instant,
    asked: Asked,
    reply: oneshot::Sender<Reply>,
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

    fn call(&self, request: &Request, timeout: Duration) -> Call {
        Box::pin(QueueCall {
            inner: Arc::clone(&self.0),
            stage: Stage::Unsent(request.clone(), timeout),
        })
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

/// One operation on its way.
struct QueueCall<W: Wire> {
    inner: Arc<Inner<W>>,
    stage: Stage,
}

enum Stage {
    Unsent(Request, Duration),
    /// By itself.
    Direct(Pin<Box<dyn Future<Output = Reply> + Send>>),
    /// In the queue, or in a group.
    Queued(oneshot::Receiver<Reply>),
}

impl<W: Wire> Future for QueueCall<W> {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        loop {
            match &mut self.stage {
                Stage::Direct(call) => return call.as_mut().poll(cx),
                Stage::Queued(reply) => {
                    return Pin::new(reply).poll(cx).map(|reply| {
                        // Gone with the runtime on which the connections live.
                        let ended = || MasterError::ConnectionLost("the runtime has ended".into());
                        reply.unwrap_or_else(|_| Err(ended()))
                    });
                }
                Stage::Unsent(request, timeout) => {
                    let (request, timeout) = (request.clone(), *timeout);
                    self.stage = if self.inner.go_direct() {
                        let inner = Arc::clone(&self.inner);
                        Stage::Direct(Box::pin(direct(inner, request, timeout)))
                    } else {
                        let admitted = self.inner.wire.admit();
                        admitted.inspect_err(|error| self.inner.meter.failed(error))?;
                        Stage::Queued(self.inner.enqueue(request, after(timeout)))
                    };
                }
            }
        }
    }
}

impl<W: Wire> Calling for QueueCall<W> {
    fn goes_on(&self) -> bool {
        matches!(self.stage, Stage::Queued(_))
    }
}

async fn direct<W: Wire>(inner: Arc<Inner<W>>, request: Request, timeout: Duration) -> Reply {
    let _place = Place(&inner.state);
    let asked = Asked::now();
    let reply = inner.wire.send(&request, timeout).await;
    inner.meter.answered(asked, &reply);
    reply
}

impl<W: Wire> Inner<W> {
    /// Takes a place among the calls under way by themselves, if nothing waits.
    fn go_direct(&self) -> bool {
        let mut state = self.state();
        let may = !state.is_flushing && state.direct < self.direct_max;
        state.direct += usize::from(may);
        may
    }

    fn enqueue(self: &Arc<Self>, request: Request, deadline: Instant) -> oneshot::Receiver<Reply> {
        let (reply, receiver) = oneshot::channel();
        let mut state = self.state();
        state.waiting.push_back(Waiting {
            request,
            deadline,
            asked: Asked::now(),
            reply,
        });
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
        receiver
    }

    /// The next group, without what came too late; `None`, and the end of flushing, when nothing
    /// waits.
    fn next_group(&self) -> Option<Vec<Waiting>> {
        let mut state = self.state();
        let (mut group, mut resources) = (Vec::new(), 0);
        let now = Instant::now();
        while let Some(first) = state.waiting.front() {
            resources += first.request.resources.len();
            let is_full = group.len() >= GROUP_MAX || resources > GROUP_RESOURCES_MAX;
            if is_full && !group.is_empty() {
                break;
            }
            let Some(first) = state.waiting.pop_front() else {
                break;
            };
            // Nothing is sent for a caller that was told that its time is up. (That nobody listens any
            // more is no reason: a lock is to stand on all masters, though a quorum was enough to wait for.)
            if first.deadline > now {
                group.push(first);
            } else {
                self.meter.failed(&MasterError::Timeout);
            }
        }
        if group.is_empty() {
            state.is_flushing = false;
            return None;
        }
        Some(group)
    }

    /// Sends a group, and gives each its own reply.
    async fn send(self: Arc<Self>, group: Vec<Waiting>) {
        let last = group.iter().map(|waiting| waiting.deadline).max();
        let left = last.map_or(Duration::ZERO, |last| {
            last.saturating_duration_since(Instant::now())
        });
        let left = left.max(CALL_TIMEOUT_MIN);
        let (requests, listeners): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|waiting| {
                (
                    waiting.request,
                    (waiting.deadline, waiting.asked, waiting.reply),
                )
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
        for (deadline, asked, listener) in listeners {
            let reply = replies
                .next()
                .unwrap_or_else(|| Err(MasterError::Unexpected("no reply of its own".to_owned())));
            if deadline < now {
                self.meter.failed(&MasterError::Timeout);
            } else {
                self.meter.answered(asked, &reply);
            }
            // Whoever gave up was told already.
            drop(listener.send(reply));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Ends with its call, however that does.
struct Place<'a>(&'a Mutex<State>);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(self.0).direct -= 1;
    }
}

/// The duty to empty the queue.
struct Flush<W: Wire> {
    inner: Arc<Inner<W>>,
    has_ended: bool,
}

impl<W: Wire> Flush<W> {
    async fn run(mut self) {
        while let Some(group) = self.inner.next_group() {
            let mut sent = Box::pin(Arc::clone(&self.inner).send(group));
            if timeout(NEXT_AFTER, &mut sent).await.is_err() {
                self.inner.background.spawn(sent);
            }
            // Whoever was just answered often wants the next thing at once: that is to travel with
            // what waits by now, not by itself.
            yield_now().await;
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

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
