//! Masters that come up empty while a lock sits on them.

use std::time::Duration;

use fredlock::{Answer, Builder, InitialiseError, InitialiseState, Lock, Redlock};
use futures::future::join_all;
use tokio::time::sleep;

use crate::acquirers::{AT_ONCE, BOTH, TTL, answer, build, relays, settled, urls};
use crate::groups::{acquire_many, job};
use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::server::Server;
use crate::support::servers::Servers;

const GUARD: Duration = Duration::from_secs(120);
const MARKER: &str = "fredlock:guard:marker";
const QUARANTINE: &str = "fredlock:guard:quarantine";

/// Five masters, two clients of theirs, and a lock of the first one's on A, B and C alone.
struct Stage {
    servers: Servers,
    relays: Vec<Relay>,
    rival: Redlock,
    holder: Redlock,
    lock: Lock,
}

impl Stage {
    async fn set(change: impl Fn(Builder) -> Builder) -> Self {
        let servers = Servers::start(5).await;
        for server in &servers {
            // As after `initialise`.
            server.set(MARKER, "1").await;
        }
        let relays = relays(&servers).await;
        let holder = build(urls(&relays), &change).await;
        let rival = build(urls(&relays), &change).await;
        for index in [3, 4] {
            servers[index].set("job", "foreign").await;
        }
        let lock = holder.acquire(["job"], TTL).await.unwrap();
        settled(&holder).await;
        for index in [3, 4] {
            assert!(servers[index].del("job").await);
        }
        let held = Some(lock.value());
        let on_three = [held.clone(), held.clone(), held, None, None];
        assert_eq!(servers.values_of("job").await, on_three);
        Self {
            servers,
            relays,
            rival,
            holder,
            lock,
        }
    }

    /// Waits until the client has looked at whoever answers for C now.
    async fn c_is_back(&self) {
        let hasty =
            |redlock: &Redlock| redlock.with(|s| s.command_timeout(Duration::from_millis(500)));
        for client in [&self.rival, &self.holder].map(hasty) {
            eventually("C is back", AT_ONCE, async || {
                let result = client.inspect("other").await.unwrap();
                result.findings().nth(2).unwrap().state().is_ok()
            })
            .await;
        }
    }

    async fn assert_that_nobody_else_gets_it(self) {
        for _ in 0..5 {
            let error = self.rival.acquire(["job"], TTL).await.unwrap_err();
            settled(&self.rival).await;
            let seen = answer(error.outcomes().unwrap(), 2);
            // Where A and B are enough to refuse, C need not be heard.
            assert!(
                matches!(seen, Answer::Quarantined { .. } | Answer::Pending),
                "{error}"
            );
        }
        assert!(self.servers[2].pttl(QUARANTINE).await > 60_000);
        assert_eq!(self.servers[2].pttl(MARKER).await, -1);
        let held = Some(self.lock.value());
        let on_two = [held.clone(), held, None, None, None];
        assert_eq!(self.servers.values_of("job").await, on_two);
        assert!(self.lock.is_valid());
    }
}

fn guarded(builder: Builder) -> Builder {
    builder.restart_guard(GUARD)
}

#[tokio::test]
async fn a_master_that_is_killed_and_restarts_empty_lets_in_no_second_holder() {
    for fencing in BOTH {
        let stage = Stage::set(|builder| guarded(builder).fencing(fencing())).await;
        stage.servers[2].restart().await;
        stage.c_is_back().await;
        stage.assert_that_nobody_else_gets_it().await;
    }
}

#[tokio::test]
async fn a_master_that_is_flushed_lets_in_no_second_holder() {
    let stage = Stage::set(guarded).await;
    stage.servers[2].flush_all().await;
    stage.assert_that_nobody_else_gets_it().await;
}

#[tokio::test]
async fn a_new_master_at_the_address_of_another_lets_in_no_second_holder() {
    let stage = Stage::set(guarded).await;
    let fresh = Server::start().await;
    stage.relays[2].redirect(&fresh);
    stage.relays[2].cut().await;
    stage.c_is_back().await;
    for _ in 0..5 {
        let error = stage.rival.acquire(["job"], TTL).await.unwrap_err();
        assert!(
            !error.to_string().contains(" granted") || error.to_string().contains("quarantine")
        );
        settled(&stage.rival).await;
    }
    assert!(fresh.pttl(QUARANTINE).await > 60_000);
    assert!(stage.lock.is_valid());
}

/// The assumption that the guard takes the place of.
#[tokio::test]
async fn without_the_guard_a_master_that_restarts_empty_lets_in_a_second_holder() {
    let stage = Stage::set(|builder| builder).await;
    stage.servers[2].restart().await;
    stage.c_is_back().await;
    let second = stage.rival.acquire(["job"], TTL).await.unwrap();
    assert!(stage.lock.is_valid() && second.is_valid(), "two at once");
}

#[tokio::test]
async fn a_new_cluster_waits_or_is_initialised_and_one_that_is_in_use_is_left_alone() {
    let servers = Servers::start(3).await;
    let redlock = crate::acquirers::build_early(servers.urls(), guarded).await;
    eventually("all are connected", AT_ONCE, async || {
        let inspection = redlock.inspect("job").await.unwrap();
        inspection.findings().all(|finding| finding.state().is_ok())
    })
    .await;
    let error = redlock.acquire(["job"], TTL).await.unwrap_err();
    assert!(
        error.to_string().contains("`Redlock::initialise`"),
        "{error}"
    );
    settled(&redlock).await;
    let report = redlock.initialise().await.unwrap();
    assert!(
        report
            .iter()
            .all(|master| *master.state() == InitialiseState::Initialised)
    );
    for server in &servers {
        assert_eq!(server.pttl(MARKER).await, -1);
        assert_eq!(server.pttl(QUARANTINE).await, -2);
    }
    redlock
        .acquire(["job"], TTL)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    settled(&redlock).await;
    servers[1].flush_all().await;
    let error = redlock.initialise().await.unwrap_err();
    assert!(matches!(error, InitialiseError::InUse(_)), "{error}");
    assert_eq!(servers[1].keys().await, [""; 0]);
}

/// What the guard costs is paid by those who have it.
#[tokio::test]
async fn the_guard_costs_one_call_for_each_command_and_none_without_it() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server.set(MARKER, "1").await;
    }
    let mut processed = Vec::new();
    for guard in [None, Some(GUARD)] {
        let redlock = build(servers.urls(), |builder| builder.restart_guard(guard)).await;
        // Scripts are loaded meanwhile.
        eventually("nothing is on its way", AT_ONCE, async || {
            let before = servers[0].commands_processed().await;
            sleep(Duration::from_millis(100)).await;
            before == servers[0].commands_processed().await
        })
        .await;
        let exists = servers[0].calls("exists").await;
        let before = servers[0].commands_processed().await;
        let mut lock = redlock.acquire(["job"], TTL).await.unwrap();
        settled(&redlock).await;
        // Longer, so that there is something to set for certain.
        lock.extend(2 * TTL).await.unwrap();
        settled(&redlock).await;
        lock.release().await.unwrap();
        settled(&redlock).await;
        processed.push(servers[0].commands_processed().await - before);
        let more = servers[0].calls("exists").await - exists;
        assert_eq!(more, if guard.is_some() { 3 } else { 0 });
        // What it says at its end is not the next one's.
        assert!(redlock.shutdown(AT_ONCE).await);
    }
    assert_eq!(processed[0] + 3, processed[1]);
}

/// Each as if it had come by itself.
#[tokio::test]
async fn what_travels_together_is_guarded_too() {
    for fencing in BOTH {
        let servers = Servers::start(1).await;
        servers[0].set(MARKER, "1").await;
        let change = |builder: Builder| builder.fencing(fencing()).restart_guard(GUARD);
        let redlock = build(servers.urls(), change).await;
        let mut locks = Vec::new();
        for (number, result) in acquire_many(&redlock).await.into_iter().enumerate() {
            let lock = result.expect("it remembers");
            assert_eq!(servers[0].get(&job(number)).await, Some(lock.value()));
            locks.push(lock);
        }
        let extended = join_all(locks.iter_mut().map(|lock| lock.extend(2 * TTL))).await;
        assert!(extended.iter().all(Result::is_ok), "{extended:?}");
        let released = join_all(locks.into_iter().map(Lock::release)).await;
        assert!(released.iter().all(Result::is_ok), "{released:?}");
        settled(&redlock).await;
        assert_eq!(servers[0].get(MARKER).await.as_deref(), Some("1"));
        assert_eq!(servers[0].pttl(MARKER).await, -1);
        assert_eq!(servers[0].pttl(QUARANTINE).await, -2);

        servers[0].flush_all().await;
        for result in acquire_many(&redlock).await {
            let error = result.expect_err("it has forgotten");
            let said = answer(error.outcomes().unwrap(), 0);
            assert!(matches!(said, Answer::Quarantined { .. }), "{error}");
        }
        settled(&redlock).await;
        let keys = servers[0].keys().await;
        assert!(!keys.iter().any(|key| key.starts_with("job-")), "{keys:?}");
    }
}
