//! More masters than a majority have to agree.

use std::time::Duration;

use fredlock::{AcquireError, BuildError, Redlock, testing::MemoryMasters};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(10);

async fn client(masters: &MemoryMasters, quorum: usize) -> Result<Redlock, BuildError> {
    let builder = Redlock::builder().memory(masters).quorum(quorum);
    builder.connect().await
}

#[tokio::test(start_paused = true)]
async fn a_quorum_that_is_no_majority_or_more_than_there_are_is_refused() {
    for (count, allowed) in [(1, 1..=1), (2, 2..=2), (3, 2..=3), (4, 3..=4), (5, 3..=5)] {
        let masters = MemoryMasters::new(count);
        for quorum in 0..8 {
            let result = client(&masters, quorum).await;
            assert_eq!(
                result.is_ok(),
                allowed.contains(&quorum),
                "{quorum} of {count}"
            );
            if let Err(error) = result {
                let range = format!("from {} to {count}", allowed.start());
                assert!(error.to_string().contains(&range), "{error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn so_many_have_to_agree_and_no_fewer() {
    let masters = MemoryMasters::new(5);
    let redlock = client(&masters, 4).await.unwrap();
    masters.stop(0);
    let mut lock = redlock.try_acquire(["a"], TTL).await.unwrap();
    masters.stop(1);
    let error = redlock.try_acquire(["b"], TTL).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    assert!(lock.extend(TTL).await.is_err());
    masters.heal(1);
    assert!(redlock.try_acquire(["b"], TTL).await.is_ok());
}

/// 2q - N - 1: two for 4 of 5. The third lets in a second holder.
#[tokio::test(start_paused = true)]
async fn as_many_masters_may_forget_as_the_quorum_is_to_survive_and_no_more() {
    for (count, quorum, survived) in [
        (3, 2, 0),
        (3, 3, 2),
        (4, 3, 1),
        (5, 3, 0),
        (5, 4, 2),
        (5, 5, 4),
    ] {
        let masters = MemoryMasters::new(count);
        let holder = client(&masters, quorum).await.unwrap();
        let rival = client(&masters, quorum).await.unwrap();
        for master in quorum..count {
            masters.set(master, "a", "foreign", None);
        }
        let lock = holder.acquire(["a"], TTL).await.unwrap();
        for master in quorum..count {
            masters.delete(master, "a");
        }
        for master in 0..survived {
            masters.restart_empty(master);
        }
        let refused = rival.try_acquire(["a"], TTL).await.unwrap_err();
        assert!(refused.is_busy(), "{refused}");
        sleep(Duration::from_millis(1)).await;
        masters.restart_empty(survived);
        let second = rival.try_acquire(["a"], TTL).await;
        assert!(
            second.is_ok() && lock.is_valid(),
            "{quorum} of {count}: {second:?}"
        );
    }
}
