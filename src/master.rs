//! The seam: what the protocol asks of a master, whatever stands behind it.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use ::fred::bytes_utils::Str;
use tokio::time::Instant;

use crate::{
    answers::Answers,
    mark::Mark,
    outcome::{Answer, MasterError},
    resources::Resources,
    token::Token,
};

mod arguments;
pub(crate) mod connection;
mod epoch;
mod exchange;
pub(crate) mod fred;
pub(crate) mod identity;
mod native;
mod question;
pub(crate) mod queue;
mod runs;
mod scripts;
mod tracking;
mod watchdog;

pub(crate) use arguments::Arguments;
#[cfg(any(feature = "cli", feature = "testing"))]
pub(crate) use question::Break;
pub(crate) use question::{GuardSight, Question, Sight};

/// A call under way. It is polled to its end: dropping it would not take the command back.
pub(crate) type Call = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// What one operation came to.
pub(crate) type Reply = Result<Answer, MasterError>;

/// When the answer to a request is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    /// So long after it is sent.
    pub(crate) timeout: Duration,
    /// The same, as a moment.
    pub(crate) deadline: Instant,
}

/// A question under way: as a call.
pub(crate) type Asking = Pin<Box<dyn Future<Output = Result<Sight, MasterError>> + Send>>;

/// The keys of a restart guard begin so.
pub(crate) const GUARD_PREFIX: &str = "fredlock:guard:";
/// Stands, without expiry, on a master that has not forgotten anything since it was set.
pub(crate) const GUARD_MARKER: &str = "fredlock:guard:marker";
/// Stands on a master that may have forgotten something, until nobody can rely on that any more.
pub(crate) const GUARD_QUARANTINE: &str = "fredlock:guard:quarantine";

/// Listens to a master until it tells something of keys. May never end.
pub(crate) type Watch = Pin<Box<dyn Future<Output = Watched> + Send>>;

/// What a master tells of keys that it was asked to watch. A hint: it may be late, lost, or wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    /// None of them was there when it was asked.
    Free,
    /// One of them was there, and one was changed since: deleted, extended, or set by somebody else.
    /// Who held the first of them that was there, if that is known.
    Changed(Option<Holder>),
    /// It cannot tell.
    Silent,
}

/// Who held a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) mark: Mark,
    /// What its token begins with: another one for each lock.
    pub(crate) lock: u32,
    /// The index of the resource among those that were watched.
    pub(crate) resource: usize,
}

impl Holder {
    /// By what stands under the key; `None` where another program wrote it.
    pub(crate) fn of(resource: usize, value: &str) -> Option<Self> {
        let mark = Mark::in_value(value)?;
        let lock = u32::from_str_radix(value.get(..8)?, 16).ok()?;
        Some(Self {
            mark,
            lock,
            resource,
        })
    }
}

/// The shortest timeout of a call: none at all would mean "without end" to fred.
pub(crate) const CALL_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// One master.
///
/// Requests reach it in the order in which they are sent, as long as its connection
/// lasts; after a reconnection an earlier one may arrive late.
pub(crate) trait Master: Send + Sync + fmt::Debug {
    /// Host and port, or the path of a socket, and the database unless that is 0; never credentials.
    fn name(&self) -> &Arc<str>;

    /// Sends the request; all but the first poll of the call that is given back, if one is. That call
    /// ends when its answer is due.
    ///
    /// Without one, the request travels together with others, which are driven in the background. Its
    /// answer is put at its index, sooner or later: whoever waits has to know when it is due.
    fn send(
        &self,
        request: &Arc<Request>,
        due: Due,
        answers: &Arc<Answers>,
        index: usize,
    ) -> Option<Call>;

    /// Asks something beside the protocol, at the first poll. The answer comes within `timeout`.
    fn ask(&self, question: &Question, timeout: Duration) -> Asking;

    /// Asks at the first poll whether the keys of the resources are free, and if they are not, waits
    /// until one of them is changed. Writes nothing. Not on the way of the calls: nothing is said
    /// about the order.
    ///
    /// Dropping it ends the interest.
    fn watch(&self, resources: &Resources) -> Watch;

    /// Lets go of the connections. Ends within a second.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// What can be asked of a master.
///
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    pub(crate) resources: Resources,
    #[cfg_attr(
        not(feature = "testing"),
        expect(
            dead_code,
            reason = "masters in memory note it; others are sent the value"
        )
    )]
    pub(crate) token: Token,
    /// What every lock key of ours has: the token, and the owner's label behind it.
    pub(crate) value: Str,
    /// `None` without fencing.
    pub(crate) fence: Option<FenceWrite>,
    /// How long a master that has forgotten what it knew is in quarantine; `None` without a guard.
    pub(crate) guard_ms: Option<u64>,
    /// What follows from the rest.
    pub(crate) arguments: Arguments,
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
    /// Delete where the value is the token; and raise every fence key to `fence` (the tombstone) if
    /// not every key was ours, or if `may_return`.
    Release {
        /// May a write of this token that a fence of its own does not stop arrive yet? A late
        /// acquire is stopped where its key stood: it left its fence there. A raised one and a
        /// put-back are not.
        may_return: bool,
    },
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
