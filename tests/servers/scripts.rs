//! The scripts that masters remember, or forget.

use crate::acquirers::{AT_ONCE, BOTH, TTL, build, on_all, patient, relays, settled, urls};
use crate::support::eventually;
use crate::support::servers::Servers;

#[tokio::test]
async fn a_server_that_forgets_its_scripts_is_not_noticed() {
    let servers = Servers::start(3).await;
    let forget = async || {
        for server in &servers {
            server.script_flush().await;
        }
    };
    for fencing in BOTH {
        let redlock = build(servers.urls(), |builder| builder.fencing(fencing())).await;
        forget().await;
        let mut lock = redlock.acquire(["job", "other"], TTL).await.unwrap();
        settled(&redlock).await;
        assert_eq!(servers.values_of("job").await, on_all(3, &lock));
        forget().await;
        lock.extend(TTL * 2).await.unwrap();
        settled(&redlock).await;
        for server in &servers {
            assert!(server.pttl("other").await > 60_000);
        }
        forget().await;
        lock.release().await.unwrap();
        settled(&redlock).await;
        assert_eq!(servers.values_of("job").await, [None, None, None]);

        // The whole script is sent once, and its hash again from then on.
        drop(redlock.acquire(["job", "other"], TTL).await.unwrap());
        settled(&redlock).await;
        let before = servers[0].calls("eval").await;
        drop(redlock.acquire(["job", "other"], TTL).await.unwrap());
        settled(&redlock).await;
        assert_eq!(servers[0].calls("eval").await, before);
    }
}

/// Its call takes two commands, the second of which is sent when nobody waits for it any more.
#[tokio::test]
async fn a_slow_server_that_forgot_its_scripts_gets_the_key_all_the_same() {
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    let redlock = patient(urls(&relays)).await;
    servers[2].script_flush().await;
    relays[2].hold_replies(true);
    let lock = redlock.acquire(["job"], TTL).await.unwrap();
    eventually(
        "the third has answered that it has no such script",
        AT_ONCE,
        async || relays[2].replies_held() > 0,
    )
    .await;
    assert_eq!(servers[2].get("job").await, None);
    relays[2].hold_replies(false);
    settled(&redlock).await;
    assert_eq!(servers.values_of("job").await, on_all(3, &lock));
    lock.release().await.unwrap();
}
