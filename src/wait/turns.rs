//! Who has had a lock when, and so whose turn it is: all who wait see the same, and conclude the same.

use crate::mark::Mark;

/// So many others are known.
const LINE_MAX: usize = 64;
/// Whoever was passed over so often does not wait any more.
const PASSED_MAX: u8 = 2;

/// Those who take turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// In front whoever has not had it for longest.
    line: Vec<Known>,
    /// The last lock that was heard of.
    lock: Option<u32>,
}

#[derive(Debug)]
struct Known {
    mark: Mark,
    /// How often those behind it had it since it had it last.
    passed: u8,
}

impl Turns {
    /// `holder` has had this lock. False if that was known.
    pub(super) fn had(&mut self, holder: Mark, lock: u32, own: Mark) -> bool {
        if self.lock.replace(lock) == Some(lock) {
            return false;
        }
        let line = &mut self.line;
        if let Some(at) = line.iter().position(|known| known.mark == holder) {
            line.remove(at);
            for known in &mut line[..at] {
                known.passed = known.passed.saturating_add(1);
            }
            // What is known of oneself is no guess.
            line.retain(|known| known.passed < PASSED_MAX || known.mark == own);
        }
        if line.len() == LINE_MAX {
            line.remove(0);
        }
        line.push(Known {
            mark: holder,
            passed: 0,
        });
        true
    }

    /// How many take turns.
    pub(super) fn known(&self) -> u32 {
        u32::try_from(self.line.len()).unwrap_or(u32::MAX)
    }

    /// How many others are to have it before; `None` for one that has not had it yet.
    pub(super) fn ahead(&self, own: Mark) -> Option<u32> {
        let at = self.line.iter().position(|known| known.mark == own)?;
        u32::try_from(at).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::Entropy;

    fn marks(count: usize) -> Vec<Mark> {
        let entropy = Entropy::from_seed(1);
        (0..count).map(|_| Mark::fresh(&entropy)).collect()
    }

    /// It has another lock.
    fn has(turns: &mut Turns, holder: Mark, own: Mark) {
        let lock = turns.lock.map_or(0, |lock| lock + 1);
        assert!(turns.had(holder, lock, own));
    }

    /// What one of them knows who has seen all of that.
    fn seen(own: Mark, holders: &[Mark]) -> Turns {
        let mut turns = Turns::default();
        for &holder in holders {
            has(&mut turns, holder, own);
        }
        turns
    }

    #[test]
    fn all_agree_whose_turn_it_is_and_whoever_has_had_it_is_the_last() {
        let marks = marks(5);
        let mut history = Vec::new();
        for round in 0..20 {
            history.push(marks[round % 5]);
            if round < 5 {
                continue;
            }
            for (index, &own) in marks.iter().enumerate() {
                let ahead = (index + 5 - (round + 1) % 5) % 5;
                let known = seen(own, &history).ahead(own);
                assert_eq!(known, u32::try_from(ahead).ok());
            }
        }
    }

    #[test]
    fn one_that_has_not_had_it_has_no_place() {
        let marks = marks(3);
        let mut turns = seen(marks[2], &marks[..2]);
        assert_eq!(turns.ahead(marks[2]), None);
        has(&mut turns, marks[2], marks[2]);
        assert_eq!(turns.ahead(marks[2]), Some(2));
    }

    #[test]
    fn a_lock_that_is_told_of_again_is_no_news() {
        let marks = marks(3);
        let mut turns = seen(marks[0], &marks);
        assert!(!turns.had(marks[2], 2, marks[0]), "the same lock");
        assert_eq!(turns.ahead(marks[0]), Some(0));
        assert!(turns.had(marks[2], 3, marks[0]), "another one of its");
    }

    #[test]
    fn whoever_was_passed_over_twice_is_waited_for_no_longer() {
        let marks = marks(4);
        let own = marks[3];
        let mut turns = seen(own, &marks);
        has(&mut turns, marks[1], own);
        assert_eq!(turns.ahead(own), Some(2), "the first one may only be late");
        has(&mut turns, marks[2], own);
        assert_eq!(turns.ahead(own), Some(0), "it does not come");
        // One that is always quicker than all that are waited for passes them over too.
        let mut turns = seen(own, &marks);
        (0..2).for_each(|_| has(&mut turns, marks[2], own));
        assert_eq!(turns.ahead(own), Some(0));
        // It is passed over itself, and knows that it waits.
        has(&mut turns, marks[1], own);
        has(&mut turns, marks[2], own);
        assert_eq!(turns.ahead(own), Some(0));
    }

    #[test]
    fn a_newcomer_that_cuts_in_puts_nobody_out() {
        let (marks, newcomers) = (marks(4), &marks(14)[4..]);
        let turns = seen(marks[0], &[&marks[..], newcomers].concat());
        assert_eq!(turns.line.len(), 14);
        assert_eq!(turns.ahead(marks[0]), Some(0));
    }

    #[test]
    fn the_number_of_those_who_are_known_is_bounded() {
        let marks = marks(3 * LINE_MAX);
        assert_eq!(seen(marks[0], &marks).line.len(), LINE_MAX);
    }
}
