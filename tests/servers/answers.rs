//! What a master answers instead of doing what it was asked to: it reaches the caller in the
//! server's own words, and the other masters make the quorum where they are enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fredlock::{AcquireError, MasterError, Redlock};

use crate::acquirers::{
    AT_ONCE, BOTH, Stopwatch, TTL, answer, build, fence_key, master_error, on_all, patient,
    server_error, settled,
};
use crate::support::eventually;
use crate::support::fake::{FakeServer, raw};
use crate::support::relay::Relay;
use crate::support::server::Server;
use crate::support::servers::Servers;

/// Errors as servers give them.
const ERRORS: [&str; 11] = [
    "READONLY You can't write against a read only replica.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "LOADING Redis is loading the dataset in memory",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "NOAUTH Authentication required.",
    "MOVED 3999 127.0.0.1:6381",
    "ASK 3999 127.0.0.1:6381",
    "CLUSTERDOWN Hash slot not served",
    "NOPERM this user has no permissions to run the 'evalsha' command",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "NOREPLICAS Not enough good replicas to write.",
];

/// A master that answers every command of a lock with the error, while it is switched on.
async fn failing(server: &Server, error: &'static str) -> (FakeServer, Arc<AtomicBool>) {
    let switch = Arc::new(AtomicBool::new(false));
    let is_on = Arc::clone(&switch);
    let fake = FakeServer::over(server, move |command| {
        let is_ours = matches!(command[0].as_str(), "EVALSHA" | "EVAL" | "SET");
        (is_ours && is_on.load(Ordering::Relaxed)).then(|| raw::error(error))
    })
    .await;
    (fake, switch)
}

#[tokio::test]
async fn every_error_of_a_master_reaches_the_caller_in_its_own_words() {
    let servers = Servers::start(3).await;
    for error in ERRORS {
        for fencing in BOTH {
            let (one, one_fails) = failing(&servers[0], error).await;
            let (two, two_fails) = failing(&servers[1], error).await;
            let given = [one.url(), two.url(), servers[2].url()];
            let redlock = build(given, |builder| builder.fencing(fencing())).await;
            one_fails.store(true, Ordering::Relaxed);
            let lock = redlock
                .acquire(["job"], TTL)
                .await
                .expect("a quorum of the others");
            let token = Some(lock.token().reveal());
            assert_eq!(
                servers.values_of("job").await,
                [None, token.clone(), token],
                "{error}"
            );
            lock.release().await.expect("a quorum of the others");

            one_fails.store(false, Ordering::Relaxed);
            eventually(
                &format!("the master goes on after {error}"),
                AT_ONCE,
                async || {
                    let lock = redlock.acquire(["other"], TTL).await.unwrap();
                    settled(&redlock).await;
                    servers.values_of("other").await == on_all(3, &lock)
                },
            )
            .await;
            settled(&redlock).await;
            one_fails.store(true, Ordering::Relaxed);
            two_fails.store(true, Ordering::Relaxed);
            let time = Stopwatch::start();
            let failed = redlock.acquire(["job"], TTL).await.unwrap_err();
            time.assert_at_once();
            assert!(matches!(failed, AcquireError::NoQuorum(_)), "{failed}");
            assert!(!failed.is_busy());
            let outcomes = failed.outcomes().unwrap();
            assert_eq!(
                [server_error(outcomes, 0), server_error(outcomes, 1)],
                [error; 2]
            );
            assert!(failed.to_string().matches(error).count() == 2, "{failed}");
            one_fails.store(false, Ordering::Relaxed);
            two_fails.store(false, Ordering::Relaxed);
            settled(&redlock).await;
            assert_eq!(servers.values_of("job").await, [None, None, None]);
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_none_is_shown_as_it_came() {
    let servers = Servers::start(3).await;
    let nonsense = |command: &[String]| command[0].starts_with("EVAL").then(|| raw::bulk("what?"));
    let one = FakeServer::over(&servers[0], nonsense).await;
    let two = FakeServer::over(&servers[1], nonsense).await;
    let redlock = patient([one.url(), two.url(), servers[2].url()]).await;
    let error = redlock.acquire(["job"], TTL).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    let said = master_error(error.outcomes().unwrap(), 1);
    assert!(
        matches!(said, MasterError::Unexpected(text) if text.contains("what?")),
        "{said}"
    );
}

/// Breaks the first of three masters, then the second.
async fn reaches_the_caller(fault: impl AsyncFn(&Server), said: &str) {
    for fencing in BOTH {
        let servers = Servers::start(3).await;
        let redlock = build(servers.urls(), |builder| builder.fencing(fencing())).await;
        fault(&servers[0]).await;
        let lock = redlock
            .acquire(["job"], TTL)
            .await
            .expect("a quorum of the others");
        settled(&redlock).await;
        let token = Some(lock.token().reveal());
        assert_eq!(servers.values_of("job").await, [None, token.clone(), token]);
        lock.release().await.expect("a quorum of the others");
        assert_eq!(servers[2].get("job").await, None);

        fault(&servers[1]).await;
        let result = redlock.acquire(["job"], TTL).await;
        let error = result.expect_err("one of three");
        assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
        let outcomes = error.outcomes().expect("an attempt");
        for index in [0, 1] {
            let text = server_error(outcomes, index);
            assert!(text.starts_with(said), "{text}");
        }
    }
}

#[tokio::test]
async fn a_master_that_became_a_replica_says_readonly() {
    let fault = async |server: &Server| {
        // Of a master that is not there: what it has stays.
        let reply = server.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
        assert!(reply.is_ok(), "{reply:?}");
    };
    reaches_the_caller(fault, "READONLY ").await;
}

#[tokio::test]
async fn a_master_without_memory_says_oom() {
    let fault = async |server: &Server| {
        let reply = server.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
        assert!(reply.is_ok(), "{reply:?}");
    };
    reaches_the_caller(fault, "OOM ").await;
}

#[tokio::test]
async fn a_master_that_cannot_save_says_misconf() {
    let fault = async |server: &Server| {
        assert!(
            server
                .command(&["CONFIG", "SET", "save", "3600 1"])
                .await
                .is_ok()
        );
        let dir = server.command(&["CONFIG", "GET", "dir"]).await.items()[1].clone();
        // A directory in the place of the file: this stops the superuser too.
        let file = format!("{}/dump.rdb", dir.text().expect("the server's directory"));
        tokio::fs::create_dir_all(format!("{file}/in-the-way"))
            .await
            .expect("a directory");
        eventually("saving fails", AT_ONCE, async || {
            server.command(&["BGSAVE"]).await;
            server.info("persistence").await["rdb_last_bgsave_status"] == "err"
        })
        .await;
    };
    reaches_the_caller(fault, "MISCONF ").await;
}

#[tokio::test]
async fn a_master_that_loads_its_data_says_so_and_joins_when_it_has() {
    let servers = Servers::start(3).await;
    let redlock = patient(servers.urls())
        .await
        .with(|settings| settings.command_timeout(Duration::from_millis(500)));
    let value = "x".repeat(2048);
    for index in [0, 1] {
        for key in 0..100 {
            servers[index].set(&format!("filler-{key}"), &value).await;
        }
        assert!(
            servers[index]
                .command(&["CONFIG", "SET", "rdbcompression", "no"])
                .await
                .is_ok()
        );
        assert!(servers[index].command(&["SAVE"]).await.is_ok());
    }
    let slowly = [
        "--key-load-delay",
        "20000",
        "--loading-process-events-interval-bytes",
        "1024",
    ];
    tokio::join!(
        servers[0].restart_unready(&slowly),
        servers[1].restart_unready(&slowly)
    );
    eventually("both say that they are loading", AT_ONCE, async || {
        let error = redlock
            .acquire(["job"], TTL)
            .await
            .expect_err("one of three");
        let outcomes = error.outcomes().unwrap();
        [0, 1]
            .iter()
            .all(|&index| answer(outcomes, index).to_string().contains("LOADING "))
    })
    .await;
    eventually("they have joined", AT_ONCE, async || {
        redlock.acquire(["job"], TTL).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_key_of_another_type_in_the_place_of_the_fence_is_named() {
    let servers = Servers::start(3).await;
    for index in [0, 2] {
        servers[index]
            .command(&["LPUSH", &fence_key("job"), "x"])
            .await;
    }
    let redlock = patient(servers.urls()).await;
    let error = redlock.acquire(["job"], TTL).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    for index in [0, 2] {
        assert!(
            server_error(error.outcomes().unwrap(), index).contains("WRONGTYPE "),
            "{error}"
        );
    }
    assert_eq!(servers[0].get("job").await, None);
}

/// A call whose connection was given up may have been done: no answer of the server says so.
#[tokio::test]
async fn a_call_that_is_cut_off_by_a_reconnection_is_not_shown_as_an_answer_of_the_server() {
    let server = Server::start().await;
    let relay = Relay::before(&server).await;
    let redlock = patient([relay.url()]).await;
    let hasty = redlock.with(|settings| settings.command_timeout(Duration::from_millis(150)));
    relay.hold_requests(true);
    let long = tokio::spawn(acquire(redlock.clone(), "long"));
    let connections = relay.accepted();
    eventually("the connection is given up", AT_ONCE, async || {
        let error = acquire(hasty.clone(), "short").await.expect_err("held");
        assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
        relay.accepted() > connections
    })
    .await;
    relay.hold_requests(false);
    let error = long.await.unwrap().unwrap_err();
    let said = master_error(error.outcomes().unwrap(), 0);
    assert!(
        matches!(said, MasterError::ConnectionLost(_) | MasterError::Timeout),
        "{said:?}"
    );
}

async fn acquire(redlock: Redlock, name: &'static str) -> Result<fredlock::Lock, AcquireError> {
    redlock.acquire([name], TTL).await
}
