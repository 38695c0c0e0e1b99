//! What stands on real masters, and who they say holds it.

use std::time::Duration;

use fredlock::{GuardState, MasterError, OwnerLabel, Possession, Retry};

use crate::acquirers::{BOTH, TTL, build, settled};
use crate::support::servers::Servers;

/// The script that every Redlock client releases by.
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

#[tokio::test]
async fn every_master_tells_holder_label_time_and_fence_or_its_error() {
    let servers = Servers::start(5).await;
    let label = OwnerLabel::new("worker-7: Rechnung №4821").unwrap();
    let redlock = build(servers.urls(), |builder| {
        builder.settings(|settings| {
            let hasty = settings.command_timeout(Duration::from_secs(2));
            hasty.owner_label(label.clone()).retry(Retry::none())
        })
    })
    .await;
    let lock = redlock.acquire(["job"], TTL).await.unwrap();
    settled(&redlock).await;
    let before = servers[0].keys().await;
    servers[2].freeze();
    servers[3].kill().await;
    servers[4].command(&["DEL", "job"]).await;
    servers[4].command(&["RPUSH", "job", "a", "b"]).await;

    let inspection = redlock.inspect("job").await.unwrap();
    servers[2].thaw();
    assert_eq!(*inspection.verdict(), Possession::Unknown, "{inspection}");
    let findings: Vec<_> = inspection.findings().collect();
    for (finding, server) in findings.iter().zip(&servers).take(2) {
        assert_eq!(finding.master(), server.addr());
        let state = finding.state().unwrap();
        let holder = state.holder().unwrap();
        assert!(holder.is(&lock.value()));
        assert_eq!(holder.label(), Some(label.clone()));
        assert_eq!(state.fence(), lock.fence());
        assert_eq!(state.guard(), None);
        let left = state.time_left().unwrap();
        assert!(left <= TTL && left > TTL / 2, "{left:?}");
        assert!(finding.took() > Duration::ZERO);
    }
    let error = |index: usize| findings[index].state().unwrap_err().clone();
    assert_eq!(error(2), MasterError::Timeout);
    assert!(findings[2].took() >= Duration::from_secs(1));
    let gone = error(3);
    assert!(
        matches!(
            gone,
            MasterError::NotConnected(_) | MasterError::ConnectionLost(_)
        ),
        "{gone}"
    );
    assert!(matches!(error(4), MasterError::Server(text) if text.contains("WRONGTYPE")));
    assert_eq!(servers[0].keys().await, before, "nothing was written");
}

#[tokio::test]
async fn the_verdict_is_that_of_a_quorum_and_only_looks() {
    let servers = Servers::start(3).await;
    let redlock = build(servers.urls(), |builder| {
        builder.restart_guard(Duration::from_secs(3600))
    });
    for server in &servers {
        server.set("fredlock:guard:marker", "1").await;
    }
    let redlock = redlock.await;
    let verdict = async || redlock.inspect("job").await.unwrap().verdict().clone();
    let sets = servers[0].calls("set").await;
    assert_eq!(verdict().await, Possession::Free);
    for (index, value) in [(0, "x"), (1, "y")] {
        servers[index].set("job", value).await;
    }
    assert_eq!(verdict().await, Possession::Split);
    servers[1].set("job", "x").await;
    let Possession::Held {
        holder,
        for_at_least,
        ..
    } = verdict().await
    else {
        panic!("two of three have it");
    };
    assert!(holder.is("x") && for_at_least.is_none());
    servers[1].flush_all().await;
    let inspection = redlock.inspect("job").await.unwrap();
    assert_eq!(*inspection.verdict(), Possession::Unknown, "{inspection}");
    let guards = inspection
        .findings()
        .map(|finding| finding.state().unwrap().guard());
    let [ready, unmarked] = [GuardState::Ready, GuardState::Unmarked].map(Some);
    assert_eq!(guards.collect::<Vec<_>>(), [ready, unmarked, ready]);
    assert_eq!(servers[0].calls("set").await, sets + 1, "only the test's");
    assert_eq!(servers[1].keys().await, [""; 0]);
}

/// Whatever stands behind the token, the whole value is compared: natively, by scripts, and by
/// clients of another make.
#[tokio::test]
async fn a_lock_with_a_label_is_kept_and_released_as_any_other() {
    let servers = Servers::start(3).await;
    let label = OwnerLabel::new("host/\u{1f980} job").unwrap();
    for fencing in BOTH {
        let redlock = build(servers.urls(), |builder| {
            let builder = builder.fencing(fencing());
            builder.settings(|settings| settings.owner_label(label.clone()))
        })
        .await;
        let often =
            redlock.with(|settings| settings.extension_threshold(Duration::from_millis(700)));
        let lasts = Duration::from_secs(1);
        let held = async |_signal| {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            servers.values_of("job").await
        };
        let values = often.using(["job"], lasts, held).await.unwrap();
        settled(&redlock).await;
        for value in values {
            let value = value.expect("extended past its first ttl");
            assert_eq!(value.len(), 36 + 1 + label.as_str().len());
            assert!(value.ends_with(label.as_str()), "{value}");
        }
        assert_eq!(servers.values_of("job").await, [None, None, None]);

        let mut lock = redlock.acquire(["job", "other"], TTL).await.unwrap();
        settled(&redlock).await;
        lock.extend(TTL * 2).await.unwrap();
        let foreign = servers[0].command(&["SET", "job", "foreign", "NX"]).await;
        assert!(foreign.is_nil(), "{foreign:?}");
        let token = lock.token().reveal();
        for (value, deleted) in [(token, 0), (lock.value(), 1)] {
            let reply = servers[0]
                .command(&["EVAL", RELEASE, "1", "job", &value])
                .await;
            assert_eq!(reply.int(), Some(deleted));
        }
        drop(lock.release().await);
        settled(&redlock).await;
        assert_eq!(servers.values_of("other").await, [None, None, None]);
    }
}
