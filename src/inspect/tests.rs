//! What follows from what masters say.

use super::{verdict::possession, *};
use crate::{label::breaks_lines, outcome::MasterError};

/// `.` has no key, `!` does not answer, `?` is in quarantine without a key; a letter is the key of
/// that holder, a capital one that of the same holder on a master in quarantine.
fn findings(masters: &str) -> Vec<Finding> {
    let finding = |(index, kind): (u64, char)| {
        let quarantined = kind == '?' || kind.is_uppercase();
        let holder = kind
            .is_alphabetic()
            .then(|| Holder(kind.to_lowercase().to_string().into()));
        let guard = if quarantined {
            let time_left = Duration::from_secs(1);
            GuardState::Quarantined { time_left }
        } else {
            GuardState::Ready
        };
        let state = KeyState {
            time_left: holder
                .as_ref()
                .map(|_| Duration::from_millis(100 * (index + 1))),
            holder,
            fence: Fence::NONE,
            guard: Some(guard),
        };
        Finding {
            master: "m".into(),
            state: if kind == '!' {
                Err(MasterError::Timeout)
            } else {
                Ok(state)
            },
            took: Duration::ZERO,
        }
    };
    (0..).zip(masters.chars()).map(finding).collect()
}

fn verdict(masters: &str) -> Possession {
    possession(
        Quorum::majority(masters.len()),
        &findings(masters),
        Duration::ZERO,
    )
}

#[test]
fn it_is_held_by_whom_a_quorum_out_of_quarantine_has() {
    for masters in [
        "a", "aa.", "aab", "a!a", "aaa..", "aabba", "aa!!a", "aa?", "aaaB!",
    ] {
        let Possession::Held { holder, .. } = verdict(masters) else {
            panic!("{masters}: {:?}", verdict(masters));
        };
        assert_eq!(holder, Holder("a".into()), "{masters}");
    }
    for masters in ["aA.", "a!!", "aaA!!", "aAA", "aAA.."] {
        let verdict = verdict(masters);
        assert!(!matches!(verdict, Possession::Held { .. }), "{masters}");
    }
}

#[test]
fn it_is_free_where_a_quorum_would_grant_it() {
    for masters in [".", "...", "a..", ".!.", "ab...", "!!...", "?..", "A.."] {
        assert_eq!(verdict(masters), Possession::Free, "{masters}");
    }
}

#[test]
fn it_is_split_only_where_the_missing_masters_could_not_change_that() {
    for masters in ["a.", "ab", "abc", "ab.", "aabb", "aa..", "aabbc", "aabb."] {
        assert_eq!(verdict(masters), Possession::Split, "{masters}");
    }
    for masters in [
        "!", "ab!", "a.?", "!!a", "???", "aabb!", "aA.", "..AAA", "aaA..",
    ] {
        assert_eq!(verdict(masters), Possession::Unknown, "{masters}");
    }
}

#[test]
fn a_larger_quorum_counts() {
    let four = Quorum::of(5, 4).unwrap();
    let verdict = |masters| possession(four, &findings(masters), Duration::ZERO);
    assert!(matches!(verdict("aaaab"), Possession::Held { .. }));
    assert_eq!(verdict("aaa.."), Possession::Split);
    assert_eq!(verdict("aaa!."), Possession::Unknown);
    assert_eq!(verdict("...!!"), Possession::Unknown);
}

#[test]
fn it_is_held_for_as_long_as_a_quorum_has_the_key_less_the_age_of_the_news() {
    let ms = Duration::from_millis;
    let left = |findings: &[Finding], age| {
        let quorum = Quorum::majority(findings.len());
        match possession(quorum, findings, age) {
            Possession::Held { for_at_least, .. } => for_at_least,
            other => panic!("{other:?}"),
        }
    };
    // 100 to 500 ms: with three of five needed, the third longest counts.
    assert_eq!(left(&findings("aaaaa"), ms(0)), Some(ms(300)));
    assert_eq!(left(&findings("aaaaa"), ms(20)), Some(ms(280)));
    assert_eq!(left(&findings("aaaaa"), ms(900)), Some(ms(0)));
    let mut endless = findings("aaa");
    let mut persist = |index: usize| {
        if let Ok(state) = &mut endless[index].state {
            state.time_left = None;
        }
        endless.clone()
    };
    assert_eq!(left(&persist(0), ms(0)), Some(ms(300)));
    assert_eq!(left(&persist(1), ms(0)), None);
}

#[test]
fn no_format_shows_the_whole_value() {
    for value in [
        "",
        "a",
        "ab",
        "secret-17",
        "0123456789abcdef",
        "a\nb\u{1b}[2Jcdefgh",
    ] {
        let holder = Holder(value.into());
        for shown in [format!("{holder}"), format!("{holder:?}")] {
            let whole = value.chars().take(9).collect::<String>();
            assert!(whole.is_empty() || !shown.contains(&whole), "{shown}");
            assert!(!shown.contains(breaks_lines), "{shown:?}");
        }
    }
    let token = "01234567-89ab-4def-8123-456789abcdef";
    assert_eq!(Holder(token.into()).to_string(), "01234567…");
    let labelled = Holder(format!("{token}:worker-7").into());
    assert_eq!(labelled.to_string(), "01234567… (worker-7)");
}

/// What masters say of which each has that value under the key, and that fence, in seconds since 1970.
fn inspection(masters: &[(&str, u64)]) -> Inspection {
    let finding = |(value, seconds): &(&str, u64)| Finding {
        master: "m".into(),
        state: Ok(KeyState {
            holder: (!value.is_empty()).then(|| Holder((*value).into())),
            time_left: Some(Duration::from_secs(1)),
            fence: Fence::new(seconds * 1_000_000),
            guard: None,
        }),
        took: Duration::ZERO,
    };
    let masters: Vec<_> = masters.iter().map(finding).collect();
    Inspection {
        resource: "job".to_owned(),
        verdict: possession(Quorum::majority(masters.len()), &masters, Duration::ZERO),
        masters,
    }
}

#[test]
fn it_is_held_since_the_smallest_fence_where_the_holder_has_its_key() {
    let (a, b) = (
        "01234567-89ab-4def-8123-456789abcdef",
        "11234567-89ab-4def-8123-456789abcdef:web-1",
    );
    let since = |masters: &[(&str, u64)]| {
        let since = inspection(masters).held_since()?;
        Some(since.duration_since(UNIX_EPOCH).unwrap().as_secs())
    };
    // Attempts of others have raised it on two; a master without the key, and one that has forgotten,
    // tell nothing of its holder.
    assert_eq!(since(&[(a, 30), (a, 20), (a, 40)]), Some(20));
    assert_eq!(since(&[(b, 30), (b, 20), ("", 5)]), Some(20));
    assert_eq!(since(&[(b, 30), (b, 20), (a, 5), (a, 5), (b, 0)]), Some(20));
    assert_eq!(since(&[(a, 0), (a, 0), (a, 0)]), None);
    assert_eq!(since(&[("", 30), ("", 30), (a, 30)]), None);
    let others = [
        "another",
        "01234567-89ab-1def-8123-456789abcdef",
        "01234567-89ab-4def-8123-456789abcdefx",
    ];
    for other in others {
        assert_eq!(since(&[(other, 30); 3]), None, "{other}");
    }
}
