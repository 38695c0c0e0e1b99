//! What must hold of a history, whatever happened. The chaos on real servers is checked by it too.

use crate::hold::Hold;

/// Which guarantees the run's assumptions give.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) exclusion: bool,
    pub(crate) fences: bool,
}

/// Every violation of the guarantees that the history of the holds shows.
pub(crate) fn check(rules: Rules, holds: &[Hold]) -> Vec<String> {
    let mut violations = Vec::new();
    for (i, first) in holds.iter().enumerate() {
        for second in &holds[i + 1..] {
            if !first.shares_resource(second) {
                continue;
            }
            if rules.exclusion && first.overlaps(second) {
                violations.push(format!("two hold at once:\n  {first:?}\n  {second:?}"));
            }
            if rules.fences {
                violations.extend(fence_order(first, second));
                violations.extend(fence_order(second, first));
            }
        }
    }
    violations
}

/// Was `earlier` held before `later` began? Then its fence is smaller. And no fence is given twice.
fn fence_order(earlier: &Hold, later: &Hold) -> Option<String> {
    let is_wrong = earlier.fence == later.fence
        || (earlier.from <= later.begun && earlier.fence > later.fence);
    is_wrong.then(|| format!("fences do not rise:\n  {earlier:?}\n  {later:?}"))
}
