//! What must hold on every kind of masters.

use std::time::Duration;

use fredlock::{AcquireError, Answer, ExtendError, Fence, Fencing, ReleaseError};

use super::rig::{MASTERS, Rig, TTL};
use crate::support::eventually;

fn fence_key(resource: &str) -> String {
    format!("{{{resource}}}:fence")
}

pub(super) async fn an_acquired_lock_stands_on_every_master_with_its_ttl(rig: Rig) {
    let lock = rig.client().await.acquire(["a", "b"], TTL).await.unwrap();
    rig.assert_held_on(&lock, &[0, 1, 2]).await;
    for name in ["a", "b"] {
        for master in 0..MASTERS {
            rig.assert_ttl(master, name, TTL).await;
            let fence = rig.get(master, &fence_key(name)).await;
            assert_eq!(fence, rig.fenced.then(|| lock.fence().to_string()));
        }
    }
    assert_eq!(lock.fence() == Fence::NONE, !rig.fenced);
    assert!(lock.is_valid() && lock.remaining() < TTL * 99 / 100);
}

pub(super) async fn a_held_lock_is_busy_for_others_who_are_told_the_time_left(rig: Rig) {
    let _held = rig.client().await.acquire(["a"], TTL).await.unwrap();
    let error = rig
        .client()
        .await
        .try_acquire(["a"], TTL)
        .await
        .unwrap_err();
    let AcquireError::Busy(attempts) = &error else {
        panic!("{error}")
    };
    let told = attempts.outcomes.iter().filter(|outcome| {
        matches!(outcome.answer(), Answer::Busy { time_left: Some(left), .. } if *left <= TTL && *left > TTL / 2)
    });
    assert!(told.count() >= 2, "{error}");
}

pub(super) async fn a_release_leaves_no_lock_key_and_the_next_attempt_succeeds(rig: Rig) {
    let client = rig.client().await;
    let outcomes = client
        .acquire(["a", "b"], TTL)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let released = outcomes
        .iter()
        .filter(|outcome| *outcome.answer() == Answer::Released);
    assert!(released.count() >= 2, "{outcomes}");
    rig.assert_free("a").await;
    rig.assert_free("b").await;
    let next = rig.client().await.try_acquire(["a", "b"], TTL).await;
    assert!(next.is_ok(), "{next:?}");
}

pub(super) async fn a_foreign_value_on_a_minority_is_left_alone_and_costs_nothing(rig: Rig) {
    rig.set(2, "a", "foreign").await;
    let lock = rig.client().await.try_acquire(["a"], TTL).await.unwrap();
    let ours = Some(lock.token().reveal());
    assert_eq!(
        rig.values("a").await,
        [ours.clone(), ours, Some("foreign".into())]
    );
    lock.release().await.unwrap();
    eventually("only the foreign value is left", TTL / 4, || async {
        rig.values("a").await == [None, None, Some("foreign".to_owned())]
    })
    .await;
}

pub(super) async fn a_foreign_value_on_a_majority_is_busy_and_everything_is_taken_back(rig: Rig) {
    rig.set(0, "a", "foreign").await;
    rig.set(1, "a", "foreign").await;
    let error = rig
        .client()
        .await
        .try_acquire(["a"], TTL)
        .await
        .unwrap_err();
    assert!(
        error.is_busy() && matches!(error, AcquireError::Busy(_)),
        "{error}"
    );
    eventually("master 2 is free again", TTL / 4, || async {
        rig.get(2, "a").await.is_none()
    })
    .await;
    assert_eq!(rig.get(0, "a").await.as_deref(), Some("foreign"));
}

pub(super) async fn several_resources_are_all_or_none_on_each_master(rig: Rig) {
    rig.set(1, "b", "foreign").await;
    let lock = rig
        .client()
        .await
        .try_acquire(["a", "b", "c"], TTL)
        .await
        .unwrap();
    let ours = Some(lock.token().reveal());
    for name in ["a", "c"] {
        assert_eq!(
            rig.values(name).await,
            [ours.clone(), None, ours.clone()],
            "{name}"
        );
    }
    assert_eq!(rig.get(1, "b").await.as_deref(), Some("foreign"));
    assert_eq!(
        rig.get(1, &fence_key("a")).await,
        None,
        "nothing is written where one is busy"
    );
}

pub(super) async fn sets_conflict_exactly_when_they_share_a_name(rig: Rig) {
    let client = rig.client().await;
    let _ab = client.try_acquire(["b", "a", "b"], TTL).await.unwrap();
    let error = client.try_acquire(["b", "c"], TTL).await.unwrap_err();
    assert!(matches!(error, AcquireError::Busy(_)), "{error}");
    let disjoint = client.try_acquire(["c", "d"], TTL).await;
    assert!(disjoint.is_ok(), "{disjoint:?}");
}

pub(super) async fn an_expired_lock_can_be_had_by_the_next(rig: Rig) {
    let client = rig.client().await;
    let short = Duration::from_millis(300);
    let first = client.try_acquire(["a"], short).await.unwrap();
    tokio::time::sleep(short + Duration::from_millis(20)).await;
    assert!(!first.is_valid());
    let second = client.try_acquire(["a"], TTL).await.unwrap();
    assert_eq!(second.fence() > first.fence(), rig.fenced);
    first.forget();
}

pub(super) async fn an_extension_lengthens_and_never_shortens(rig: Rig) {
    let mut lock = rig.client().await.acquire(["a"], TTL).await.unwrap();
    lock.extend(TTL * 3).await.unwrap();
    assert!(lock.remaining() > TTL * 2);
    for ttl in [TTL, Duration::from_millis(1)] {
        lock.extend(ttl).await.unwrap();
        assert!(lock.remaining() > TTL * 2, "a shorter one changes nothing");
    }
    for master in 0..MASTERS {
        rig.assert_ttl(master, "a", TTL * 3).await;
    }
}

pub(super) async fn an_extension_puts_the_lock_back_where_a_minority_lost_it(rig: Rig) {
    let mut lock = rig.client().await.acquire(["a"], TTL).await.unwrap();
    for emptied in [0, 1, 2, 0] {
        rig.assert_held_on(&lock, &[0, 1, 2]).await;
        rig.clear(emptied).await;
        lock.extend(TTL).await.unwrap();
    }
    rig.assert_held_on(&lock, &[0, 1, 2]).await;
    rig.assert_ttl(0, "a", TTL).await;
}

pub(super) async fn an_extension_of_a_lock_that_a_majority_lost_creates_nothing(rig: Rig) {
    let mut lock = rig.client().await.acquire(["a"], TTL).await.unwrap();
    rig.assert_held_on(&lock, &[0, 1, 2]).await;
    rig.delete(0, "a").await;
    rig.delete(1, "a").await;
    let error = lock.extend(TTL).await.unwrap_err();
    assert!(matches!(error, ExtendError::Lost { .. }), "{error}");
    assert!(!lock.is_valid());
    rig.assert_held_on(&lock, &[2]).await;
    let error = lock.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::Expired { .. }), "{error}");
    rig.assert_free("a").await;
}

pub(super) async fn a_set_of_which_one_name_is_missing_is_put_back_whole(rig: Rig) {
    let mut lock = rig.client().await.acquire(["a", "b"], TTL).await.unwrap();
    rig.assert_held_on(&lock, &[0, 1, 2]).await;
    rig.delete(1, "b").await;
    lock.extend(TTL * 2).await.unwrap();
    rig.assert_held_on(&lock, &[0, 1, 2]).await;
    eventually("both are extended", TTL / 4, || async {
        rig.time_left(1, "a").await > TTL && rig.time_left(1, "b").await > TTL
    })
    .await;
}

/// The keeper of `using` renews by the same ttl, for which some servers have a command.
pub(super) async fn a_renewal_extends_where_the_lock_is_ours_and_heals_where_it_is_missing(
    rig: Rig,
) {
    let ttl = Duration::from_secs(3);
    let often =
        |settings: fredlock::Settings| settings.extension_threshold(Duration::from_millis(1_900));
    let client = rig.client().await.with(often);
    client
        .using(["a"], ttl, async |signal| {
            let token = rig.get(2, "a").await;
            rig.clear(0).await;
            eventually("it is put back", ttl, || async {
                rig.get(0, "a").await == token
            })
            .await;
            tokio::time::sleep(ttl).await;
            signal.check().unwrap();
            assert!(rig.time_left(1, "a").await > ttl / 4);
        })
        .await
        .unwrap();
    rig.assert_free("a").await;
}

pub(super) async fn a_late_release_never_touches_a_successor(rig: Rig) {
    let client = rig.client().await;
    let short = Duration::from_millis(300);
    let first = client.try_acquire(["a"], short).await.unwrap();
    tokio::time::sleep(short + Duration::from_millis(20)).await;
    let second = client.try_acquire(["a"], TTL).await.unwrap();
    let error = first.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::Expired { .. }), "{error}");
    rig.assert_held_on(&second, &[0, 1, 2]).await;
}

pub(super) async fn the_fence_rises_with_every_holder_and_stays_for_its_retention(rig: Rig) {
    if !rig.fenced {
        let lock = rig.client().await.acquire(["a"], TTL).await.unwrap();
        return assert_eq!(lock.fence(), Fence::NONE);
    }
    let clients = [rig.client().await, rig.client().await];
    let mut newest = Fence::NONE;
    for client in clients.iter().cycle().take(20) {
        let lock = client.acquire(["a"], TTL).await.unwrap();
        assert!(lock.fence() > newest, "{} after {newest}", lock.fence());
        newest = lock.fence();
        lock.release().await.unwrap();
        rig.assert_free("a").await;
    }
    let kept = TTL + Fencing::RETENTION_DEFAULT;
    for master in 0..MASTERS {
        // Its own, which refuses the acquire if it comes again; one more where that has not been.
        let left = rig.get(master, &fence_key("a")).await.unwrap();
        assert!(left.parse::<u64>().unwrap() >= newest.get());
        rig.assert_ttl(master, &fence_key("a"), kept).await;
    }
}

pub(super) async fn a_larger_fence_on_the_masters_is_exceeded_in_place(rig: Rig) {
    let ahead = 1_u64 << 52;
    for master in 0..MASTERS {
        rig.set(
            master,
            &fence_key("a"),
            &(ahead + master as u64).to_string(),
        )
        .await;
    }
    let lock = rig.client().await.try_acquire(["a"], TTL).await.unwrap();
    if rig.fenced {
        // Two of three are enough: the largest of those is exceeded.
        assert!(lock.fence().get() > ahead + 1, "{}", lock.fence());
    }
    eventually("every master that can carry it does", TTL / 4, || async {
        let values = rig.values("a").await;
        let ours = Some(lock.token().reveal());
        values.iter().filter(|value| **value == ours).count() >= 2
    })
    .await;
}

pub(super) async fn the_fence_of_several_resources_exceeds_the_last_of_each(rig: Rig) {
    let ahead = 1_u64 << 52;
    for master in 0..MASTERS {
        rig.set(master, &fence_key("b"), &ahead.to_string()).await;
    }
    let client = rig.client().await;
    let lock = client.try_acquire(["a", "b", "c"], TTL).await.unwrap();
    if rig.fenced {
        assert!(lock.fence().get() > ahead, "{}", lock.fence());
    }
}

pub(super) async fn a_lock_is_not_put_back_where_a_larger_fence_has_been(rig: Rig) {
    let mut lock = rig.client().await.acquire(["a"], TTL).await.unwrap();
    rig.assert_held_on(&lock, &[0, 1, 2]).await;
    rig.delete(0, "a").await;
    rig.set(0, &fence_key("a"), &(lock.fence().get() + 1).to_string())
        .await;
    lock.extend(TTL).await.unwrap();
    if rig.fenced {
        // Nothing is to happen, so there is nothing to wait for but the answer of that master.
        let told = lock.outcomes().iter().next().unwrap().answer().clone();
        assert!(matches!(told, Answer::NotHeld | Answer::Pending), "{told}");
        lock.extend(TTL).await.unwrap();
        assert_eq!(rig.get(0, "a").await, None);
    } else {
        rig.assert_held_on(&lock, &[0, 1, 2]).await;
    }
}
