//! What follows from what the masters say: no I/O.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{
    finding::{Finding, KeyState},
    holder::Holder,
};
use crate::quorum::Quorum;

/// Who holds a resource, by all that the masters say.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Possession {
    /// A quorum of masters, none of them in quarantine, has the key of this holder.
    #[non_exhaustive]
    Held {
        /// Whose it is.
        holder: Holder,
        /// A quorum has it for so long at least, from the end of the inspection, unless it is
        /// released or extended; `None` without end: the keys of another client, which do not expire.
        /// The holder itself stops earlier, by the drift.
        for_at_least: Option<Duration>,
    },
    /// A quorum of masters, none of them in quarantine, has no key: it can be had at once. (Keys on
    /// the others are those of an attempt under way, or are left over.)
    Free,
    /// No quorum has the key of one holder, and none has no key, whatever the masters say that are
    /// missing: several are trying at once, or keys were deleted. It is free once the keys have
    /// expired.
    Split,
    /// Too few masters answered, or are out of quarantine, to tell.
    Unknown,
}

/// What follows from the findings, of which the oldest is no older than `age`.
pub(super) fn possession(quorum: Quorum, findings: &[Finding], age: Duration) -> Possession {
    let mut holders: BTreeMap<&Holder, Vec<Option<Duration>>> = BTreeMap::new();
    let (mut free, mut unknown) = (0, 0);
    for finding in findings {
        match finding.state() {
            // What is put back in quarantine does not count for its holder, and nobody else gets it.
            Err(_) => unknown += 1,
            Ok(state) if !state.votes() => unknown += 1,
            Ok(KeyState { holder: None, .. }) => free += 1,
            Ok(KeyState {
                holder: Some(holder),
                time_left,
                ..
            }) => holders.entry(holder).or_default().push(*time_left),
        }
    }
    for (holder, lefts) in &mut holders {
        if lefts.len() >= quorum.needed {
            // The longest first: the last that the quorum needs ends it. No expiry is longest.
            lefts.sort_unstable_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
            let left = lefts[quorum.needed - 1];
            return Possession::Held {
                holder: (*holder).clone(),
                for_at_least: left.map(|left| left.saturating_sub(age)),
            };
        }
    }
    let most = holders.values().map(Vec::len).max().unwrap_or(0);
    if free >= quorum.needed {
        Possession::Free
    } else if most.max(free) + unknown < quorum.needed {
        Possession::Split
    } else {
        Possession::Unknown
    }
}

impl fmt::Display for Possession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held {
                holder,
                for_at_least: Some(left),
            } => write!(
                f,
                "held by {holder} for at least {} ms more",
                left.as_millis()
            ),
            Self::Held {
                holder,
                for_at_least: None,
            } => write!(f, "held by {holder} without expiry"),
            Self::Free => f.write_str("free"),
            Self::Split => {
                f.write_str("split: no quorum has the key of one holder, and none is free")
            }
            Self::Unknown => f.write_str("unknown: too few masters can tell"),
        }
    }
}
