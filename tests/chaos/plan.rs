//! What is decided before a run begins.

use std::time::Duration;

use fredlock::testing::Mutant;

pub(crate) const MASTERS: usize = 5;
/// Processes.
pub(crate) const CLIENTS: usize = 3;
/// In each process.
pub(crate) const TASKS: usize = 4;
pub(crate) const RESOURCES: usize = 3;
pub(crate) const TTL: Duration = Duration::from_millis(500);

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// How long faults are injected.
    pub(crate) lasts: Duration,
    /// Do masters keep what they acknowledged when they are killed?
    pub(crate) persistent: bool,
    /// The rule of the protocol that clients break.
    pub(crate) mutant: Option<Mutant>,
}

pub(crate) fn resource_name(resource: usize) -> String {
    format!("resource-{resource}")
}

/// The number that an environment variable gives.
pub(crate) fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, not `{text}`")),
    )
}
