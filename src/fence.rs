//! Fencing tokens: numbers that rise with every holder.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{error::TTL_MAX, resources::Resources};

mod stored;

pub use stored::InvalidFence;

/// A number greater than that of every earlier holder of the same resource.
///
/// Hand it to whatever the lock protects and let that refuse a fence smaller than the largest one
/// it has seen: then a holder that was paused past its validity cannot do harm. Two acquisitions
/// of which the first was held before the second began have rising fences, whatever the clocks,
/// while a quorum of masters remembers.
///
/// Where the resource is read, and written by what was read, the read brings the fence too: an
/// earlier holder could write in between otherwise.
///
/// Fences compare for each resource only. A fence is from 1 to 2^53 − 2, so it fits a signed 64-bit
/// column and survives any storage that keeps numbers as doubles. Nearby numbers mean nothing: they
/// follow the wall clock.
///
/// To store or send it, take the number ([`get`](Self::get), `u64::from`, `i64::from`, its digits by
/// `Display`, or the feature `serde`); `Fence::try_from` and `parse` read it back.
///
/// [`Gate`](crate::Gate) does the comparison for things in one process, [`fenced`](crate::fenced)
/// for values on a Redis or Valkey server; `docs/fencing.md` has PostgreSQL, files and object stores.
///
/// ```
/// # use fredlock::Fence;
/// struct Account { newest: Fence, balance: i64 }
///
/// impl Account {
///     fn set(&mut self, balance: i64, fence: Fence) -> Result<(), &'static str> {
///         if fence < self.newest {
///             return Err("a later holder has been here");
///         }
///         (self.newest, self.balance) = (fence, balance);
///         Ok(())
///     }
/// }
/// # let mut account = Account { newest: Fence::NONE, balance: 0 };
/// # account.set(1, Fence::NONE).unwrap();
/// # assert_eq!(account.balance, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// What a lock has under [`Fencing::Off`]: smaller than every real fence, so that a resource
    /// that has ever seen one refuses it.
    pub const NONE: Self = Self(0);

    /// The largest fence.
    pub(crate) const MAX: u64 = (1 << 53) - 2;

    pub(crate) fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, for storage; 0 for [`NONE`](Self::NONE).
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.0
    }
}

/// Whether masters keep fences, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fencing {
    /// Every lock has a fence. This is the default, with a retention of ten minutes.
    #[non_exhaustive]
    On {
        /// How long a master remembers a fence after the lock's ttl is over; every acquisition
        /// and extension starts it anew.
        ///
        /// Fences are proposed from the wall clock, so the memory is needed only as long as the
        /// clocks of clients may disagree: it must be at least that skew. Shorter: fences of one
        /// resource may fall where a client's clock is behind by more than the retention. Longer:
        /// each resource ever locked costs every master about 150 bytes for that much longer.
        retention: Duration,
    },
    /// No fence: one command less on each master, and nothing that stops a paused holder's write.
    /// A late write of a failed attempt can leave a key for one ttl.
    Off,
}

impl Fencing {
    /// How long a master remembers a fence by default: ten minutes.
    pub const RETENTION_DEFAULT: Duration = Duration::from_secs(600);

    /// Fencing with the given retention (see [`Fencing::On`]); more than 100 years count as 100.
    #[must_use]
    pub fn on(retention: Duration) -> Self {
        // A master refuses an expiry beyond what its clock can tell, and with it the whole write.
        Self::On {
            retention: retention.min(TTL_MAX),
        }
    }
}

impl Default for Fencing {
    fn default() -> Self {
        Self::on(Self::RETENTION_DEFAULT)
    }
}

/// The low bits of a proposal are the client's, drawn at random: two clients that drew different
/// ones never propose the same number, even where masters have forgotten.
const CLIENT_BITS: u32 = 8;

/// No clock alone can propose more: one insane clock cannot use up a resource's fences.
const CLOCK_MAX: u64 = Fence::MAX - (1 << 43);

/// The smallest number with the client's low bits that is at least the clock's reading (in
/// microseconds) and larger than what was seen; `None` beyond [`Fence::MAX`].
pub(crate) fn propose(clock_us: u64, seen: u64, client: u8) -> Option<u64> {
    let least = clock_us.min(CLOCK_MAX).max(seen.checked_add(1)?);
    let step = 1 << CLIENT_BITS;
    let candidate = least & !(step - 1) | u64::from(client);
    let fence = if candidate < least {
        candidate + step
    } else {
        candidate
    };
    (fence <= Fence::MAX).then_some(fence)
}

/// How many resources each of the two generations remembers.
const REMEMBERED_MAX: usize = 4096;

/// The largest fence seen for each resource, for the resources used lately.
///
/// For each resource, not over all, or one bad clock would spread. It saves a round trip and is
/// never needed for safety, so it may forget: when the young generation is full, it becomes the
/// old one, and the old one is dropped.
#[derive(Debug, Default)]
pub(crate) struct FenceMemory(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Box<str>, u64>,
    old: HashMap<Box<str>, u64>,
}

impl FenceMemory {
    pub(crate) fn largest(&self, resources: &Resources) -> u64 {
        let generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = |name| {
            generations
                .young
                .get(name)
                .or_else(|| generations.old.get(name))
        };
        resources
            .iter()
            .filter_map(seen)
            .copied()
            .max()
            .unwrap_or(0)
    }

    pub(crate) fn remember(&self, resources: &Resources, fence: u64) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in resources.iter() {
            if let Some(known) = generations.young.get_mut(name) {
                *known = fence.max(*known);
                continue;
            }
            let fence = fence.max(generations.old.get(name).copied().unwrap_or(0));
            if generations.young.len() >= REMEMBERED_MAX {
                generations.old = std::mem::take(&mut generations.young);
            }
            generations.young.insert(name.into(), fence);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_proposal_exceeds_what_was_seen_and_carries_the_client(
            clock in 0..=u64::MAX, seen in 0..Fence::MAX - 512, client: u8,
        ) {
            let fence = propose(clock, seen, client).unwrap();
            prop_assert!(fence > seen && fence <= Fence::MAX);
            prop_assert!(fence >= clock.min(CLOCK_MAX));
            prop_assert_eq!(fence & 0xff, u64::from(client));
            // Lua's numbers hold the fence and its tombstone exactly.
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let as_double = (fence + 1) as f64 as u64;
            prop_assert_eq!(as_double, fence + 1);
        }
    }

    #[test]
    fn nothing_is_proposed_beyond_the_largest_fence() {
        assert_eq!(propose(0, Fence::MAX, 0), None);
        assert_eq!(propose(0, u64::MAX, 0), None);
    }

    #[test]
    fn the_memory_is_for_each_resource_and_bounded() {
        let memory = FenceMemory::default();
        let name = |n: usize| Resources::parse([n.to_string()]).unwrap();
        for n in 0..50_000 {
            memory.remember(&name(n), n as u64 + 1);
        }
        assert_eq!(memory.largest(&name(49_999)), 50_000);
        assert_eq!(memory.largest(&name(0)), 0, "long forgotten");
        memory.remember(&name(49_999), 7);
        assert_eq!(memory.largest(&name(49_999)), 50_000, "never smaller");
        let generations = memory.0.lock().unwrap();
        assert!(generations.young.len() + generations.old.len() <= 2 * REMEMBERED_MAX);
    }
}
