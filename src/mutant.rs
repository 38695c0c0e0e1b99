//! Faults of the protocol on purpose, so that the simulation can show that it would notice them.

/// A rule of the protocol that is broken.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mutant {
    /// No drift is taken off the validity.
    NoDrift,
    /// The window counts from the reply, not from the first send.
    WindowFromReply,
    /// All attempts of one acquisition have the same token.
    OneToken,
    /// A release leaves no tombstone.
    NoTombstone,
    /// The tombstone is our own fence, not one more.
    TombstoneTooLow,
    /// A missing lock is put back whatever fence the master has seen.
    PutBackBlind,
    /// An extension sets its ttl even where more is left.
    ExtensionShortens,
    /// An extension is accepted after the validity has ended.
    ExtensionAfterExpiry,
    /// Of several resources, only the first one's fence is checked.
    FirstFenceOnly,
    /// A quorum is enough, however late it is.
    ValidityUnchecked,
    /// A failed attempt is rolled back only where it was granted.
    RollBackWhereGranted,
    /// A quorum is one of the masters that are connected.
    QuorumOfConnected,
    /// What is put back on a master in quarantine is counted.
    QuarantineCounted,
    /// Only an acquisition looks for the marker of the restart guard.
    GuardOnlyInAcquire,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::NoDrift,
        Self::WindowFromReply,
        Self::OneToken,
        Self::NoTombstone,
        Self::TombstoneTooLow,
        Self::PutBackBlind,
        Self::ExtensionShortens,
        Self::ExtensionAfterExpiry,
        Self::FirstFenceOnly,
        Self::ValidityUnchecked,
        Self::RollBackWhereGranted,
        Self::QuorumOfConnected,
        Self::QuarantineCounted,
        Self::GuardOnlyInAcquire,
    ];
}
