//! What a readiness check is told.

use std::time::Duration;

use fredlock::{Fencing, GuardState, Health, MasterError, MasterState, Redlock};
use tokio::time::Instant;

use crate::support::{server::Server, servers::Servers};
use crate::{LIMIT, PATIENCE, build, eventually, settled};

fn states(health: &Health) -> Vec<MasterState> {
    health.masters().map(|one| one.state().clone()).collect()
}

/// Waits until so many masters vote.
async fn votes(redlock: &Redlock, count: usize) {
    eventually("so many masters vote", async || {
        redlock.health().await.voting() == count
    })
    .await;
}

#[tokio::test]
async fn masters_that_vote_hang_and_are_dead_are_told_apart_and_a_quorum_decides() {
    let servers = Servers::start(5).await;
    let redlock = build(servers.urls(), |builder| builder).await;
    let health = redlock.health().await;
    assert_eq!(states(&health), vec![MasterState::Votes; 5], "{health}");
    assert_eq!((health.voting(), health.quorum()), (5, 3));

    let hasty = redlock.with(|settings| settings.command_timeout(Duration::from_secs(1)));
    servers[4].kill().await;
    // A question that is sent before its end was noticed may wait for the next connection.
    eventually("its end is noticed", async || {
        !matches!(
            states(&hasty.health().await)[4],
            MasterState::Votes | MasterState::Failed(MasterError::Timeout)
        )
    })
    .await;
    servers[3].freeze();
    let health = hasty.health().await;
    assert!(health.is_ready(), "{health}");
    let states = states(&health);
    assert_eq!(states[..3], [const { MasterState::Votes }; 3], "{health}");
    assert_eq!(states[3], MasterState::Failed(MasterError::Timeout));
    assert!(
        matches!(
            states[4],
            MasterState::Failed(MasterError::NotConnected(_) | MasterError::ConnectionLost(_))
        ),
        "{health}"
    );
    for (one, server) in health.masters().zip(&servers) {
        assert_eq!(one.master(), server.addr());
        assert!(health.to_string().contains(&server.addr()), "{health}");
    }

    // It waits for what hangs as long as for a command, and no longer.
    servers[2].freeze();
    let begun = Instant::now();
    let health = hasty.health().await;
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    assert!(!health.is_ready(), "{health}");
    assert!(
        health.to_string().starts_with("not ready, 2 of 5"),
        "{health}"
    );

    servers.thaw(&[2, 3]);
    votes(&hasty, 4).await;
}

#[tokio::test]
async fn it_is_one_command_for_each_master_and_writes_nothing() {
    for fencing in [Fencing::default(), Fencing::Off] {
        let servers = Servers::start(3).await;
        let redlock = build(servers.urls(), |builder| builder.fencing(fencing)).await;
        settled(&redlock).await;
        let before = servers[0].keys().await;
        let commands = servers[0].commands_processed().await;
        let again = servers[0].commands_processed().await;
        for _ in 0..20 {
            assert!(redlock.health().await.is_ready());
        }
        let own = again - commands;
        let sent = servers[0].commands_processed().await - again - own;
        // With what the script itself calls: nothing.
        assert_eq!(sent, 20, "{fencing:?}");
        assert_eq!(servers[0].keys().await, before);
    }
}

#[tokio::test]
async fn a_user_who_may_run_no_scripts_votes_without_fencing_alone() {
    let server = Server::start().await;
    let rules = ["ACL", "SETUSER", "default", "-eval", "-evalsha"];
    let redlocks = [
        build(vec![server.url()], |builder| builder.fencing(Fencing::Off)).await,
        build(vec![server.url()], |builder| builder).await,
    ];
    server.command(&rules).await;
    assert!(redlocks[0].health().await.is_ready());
    let health = redlocks[1].health().await;
    assert!(
        !health.is_ready() && health.to_string().contains("NOPERM"),
        "{health}"
    );
}

#[tokio::test]
async fn masters_that_their_restart_guard_keeps_from_voting_do_not_count() {
    let servers = Servers::start(3).await;
    let guarded = |guard| Redlock::builder().urls(servers.urls()).restart_guard(guard);
    let redlock = guarded(Duration::from_secs(60)).connect().await.unwrap();
    let redlock = redlock.with(|settings| settings.command_timeout(PATIENCE));
    eventually("all have joined", async || {
        let states = states(&redlock.health().await);
        states == vec![MasterState::Waits(GuardState::Unmarked); 3]
    })
    .await;
    for index in [0, 1] {
        servers[index].set("fredlock:guard:marker", "1").await;
    }
    servers[1].set("fredlock:guard:quarantine", "1").await;
    servers[1]
        .command(&["PEXPIRE", "fredlock:guard:quarantine", "60000"])
        .await;
    let health = redlock.health().await;
    assert_eq!((health.voting(), health.is_ready()), (1, false), "{health}");
    let MasterState::Waits(GuardState::Quarantined { time_left, .. }) = states(&health)[1] else {
        panic!("{health}");
    };
    assert!(time_left > Duration::from_secs(30), "{time_left:?}");
    servers[1].del("fredlock:guard:quarantine").await;
    assert!(redlock.health().await.is_ready());
}

#[tokio::test]
async fn after_a_shutdown_no_master_votes_and_none_is_asked() {
    let servers = Servers::start(1).await;
    let redlock = build(servers.urls(), |builder| builder).await;
    assert!(redlock.health().await.is_ready());
    assert!(redlock.shutdown(LIMIT).await);
    let health = redlock.health().await;
    assert!(
        !health.is_ready() && health.to_string().contains("shut down"),
        "{health}"
    );
}
