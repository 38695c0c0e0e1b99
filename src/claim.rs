//! What one attempt may have written on the masters, and the duty to take it back.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::bytes_utils::Str;
use tokio::time::{Instant, sleep};

use crate::{
    clock::after,
    core::{Core, whole_ms},
    label::{OwnerLabel, value_of},
    master::{Arguments, Missing, Operation, Request},
    mutant::Mutant,
    outcome::{Answer, Outcomes},
    resources::Resources,
    round::Round,
    telemetry,
    token::Token,
};

/// The first pause between two tries to release on a master that did not answer, and the longest.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(10);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

/// Whoever owns a claim owes its release. Dropping it releases in the background, on every master,
/// whatever each answered: this one rule covers failed attempts, cancelled calls, dropped guards
/// and panics.
#[derive(Debug)]
pub(crate) struct Claim {
    terms: Arc<Terms>,
    /// Was the release sent, or given up on purpose?
    settled: bool,
}

/// The claim itself, as background tasks share it.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) core: Arc<Core>,
    pub(crate) resources: Resources,
    pub(crate) token: Token,
    pub(crate) label: Option<OwnerLabel>,
    /// What stands under the keys. `None` where it is made anew for each of the few requests that are to
    /// come.
    value: Mutex<Option<Str>>,
    pub(crate) command_timeout: Duration,
    /// 0 without fencing. Raised in place where masters have seen a larger one.
    fence: AtomicU64,
    /// The longest ttl that was sent: so long after its last write a key is gone by itself.
    ttl_ms_max: AtomicU64,
    /// A bit for each master on which a key of ours may stand, now or later.
    dirty: AtomicU64,
    /// Was anything sent that may write a key where the fence of the first acquire stands already?
    may_return: AtomicBool,
    /// Has the release begun? Nothing is written under the token from then on. A lock and no flag:
    /// a put-back that is sent at the same moment has to be sent before the release is.
    released: Mutex<bool>,
}

impl Claim {
    /// Nothing is written yet.
    pub(crate) fn new(
        core: &Arc<Core>,
        resources: &Resources,
        fence: Option<u64>,
        token: Token,
        label: Option<&OwnerLabel>,
        command_timeout: Duration,
    ) -> Self {
        let terms = Terms {
            core: Arc::clone(core),
            resources: resources.clone(),
            token,
            value: Mutex::new(Some(value_of(token, label).into())),
            label: label.cloned(),
            command_timeout,
            fence: AtomicU64::new(fence.unwrap_or(0)),
            ttl_ms_max: AtomicU64::new(0),
            dirty: AtomicU64::new(0),
            may_return: AtomicBool::new(false),
            released: Mutex::new(false),
        };
        Self {
            terms: Arc::new(terms),
            settled: false,
        }
    }

    pub(crate) fn terms(&self) -> &Arc<Terms> {
        &self.terms
    }

    /// It will be held for long, and there may be very many that are: memory is dearer than time.
    pub(crate) fn save_memory(&self) {
        drop(self.terms.kept_value().take());
    }

    /// Raises the fence in place: the token stays, as no delete for it was sent.
    pub(crate) fn raise(&self, fence: u64) {
        self.terms.fence.store(fence, Ordering::Relaxed);
        self.terms.may_return.store(true, Ordering::Relaxed);
    }

    /// Masters that said for certain that they wrote nothing need no second try at a release.
    /// For the answers to the only acquire that was sent.
    pub(crate) fn spare(&self, outcomes: &Outcomes) {
        let clean = outcomes
            .answers()
            .enumerate()
            .filter(|(_, answer)| !answer.may_have_written());
        let mask = clean.fold(0, |mask, (index, _)| mask | bit(index));
        self.terms.dirty.fetch_and(!mask, Ordering::Relaxed);
    }

    /// Begins the release: the caller waits for as much of it as it wants to.
    pub(crate) fn release(&mut self) -> Release {
        self.settled = true;
        *self.terms.released() = true;
        Release {
            round: Some(self.terms.release_round()),
            terms: Arc::clone(&self.terms),
        }
    }

    /// Sends the release now, before anything that is sent after this call, and follows it up in
    /// the background. Needs a runtime.
    pub(crate) fn roll_back(mut self) {
        self.release().round().send();
    }

    /// What a wrong client does: it leaves what it was not told of.
    pub(crate) fn roll_back_where_granted(mut self, outcomes: &Outcomes) {
        self.settled = true;
        let core = &self.terms.core;
        let granted: Vec<_> = outcomes
            .answers()
            .zip(&core.masters)
            .filter(|(answer, _)| matches!(answer, Answer::Granted { .. }))
            .map(|(_, master)| Arc::clone(master))
            .collect();
        let request = self.terms.release_request();
        let timeout = self.terms.command_timeout;
        Round::new(
            granted.iter(),
            core.quorum,
            &request,
            timeout,
            &core.background,
        )
        .send();
    }

    /// Leaves the keys to their ttl.
    pub(crate) fn forget(mut self) {
        self.settled = true;
        *self.terms.released() = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.settled && self.terms.ttl_ms_max.load(Ordering::Relaxed) > 0 {
            // Only spawned, not sent here: this may run while a runtime shuts down.
            drop(self.release());
        }
    }
}

/// A release under way. Dropping it follows it up in the background.
pub(crate) struct Release {
    terms: Arc<Terms>,
    /// Gone only in `drop`.
    round: Option<Round>,
}

impl Release {
    #[expect(clippy::expect_used, reason = "only `drop` takes it")]
    pub(crate) fn round(&mut self) -> &mut Round {
        self.round.as_mut().expect("present until the drop")
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        let Some(mut round) = self.round.take() else {
            return;
        };
        let terms = Arc::clone(&self.terms);
        if !round.is_open() {
            terms.follow_up(round.outcomes());
        } else if round.goes_on() {
            round.end(move |outcomes| terms.follow_up(outcomes));
        } else {
            self.terms.core.background.spawn(async move {
                terms.follow_up(round.all().await);
            });
        }
    }
}

impl Terms {
    pub(crate) fn fence(&self) -> Option<u64> {
        match self.fence.load(Ordering::Relaxed) {
            0 => None,
            fence => Some(fence),
        }
    }

    /// The first, or a raised, acquire. All masters may carry the key from now on.
    pub(crate) fn acquire_request(&self, ttl: Duration) -> Arc<Request> {
        self.note_write(ttl, u64::MAX);
        self.request(
            Operation::Acquire {
                ttl_ms: whole_ms(ttl),
            },
            self.fence(),
            ttl,
        )
    }

    /// An extension of what is there.
    pub(crate) fn extend_request(&self, ttl: Duration, uniform: bool) -> Arc<Request> {
        self.note_write(ttl, 0);
        let operation = Operation::Extend {
            ttl_ms: whole_ms(ttl),
            missing: Missing::Report,
            uniform,
        };
        self.request(operation, self.fence(), ttl)
    }

    /// An extension that writes a missing key anew on one master.
    pub(crate) fn put_back_request(&self, ttl: Duration, master: usize) -> Arc<Request> {
        self.note_write(ttl, bit(master));
        self.may_return.store(true, Ordering::Relaxed);
        let operation = Operation::Extend {
            ttl_ms: whole_ms(ttl),
            missing: Missing::PutBack,
            uniform: false,
        };
        let fence = self
            .fence()
            .filter(|_| !self.core.breaks(Mutant::PutBackBlind));
        self.request(operation, fence, ttl)
    }

    /// Has the release begun? It cannot begin while the guard lives.
    pub(crate) fn released(&self) -> MutexGuard<'_, bool> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_write(&self, ttl: Duration, masters: u64) {
        self.ttl_ms_max.fetch_max(whole_ms(ttl), Ordering::Relaxed);
        self.dirty.fetch_or(masters, Ordering::Relaxed);
    }

    fn release_request(&self) -> Arc<Request> {
        // One above our own fence: a master then refuses an acquire and a put-back of this token
        // that arrive late. Our own would be enough against an acquire alone.
        let tombstone = self.fence().map(|fence| fence + 1);
        let tombstone = match self.fence() {
            own if self.core.breaks(Mutant::TombstoneTooLow) => own,
            _ if self.core.breaks(Mutant::NoTombstone) => None,
            _ => tombstone,
        };
        let may_return = self.may_return.load(Ordering::Relaxed);
        self.request(Operation::Release { may_return }, tombstone, self.ttl_max())
    }

    fn request(&self, operation: Operation, fence: Option<u64>, ttl: Duration) -> Arc<Request> {
        Arc::new(Request {
            operation,
            resources: self.resources.clone(),
            token: self.token,
            value: self.value(),
            fence: self.core.fence_write(fence, ttl),
            guard_ms: self.core.guard.map(whole_ms),
            arguments: Arguments::default(),
        })
    }

    fn value(&self) -> Str {
        let kept = self.kept_value().clone();
        kept.unwrap_or_else(|| value_of(self.token, self.label.as_ref()).into())
    }

    fn kept_value(&self) -> MutexGuard<'_, Option<Str>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ttl_max(&self) -> Duration {
        Duration::from_millis(self.ttl_ms_max.load(Ordering::Relaxed))
    }

    fn release_round(&self) -> Round {
        self.core
            .round(&self.release_request(), self.command_timeout)
    }

    /// Drives the release to its end, once all masters have had their time. Those that did not answer
    /// and may carry the key are asked again until they do, or until the key is gone by its ttl.
    fn follow_up(self: Arc<Self>, outcomes: &Outcomes) {
        let left = self.unanswered(outcomes);
        if !left.is_empty() {
            let core = Arc::clone(&self.core);
            core.background.spawn(self.release_again(left));
        }
    }

    async fn release_again(self: Arc<Self>, mut left: Vec<usize>) {
        let gone_by = after(self.ttl_max().saturating_add(self.command_timeout));
        let Some(_permit) = self.core.background.cleanup_permit() else {
            return self.left_to_ttl(left.len());
        };
        let mut delay = RETRY_DELAY_MIN;
        while !left.is_empty() && Instant::now() + delay < gone_by {
            tokio::select! {
                biased;
                () = self.core.closed.cancelled() => break,
                () = sleep(delay) => {}
            }
            delay = RETRY_DELAY_MAX.min(delay * 2);
            let request = self.release_request();
            let masters = left.iter().map(|&index| &self.core.masters[index]);
            let mut again = Round::new(
                masters,
                self.core.quorum,
                &request,
                self.command_timeout,
                &self.core.background,
            );
            let outcomes = again.all().await;
            let failed = outcomes
                .answers()
                .zip(&left)
                .filter(|(answer, _)| is_unanswered(answer));
            left = failed.map(|(_, &index)| index).collect();
        }
        if !left.is_empty() {
            self.left_to_ttl(left.len());
        }
    }

    fn left_to_ttl(&self, masters: usize) {
        telemetry::cleanup_left_to_ttl(&self.resources, masters);
        self.core.meter.left_to_ttl();
    }

    fn unanswered(&self, outcomes: &Outcomes) -> Vec<usize> {
        let dirty = self.dirty.load(Ordering::Relaxed);
        let answers = outcomes.answers().enumerate();
        let failed =
            answers.filter(|(index, answer)| dirty & bit(*index) != 0 && is_unanswered(answer));
        failed.map(|(index, _)| index).collect()
    }
}

fn is_unanswered(answer: &Answer) -> bool {
    matches!(answer, Answer::Failed(_) | Answer::Pending)
}

fn bit(master: usize) -> u64 {
    1 << master
}
