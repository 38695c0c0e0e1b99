//! Who holds what, on which master.

use std::time::Duration;

use fredlock::{
    Fence, GuardState, InspectError, MasterError, OwnerLabel, Possession, Redlock,
    testing::MemoryMasters,
};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(10);

async fn looker(masters: &MemoryMasters) -> Redlock {
    Redlock::builder().memory(masters).connect().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_held_lock_is_told_with_its_holder_label_time_and_fence_on_every_master() {
    let masters = MemoryMasters::new(3);
    let label = OwnerLabel::new("worker-7/billing").unwrap();
    let holder = crate::client(&masters, |settings| settings.owner_label(label.clone())).await;
    let lock = holder.acquire(["a", "b"], TTL).await.unwrap();
    assert_eq!(lock.owner_label(), Some(&label));
    sleep(Duration::from_secs(1)).await;

    let inspection = looker(&masters).await.inspect("a").await.unwrap();
    let Possession::Held {
        holder,
        for_at_least,
        ..
    } = inspection.verdict()
    else {
        panic!("{inspection}");
    };
    assert!(holder.is(&lock.value()));
    assert_eq!(holder.label(), Some(label));
    assert_eq!(*for_at_least, Some(TTL - Duration::from_secs(1)));
    for finding in inspection.findings() {
        let state = finding.state().unwrap();
        assert_eq!(state.holder(), Some(holder));
        assert_eq!(state.time_left(), Some(TTL - Duration::from_secs(1)));
        assert_eq!(state.fence(), lock.fence());
        assert_eq!(state.guard(), None);
    }
    let shown = inspection.to_string();
    let token = lock.token().reveal();
    let verdict = format!(
        "a is held by {}… (worker-7/billing) for at least 9000 ms more\n",
        &token[..8]
    );
    assert!(shown.starts_with(&verdict), "{shown}");
    for master in ["memory-0", "memory-1", "memory-2"] {
        let line = format!(
            "\n  {master} held by {}… (worker-7/billing) for 9000 ms more, fence {} (",
            &token[..8],
            lock.fence()
        );
        assert!(shown.contains(&line), "{shown}");
    }
    for shown in [shown, format!("{inspection:?}")] {
        assert!(!shown.contains(&token[..9]), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn looking_changes_nothing_and_asks_every_master_once() {
    let masters = MemoryMasters::new(3);
    let redlock = looker(&masters).await;
    let lock = redlock.acquire(["a"], TTL).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    let look = |master| {
        let keys = masters.keys(master);
        let values = keys
            .iter()
            .map(|key| (masters.get(master, key), masters.time_left(master, key)));
        (values.collect::<Vec<_>>(), masters.calls(master))
    };
    let before: Vec<_> = (0..3).map(look).collect();
    redlock.inspect("a").await.unwrap();
    redlock.inspect("free").await.unwrap();
    for (master, (keys, calls)) in before.into_iter().enumerate() {
        assert_eq!(look(master), (keys, calls + 2));
    }
    drop(lock);
}

#[tokio::test(start_paused = true)]
async fn the_verdict_follows_what_a_quorum_has() {
    let masters = MemoryMasters::new(3);
    let redlock = looker(&masters).await;
    let verdict = async || redlock.inspect("a").await.unwrap().verdict().clone();
    assert_eq!(verdict().await, Possession::Free);
    masters.set(0, "a", "x", Some(TTL));
    assert_eq!(verdict().await, Possession::Free, "left over on one");
    masters.set(1, "a", "y", Some(TTL));
    assert_eq!(verdict().await, Possession::Split);
    masters.hang(2);
    assert_eq!(verdict().await, Possession::Unknown);
    masters.set(1, "a", "x", None);
    let Possession::Held {
        holder,
        for_at_least,
        ..
    } = verdict().await
    else {
        panic!("two of three have it");
    };
    assert!(holder.is("x") && holder.label().is_none());
    // They are asked as long as the third is waited for: a tenth of a second.
    assert_eq!(for_at_least, Some(TTL - Duration::from_millis(200)));
    masters.stop(1);
    let inspection = redlock.inspect("a").await.unwrap();
    assert_eq!(*inspection.verdict(), Possession::Unknown);
    let errors: Vec<_> = inspection
        .findings()
        .map(|finding| finding.state().err().cloned())
        .collect();
    assert!(
        matches!(
            errors[..],
            [
                None,
                Some(MasterError::NotConnected(_)),
                Some(MasterError::Timeout)
            ]
        ),
        "{errors:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_state_of_the_guard_is_told_and_a_master_in_quarantine_proves_nothing() {
    let masters = MemoryMasters::new(3);
    let guard = Duration::from_secs(20);
    let builder = Redlock::builder().memory(&masters).restart_guard(guard);
    let redlock = builder.connect().await.unwrap();
    let guards = async || {
        let inspection = redlock.inspect("a").await.unwrap();
        let states = inspection
            .findings()
            .map(|finding| finding.state().unwrap().guard().unwrap());
        (states.collect::<Vec<_>>(), inspection)
    };
    let (states, inspection) = guards().await;
    assert_eq!(states, [GuardState::Unmarked; 3]);
    assert_eq!(*inspection.verdict(), Possession::Unknown);
    assert!(
        inspection
            .to_string()
            .contains("memory-2 free, not initialised ("),
        "{inspection}"
    );
    redlock.initialise().await.unwrap();
    assert_eq!(guards().await.0, [GuardState::Ready; 3]);
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    masters.clear(1);
    lock.extend(TTL).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    let (states, inspection) = guards().await;
    assert!(
        matches!(
            states[..],
            [
                GuardState::Ready,
                GuardState::Quarantined { .. },
                GuardState::Ready
            ]
        ),
        "{states:?}"
    );
    let put_back = inspection.findings().nth(1).unwrap().state().unwrap();
    assert!(put_back.holder().unwrap().is(&lock.value()));
    assert!(
        matches!(inspection.verdict(), Possession::Held { .. }),
        "{inspection}"
    );
    assert!(
        inspection
            .to_string()
            .contains(", in quarantine for 19999 ms more ("),
        "{inspection}"
    );
    masters.stop(0);
    let inspection = redlock.inspect("a").await.unwrap();
    assert_eq!(*inspection.verdict(), Possession::Unknown, "{inspection}");
    let fence = inspection
        .findings()
        .nth(2)
        .unwrap()
        .state()
        .unwrap()
        .fence();
    assert!(fence == lock.fence() && fence != Fence::NONE);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_a_resource_or_comes_after_a_shutdown_is_an_error() {
    let masters = MemoryMasters::new(3);
    let redlock = looker(&masters).await;
    for name in ["", "{a}:fence", "fredlock:guard:marker"] {
        let error = redlock.inspect(name).await.unwrap_err();
        assert!(
            matches!(error, InspectError::InvalidResources(_)),
            "{error}"
        );
    }
    assert_eq!(masters.calls(0), 0);
    redlock.shutdown(Duration::from_secs(1)).await;
    assert_eq!(
        redlock.inspect("a").await.unwrap_err(),
        InspectError::ShutDown
    );
}

#[tokio::test(start_paused = true)]
async fn a_label_is_for_all_calls_or_for_some() {
    let masters = MemoryMasters::new(3);
    let [all, some] = ["all", "some"].map(|label| OwnerLabel::new(label).unwrap());
    let redlock = crate::client(&masters, |settings| settings.owner_label(all.clone())).await;
    let lock = redlock.acquire(["a"], TTL).await.unwrap();
    assert_eq!(
        masters.get(0, "a"),
        Some(format!("{}:all", lock.token().reveal()))
    );
    let lock = redlock
        .with(|s| s.owner_label(some))
        .acquire(["b"], TTL)
        .await
        .unwrap();
    assert_eq!(
        masters.get(0, "b"),
        Some(format!("{}:some", lock.token().reveal()))
    );
    let lock = redlock
        .with(|s| s.owner_label(None))
        .acquire(["c"], TTL)
        .await
        .unwrap();
    assert_eq!(masters.get(0, "c"), Some(lock.token().reveal()));
    let label = redlock.with(|s| s.owner_label(all));
    let seen = label
        .using(["d"], TTL, async |_| masters.get(0, "d").unwrap())
        .await
        .unwrap();
    assert!(seen.ends_with(":all"), "{seen}");
}
