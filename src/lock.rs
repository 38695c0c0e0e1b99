//! A lock that is held.

use std::time::Duration;

use tracing::{Instrument, debug_span};

use crate::{
    claim::Claim,
    clock::Deadline,
    error::{ExtendError, ReleaseError},
    extension,
    fence::Fence,
    label::{OwnerLabel, value_of},
    meter::{Extension, Held},
    outcome::Outcomes,
    quorum::Verdict,
    resources::Resources,
    settings::whole_ttl,
    signal::LostReason,
    telemetry::{self, TARGET},
    token::Token,
};

/// A lock that is held, until its validity ends.
///
/// Dropping it releases it in the background, on the runtime on which its
/// [`Redlock`](crate::Redlock) was built; [`release`](Self::release) waits for that and tells how it
/// went. Nothing extends it by itself: see [`using`](crate::Redlock::using) for that.
///
/// ```no_run
/// # async fn example(redlock: fredlock::Redlock) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let ttl = Duration::from_secs(5);
/// let mut lock = redlock.acquire(["invoice:4821", "customer:7"], ttl).await?;
/// // … some of the work …
/// if lock.remaining() < ttl / 2 {
///     lock.extend(ttl).await?; // an error once it is not ours any more
/// }
/// // … the rest, written with `lock.fence()` …
/// lock.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a lock that is dropped is released"]
pub struct Lock {
    claim: Claim,
    /// That of the acquisition.
    ttl: Duration,
    hold: Hold,
    outcomes: Outcomes,
}

/// For how long it is valid, and what is counted of that.
#[derive(Debug)]
struct Hold {
    valid_until: Deadline,
    counted: Held,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.counted.dropped(&self.valid_until);
    }
}

impl Lock {
    pub(crate) fn held(
        claim: Claim,
        ttl: Duration,
        valid_until: Deadline,
        outcomes: Outcomes,
    ) -> Self {
        let counted = claim.terms().core.meter.held();
        let lock = Self {
            claim,
            ttl,
            hold: Hold {
                valid_until,
                counted,
            },
            outcomes,
        };
        telemetry::acquired(
            lock.resources(),
            lock.token(),
            lock.fence().get(),
            lock.remaining(),
        );
        lock
    }

    /// What is locked: the names, sorted and without duplicates.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.claim.terms().resources
    }

    /// The random value of the keys.
    #[must_use]
    pub fn token(&self) -> Token {
        self.claim.terms().token
    }

    /// What its holder called itself when it acquired it ([`Settings::owner_label`](crate::Settings::owner_label)).
    #[must_use]
    pub fn owner_label(&self) -> Option<&OwnerLabel> {
        self.claim.terms().label.as_ref()
    }

    /// The whole value of every key on the masters, as other clients of theirs see it and compare
    /// it: the token, and behind it a colon and the owner label if there is one. Whoever knows it
    /// can release the lock.
    #[must_use]
    pub fn value(&self) -> String {
        value_of(self.token(), self.owner_label())
    }

    /// The number to hand to what the lock protects; [`Fence::NONE`] without fencing.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.claim.terms().fence().map_or(Fence::NONE, Fence::new)
    }

    /// How much validity is left, by this process's clock: ttl − elapsed − drift, where elapsed
    /// counts from just before the first byte was sent, and drift is ttl × drift factor + 2 ms.
    /// Zero once it is over. On Linux and Android, elapsed counts time in which the machine was
    /// suspended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.valid_until.left()
    }

    /// Is validity left? Compares the clock at every call.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// What every master had answered when the acquisition, or the last round of the last
    /// extension, was decided (or its future dropped). Masters that answered later stand there as
    /// [`Answer::Pending`](crate::Answer::Pending).
    #[must_use]
    pub fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// Extends the validity to `ttl` − drift from now. A shorter one than what is left changes
    /// nothing. The fence stays.
    ///
    /// Where a master lost its key (it restarted empty, say) and a quorum still has it, it is put
    /// back. A round without a quorum is tried again while validity lasts: while too few masters
    /// answer this takes until then, after [`shutdown`](crate::Redlock::shutdown) too.
    /// `tokio::time::timeout` around it ends it sooner.
    ///
    /// # Errors
    /// - [`ExtendError::Expired`] if the validity has ended, before the call (then nothing is sent)
    ///   or while too few masters answered;
    /// - [`ExtendError::Lost`] if so many masters have no key of ours that no quorum can hold it:
    ///   the lock is not valid any more;
    /// - [`ExtendError::InvalidTtl`] if the ttl is not from 1 ms to 100 years, or longer than the
    ///   restart guard: nothing changes.
    ///
    /// # Cancel safety
    /// The lock stays valid for what it was. Masters may have extended their keys all the same.
    pub async fn extend(&mut self, ttl: Duration) -> Result<(), ExtendError> {
        let ttl = whole_ttl(ttl)?;
        let core = &self.claim.terms().core;
        core.admit_ttl(ttl)?;
        let counted = core.meter.extension(&self.hold.valid_until, None);
        let result = self.extend_with(ttl, false, |_| {}).await;
        counted.ended(&result);
        if let Err(error) = &result {
            let Hold {
                counted,
                valid_until,
            } = &mut self.hold;
            counted.not_extended(error, valid_until);
        }
        result
    }

    /// Extends by the ttl of the acquisition, which must be the only one this lock ever gets.
    /// `heard` is told every answer at once, so that it knows them when this is dropped.
    pub(crate) async fn renew(
        &mut self,
        heard: impl FnMut(&Outcomes) + Send,
    ) -> Result<(), ExtendError> {
        self.extend_with(self.ttl, true, heard).await
    }

    async fn extend_with(
        &mut self,
        ttl: Duration,
        uniform: bool,
        mut heard: impl FnMut(&Outcomes) + Send,
    ) -> Result<(), ExtendError> {
        let terms = self.claim.terms();
        let outcomes = &mut self.outcomes;
        let mut note = move |answers: &Outcomes| {
            outcomes.clone_from(answers);
            heard(answers);
        };
        let span = debug_span!(target: TARGET, "extend", resources = %terms.resources, token = %terms.token, ttl_ms = crate::core::whole_ms(ttl));
        let extension = extension::extend(
            terms,
            self.hold.valid_until.clone(),
            ttl,
            uniform,
            &mut note,
        );
        match extension.instrument(span).await {
            Ok(valid_until) => {
                self.hold.valid_until = valid_until;
                telemetry::extended(self.resources(), self.token(), self.remaining());
                Ok(())
            }
            Err(error) => {
                if matches!(error, ExtendError::Lost { .. }) {
                    let clock = &self.claim.terms().core.clock;
                    self.hold.valid_until = clock.deadline(clock.now(), Duration::ZERO);
                }
                Err(error)
            }
        }
    }

    /// Releases the lock on every master, and returns once a quorum has, which makes it free for
    /// others. The rest is followed up in the background.
    ///
    /// # Errors
    /// - [`ReleaseError::Expired`] if the validity had ended;
    /// - [`ReleaseError::Lost`] if too many masters had no key of ours;
    /// - [`ReleaseError::NoQuorum`] if too few masters answered; they are asked again in the
    ///   background until they answer or the ttl is over.
    ///
    /// A successor's key is never touched.
    ///
    /// # Cancel safety
    /// The release goes on in the background.
    pub async fn release(mut self) -> Result<Outcomes, ReleaseError> {
        let resources = self.resources().clone();
        let span = debug_span!(target: TARGET, "release", %resources, token = %self.token());
        let had_expired = !self.is_valid();
        let Hold {
            counted,
            valid_until,
        } = &mut self.hold;
        let counted = counted.release(valid_until);
        let mut release = self.claim.release();
        let (verdict, is_lost) = async {
            let verdict = release.round().verdict().await;
            let is_lost = verdict != Verdict::Won && release.round().is_lost().await;
            (verdict, is_lost)
        }
        .instrument(span)
        .await;
        let outcomes = release.round().outcomes().clone();
        drop(release);
        telemetry::released(&resources, self.token(), &outcomes);
        let result = match verdict {
            _ if had_expired => Err(ReleaseError::Expired {
                resources,
                outcomes,
            }),
            Verdict::Won => Ok(outcomes),
            _ if is_lost => Err(ReleaseError::Lost {
                resources,
                outcomes,
            }),
            _ => Err(ReleaseError::NoQuorum {
                resources,
                outcomes,
            }),
        };
        counted.ended(&result);
        result
    }

    /// Leaves the lock to its ttl: nothing is sent, and nobody can have it before that is over.
    pub fn forget(mut self) {
        let Hold {
            counted,
            valid_until,
        } = &mut self.hold;
        counted.forgotten(valid_until);
        self.claim.forget();
    }

    /// A random number from 0 up to, but not, 1.
    pub(crate) fn fraction(&self) -> f64 {
        self.claim.terms().core.entropy.fraction()
    }

    pub(crate) fn valid_until(&self) -> &Deadline {
        &self.hold.valid_until
    }

    /// A keeper has it, which alone knows how it ends.
    pub(crate) fn kept(&mut self) {
        self.hold.counted.kept();
        self.claim.save_memory();
    }

    /// Its keeper says how it ended.
    pub(crate) fn ended(&mut self, reason: &LostReason) {
        let Hold {
            counted,
            valid_until,
        } = &mut self.hold;
        counted.ended(reason, valid_until);
    }

    /// Counts an extension by a keeper, which was due then.
    pub(crate) fn extension_due(&self, due: &Deadline) -> Extension {
        let meter = &self.claim.terms().core.meter;
        meter.extension(&self.hold.valid_until, Some(due))
    }
}
