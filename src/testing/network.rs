//! What becomes of a request on its way to a master and of the answer on its way back.

use std::time::Duration;

/// A request that a client is about to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The index of the master.
    pub master: usize,
    /// Which client: a number for each [`Redlock`](crate::Redlock), from 0, in the order in which
    /// they were built.
    pub client: usize,
    /// What it asks.
    pub kind: MessageKind,
}

/// What a request asks of a master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageKind {
    /// To set the keys.
    Acquire,
    /// To extend them.
    Extend,
    /// To write them anew where they are missing, after a quorum extended them.
    PutBack,
    /// To delete them: a release, the roll-back of a failed attempt, or an operator's break.
    Release,
    /// To tell what it has, the state of its restart guard, or that it is there: nothing changes.
    Inspect,
    /// To mark it for a restart guard.
    Initialise,
    /// To tell when they are free or were changed, for one who waits. A request that is lost is never
    /// answered; an answer that is lost is a notice that never comes, one that is delayed comes late;
    /// one that is repeated is a false alarm, so long after the question.
    Watch,
    /// Several of these together. Only where a simulation asks for it.
    #[doc(hidden)]
    Group,
}

/// What becomes of one request. By default it arrives at once, and so does the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
pub struct Fate {
    pub(super) request_delay: Duration,
    pub(super) reply_delay: Duration,
    pub(super) request_lost: bool,
    pub(super) reply_lost: bool,
    pub(super) late: bool,
    pub(super) repeat_after: Option<Duration>,
    pub(super) refused: bool,
}

impl Fate {
    /// Takes this long on the way there. Requests of one client to one master stay in order: a
    /// later one does not arrive before.
    #[must_use]
    pub fn delay_request(self, delay: Duration) -> Self {
        Self {
            request_delay: delay,
            ..self
        }
    }

    /// The answer takes this long on the way back.
    #[must_use]
    pub fn delay_reply(self, delay: Duration) -> Self {
        Self {
            reply_delay: delay,
            ..self
        }
    }

    /// Never arrives.
    #[must_use]
    pub fn lose_request(self) -> Self {
        Self {
            request_lost: true,
            ..self
        }
    }

    /// Is done, but the answer is lost.
    #[must_use]
    pub fn lose_reply(self) -> Self {
        Self {
            reply_lost: true,
            ..self
        }
    }

    /// Arrives out of order, this much later, and its answer is lost: the bytes of a connection
    /// that was given up reach the master after those of the next one.
    #[must_use]
    pub fn straggle(self, delay: Duration) -> Self {
        Self {
            request_delay: delay,
            late: true,
            reply_lost: true,
            ..self
        }
    }

    /// Arrives once more, this long after the first time.
    #[must_use]
    pub fn repeat(self, after: Duration) -> Self {
        Self {
            repeat_after: Some(after),
            ..self
        }
    }

    /// The connection is refused: nothing is sent, and the client knows.
    #[must_use]
    pub fn refuse(self) -> Self {
        Self {
            refused: true,
            ..self
        }
    }
}
