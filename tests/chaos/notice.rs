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

/// A waiter may run so much later than the end of validity in time that its process had: on a
/// machine with more to do than cores, one thread is scheduled later than another.
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
    let mut waits = waits_for_the_disk();
    let reason = loop {
        let at = now();
        let seen = end_of(|| signal_left(&signal));
        // Whoever was stopped in the middle of a look has seen nothing.
        if let Some(seen) = seen
            && now() < at + PRECISION
        {
            (looked, end) = (at, end.max(seen + MARGIN));
            waits = waits_for_the_disk();
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
        // A machine that is short of memory takes code away that has not run for a while. Threads
        // that need it again wait for a disk that others keep busy, while that of the pulse runs on.
        let stalled = if waits_for_the_disk() == waits {
            pulse.stalled(end, ran)
        } else {
            ran.saturating_sub(end)
        };
        recorder.notice(process, end, ran, stalled);
    }
}

/// How often a thread of this process has waited for the disk to bring memory back (the field
/// `majflt` of the manual page `proc_pid_stat`).
fn waits_for_the_disk() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("the process itself");
    // The name before may hold anything, spaces and parentheses included.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let majflt = fields.split_whitespace().nth(9).expect("a twelfth field");
    majflt.parse().expect("a number")
}
