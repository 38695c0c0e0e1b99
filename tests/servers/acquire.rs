//! One acquisition: what it needs of the masters, and what it says when it does not get it.

use std::time::Duration;

use fredlock::{AcquireError, Answer, MasterError};

use crate::acquirers::{
    AT_ONCE, BOTH, Stopwatch, TTL, answer, build, fence_key, master_error, patient, relays,
    server_error, settled, urls,
};
use crate::support::eventually;
use crate::support::fake::{FakeServer, raw};
use crate::support::servers::Servers;

#[tokio::test]
async fn acquire_succeeds_at_once_while_two_of_five_masters_hang() {
    let servers = Servers::start(5).await;
    for fencing in BOTH {
        let redlock = build(servers.urls(), |builder| builder.fencing(fencing())).await;
        servers.freeze(&[1, 3]);
        let time = Stopwatch::start();
        for _ in 0..3 {
            let lock = redlock.acquire(["job"], TTL).await.unwrap();
            assert_eq!(*answer(lock.outcomes(), 1), Answer::Pending);
            lock.release().await.unwrap();
        }
        time.assert_at_once();
        servers.thaw(&[1, 3]);
        settled(&redlock).await;
        assert_eq!(servers.values_of("job").await, vec![None; 5]);
    }
}

#[tokio::test]
async fn acquire_succeeds_at_once_while_two_of_five_masters_are_dead() {
    let servers = Servers::start(5).await;
    let redlock = patient(servers.urls()).await;
    servers.kill(&[0, 4]).await;
    let time = Stopwatch::start();
    for _ in 0..3 {
        let lock = redlock.acquire(["job"], TTL).await.unwrap();
        let token = Some(lock.token().reveal());
        let expected = [None, token.clone(), token.clone(), token, None];
        assert_eq!(servers.values_of("job").await, expected);
        lock.release().await.unwrap();
    }
    time.assert_at_once();
}

#[tokio::test]
async fn no_quorum_names_every_master_and_what_it_said() {
    let servers = Servers::start(5).await;
    let failing = FakeServer::over(&servers[2], |command| {
        command[0]
            .starts_with("EVAL")
            .then(|| raw::error("ERR out of order"))
    })
    .await;
    let mut given = servers.urls();
    given[2] = failing.url();
    let redlock = build(given.clone(), |builder| {
        builder.settings(|settings| settings.command_timeout(Duration::from_secs(1)))
    })
    .await;
    servers.kill(&[1]).await;
    // The first answer after a death may be that of the connection.
    eventually("the death was noticed", AT_ONCE, async || {
        let lock = redlock.acquire(["other"], TTL).await.unwrap();
        matches!(
            answer(lock.outcomes(), 1),
            Answer::Failed(MasterError::NotConnected(reason)) if reason.contains("efused")
        )
    })
    .await;
    servers.freeze(&[0]);
    let time = Stopwatch::start();
    let error = redlock.acquire(["job"], TTL).await.unwrap_err();
    time.assert_at_once();
    assert!(
        matches!(&error, AcquireError::NoQuorum(a) if a.count == 1),
        "{error}"
    );
    assert!(!error.is_busy());
    let outcomes = error.outcomes().unwrap();
    assert_eq!(*master_error(outcomes, 0), MasterError::Timeout);
    assert!(matches!(
        master_error(outcomes, 1),
        MasterError::NotConnected(_)
    ));
    assert_eq!(server_error(outcomes, 2), "ERR out of order");
    let text = error.to_string();
    assert!(text.starts_with("no quorum of masters for job"), "{text}");
    for (url, outcome) in given.iter().zip(outcomes.iter()) {
        assert_eq!(format!("redis://{}", outcome.master()), *url);
        assert!(text.contains(outcome.master()), "{text}");
    }
    for said in ["timed out", "efused", "ERR out of order", "granted"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[tokio::test]
async fn an_acquire_without_quorum_ends_when_its_commands_time_out() {
    let servers = Servers::start(5).await;
    let redlock = patient(servers.urls()).await;
    servers.freeze(&[0, 2, 4]);
    let time = Stopwatch::start();
    let limit = Duration::from_secs(1);
    let hasty = redlock.with(|settings| settings.command_timeout(limit));
    let error = hasty.acquire(["job"], TTL).await.unwrap_err();
    let took = time.elapsed();
    assert!(took >= limit && took < AT_ONCE, "{took:?}");
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    for index in [0, 2, 4] {
        assert_eq!(
            *master_error(error.outcomes().unwrap(), index),
            MasterError::Timeout
        );
    }
    assert!(matches!(
        answer(error.outcomes().unwrap(), 1),
        Answer::Granted { .. }
    ));
}

#[tokio::test]
async fn held_by_somebody_else_is_another_error_than_no_quorum() {
    let servers = Servers::start(5).await;
    for index in [0, 2, 3] {
        servers[index].set_for("job", "foreign", TTL).await;
    }
    let redlock = patient(servers.urls()).await;
    let time = Stopwatch::start();
    let error = redlock.acquire(["job"], TTL).await.unwrap_err();
    time.assert_at_once();
    assert!(
        matches!(&error, AcquireError::Busy(a) if a.count == 1),
        "{error}"
    );
    assert!(error.is_busy());
    let Answer::Busy {
        time_left: Some(left),
        ..
    } = answer(error.outcomes().unwrap(), 0)
    else {
        panic!("{error}");
    };
    assert!(*left > TTL / 2 && *left <= TTL, "{left:?}");
    settled(&redlock).await;
    let foreign = Some("foreign".to_owned());
    let expected = [foreign.clone(), None, foreign.clone(), foreign, None];
    assert_eq!(servers.values_of("job").await, expected);
}

#[tokio::test]
async fn a_foreign_key_on_a_minority_neither_stops_an_acquire_nor_is_touched() {
    let servers = Servers::start(3).await;
    servers[2].set_for("job", "foreign", TTL).await;
    let foreign = Some("foreign".to_owned());
    for fencing in BOTH {
        let redlock = build(servers.urls(), |builder| builder.fencing(fencing())).await;
        let mut lock = redlock.acquire(["job"], TTL).await.unwrap();
        lock.extend(TTL).await.unwrap();
        let token = Some(lock.token().reveal());
        let expected = [token.clone(), token, foreign.clone()];
        assert_eq!(servers.values_of("job").await, expected);
        lock.release().await.unwrap();
        settled(&redlock).await;
        assert_eq!(
            servers.values_of("job").await,
            [None, None, foreign.clone()]
        );
    }
    assert!(servers[2].pttl("job").await <= 60_000);
}

#[tokio::test]
async fn a_master_behind_a_slow_link_costs_nothing() {
    let servers = Servers::start(5).await;
    let relays = relays(&servers).await;
    let redlock = patient(urls(&relays)).await;
    relays[1].delay(Duration::from_millis(400));
    let time = Stopwatch::start();
    let rounds = 5;
    for _ in 0..rounds {
        let mut lock = redlock.acquire(["job"], TTL).await.unwrap();
        lock.extend(TTL).await.unwrap();
        lock.release().await.unwrap();
    }
    // Waiting for it once in each step would take 12 s.
    time.assert_at_once();
    relays[1].delay(Duration::ZERO);
    settled(&redlock).await;
    assert_eq!(servers.values_of("job").await, vec![None; 5]);
    assert!(
        servers[1].get(&fence_key("job")).await.is_some(),
        "it had it in the end"
    );
}
