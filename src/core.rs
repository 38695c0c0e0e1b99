//! What all handles of one `Redlock` share.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    background::Background,
    clock::Clock,
    entropy::Entropy,
    error::InvalidTtl,
    fence::{self, FenceMemory, Fencing},
    mark::Mark,
    master::{FenceWrite, Master, Question, Request, Sight},
    meter::Meter,
    mutant::Mutant,
    outcome::{MasterError, Outcomes},
    quorum::{self, Quorum},
    resources::Resources,
    round::Round,
    wait::{crowd::Crowd, queue::Queue},
};

pub(crate) struct Core {
    pub(crate) masters: Vec<Arc<dyn Master>>,
    pub(crate) quorum: Quorum,
    pub(crate) fencing: Fencing,
    pub(crate) drift_factor: f64,
    /// How long a master that has forgotten what it knew is in quarantine.
    pub(crate) guard: Option<Duration>,
    pub(crate) background: Background,
    pub(crate) shutdown: CancellationToken,
    /// The connections are closed for good.
    pub(crate) closed: CancellationToken,
    pub(crate) fences: FenceMemory,
    /// Who of this process waits for what.
    pub(crate) queue: Arc<Queue>,
    pub(crate) crowd: Crowd,
    pub(crate) entropy: Entropy,
    /// The low bits of every fence that is proposed here.
    pub(crate) client: u8,
    /// What every token ends in that is made here.
    pub(crate) mark: Mark,
    pub(crate) wall_clock: WallClock,
    /// What validity is measured on.
    pub(crate) clock: Clock,
    pub(crate) meter: Meter,
    #[cfg(feature = "testing")]
    pub(crate) mutant: Option<Mutant>,
}

/// Microseconds since 1970. It only chooses what fence is proposed first; no guarantee rests on it.
pub(crate) type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

impl Core {
    pub(crate) fn round(&self, request: &Arc<Request>, timeout: Duration) -> Round {
        Round::new(
            self.masters.iter(),
            self.quorum,
            request,
            timeout,
            &self.background,
        )
    }

    /// Asks every master, and waits for each. The questions go on if this is dropped.
    pub(crate) async fn ask_all(&self, question: &Question, timeout: Duration) -> Vec<Told> {
        let _call = self.background.begin_call();
        let asking = self.masters.iter().map(|master| {
            let (asked, name) = (master.ask(question, timeout), Arc::clone(master.name()));
            let (tell, told) = oneshot::channel();
            self.background.spawn(async move {
                let begun = Instant::now();
                let sight = asked.await;
                // Nobody may be waiting for it any more.
                drop(tell.send((sight, begun.elapsed())));
            });
            async move {
                let (sight, took) = told.await.unwrap_or_else(|_| {
                    let ended = "the runtime on which the Redlock was built has ended";
                    let error = MasterError::NotConnected(ended.to_owned());
                    (Err(error), Duration::ZERO)
                });
                Told {
                    master: name,
                    sight,
                    took,
                }
            }
        });
        futures::future::join_all(asking).await
    }

    pub(crate) fn window(&self, ttl: Duration) -> Duration {
        if self.breaks(Mutant::NoDrift) {
            return ttl;
        }
        quorum::window(ttl, self.drift_factor)
    }

    /// A lock must not outlive the restart guard: a master could be out of quarantine then, and grant
    /// it to somebody else.
    pub(crate) fn admit_ttl(&self, ttl: Duration) -> Result<(), InvalidTtl> {
        match self.guard {
            Some(guard) if ttl > guard => Err(InvalidTtl {
                ttl,
                guard: Some(guard),
            }),
            _ => Ok(()),
        }
    }

    /// Is this rule broken on purpose? Never, outside the simulation.
    #[cfg(feature = "testing")]
    pub(crate) fn breaks(&self, rule: Mutant) -> bool {
        self.mutant == Some(rule)
    }

    #[cfg(not(feature = "testing"))]
    #[expect(clippy::unused_self, reason = "as in the simulation")]
    pub(crate) const fn breaks(&self, _: Mutant) -> bool {
        false
    }

    /// The fence to propose: `Ok(None)` without fencing, `Err` where there is no larger one.
    pub(crate) fn propose(&self, resources: &Resources) -> Result<Option<u64>, FencesUsedUp> {
        match self.fencing {
            Fencing::Off => Ok(None),
            Fencing::On { .. } => {
                let seen = self.fences.largest(resources);
                fence::propose((self.wall_clock)(), seen, self.client)
                    .map(Some)
                    .ok_or(FencesUsedUp)
            }
        }
    }

    /// Remembers the largest fence that the answers told of.
    pub(crate) fn learn(&self, resources: &Resources, outcomes: &Outcomes) {
        let seen = outcomes
            .answers()
            .map(crate::outcome::Answer::seen)
            .max()
            .unwrap_or(0);
        if seen > 0 {
            self.fences.remember(resources, seen);
        }
    }

    /// A fence as a master has to keep it: for the ttl of its lock and the retention.
    pub(crate) fn fence_write(&self, fence: Option<u64>, ttl: Duration) -> Option<FenceWrite> {
        match (self.fencing, fence) {
            (Fencing::On { retention }, Some(fence)) => {
                let lives = ttl.saturating_add(retention);
                Some(FenceWrite {
                    fence,
                    lives_ms: whole_ms(lives),
                })
            }
            _ => None,
        }
    }
}

/// What a master said to a question.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) master: Arc<str>,
    pub(crate) sight: Result<Sight, MasterError>,
    pub(crate) took: Duration,
}

/// No fence is larger than what was seen.
#[derive(Debug)]
pub(crate) struct FencesUsedUp;

/// Whole milliseconds, as the masters count.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("masters", &self.masters)
            .field("quorum", &self.quorum)
            .field("fencing", &self.fencing)
            .finish_non_exhaustive()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // No task of ours holds a `Core` any more, so nothing is under way that needs the connections.
        for master in &self.masters {
            self.background.spawn(master.close());
        }
    }
}
