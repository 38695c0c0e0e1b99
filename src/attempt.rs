//! One attempt to acquire: a fresh token, one round, and more only to raise the fence.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    claim::Claim,
    core::{Core, FencesUsedUp},
    label::OwnerLabel,
    lock::Lock,
    master::CALL_TIMEOUT_MIN,
    mutant::Mutant,
    outcome::Outcomes,
    quorum::{self, Verdict},
    resources::Resources,
    telemetry,
    token::Token,
};

/// How often an attempt raises its fence before it gives way.
const RAISES_MAX: u32 = 8;

/// What an attempt came to, where it did not get the lock.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    pub(crate) cause: Cause,
    pub(crate) outcomes: Outcomes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Busy,
    NoQuorum,
    /// There would be enough masters, if none were in quarantine.
    Quarantined,
    Expired,
    FenceExhausted,
}

/// Makes one attempt, which ends by `deadline` if there is one.
///
/// # Cancel safety
/// Dropping the future drops the claim, which takes back whatever was, or still is, written.
pub(crate) async fn attempt(
    core: &Arc<Core>,
    resources: &Resources,
    token: Token,
    label: Option<&OwnerLabel>,
    ttl: Duration,
    command_timeout: Duration,
    deadline: Option<Instant>,
) -> Result<Lock, Failed> {
    let Ok(fence) = core.propose(resources) else {
        return Err(Failed {
            cause: Cause::FenceExhausted,
            outcomes: Outcomes::default(),
        });
    };
    let claim = Claim::new(core, resources, fence, token, label, command_timeout);
    let valid_until = core.clock.deadline(core.clock.now(), core.window(ttl));
    let give_up = deadline.map_or(valid_until.planned(), |deadline| {
        deadline.min(valid_until.planned())
    });

    for raises in 0..=RAISES_MAX {
        // Every call ends by itself when the attempt must end, to the millisecond: no further timer
        // is needed.
        let left = give_up.saturating_duration_since(Instant::now());
        let timeout = command_timeout.min(left).max(CALL_TIMEOUT_MIN);
        let request = claim.terms().acquire_request(ttl);
        let mut round = core.round(&request, timeout);
        let verdict = round.verdict().await;
        core.learn(resources, round.outcomes());
        if let Some(fence) = claim.terms().fence() {
            // Ours, and the tombstone that its release leaves: where the clock is behind, or has
            // not moved on, the next proposal would be refused by both.
            core.fences.remember(resources, fence + 1);
        }
        // After a raise, the earlier number may have been written where the later one was not.
        if raises == 0 {
            claim.spare(round.outcomes());
        }
        let cause = match verdict {
            Verdict::Won if !valid_until.is_over() || core.breaks(Mutant::ValidityUnchecked) => {
                let from_reply = core.breaks(Mutant::WindowFromReply);
                let from_reply =
                    from_reply.then(|| core.clock.deadline(core.clock.now(), core.window(ttl)));
                let valid_until = from_reply.unwrap_or(valid_until);
                return Ok(Lock::held(claim, ttl, valid_until, round.into_outcomes()));
            }
            Verdict::Won => Cause::Expired,
            Verdict::Raise if raises < RAISES_MAX => match raise(core, &claim) {
                Ok(()) => continue,
                Err(FencesUsedUp) => Cause::FenceExhausted,
            },
            Verdict::Refused | Verdict::Raise => Cause::Busy,
            Verdict::Unreachable | Verdict::Pending
                if quorum::is_for_quarantine(core.quorum, round.outcomes().answers()) =>
            {
                Cause::Quarantined
            }
            Verdict::Unreachable | Verdict::Pending => Cause::NoQuorum,
        };
        return Err(fail(claim, cause, round.into_outcomes()));
    }
    unreachable!("the last raise is answered above")
}

/// Proposes a larger fence under the same token; the answers to the smaller one no longer count.
fn raise(core: &Core, claim: &Claim) -> Result<(), FencesUsedUp> {
    let terms = claim.terms();
    let fence = core.propose(&terms.resources)?.ok_or(FencesUsedUp)?;
    telemetry::raised(&terms.resources, terms.token, fence);
    claim.raise(fence);
    Ok(())
}

fn fail(claim: Claim, cause: Cause, outcomes: Outcomes) -> Failed {
    let why = match cause {
        Cause::Busy => "busy",
        Cause::NoQuorum => "no quorum",
        Cause::Quarantined => "masters in quarantine",
        Cause::Expired => "granted too late",
        Cause::FenceExhausted => "fences used up",
    };
    telemetry::attempt_failed(
        &claim.terms().resources,
        claim.terms().token,
        why,
        &outcomes,
    );
    if claim.terms().core.breaks(Mutant::RollBackWhereGranted) {
        claim.roll_back_where_granted(&outcomes);
    } else {
        // Sent before the next attempt is: that one is not blocked by our own earlier key.
        claim.roll_back();
    }
    Failed { cause, outcomes }
}
