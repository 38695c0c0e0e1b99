//! The seam: what the protocol asks of a master, whatever stands behind it.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use crate::{
    label::{OwnerLabel, value_of},
    outcome::{Answer, MasterError},
    resources::Resources,
    token::Token,
};

pub(crate) mod connection;
mod epoch;
mod exchange;
pub(crate) mod fred;
pub(crate) mod identity;
mod native;
mod question;
mod scripts;
mod watchdog;

pub(crate) use question::{GuardSight, Question, Sight};

/// A call under way. It ends by itself within its timeout, and is polled to that end: dropping it
/// would not take the command back.
pub(crate) type Call = Pin<Box<dyn Future<Output = Result<Answer, MasterError>> + Send>>;

/// A question under way: as a call.
pub(crate) type Asking = Pin<Box<dyn Future<Output = Result<Sight, MasterError>> + Send>>;

/// The keys of a restart guard begin so.
pub(crate) const GUARD_PREFIX: &str = "fredlock:guard:";
/// Stands, without expiry, on a master that has not forgotten anything since it was set.
pub(crate) const GUARD_MARKER: &str = "fredlock:guard:marker";
/// Stands on a master that may have forgotten something, until nobody can rely on that any more.
pub(crate) const GUARD_QUARANTINE: &str = "fredlock:guard:quarantine";

/// The shortest timeout of a call: none at all would mean "without end" to fred.
pub(crate) const CALL_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// One master.
///
/// Calls to one master reach it in the order of their first polls, as long as its connection
/// lasts; after a reconnection an earlier one may arrive late.
pub(crate) trait Master: Send + Sync + fmt::Debug {
    /// Host and port, or the path of a socket, and the database unless that is 0; never credentials.
    fn name(&self) -> &Arc<str>;

    /// Sends the request at the first poll. The answer comes within `timeout`.
    fn call(&self, request: &Request, timeout: Duration) -> Call;

    /// Asks something beside the protocol, at the first poll. The answer comes within `timeout`.
    fn ask(&self, question: &Question, timeout: Duration) -> Asking;

    /// Lets go of the connection. Ends within a second.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// What can be asked of a master.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    pub(crate) resources: Resources,
    pub(crate) token: Token,
    pub(crate) label: Option<OwnerLabel>,
    /// `None` without fencing.
    pub(crate) fence: Option<FenceWrite>,
    /// How long a master that has forgotten what it knew is in quarantine; `None` without a guard.
    pub(crate) guard_ms: Option<u64>,
}

impl Request {
    /// The value of every lock key of ours.
    pub(crate) fn value(&self) -> String {
        value_of(self.token, self.label.as_ref())
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    /// Set every lock key to the token if none has another value, and raise every fence key.
    Acquire { ttl_ms: u64 },
    /// Set the ttl where the value of every lock key is the token; never a shorter one.
    Extend {
        ttl_ms: u64,
        missing: Missing,
        /// No other ttl was ever sent for this token: then a late one cannot shorten.
        uniform: bool,
    },
    /// Delete where the value is the token, and raise every fence key to `fence` (the tombstone).
    Release,
}

/// What an extension does where a lock key is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Say so, and write nothing.
    Report,
    /// Put it back, unless somebody with a larger fence has been there.
    PutBack,
}

/// The fence that goes with a write, and how long the master has to remember it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FenceWrite {
    pub(crate) fence: u64,
    pub(crate) lives_ms: u64,
}
