//! How late a signal is.

use std::{pin::pin, sync::Arc, time::Duration};

use fredlock::{LostReason, Signal};
use tokio::time::sleep;

use crate::{
    client::{end_of, signal_left},
    clock::{Pulse, now},
    plan::TTL,
    record::Recorder,
};

/// A waiter may run so much later than the end of validity in time that its process had, and in which
/// no thread of its runtime waited for a core.
pub(crate) const LATE_MAX: Duration = Duration::from_millis(100);
/// By how much a signal fires before the validity ends.
const MARGIN: Duration = Duration::from_millis(2);
/// How often whoever waits for a signal looks at what is left.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PRECISION: Duration = Duration::from_millis(1);

/// Until the next look. None comes in the moment at which the validity ends, since it would fire the
/// signal itself; only when that would be far too late.
fn pause(end: Duration) -> Duration {
    let next = now() + LOOK_EVERY;
    let is_close = next + LOOK_EVERY >= end;
    let at = if is_close {
        end + LATE_MAX + LOOK_EVERY
    } else {
        next
    };
    at.saturating_sub(now())
}

/// Waits for the signal, and writes down how late it was.
pub(crate) async fn time_notice(
    signal: Signal,
    recorder: Arc<Recorder>,
    pulse: Pulse,
    process: usize,
) {
    let mut aborted = pin!(signal.aborted());
    let (mut looked, mut end) = (now(), Duration::ZERO);
    let reason = loop {
        let at = now();
        let seen = end_of(|| signal_left(&signal));
        // Whoever was stopped in the middle of a look has seen nothing.
        if let Some(seen) = seen
            && now() < at + PRECISION
        {
            (looked, end) = (at, end.max(seen + MARGIN));
        }
        tokio::select! {
            biased;
            reason = &mut aborted => break reason,
            () = sleep(pause(end)) => {}
        }
    };
    let ran = now();
    // An extension since the last look would have set a later end than this moment: there was none,
    // so the end is known.
    let is_known = !end.is_zero() && ran < looked + TTL.mul_f64(0.95);
    if matches!(reason, LostReason::Expired { .. }) && is_known {
        recorder.notice(process, end, ran, pulse.stalled(end, ran));
    }
}
