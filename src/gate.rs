//! The protected side in one process: what refuses an older holder.

use std::{borrow::Borrow, collections::BTreeMap, collections::HashMap, hash::Hash};

use thiserror::Error;

use crate::fence::Fence;

/// Admits a fence only if it is not older than the newest that it has seen under the same key.
///
/// For what lives in one process and is used by holders of a lock elsewhere: a service's state in
/// memory, a device that it drives, a connection on which order counts. Where the protected thing
/// outlives the process, keep the fence beside it instead, in the same transaction: `docs/fencing.md`
/// shows how.
///
/// A gate takes `&mut self` on purpose. Keep it under the same mutex as what it protects, and hold
/// that from the question to the end of the write: between an admission and a write that does not
/// happen under one lock, a later holder may come and go.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fredlock::{Fence, Gate, Refused};
/// use std::{collections::HashMap, sync::Mutex};
///
/// #[derive(Default)]
/// struct Invoices {
///     gate: Gate<String>,
///     paid: HashMap<String, u64>,
/// }
///
/// fn pay(invoices: &Mutex<Invoices>, name: &str, cents: u64, fence: Fence) -> Result<(), Refused> {
///     let mut invoices = invoices.lock().expect("no holder panicked");
///     invoices.gate.admit(name, fence)?; // from here to the end nobody else is admitted
///     invoices.paid.insert(name.to_owned(), cents);
///     Ok(())
/// }
///
/// let invoices = Mutex::default();
/// // As `lock.fence()` and `signal.fence()` give them; here as another process sent them.
/// let (earlier, later) = ("1764518400000217".parse()?, "1764518412000042".parse()?);
/// pay(&invoices, "4821", 900, later)?;
/// assert!(pay(&invoices, "4821", 100, earlier).is_err()); // woke up too late
/// pay(&invoices, "4821", 950, later)?; // the same holder again
/// pay(&invoices, "4822", 100, earlier)?; // another key has another order
/// # Ok(()) }
/// ```
///
/// # Memory
/// It remembers at most `capacity` keys ([`CAPACITY_DEFAULT`](Self::CAPACITY_DEFAULT) unless
/// [`with_capacity`](Self::with_capacity) says otherwise). At the bound the key with the smallest
/// fence is forgotten, and its fence becomes the *floor*, which holds for every key that is not
/// remembered: a fence below it is refused as [`Refused::Forgotten`]. So a gate that forgets never
/// admits an older holder. The price is that it may refuse one that is not: a holder that comes to
/// a forgotten key, or to a new one, with a fence older than the newest ones of `capacity` other
/// keys. Fences follow the wall clock, so this takes `capacity` other keys that were used by locks
/// acquired later; make it larger than the number of keys that come by while one lock is held.
///
/// The smallest fence goes, not the key unused for longest: a key with a fence from a clock that
/// runs years ahead then stays remembered, and cannot lift the floor above everybody else.
#[derive(Debug, Clone)]
pub struct Gate<K> {
    capacity: usize,
    newest: HashMap<K, Entry>,
    /// The same keys, by fence.
    by_fence: BTreeMap<Entry, K>,
    /// At least the fence of every key that was ever forgotten.
    floor: Fence,
    arrivals: u64,
}

/// A key's newest fence. Locks of several keys have one fence, so a number tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    fence: Fence,
    arrival: u64,
}

/// Why a gate did not admit a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// A later holder has been here: whoever holds this fence has lost its lock.
    #[error("fence {fence} is refused: a later holder has been here with {newest}")]
    #[non_exhaustive]
    Older {
        /// The fence that was refused.
        fence: Fence,
        /// The newest one that was admitted under the key.
        newest: Fence,
    },
    /// The gate does not remember the key, and the fence is older than one that it has forgotten:
    /// a later holder may have been here.
    #[error(
        "fence {fence} is refused: a later holder may have been here, as fences up to {floor} are forgotten"
    )]
    #[non_exhaustive]
    Forgotten {
        /// The fence that was refused.
        fence: Fence,
        /// The least that is admitted under a key that is not remembered.
        floor: Fence,
    },
    /// It is [`Fence::NONE`], from a lock without fencing: a paused holder could not be told from
    /// one that holds.
    #[error("refused: the lock has no fence (its client has Fencing::Off)")]
    NoFence,
}

impl<K> Gate<K> {
    /// How many keys a gate remembers by default: 65,536.
    pub const CAPACITY_DEFAULT: usize = 65_536;

    /// A gate that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(Self::CAPACITY_DEFAULT)
    }

    /// The same, which remembers so many keys; 0 counts as 1. Memory is taken as keys come.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            newest: HashMap::new(),
            by_fence: BTreeMap::new(),
            floor: Fence::NONE,
            arrivals: 0,
        }
    }

    /// How many keys it remembers now: at most its capacity.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.newest.len()
    }

    /// The least fence that is admitted under a key that is not remembered: [`Fence::NONE`], for
    /// any, as long as nothing was forgotten.
    #[must_use]
    pub fn floor(&self) -> Fence {
        self.floor
    }
}

impl<K: Hash + Eq + Clone> Gate<K> {
    /// Admits the fence, and refuses every older one under this key from now on. Equal is admitted:
    /// that is the same holder again.
    ///
    /// Call it for a read too, if something is written because of what was read: an earlier holder
    /// could write in between otherwise.
    ///
    /// # Errors
    /// See [`Refused`]. Nothing has changed then.
    pub fn admit<Q>(&mut self, key: &Q, fence: Fence) -> Result<(), Refused>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if fence == Fence::NONE {
            return Err(Refused::NoFence);
        }
        let Some(known) = self.newest.get_mut(key) else {
            return self.admit_new(key.to_owned(), fence);
        };
        let newest = known.fence;
        if fence < newest {
            return Err(Refused::Older { fence, newest });
        }
        if let Some(key) = self.by_fence.remove(known) {
            known.fence = fence;
            self.by_fence.insert(*known, key);
        }
        Ok(())
    }

    fn admit_new(&mut self, key: K, fence: Fence) -> Result<(), Refused> {
        let floor = self.floor;
        if fence < floor {
            return Err(Refused::Forgotten { fence, floor });
        }
        self.arrivals += 1;
        let entry = Entry {
            fence,
            arrival: self.arrivals,
        };
        self.newest.insert(key.clone(), entry);
        self.by_fence.insert(entry, key);
        // Possibly the new one: its fence is admitted all the same, and is the floor then.
        if self.newest.len() > self.capacity
            && let Some((oldest, key)) = self.by_fence.pop_first()
        {
            self.newest.remove(&key);
            self.floor = self.floor.max(oldest.fence);
        }
        Ok(())
    }
}

impl<K> Default for Gate<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
