//! The lock is kept while the routine runs, whatever becomes of a minority of masters.

use fredlock::Retry;
use tokio::time::sleep;

use super::clients::{KEY, SOON, client, freed, ms};
use super::steady::steadily;
use super::support::{eventually, servers::Servers};

#[tokio::test]
async fn two_of_five_masters_are_killed_and_the_routine_goes_on() {
    steadily(async || {
        let servers = Servers::start(5).await;
        let redlock = client(&servers, |settings| settings).await;
        let ttl = ms(1_000);
        let using = redlock.using([KEY], ttl, async |signal| {
            servers.kill(&[1, 3]).await;
            sleep(2 * ttl).await;
            signal.check()
        });
        using.await.unwrap().unwrap();
        freed(&servers, KEY).await;
    })
    .await;
}

#[tokio::test]
async fn a_master_that_restarts_empty_gets_the_key_back_while_the_routine_runs() {
    steadily(async || {
        let servers = Servers::start(5).await;
        let redlock = client(&servers, |settings| settings).await;
        let using = redlock.using([KEY], ms(1_000), async |signal| {
            let token = servers[0].get(KEY).await;
            // One after the other, more than a minority in all: without it the lock would die.
            for index in [2, 3, 4] {
                servers[index].restart().await;
                eventually("the key is back", SOON, async || {
                    let value = servers[index].get(KEY).await;
                    assert!(value.is_none() || value == token);
                    value.is_some()
                })
                .await;
            }
            signal.check()
        });
        using.await.unwrap().unwrap();
        freed(&servers, KEY).await;
    })
    .await;
}

/// One master has lost the key and two do not answer: no quorum agrees, and still the lock may be
/// held by four. It is, once the two are back.
#[tokio::test]
async fn an_extension_without_a_quorum_is_tried_again_while_a_quorum_may_have_the_key() {
    steadily(async || {
        let servers = Servers::start(5).await;
        let redlock = client(&servers, |settings| {
            settings
                .command_timeout(ms(200))
                .retry(Retry::default())
                .extension_threshold(ms(1_300))
        });
        let redlock = redlock.await;
        let ttl = ms(2_000);
        let using = redlock.using([KEY], ttl, async |signal| {
            servers.freeze(&[1, 2]);
            assert!(servers[0].del(KEY).await);
            // In between, at 680 ms, is the first extension.
            sleep(ms(1_000)).await;
            servers.thaw(&[1, 2]);
            sleep(ms(1_500)).await;
            signal.check()
        });
        using.await.unwrap().unwrap();
        freed(&servers, KEY).await;
    })
    .await;
}
