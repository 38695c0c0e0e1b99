//! Values on a Redis or Valkey server that only the newest fence may touch.
//!
//! Where the protected resource is itself a key of such a server, a holder that was paused past its
//! validity must not write it any more. Each operation here is one atomic script, which compares the
//! caller's [`Fence`] with the newest one that was here, and refuses an older one.
//!
//! [`FencedStore`] calls them over a [`fred`] client. For any other client, and any other language,
//! [`SET`], [`GET`] and [`DELETE`] are the scripts, for `EVAL` or `EVALSHA`; the head of each says
//! what its keys, arguments and replies are.
//!
//! - **Which server.** Not the masters of the locks: there the name of a resource is a key already.
//!   Any single server or cluster will do, and everybody has to use the same one, with
//!   `maxmemory-policy noeviction`: a fence that was evicted stops nobody. What a restart or a
//!   fail-over takes back, it takes back of the value and of its fence alike.
//! - **Every write has to go through here.** A plain `SET` of somebody else is not stopped. Plain
//!   reads are fine where nothing is written because of them: the value stands under its own name.
//! - **The fence stays when the value goes**, deleted or expired, under a key beside it
//!   ([`fence_key`]): about 100 bytes for each name ever used, for good unless a
//!   [`retention`](FencedStore::retention) is set.

use std::time::Duration;

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value},
};
use thiserror::Error;

use crate::{core::whole_ms, error::TTL_MAX, fence::Fence, resources};

/// The script of a fenced set. `KEYS`: the value's key, its [`fence_key`]. `ARGV`: the fence; for how
/// many milliseconds it is remembered (0: for good); the value; its time to live in milliseconds (0:
/// without end). Reply: `{1, fence}`, or `{0, newest}` if it was refused.
pub const SET: &str = include_str!("fenced/set.lua");

/// The script of a fenced get, for a value on which a later write depends. `KEYS`: the value's key,
/// its [`fence_key`]. `ARGV`: the fence; for how many milliseconds it is remembered (0: for good).
/// Reply: `{1, value or nil}`, or `{0, newest}` if it was refused.
pub const GET: &str = include_str!("fenced/get.lua");

/// The script of a fenced delete. `KEYS`: the value's key, its [`fence_key`]. `ARGV`: the fence; for
/// how many milliseconds it is remembered (0: for good). Reply: `{1, 0 or 1 deleted}`, or
/// `{0, newest}` if it was refused.
pub const DELETE: &str = include_str!("fenced/delete.lua");

/// The key beside a value under which its newest fence stands, in the same hash slot:
/// `invoice:{4821}:newest` for `invoice:{4821}`, `{invoice:4821}:newest` for `invoice:4821`. (A name
/// with a `}` but no hash tag has no such neighbour: a cluster refuses it.)
#[must_use]
pub fn fence_key(key: &str) -> String {
    resources::neighbour(key, ":newest")
}

/// Values that only the newest fence may touch, over a client of [`fred`].
///
/// The client has to be connected, and is yours: its timeouts and reconnections hold. Each call sends
/// its script whole, about 1 kB; the server compiles it once.
///
/// ```no_run
/// # async fn example(redlock: fredlock::Redlock, client: fredlock::fred::clients::Client)
/// #     -> Result<(), Box<dyn std::error::Error>> {
/// use fredlock::fenced::FencedStore;
/// use std::time::Duration;
///
/// let store = FencedStore::new(client);
/// redlock
///     .using(["invoice:4821"], Duration::from_secs(5), async |signal| {
///         let fence = signal.fence();
///         let cents = store.get("total:4821", fence).await?; // no earlier holder writes after this
///         let total = cents.map_or(0, |text| String::from_utf8_lossy(&text).parse().unwrap_or(0));
///         store.set("total:4821", (total + 100_u64).to_string(), fence).await?;
///         Ok(())
///     })
///     .await?
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FencedStore {
    client: Client,
    /// Zero: for good.
    retention: Duration,
}

/// Why a fenced operation was not done.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum FencedError {
    /// A later holder has been here: whoever holds this fence has lost its lock. Nothing has changed.
    #[error("fence {fence} is refused: a later holder has been here with {newest}")]
    #[non_exhaustive]
    Older {
        /// The fence that was refused.
        fence: Fence,
        /// The newest one that was admitted.
        newest: Fence,
    },
    /// It is [`Fence::NONE`], from a lock without fencing. Nothing was sent.
    #[error("refused: the lock has no fence (its client has Fencing::Off)")]
    NoFence,
    /// The client or the server failed. If it does not say that the command was never sent, it may
    /// have been done; to do it again under the same fence is safe.
    #[error("the fenced operation failed: {0}")]
    Failed(fred::error::Error),
    /// An answer that the script cannot give: is it a Redis or Valkey?
    #[error("unexpected answer: {0}")]
    Unexpected(String),
}

impl FencedStore {
    /// On this client's server. Fences are remembered for good.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            retention: Duration::ZERO,
        }
    }

    /// How long the fence of a name is remembered after the last operation on it, whatever becomes of
    /// the value: in whole milliseconds, at most 100 years; zero, the default, for good.
    ///
    /// A holder that wakes up later than that is not stopped. So take more than any process of yours
    /// may be paused, or its writes delayed: hours, rather than seconds. All users of a name should
    /// have the same.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        let retention = match retention.min(TTL_MAX) {
            // It must not become the zero that means "for good".
            short if !short.is_zero() => short.max(Duration::from_millis(1)),
            zero => zero,
        };
        Self { retention, ..self }
    }

    /// Reads the value, and refuses earlier holders from then on: what was read stays true until this
    /// holder writes.
    ///
    /// # Errors
    /// See [`FencedError`].
    ///
    /// # Cancel safety
    /// The command may be sent all the same, and the fence raised: it does no harm.
    pub async fn get(&self, key: &str, fence: Fence) -> Result<Option<Vec<u8>>, FencedError> {
        match self.call(GET, key, fence, Vec::new()).await? {
            Value::Null => Ok(None),
            value => Ok(Some(value.into_owned_bytes().unwrap_or_default())),
        }
    }

    /// Writes the value, without end.
    ///
    /// # Errors
    /// See [`FencedError`].
    ///
    /// # Cancel safety
    /// The command may be done all the same. Wait for one write before the next: the order of writes
    /// under the same fence is up to the holder.
    pub async fn set(
        &self,
        key: &str,
        value: impl Into<Vec<u8>>,
        fence: Fence,
    ) -> Result<(), FencedError> {
        self.set_for(key, value, Duration::ZERO, fence).await
    }

    /// Writes the value for so long (in whole milliseconds, rounded up, at most 100 years; zero:
    /// without end). The fence outlives it.
    ///
    /// # Errors
    /// See [`FencedError`].
    ///
    /// # Cancel safety
    /// As for [`set`](Self::set).
    pub async fn set_for(
        &self,
        key: &str,
        value: impl Into<Vec<u8>>,
        ttl: Duration,
        fence: Fence,
    ) -> Result<(), FencedError> {
        let value = Value::Bytes(value.into().into());
        // Rounded up: a value of less than a millisecond must not become one without end.
        let ttl = ttl.min(TTL_MAX) + Duration::from_nanos(999_999);
        let arguments = vec![value, whole_ms(ttl).to_string().into()];
        self.call(SET, key, fence, arguments).await.map(drop)
    }

    /// Deletes the value, and says whether there was one. The fence stays.
    ///
    /// # Errors
    /// See [`FencedError`].
    ///
    /// # Cancel safety
    /// As for [`set`](Self::set).
    pub async fn delete(&self, key: &str, fence: Fence) -> Result<bool, FencedError> {
        let deleted = self.call(DELETE, key, fence, Vec::new()).await?;
        Ok(deleted.as_u64() == Some(1))
    }

    /// Calls a script, and gives the second part of its reply if the first is 1.
    async fn call(
        &self,
        script: &'static str,
        key: &str,
        fence: Fence,
        rest: Vec<Value>,
    ) -> Result<Value, FencedError> {
        if fence == Fence::NONE {
            return Err(FencedError::NoFence);
        }
        let mut arguments: Vec<Value> = vec![
            Value::from_static_str(script),
            "2".into(),
            key.into(),
            fence_key(key).into(),
            fence.to_string().into(),
            whole_ms(self.retention).to_string().into(),
        ];
        arguments.extend(rest);
        // The keys are not where fred looks for them by itself.
        let slot = ClusterHash::Custom(fred::util::redis_keyslot(key.as_bytes()));
        let command = CustomCommand::new_static("EVAL", slot, false);
        let reply = self.client.custom(command, arguments).await;
        let reply: Value = reply.map_err(FencedError::Failed)?;
        let mut parts = reply.into_array();
        match parts.as_slice() {
            [Value::Integer(1), _] => Ok(parts.swap_remove(1)),
            [Value::Integer(0), Value::Integer(newest)] => match Fence::try_from(*newest) {
                Ok(newest) => Err(FencedError::Older { fence, newest }),
                Err(error) => Err(FencedError::Unexpected(error.to_string())),
            },
            _ => Err(FencedError::Unexpected(format!("{parts:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fence_of_a_value_stands_in_its_hash_slot() {
        for (key, fence) in [
            ("invoice:4821", "{invoice:4821}:newest"),
            ("invoice:{4821}", "invoice:{4821}:newest"),
        ] {
            assert_eq!(fence_key(key), fence);
            let slot = |key: &str| fred::util::redis_keyslot(key.as_bytes());
            assert_eq!(slot(key), slot(fence));
        }
    }
}
