//! Masters that come up empty, under a restart guard.

use std::time::Duration;

use fredlock::{
    AcquireError, Answer, BuildError, ExtendError, Fencing, Redlock, Retry, testing::MemoryMasters,
};
use tokio::time::{Instant, sleep};

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const GUARD: Duration = Duration::from_secs(20);
pub(crate) const MARKER: &str = "fredlock:guard:marker";
pub(crate) const QUARANTINE: &str = "fredlock:guard:quarantine";

pub(crate) async fn guarded(masters: &MemoryMasters) -> Redlock {
    with_fencing(masters, Fencing::default()).await
}

async fn with_fencing(masters: &MemoryMasters, fencing: Fencing) -> Redlock {
    let builder = Redlock::builder().memory(masters).restart_guard(GUARD);
    builder.fencing(fencing).connect().await.unwrap()
}

/// Clients of masters that are in use.
pub(crate) async fn in_use(count: usize) -> (MemoryMasters, Redlock, Redlock) {
    let masters = MemoryMasters::new(count);
    let (first, second) = (guarded(&masters).await, guarded(&masters).await);
    first.initialise().await.unwrap();
    (masters, first, second)
}

#[tokio::test(start_paused = true)]
async fn a_ttl_longer_than_the_guard_is_an_error_and_nothing_is_sent() {
    let (masters, redlock, _) = in_use(3).await;
    let calls = masters.calls(0);
    let longer = GUARD + Duration::from_millis(1);
    let error = redlock.acquire(["a"], longer).await.unwrap_err();
    let AcquireError::InvalidTtl(invalid) = &error else {
        panic!("{error}");
    };
    assert_eq!((invalid.ttl, invalid.guard), (longer, Some(GUARD)));
    assert!(
        error.to_string().contains("restart guard is 20s"),
        "{error}"
    );
    let error = redlock
        .using(["a"], longer, async |_| ())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("restart guard"), "{error}");
    assert_eq!(masters.calls(0), calls);

    let mut lock = redlock.acquire(["a"], GUARD).await.unwrap();
    let calls = masters.calls(0);
    let error = lock.extend(longer).await.unwrap_err();
    assert!(matches!(error, ExtendError::InvalidTtl(_)), "{error}");
    assert_eq!(masters.calls(0), calls);
    assert!(lock.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_guard_of_no_time_is_refused() {
    let masters = MemoryMasters::new(3);
    for guard in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let builder = Redlock::builder().memory(&masters).restart_guard(guard);
        let error = builder.connect().await.unwrap_err();
        assert!(matches!(error, BuildError::InvalidRestartGuard(g) if g == guard));
    }
}

#[tokio::test(start_paused = true)]
async fn masters_that_are_all_in_quarantine_are_waited_for_by_the_policy_and_the_error_says_what_to_do()
 {
    let masters = MemoryMasters::new(3);
    let redlock = guarded(&masters).await;
    let twice = Retry::none()
        .count(1)
        .delay(Duration::from_secs(3))
        .jitter(Duration::ZERO);
    let impatient =
        redlock.with(|settings| settings.retry_no_quorum(twice).retry_busy(Retry::none()));
    let begun = Instant::now();
    let error = impatient.acquire(["a"], TTL).await.unwrap_err();
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    let AcquireError::Quarantined(attempts) = &error else {
        panic!("{error}");
    };
    assert_eq!(attempts.count, 2);
    assert!(!error.is_busy());
    for outcome in error.outcomes().unwrap().iter() {
        assert!(
            matches!(
                outcome.answer(),
                Answer::Quarantined { .. } | Answer::Pending
            ),
            "{error}"
        );
    }
    for part in ["Redlock::initialise", "in quarantine for 17000 ms more"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    for master in 0..3 {
        assert_eq!(masters.get(master, "a"), None);
        assert!(masters.time_left(master, QUARANTINE).is_some());
    }
    // It ends with the quarantine, not a long pause after it.
    let patient = redlock.with(|settings| {
        let rare = Retry::none()
            .delay(Duration::from_secs(600))
            .jitter(Duration::ZERO);
        settings.retry(rare).wait_for(Duration::from_secs(3600))
    });
    let lock = patient.acquire(["a"], TTL).await.unwrap();
    assert_eq!(begun.elapsed(), GUARD + Duration::from_millis(1));
    lock.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_missing_quorum_is_not_blamed_on_a_quarantine_that_is_not_the_reason() {
    let (masters, redlock, _) = in_use(3).await;
    masters.restart_empty(0);
    masters.stop(1);
    masters.stop(2);
    let error = redlock.try_acquire(["a"], TTL).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    masters.heal(2);
    let error = redlock.try_acquire(["a"], TTL).await.unwrap_err();
    assert!(matches!(error, AcquireError::Quarantined(_)), "{error}");
}

/// Whatever the fencing: native commands could not look at the marker.
#[tokio::test(start_paused = true)]
async fn a_master_that_came_up_empty_grants_nothing_until_the_guard_is_over() {
    for fencing in [Fencing::default(), Fencing::Off] {
        let masters = MemoryMasters::new(5);
        let holder = with_fencing(&masters, fencing).await;
        let rival = with_fencing(&masters, fencing).await;
        holder.initialise().await.unwrap();
        // On 0, 1 and 2 alone.
        for master in [3, 4] {
            masters.set(master, "a", "foreign", None);
        }
        let lock = holder.acquire(["a"], TTL).await.unwrap();
        for master in [3, 4] {
            masters.delete(master, "a");
        }
        masters.restart_empty(2);
        while lock.is_valid() {
            let error = rival.try_acquire(["a"], TTL).await.unwrap_err();
            assert!(error.to_string().contains("in quarantine"), "{error}");
            sleep(Duration::from_secs(1)).await;
        }
        sleep(GUARD).await;
        let second = rival.try_acquire(["a"], TTL).await.unwrap();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(masters.get(2, "a"), Some(second.value()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_put_back_in_quarantine_counts_only_when_that_is_over() {
    let (masters, redlock, _) = in_use(3).await;
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    masters.clear(2);
    lock.extend(TTL).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(masters.get(2, "a"), Some(lock.value()), "put back");
    lock.extend(TTL).await.unwrap();

    // With one of the other two gone it has no quorum, though two masters have its key.
    masters.stop(0);
    let short = tokio::time::timeout(TTL / 2, lock.extend(TTL)).await;
    assert!(short.is_err(), "tried on while validity lasts: {short:?}");
    assert!(lock.is_valid(), "and not taken for lost");
    assert_eq!(masters.get(2, "a"), Some(lock.value()));
    masters.heal(0);
    for _ in 0..4 {
        lock.extend(TTL).await.unwrap();
        sleep(TTL / 2).await;
    }
    masters.stop(0);
    lock.extend(TTL).await.expect("it is out of quarantine now");
    let held = lock.outcomes().to_string();
    assert!(!held.contains("quarantine"), "{held}");
}

#[tokio::test(start_paused = true)]
async fn an_extension_while_too_many_are_in_quarantine_expires_and_says_why() {
    let (masters, redlock, _) = in_use(3).await;
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    masters.restart_empty(1);
    masters.restart_empty(2);
    let error = lock.extend(TTL).await.unwrap_err();
    assert!(matches!(error, ExtendError::Expired { .. }), "{error}");
    assert!(error.to_string().contains("in quarantine"), "{error}");
}

/// A command that only takes away begins the guard's time as well.
#[tokio::test(start_paused = true)]
async fn every_command_that_writes_looks_for_the_marker() {
    let (masters, redlock, _) = in_use(3).await;
    let lock = redlock.acquire(["a"], TTL).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    masters.clear(0);
    drop(lock.release().await);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(masters.get(0, MARKER).as_deref(), Some("1"));
    assert_eq!(masters.time_left(0, MARKER), None);
    let left = masters.time_left(0, QUARANTINE).unwrap();
    assert!(left > GUARD / 2, "{left:?}");
    masters.clear(1);
    let mut lock = redlock
        .acquire(["b"], TTL)
        .await
        .unwrap_err()
        .outcomes()
        .cloned();
    assert!(
        lock.take()
            .unwrap()
            .to_string()
            .contains("memory-1 came up empty, in quarantine for")
    );
}
