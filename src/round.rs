//! One fan-out to the masters: the only async quorum code.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::{
    answers::Answers,
    background::Background,
    clock::FAR,
    master::{Call, Due, Master, Reply, Request},
    outcome::{Answer, MasterError, Outcomes},
    quorum::{Quorum, Tally, Verdict},
};

/// The calls of one request to many masters.
///
/// Dropping it hands the calls that are still under way to a background task, which drives them to
/// their end: a command cannot be taken back, so its answer is always waited for somewhere. (Those
/// that travel in a group are driven with that.)
pub(crate) struct Round {
    request: Arc<Request>,
    calls: Vec<State>,
    outcomes: Outcomes,
    tally: Tally,
    started: Instant,
    timeout: Duration,
    /// When what was sent is due.
    deadline: Option<Instant>,
    /// For the calls that have no timer of their own, from when there is one of them.
    timer: Option<Pin<Box<Sleep>>>,
    answers: Arc<Answers>,
    background: Background,
}

/// How it stands with one master.
enum State {
    Unsent(Arc<dyn Master>),
    /// Under way by itself, within a timeout of its own.
    Direct(Call),
    /// Under way with others. The answer will be put among [`Answers`].
    Grouped,
    Answered,
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
        let outcomes = Outcomes::pending(masters.clone().map(|m| Arc::clone(m.name())));
        let calls: Vec<_> = masters.cloned().map(State::Unsent).collect();
        Self {
            request: Arc::clone(request),
            answers: Answers::of(calls.len()),
            outcomes,
            calls,
            tally: Tally::new(quorum),
            started: Instant::now(),
            timeout,
            deadline: None,
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
        self.calls
            .iter()
            .any(|state| !matches!(state, State::Answered))
    }

    /// Is everything that is open driven by somebody else? Then [`end`](Self::end) may be left to the
    /// last answer.
    pub(crate) fn goes_on(&self) -> bool {
        self.calls
            .iter()
            .all(|state| matches!(state, State::Grouped | State::Answered))
    }

    /// Does this with all answers, once the last is there: at once, or by whoever gives it.
    /// Only where it [goes on](Self::goes_on) by itself.
    pub(crate) fn end(mut self, last: impl FnOnce(&Outcomes) + Send + 'static) {
        let answers = Arc::clone(&self.answers);
        answers.with_last(move || {
            self.collect();
            last(&self.outcomes);
        });
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
        self.answers.reset(cx.waker());
        if self.deadline.is_none() {
            self.send_all();
        }
        let open = |calls: &[State], is: fn(&State) -> bool| calls.iter().filter(|c| is(c)).count();
        let before = open(&self.calls, |call| !matches!(call, State::Answered));
        for index in 0..self.calls.len() {
            if let State::Direct(call) = &mut self.calls[index]
                && let Poll::Ready(reply) = call.as_mut().poll(cx)
            {
                self.record(index, reply, Instant::now());
            }
        }
        self.collect();
        if open(&self.calls, |call| matches!(call, State::Grouped)) > 0 {
            let deadline = self.deadline.unwrap_or(self.started);
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if timer.as_mut().poll(cx).is_ready() {
                self.time_out();
            }
        }
        let after = open(&self.calls, |call| !matches!(call, State::Answered));
        if after < before || after == 0 {
            return Poll::Ready(());
        }
        self.answers.arm(match until {
            Until::Answer => 1,
            Until::Verdict => self.tally.answers_to_verdict(),
            Until::All => after,
        });
        Poll::Pending
    }

    fn send_all(&mut self) {
        self.started = Instant::now();
        let deadline = self.started + self.timeout.min(FAR);
        self.deadline = Some(deadline);
        let due = Due {
            timeout: self.timeout,
            deadline,
        };
        for (index, state) in self.calls.iter_mut().enumerate() {
            if let State::Unsent(master) = state {
                let call = master.send(&self.request, due, &self.answers, index);
                *state = call.map_or(State::Grouped, State::Direct);
            }
        }
    }

    /// Takes the answers that were put here.
    fn collect(&mut self) {
        let mut now = None;
        for index in 0..self.calls.len() {
            if let State::Grouped = self.calls[index]
                && let Some(reply) = self.answers.get(index).cloned()
            {
                let now = *now.get_or_insert_with(Instant::now);
                self.record(index, reply, now);
            }
        }
    }

    fn record(&mut self, index: usize, reply: Reply, at: Instant) {
        self.calls[index] = State::Answered;
        let answer = reply.unwrap_or_else(Answer::Failed);
        self.tally.count(&answer);
        self.outcomes.record(index, answer, at - self.started);
    }

    /// The time is up for every call that has no timer of its own. It may have been sent, or not:
    /// whoever is told so has to expect both.
    fn time_out(&mut self) {
        for index in 0..self.calls.len() {
            if let State::Grouped = self.calls[index] {
                self.record(index, Err(MasterError::Timeout), Instant::now());
            }
        }
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        // What was never sent must not be sent by a clean-up.
        let direct = |state| match state {
            State::Direct(call) => Some(call),
            _ => None,
        };
        let open: Vec<Call> = self.calls.drain(..).filter_map(direct).collect();
        if !open.is_empty() {
            self.background.spawn(async move {
                futures::future::join_all(open).await;
            });
        }
    }
}

#[cfg(test)]
#[path = "round_tests.rs"]
mod tests;
