//! One fan-out to the masters: the only async quorum code.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

use crate::{
    background::Background,
    bell::Bell,
    master::{Call, Master, Request},
    outcome::{Answer, MasterError, Outcomes},
    quorum::{Quorum, Tally, Verdict},
};

/// The calls of one request to many masters.
///
/// Dropping it hands the calls that are still under way to a background task, which drives them to
/// their end: a command cannot be taken back, so its answer is always waited for somewhere. (Those
/// that travel in a group are driven with that.)
pub(crate) struct Round {
    calls: Vec<Option<Call>>,
    outcomes: Outcomes,
    tally: Tally,
    started: Instant,
    sent: bool,
    timeout: Duration,
    /// For the calls that have no timer of their own, from when there is one of them.
    timer: Option<Pin<Box<Sleep>>>,
    /// What the calls that go on by themselves ring, and the same as a waker.
    bell: Arc<Bell>,
    ringer: Waker,
    background: Background,
}

/// What is waited for.
#[derive(Clone, Copy)]
enum Until {
    /// One more answer.
    Answer,
    /// As many as a verdict takes at least.
    Verdict,
    /// All of them.
    All,
}

impl Round {
    /// Prepares the calls. They are sent, all of them, at the first poll.
    pub(crate) fn new<'a>(
        masters: impl Iterator<Item = &'a Arc<dyn Master>> + Clone,
        quorum: Quorum,
        request: &Arc<Request>,
        timeout: Duration,
        background: &Background,
    ) -> Self {
        let bell = Arc::<Bell>::default();
        Self {
            ringer: Waker::from(Arc::clone(&bell)),
            bell,
            outcomes: Outcomes::pending(masters.clone().map(|m| Arc::clone(m.name()))),
            calls: masters.map(|m| Some(m.call(request, timeout))).collect(),
            tally: Tally::new(quorum),
            started: Instant::now(),
            sent: false,
            timeout,
            timer: None,
            background: background.clone(),
        }
    }

    /// Waits until the round is decided; never for a master that cannot change the verdict.
    ///
    /// # Cancel safety
    /// Loses nothing: the calls go on.
    pub(crate) async fn verdict(&mut self) -> Verdict {
        loop {
            match self.standing() {
                Verdict::Pending => self.more(Until::Verdict).await,
                decided => return decided,
            }
        }
    }

    /// What it has come to so far.
    pub(crate) fn standing(&self) -> Verdict {
        self.tally.verdict()
    }

    /// Did so many masters refuse that no quorum can agree? `None` while that is open. Masters that
    /// fail prove no loss, though they can keep the round from being won.
    pub(crate) fn loss(&self) -> Option<bool> {
        self.tally.is_lost()
    }

    /// Waits until that is certain.
    ///
    /// # Cancel safety
    /// Loses nothing: the calls go on.
    pub(crate) async fn is_lost(&mut self) -> bool {
        loop {
            match self.loss() {
                Some(certain) => return certain,
                None => self.next().await,
            }
        }
    }

    /// Waits for the answer of every master.
    pub(crate) async fn all(&mut self) -> &Outcomes {
        while self.is_open() {
            self.more(Until::All).await;
        }
        &self.outcomes
    }

    /// Waits for at least one more answer.
    pub(crate) async fn next(&mut self) {
        self.more(Until::Answer).await;
    }

    async fn more(&mut self, until: Until) {
        poll_fn(|cx| self.poll_more(cx, until)).await;
    }

    /// Sends every call now, from where no await is wanted. Needs a runtime.
    pub(crate) fn send(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        // Whatever answered already is in `outcomes`; the rest is polled again by whoever waits.
        let _answered = self.poll_more(&mut cx, Until::All);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.calls.iter().any(Option::is_some)
    }

    pub(crate) fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    pub(crate) fn into_outcomes(mut self) -> Outcomes {
        std::mem::take(&mut self.outcomes)
    }

    /// Polls every open call, so that all are sent before any answer is acted on: a roll-back
    /// that follows must not overtake a call of its own round.
    ///
    /// Ready with any answer. Else the task is woken when there are as many as `until` takes.
    fn poll_more(&mut self, cx: &mut Context<'_>, until: Until) -> Poll<()> {
        // Timers are made at the first poll: they must not end with a runtime of the caller's, since
        // the call may go on in the background.
        let _home = self.background.enter();
        self.sent = true;
        self.bell.reset(cx.waker());
        let (mut answered, mut open, mut need_timer) = (false, 0, false);
        for (index, slot) in self.calls.iter_mut().enumerate() {
            let Some(call) = slot else { continue };
            match call.as_mut().poll_reply(cx, &self.ringer) {
                Poll::Pending => {
                    open += 1;
                    need_timer |= call.goes_on();
                }
                Poll::Ready(result) => {
                    *slot = None;
                    let answer = result.unwrap_or_else(Answer::Failed);
                    self.tally.count(&answer);
                    self.outcomes.record(index, answer, self.started.elapsed());
                    answered = true;
                }
            }
        }
        if need_timer {
            let timeout = self.timeout;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(timeout)));
            answered |= timer.as_mut().poll(cx).is_ready() && self.time_out();
        }
        if answered || open == 0 {
            return Poll::Ready(());
        }
        self.bell.arm(match until {
            Until::Answer => 1,
            Until::Verdict => self.tally.answers_to_verdict(),
            Until::All => open,
        });
        Poll::Pending
    }

    /// The time is up for every call that has no timer of its own. It may have been sent, or not:
    /// whoever is told so has to expect both.
    fn time_out(&mut self) -> bool {
        let mut any = false;
        for (index, slot) in self.calls.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(|call| call.goes_on()) {
                *slot = None;
                let answer = Answer::Failed(MasterError::Timeout);
                self.tally.count(&answer);
                self.outcomes.record(index, answer, self.started.elapsed());
                any = true;
            }
        }
        any
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        let calls = self.calls.drain(..).flatten();
        let open: Vec<Call> = calls.filter(|call| !call.goes_on()).collect();
        // What was never sent must not be sent by a clean-up.
        if self.sent && !open.is_empty() {
            self.background.spawn(async move {
                futures::future::join_all(open).await;
            });
        }
    }
}
