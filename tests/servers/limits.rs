//! Routines that are dropped once exclusivity is lost, and routines that may run for so long only.

use std::{sync::Arc, time::Duration};

use fredlock::{AbortMode, LostReason};
use tokio::time::{Instant, sleep, timeout};

use super::clients::{KEY, LONG, SOON, carriers, client, freed, lost, ms};
use super::steady::steadily;
use super::support::servers::Servers;

/// Says whether a routine that never ends of itself was dropped.
#[derive(Debug, Clone, Default)]
struct Dropped(Arc<()>);

impl Dropped {
    fn has_happened(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

#[tokio::test]
async fn a_routine_to_be_dropped_is_dropped_before_the_validity_ends() {
    steadily(async || {
        let servers = Servers::start(5).await;
        let redlock = client(&servers, |settings| {
            settings.abort_mode(AbortMode::DropRoutine)
        });
        let redlock = redlock.await;
        let dropped = Dropped::default();
        let inside = dropped.clone();
        let begun = Instant::now();
        let using = redlock.using([KEY], ms(1_000), async move |_| {
            servers.kill(&[0, 1, 2]).await;
            std::future::pending::<()>().await;
            drop(inside);
        });
        let (output, reason, _) = lost(timeout(2 * SOON, using).await.expect("it ends"));
        assert!(dropped.has_happened());
        assert_eq!(output, None);
        assert!(matches!(reason, LostReason::Expired { .. }), "{reason}");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    })
    .await;
}

#[tokio::test]
async fn a_routine_to_be_dropped_that_ends_in_time_has_its_result() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| {
        settings.abort_mode(AbortMode::DropRoutine)
    });
    let using = async |_| {
        sleep(ms(20)).await;
        "in time"
    };
    assert_eq!(
        redlock.await.using([KEY], LONG, using).await.unwrap(),
        "in time"
    );
}

#[tokio::test]
async fn the_hold_limit_ends_extensions_and_leaves_a_routine_that_goes_on_without_the_key() {
    steadily(async || {
        let servers = Servers::start(3).await;
        let redlock = client(&servers, |settings| settings.hold_limit(ms(1_100)));
        let redlock = redlock.await;
        let (begun, ttl) = (Instant::now(), ms(800));
        let using = redlock.using([KEY], ttl, async |signal| {
            // Longer than without an extension.
            sleep(ms(900)).await;
            signal.check().unwrap();
            let reason = signal.aborted().await;
            assert!(matches!(reason, LostReason::HoldLimit), "{reason}");
            let fired = begun.elapsed();
            assert!(fired >= ms(1_100) && fired < ms(1_100) + SOON, "{fired:?}");
            // The key expires with the last extension, while the routine goes on.
            freed(&servers, KEY).await;
            let other = client(&servers, |settings| settings).await;
            drop(other.acquire([KEY], ttl).await.unwrap());
        });
        let (output, reason, _) = lost(timeout(2 * SOON, using).await.expect("it ends"));
        assert_eq!(output, Some(()));
        assert!(matches!(reason, LostReason::HoldLimit), "{reason}");
    })
    .await;
}

#[tokio::test]
async fn the_hold_limit_drops_a_routine_that_is_to_be_dropped_and_frees_the_key_at_once() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| {
        let settings = settings.abort_mode(AbortMode::DropRoutine);
        settings.hold_limit(ms(100))
    });
    let redlock = redlock.await;
    let using = redlock.using([KEY], LONG, async |_| std::future::pending::<()>().await);
    let (output, reason, _) = lost(timeout(2 * SOON, using).await.expect("it ends"));
    assert_eq!(output, None);
    assert!(matches!(reason, LostReason::HoldLimit), "{reason}");
    // Once a quorum has released it, `using` returns.
    assert!(carriers(&servers, KEY).await <= 1);
    freed(&servers, KEY).await;
}

#[tokio::test]
async fn a_hold_limit_beyond_what_the_clock_can_tell_is_none() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings.hold_limit(Duration::MAX)).await;
    let using = redlock.using([KEY], LONG, async |signal| signal.is_aborted());
    assert!(!using.await.unwrap());
}
