//! What the joined histories of a run say.

use std::time::Duration;

use crate::{
    check::{Rules, check},
    hold::Hold,
    notice::LATE_MAX,
    plan::CLIENTS,
    record::{History, HoldId},
};

/// The largest of all signals in processes that were not stopped.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lateness {
    pub(crate) timed: usize,
    /// From the end of validity until the waiter ran.
    pub(crate) whole: Duration,
    /// Less the time in which its process had no core.
    pub(crate) own: Duration,
}

/// Every violation, and how late signals were.
pub(crate) fn judge(
    history: &History,
    pauses: &[(usize, Duration, Duration)],
) -> (Vec<String>, Lateness) {
    let holds: Vec<Hold> = history.holds.values().cloned().collect();
    let rules = Rules {
        exclusion: true,
        fences: true,
    };
    let mut violations = check(rules, &holds);
    let met = history.found.iter();
    violations.extend(met.filter_map(|&(holder, other)| meeting(history, holder, other)));
    violations.extend_from_slice(&history.violations);
    if history.finished < CLIENTS {
        violations.push(format!(
            "{} of {CLIENTS} clients came to their end",
            history.finished
        ));
    }
    let awake = history.notices.iter().filter(|notice| {
        let overlaps = |&&(process, from, to): &&(usize, Duration, Duration)| {
            process == notice.process && from < notice.ran && notice.end < to
        };
        !pauses.iter().any(|pause| overlaps(&pause))
    });
    let mut latest = Lateness::default();
    for notice in awake {
        let late = notice.ran.saturating_sub(notice.end);
        let own = late.saturating_sub(notice.stalled);
        latest.timed += 1;
        latest.whole = latest.whole.max(late);
        latest.own = latest.own.max(own);
        if own > LATE_MAX {
            violations.push(format!("a signal fired {late:?} late: {notice:?}"));
        }
    }
    (violations, latest)
}

/// Did two meet in a critical section that both held? Somebody who had not noticed yet that its
/// validity was over may be met there.
fn meeting(history: &History, holder: HoldId, other: HoldId) -> Option<String> {
    let holder = &history.holds[&holder];
    let Some(other) = history.holds.get(&other) else {
        return Some(format!(
            "hold {other:?}, which nobody knows, was met by {holder:?}"
        ));
    };
    holder
        .overlaps(other)
        .then(|| format!("two are in the critical section:\n  {holder:?}\n  {other:?}"))
}
