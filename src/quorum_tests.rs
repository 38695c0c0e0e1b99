//! Every order of answers, and every size of duration.

use proptest::prelude::*;

use super::*;

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Granted { seen: 0 }),
        Just(Answer::Stale { seen: 1 }),
        Just(Answer::Busy {
            seen: 0,
            time_left: None
        }),
        Just(Answer::Failed(MasterError::Timeout)),
    ]
}

fn tally(quorum: Quorum, answers: &[Answer]) -> Tally {
    let mut tally = Tally::new(quorum);
    for answer in answers {
        tally.count(answer);
    }
    tally
}

fn count(answers: &[Answer], is: impl Fn(&Answer) -> bool) -> usize {
    answers.iter().filter(|a| is(a)).count()
}

#[test]
fn any_two_majorities_share_a_master() {
    for n in 1..=9 {
        let quorum = Quorum::majority(n);
        assert!(2 * quorum.needed > n && quorum.needed <= n, "{quorum:?}");
    }
}

#[test]
fn a_majority_of_five_takes_three_answers_and_one_more_for_each_that_is_of_no_use() {
    let of = |answers: &[Answer]| tally(Quorum::majority(5), answers).answers_to_verdict();
    let (granted, failed) = (
        Answer::Granted { seen: 0 },
        Answer::Failed(MasterError::Timeout),
    );
    assert_eq!(of(&[]), 3);
    assert_eq!(of(std::slice::from_ref(&granted)), 2);
    assert_eq!(of(&[granted.clone(), failed.clone()]), 2);
    assert_eq!(of(&[granted.clone(), failed, granted]), 1);
}

proptest! {
    #[test]
    fn a_round_won_has_a_quorum_of_grants_and_a_lost_one_cannot_get_it(
        answers in prop::collection::vec(answer(), 0..9), silent in 0usize..4,
    ) {
        let n = (answers.len() + silent).max(1);
        let quorum = Quorum::majority(n);
        let granted = count(&answers, |a| matches!(a, Answer::Granted { .. }));
        let stale = count(&answers, |a| matches!(a, Answer::Stale { .. }));
        let silent = n - answers.len();
        match tally(quorum, &answers).verdict() {
            Verdict::Won => prop_assert!(granted >= quorum.needed),
            Verdict::Raise => prop_assert!(granted + stale >= quorum.needed && stale > 0),
            Verdict::Refused | Verdict::Unreachable => {
                prop_assert!(granted + stale + silent < quorum.needed);
            }
            Verdict::Pending => {
                prop_assert!(silent > 0 && granted < quorum.needed);
            }
        }
    }

    #[test]
    fn no_fewer_answers_than_are_told_decide_a_round(
        answers in prop::collection::vec(answer(), 1..10), needed in 0usize..5,
    ) {
        let n = answers.len();
        let quorum = Quorum::of(n, n / 2 + 1 + needed).unwrap_or(Quorum::majority(n));
        for heard in 0..n {
            let tally_now = tally(quorum, &answers[..heard]);
            if tally_now.verdict() != Verdict::Pending {
                break;
            }
            let least = tally_now.answers_to_verdict();
            prop_assert!(least >= 1 && heard + least <= n);
            for more in 1..least {
                let later = tally(quorum, &answers[..heard + more]);
                prop_assert_eq!(later.verdict(), Verdict::Pending);
            }
        }
    }

    #[test]
    fn a_verdict_of_won_or_lost_never_changes(
        answers in prop::collection::vec(answer(), 1..9),
    ) {
        let quorum = Quorum::majority(answers.len());
        let mut decided = None;
        for i in 0..=answers.len() {
            let verdict = tally(quorum, &answers[..i]).verdict();
            match (decided, verdict) {
                (Some(Verdict::Won), v) => prop_assert_eq!(v, Verdict::Won),
                // Refused may turn out to be for want of masters: both are a loss.
                (Some(_), v) => prop_assert!(matches!(v, Verdict::Refused | Verdict::Unreachable)),
                (None, Verdict::Won | Verdict::Refused | Verdict::Unreachable) => decided = Some(verdict),
                (None, _) => {}
            }
        }
        prop_assert_ne!(tally(quorum, &answers).verdict(), Verdict::Pending);
    }

    #[test]
    fn the_window_is_shorter_than_the_ttl_by_the_drift(ms in 1u64..=3_155_760_000_000, factor in 0.0f64..0.5) {
        let ttl = Duration::from_millis(ms);
        let window = window(ttl, factor);
        prop_assert!(window + drift(ttl, factor) >= ttl);
        prop_assert!(window + Duration::from_millis(2) <= ttl || window.is_zero());
    }

    #[test]
    fn a_waiter_is_told_the_time_at_which_a_quorum_has_expired(
        lefts in prop::collection::vec(0u64..1000, 1..8), free in 0usize..4,
    ) {
        let quorum = Quorum::majority(lefts.len() + free);
        let mut answers: Vec<_> = lefts.iter()
            .map(|ms| Answer::Busy { seen: 0, time_left: Some(Duration::from_millis(*ms)) })
            .collect();
        answers.extend((0..free).map(|_| Answer::Granted { seen: 0 }));
        match time_until_free(quorum, answers.iter()) {
            Some(wait) => {
                let expired = lefts.iter().filter(|ms| Duration::from_millis(**ms) <= wait).count();
                prop_assert!(expired + free >= quorum.needed);
            }
            None => prop_assert!(free >= quorum.needed),
        }
    }
}
