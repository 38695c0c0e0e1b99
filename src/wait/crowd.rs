//! Who else wants a resource, as far as refusals tell: clients do not know of each other.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fred::bytes_utils::Str;
use tokio::time::Instant;

use super::turns::Turns;
use crate::{mark::Mark, master::Holder, resources::Resources};

/// So long after the last refusal others are taken to want it still.
const REMEMBERED: Duration = Duration::from_secs(1);
/// So long after they were heard of last the turns of others are remembered: a cycle may be long.
const TURNS_REMEMBERED: Duration = Duration::from_secs(60);
/// For so many resources.
const CONTESTS_MAX: usize = 1024;

/// The window in which those who were told of a free lock spread: none at first, and twice as long
/// after each attempt that somebody else was quicker than.
const WINDOW_MIN: Duration = Duration::from_micros(250);
pub(super) const WINDOW_MAX: Duration = Duration::from_millis(16);

/// How long each of those who have waited for longer is left alone with a free lock: about as long as
/// its attempt takes.
const SLOT_MIN: Duration = Duration::from_millis(1);
const SLOT_MAX: Duration = Duration::from_millis(8);

/// The longest time for which a client lets others go first.
const COURTESY_MAX: Duration = Duration::from_millis(50);

/// What is known of the contest for each resource. Bounded, and forgotten soon.
#[derive(Debug, Default)]
pub(crate) struct Crowd(Mutex<HashMap<Str, Contest>>);

#[derive(Debug)]
struct Contest {
    refused: Instant,
    /// How long that attempt took.
    took: Duration,
    window: Duration,
    /// Who has had it when.
    turns: Turns,
    /// When that was heard of last.
    heard: Instant,
}

/// When a client is to go, as far as it is known who has had the lock when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Was nothing known of that lock before?
    pub(crate) is_news: bool,
    /// How many others have waited for longer; `None` for a client that has not had it yet.
    pub(crate) ahead: Option<u32>,
    /// How many are known to take turns.
    pub(crate) known: u32,
    /// How long each of them is left alone with it.
    pub(crate) slot: Duration,
}

impl Crowd {
    /// An attempt was refused; `collided` if it was made because the lock was said to be free.
    pub(crate) fn refused(&self, resources: &Resources, took: Duration, collided: bool) {
        let now = Instant::now();
        let mut contests = self.contests();
        if contests.len() >= CONTESTS_MAX {
            contests.retain(|_, contest| contest.is_remembered(now));
        }
        if contests.len() >= CONTESTS_MAX {
            contests.clear();
        }
        for name in resources.key_texts() {
            let contest = contests.entry(name.clone()).or_insert(Contest {
                refused: now,
                took,
                window: Duration::ZERO,
                turns: Turns::default(),
                heard: now,
            });
            if !contest.is_remembered(now) {
                contest.window = Duration::ZERO;
            }
            if now.duration_since(contest.heard) > TURNS_REMEMBERED {
                contest.turns = Turns::default();
            }
            contest.refused = now;
            contest.took = took;
            if collided {
                contest.window = (contest.window * 2).clamp(WINDOW_MIN, WINDOW_MAX);
            }
        }
    }

    /// An attempt got it: fewer may want it now. A little at a time: else whoever got it once would
    /// be the quickest of all the next time too.
    pub(crate) fn won(&self, resources: &Resources, own: Mark, lock: u32) {
        let mut contests = self.contests();
        if contests.is_empty() {
            return;
        }
        for name in resources.iter() {
            if let Some(contest) = contests.get_mut(name) {
                if !contest.window.is_zero() {
                    contest.window = (contest.window * 15 / 16).max(WINDOW_MIN);
                }
                contest.heard = Instant::now();
                contest.turns.had(own, lock, own);
            }
        }
    }

    /// Somebody has had it: what this client's turn is now; `None` for a resource that it was never
    /// refused.
    pub(crate) fn had(&self, resource: &str, holder: Holder, own: Mark) -> Option<Turn> {
        let mut contests = self.contests();
        let contest = contests.get_mut(resource)?;
        contest.heard = Instant::now();
        Some(Turn {
            is_news: contest.turns.had(holder.mark, holder.lock, own),
            ahead: contest.turns.ahead(own),
            known: contest.turns.known(),
            slot: (contest.took / 2).clamp(SLOT_MIN, SLOT_MAX),
        })
    }

    /// How far those who were told of a free lock spread.
    pub(crate) fn window(&self, resources: &Resources) -> Duration {
        self.longest(resources, |contest| contest.window)
    }

    /// So long does whoever has just had it, and wants it again, let others go first: they have to
    /// hear that it is free before they can ask for it, which takes about as long as an attempt.
    pub(crate) fn courtesy(&self, resources: &Resources) -> Duration {
        self.longest(resources, |contest| {
            (contest.took * 2 + Duration::from_millis(1)).min(COURTESY_MAX)
        })
    }

    fn longest(&self, resources: &Resources, of: impl Fn(&Contest) -> Duration) -> Duration {
        let contests = self.contests();
        if contests.is_empty() {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let known = resources.iter().filter_map(|name| contests.get(name));
        let present = known.filter(|contest| contest.is_remembered(now));
        present.map(of).max().unwrap_or_default()
    }

    fn contests(&self) -> MutexGuard<'_, HashMap<Str, Contest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contest {
    fn is_remembered(&self, now: Instant) -> bool {
        now.duration_since(self.refused) < REMEMBERED
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::entropy::Entropy;

    fn named(name: &str) -> Resources {
        Resources::parse([name]).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_window_grows_with_collisions_alone_and_shrinks_with_success() {
        let (crowd, job) = (Crowd::default(), named("job"));
        let own = Mark::fresh(&Entropy::default());
        crowd.refused(&job, Duration::ZERO, false);
        assert_eq!(crowd.window(&job), Duration::ZERO);
        let mut last = Duration::ZERO;
        for _ in 0..6 {
            crowd.refused(&job, Duration::ZERO, true);
            assert!(crowd.window(&job) > last);
            last = crowd.window(&job);
        }
        (0..100).for_each(|_| crowd.refused(&job, Duration::ZERO, true));
        assert_eq!(crowd.window(&job), WINDOW_MAX);
        assert_eq!(crowd.window(&named("other")), Duration::ZERO);
        (0..100).for_each(|_| crowd.won(&job, own, 0));
        assert_eq!(
            crowd.window(&job),
            WINDOW_MIN,
            "as long as others are remembered"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_contest_is_forgotten_and_their_number_is_bounded() {
        let (crowd, job) = (Crowd::default(), named("job"));
        crowd.refused(&job, Duration::from_secs(9), true);
        assert_eq!(crowd.courtesy(&job), COURTESY_MAX);
        advance(REMEMBERED).await;
        assert_eq!(crowd.courtesy(&job), Duration::ZERO);
        assert_eq!(crowd.window(&job), Duration::ZERO);
        for n in 0..3 * CONTESTS_MAX {
            crowd.refused(&named(&n.to_string()), Duration::ZERO, true);
        }
        assert!(crowd.contests().len() <= CONTESTS_MAX);
    }
}
