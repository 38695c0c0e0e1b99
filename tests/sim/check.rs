//! What must hold of a history, whatever the seed.

use crate::{history::Hold, plan::Plan};

/// Every violation of the guarantees that the history of the holds shows.
pub(crate) fn check(plan: &Plan, holds: &[Hold]) -> Vec<String> {
    let mut violations = Vec::new();
    for (i, first) in holds.iter().enumerate() {
        for second in &holds[i + 1..] {
            if !shares(first, second) {
                continue;
            }
            if plan.weather.keeps_exclusion() && overlap(first, second) {
                violations.push(format!("two hold at once:\n  {first:?}\n  {second:?}"));
            }
            if plan.fenced && plan.weather.keeps_fences() {
                violations.extend(fence_order(first, second));
                violations.extend(fence_order(second, first));
            }
        }
    }
    violations
}

fn shares(a: &Hold, b: &Hold) -> bool {
    a.resources
        .iter()
        .any(|resource| b.resources.contains(resource))
}

/// Do the windows share a moment?
fn overlap(a: &Hold, b: &Hold) -> bool {
    let end = |hold: &Hold| hold.ended.map_or(hold.until, |ended| ended.min(hold.until));
    a.from < end(b) && b.from < end(a)
}

/// Was `earlier` held before `later` began? Then its fence is smaller. And no fence is given twice.
fn fence_order(earlier: &Hold, later: &Hold) -> Option<String> {
    let is_wrong = earlier.fence == later.fence
        || (earlier.from <= later.begun && earlier.fence > later.fence);
    is_wrong.then(|| format!("fences do not rise:\n  {earlier:?}\n  {later:?}"))
}
