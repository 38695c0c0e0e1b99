//! Extending what is held, and putting it back where a master lost it.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    claim::Terms, clock::Deadline, error::ExtendError, master::CALL_TIMEOUT_MIN, mutant::Mutant,
    outcome::Outcomes, quorum::Verdict, round::Round, telemetry,
};

/// The pauses between rounds that had no quorum: they double, up to the larger of this maximum and an
/// eighth of the validity left; and each is shortened by up to a half, at random.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(5);
const RETRY_DELAY_MAX: Duration = Duration::from_millis(200);

/// Extends to `ttl` from now, and gives the new end of validity. Rounds without a quorum are
/// repeated while validity lasts. `heard` is told the answers of the round under way, as they come.
///
/// # Cancel safety
/// The lock stays valid for what it was. Masters may have extended it all the same. `heard` knows
/// what was answered until then, and who had not.
pub(crate) async fn extend(
    terms: &Arc<Terms>,
    valid_until: Deadline,
    ttl: Duration,
    uniform: bool,
    heard: &mut (dyn FnMut(&Outcomes) + Send),
) -> Result<Deadline, ExtendError> {
    let resources = &terms.resources;
    let mut delay = RETRY_DELAY_MIN;
    let late = terms.core.breaks(Mutant::ExtensionAfterExpiry);
    let mut last = Outcomes::default();
    loop {
        let left = valid_until.left();
        if left.is_zero() && !late {
            return Err(ExtendError::Expired {
                resources: resources.clone(),
                outcomes: last,
            });
        }
        if terms.core.closed.is_cancelled() {
            return Err(ExtendError::ShutDown {
                resources: resources.clone(),
            });
        }
        let request = terms.extend_request(ttl, uniform);
        let timeout = if late {
            terms.command_timeout
        } else {
            terms.command_timeout.min(left).max(CALL_TIMEOUT_MIN)
        };
        let clock = &terms.core.clock;
        // Before the round begins, and so before its first byte is sent.
        let begun = clock.now();
        let mut round = terms.core.round(&request, timeout);
        heard(round.outcomes());
        while round.standing() == Verdict::Pending {
            round.next().await;
            heard(round.outcomes());
        }
        // A quorum that agrees after the end does not revive the lock: somebody else may have
        // been there in between.
        if round.standing() == Verdict::Won && (!valid_until.is_over() || late) {
            // Masters keep the longer of two ttls, and so do we.
            let valid_until = valid_until.or_later(clock.deadline(begun, terms.core.window(ttl)));
            heal(terms, round, ttl, valid_until.clone());
            return Ok(valid_until);
        }
        let pause = delay.mul_f64(1.0 - terms.core.entropy.fraction() / 2.0);
        let again = valid_until.at().min(Instant::now() + pause);
        if is_lost_by(&mut round, again, heard).await {
            return Err(ExtendError::Lost {
                resources: resources.clone(),
                outcomes: round.outcomes().clone(),
            });
        }
        telemetry::extension_retried(resources, terms.token, round.outcomes());
        terms.core.meter.extension_retried();
        last = round.into_outcomes();
        tokio::select! {
            biased;
            () = terms.core.closed.cancelled() => {}
            () = sleep_until(again) => {}
        }
        // Much validity left is time for many tries; and very many locks that all failed must not
        // keep the masters too busy to answer any of them.
        delay = RETRY_DELAY_MAX.max(left / 8).min(delay * 2);
    }
}

/// Do the masters of a round that is not to be won say for certain that the lock is lost? Listens
/// to the rest of them until `end`: as long as some only failed they may hold it.
async fn is_lost_by(
    round: &mut Round,
    end: Instant,
    heard: &mut (dyn FnMut(&Outcomes) + Send),
) -> bool {
    loop {
        if let Some(certain) = round.loss() {
            return certain;
        }
        if timeout_at(end, round.next()).await.is_err() {
            return false;
        }
        heard(round.outcomes());
    }
}

/// Puts the lock back on masters that lost it, now that a quorum has said that it is ours.
///
/// Only then, and never counted: where it is gone from every master, or from a majority, an
/// extension says so and creates nothing. Without it a lock dies after a few restarts of masters.
fn heal(terms: &Arc<Terms>, mut round: Round, ttl: Duration, valid_until: Deadline) {
    let background = &terms.core.background;
    let mut healing = Healing {
        terms: Arc::clone(terms),
        ttl,
        valid_until,
        told: vec![false; terms.core.masters.len()],
        calls: Vec::new(),
    };
    // What is known already is sent at once, so that it is there before the next command.
    healing.put_back(round.outcomes());
    if !round.is_open() && healing.calls.is_empty() {
        return;
    }
    background.spawn(async move {
        while round.is_open() {
            round.next().await;
            healing.put_back(round.outcomes());
        }
        for mut call in healing.calls {
            call.all().await;
        }
    });
}

struct Healing {
    terms: Arc<Terms>,
    ttl: Duration,
    valid_until: Deadline,
    /// Which masters were told to put it back.
    told: Vec<bool>,
    calls: Vec<Round>,
}

impl Healing {
    /// Sends a put-back to every master that misses the lock, unless it is over.
    fn put_back(&mut self, outcomes: &Outcomes) {
        let terms = &self.terms;
        // Held until all are sent: the release then comes after them, on every connection.
        let released = terms.released();
        let left = self.valid_until.left();
        if *released || left.is_zero() {
            return;
        }
        // Without fencing nothing but this keeps a late one from blocking a successor.
        let timeout = terms.command_timeout.min(left).max(CALL_TIMEOUT_MIN);
        for (index, answer) in outcomes.answers().enumerate() {
            if answer.is_missing() && !self.told[index] {
                self.told[index] = true;
                let core = &terms.core;
                let master = &core.masters[index];
                telemetry::put_back(&terms.resources, terms.token, master.name());
                core.meter.put_back(index);
                let request = terms.put_back_request(self.ttl, index);
                let one = std::iter::once(master);
                let mut call = Round::new(one, core.quorum, &request, timeout, &core.background);
                call.send();
                self.calls.push(call);
            }
        }
    }
}
