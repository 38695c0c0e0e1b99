//! One time that a client held a lock, as it saw it.

use std::time::Duration;

/// Times count from a moment that all clients of a run share.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) client: usize,
    pub(crate) resources: Vec<usize>,
    pub(crate) fence: u64,
    /// When the call began that acquired it.
    pub(crate) begun: Duration,
    pub(crate) from: Duration,
    /// The end of its validity, as last seen.
    pub(crate) until: Duration,
    /// When the client gave it up, or learnt of its loss.
    pub(crate) ended: Option<Duration>,
}

impl Hold {
    pub(crate) fn shares_resource(&self, other: &Self) -> bool {
        self.resources
            .iter()
            .any(|resource| other.resources.contains(resource))
    }

    /// Do the windows share a moment?
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.from < other.end() && other.from < self.end()
    }

    fn end(&self) -> Duration {
        self.ended.map_or(self.until, |ended| ended.min(self.until))
    }
}
