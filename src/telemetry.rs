//! Every event, in one place, under the target `fredlock`. Spans stand at the operations. Tokens are shortened by their type.

use std::time::Duration;

use tracing::{debug, info, warn};

use crate::{
    outcome::{MasterError, Outcomes},
    resources::Resources,
    signal::LostReason,
    token::Token,
};

pub(crate) const TARGET: &str = "fredlock";

pub(crate) fn attempt_failed(
    resources: &Resources,
    token: Token,
    why: &'static str,
    outcomes: &Outcomes,
) {
    debug!(target: TARGET, %resources, %token, why, %outcomes, "attempt failed, rolling back");
}

pub(crate) fn raised(resources: &Resources, token: Token, fence: u64) {
    debug!(target: TARGET, %resources, %token, fence, "masters have seen a larger fence, raising ours");
}

pub(crate) fn acquired(resources: &Resources, token: Token, fence: u64, validity: Duration) {
    debug!(target: TARGET, %resources, %token, fence, validity_ms = ms(validity), "acquired");
}

pub(crate) fn extended(resources: &Resources, token: Token, validity: Duration) {
    debug!(target: TARGET, %resources, %token, validity_ms = ms(validity), "extended");
}

pub(crate) fn extension_retried(resources: &Resources, token: Token, outcomes: &Outcomes) {
    debug!(target: TARGET, %resources, %token, %outcomes, "no quorum for an extension, trying again");
}

pub(crate) fn put_back(resources: &Resources, token: Token, master: &str) {
    info!(target: TARGET, %resources, %token, master, "putting the lock back on a master that lost it");
}

pub(crate) fn lost(resources: &Resources, token: Token, reason: &LostReason) {
    warn!(target: TARGET, %resources, %token, %reason, "lock lost");
}

pub(crate) fn released(resources: &Resources, token: Token, outcomes: &Outcomes) {
    debug!(target: TARGET, %resources, %token, %outcomes, "released");
}

pub(crate) fn release_failed(resources: &Resources, token: Token, error: &crate::ReleaseError) {
    warn!(target: TARGET, %resources, %token, %error, "the lock may stay until its ttl is over");
}

pub(crate) fn cleanup_left_to_ttl(resources: &Resources, masters: usize) {
    debug!(target: TARGET, %resources, masters, "masters did not answer a release in time, their keys are left to the ttl");
}

pub(crate) fn master_connected(master: &str, server: &str) {
    debug!(target: TARGET, master, server, "connected to a master");
}

pub(crate) fn master_unfit(master: &str, error: &MasterError) {
    warn!(target: TARGET, master, %error, "a master may not vote");
}

pub(crate) fn master_hung(master: &str) {
    warn!(target: TARGET, master, "a master does not answer, reconnecting");
}

pub(crate) fn tracking_refused(master: &str, error: &MasterError) {
    info!(
        target: TARGET,
        master, %error, "a master does not tell waiters of changes, they ask it by their retry policy alone"
    );
}

pub(crate) fn started_without_quorum(connected: usize, needed: usize) {
    warn!(
        target: TARGET, connected,
        needed, "too few masters are connected for a quorum; they join when they come up"
    );
}

fn ms(duration: Duration) -> u64 {
    crate::core::whole_ms(duration)
}
