//! Masters that want a password, or let a user do only some things: what is missing is named.

use std::time::Duration;

use fredlock::{AcquireError, Answer, Outcomes};
use tokio::time::sleep;

use crate::acquirers::{
    AT_ONCE, BOTH, TTL, answer, build, build_early, on_all, patient, server_error, settled,
};
use crate::support::eventually;
use crate::support::server::Server;
use crate::support::servers::Servers;

#[tokio::test]
async fn a_master_that_wants_a_password_says_so() {
    let servers = Servers::start(3).await;
    let redlock = patient(servers.urls())
        .await
        .with(|settings| settings.command_timeout(Duration::from_millis(500)));
    let mut admitted = Vec::new();
    for index in [0, 1] {
        let mut connection = servers[index].connect().await.unwrap();
        for command in [
            &["CONFIG", "SET", "requirepass", "secret"][..],
            &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
        ] {
            let reply = connection.call(command).await.unwrap();
            assert!(reply.error().is_none(), "{reply:?}");
        }
        admitted.push(connection);
        if index == 0 {
            drop(
                redlock
                    .acquire(["job"], TTL)
                    .await
                    .expect("a quorum of the others"),
            );
        }
    }
    let says_noauth = |outcomes: &Outcomes, index| {
        let text = answer(outcomes, index).to_string();
        text.contains("NOAUTH Authentication required")
    };
    let both_say_noauth = async || {
        let error = redlock
            .acquire(["job"], TTL)
            .await
            .expect_err("one of three");
        assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
        let outcomes = error.outcomes().unwrap();
        says_noauth(outcomes, 0) && says_noauth(outcomes, 1)
    };
    eventually("both want a password", AT_ONCE, both_say_noauth).await;
    for _ in 0..20 {
        assert!(both_say_noauth().await, "and say so from then on");
        sleep(Duration::from_millis(10)).await;
    }
    for mut connection in admitted {
        let reply = connection
            .call(&["CONFIG", "SET", "requirepass", ""])
            .await
            .unwrap();
        assert!(reply.is_ok(), "{reply:?}");
    }
    eventually("it goes on without one", AT_ONCE, async || {
        let Ok(lock) = redlock.acquire(["job"], TTL).await else {
            return false;
        };
        settled(&redlock).await;
        servers.values_of("job").await == on_all(3, &lock)
    })
    .await;
}

#[tokio::test]
async fn a_wrong_password_is_named_as_such() {
    let servers = Servers::start_with(2, &["--requirepass", "secret"]).await;
    let with = |server: &Server, password: &str| format!("redis://:{password}@{}", server.addr());
    let given = [with(&servers[0], "secret"), with(&servers[1], "wrong")];
    let redlock = build_early(given, |builder| builder).await;
    let error = redlock.acquire(["job"], TTL).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
    let text = answer(error.outcomes().unwrap(), 1).to_string();
    assert!(text.contains("WRONGPASS "), "{text}");
    for secret in ["secret", ":wrong", "wrong@"] {
        assert!(!format!("{error} {error:?}").contains(secret), "{error:?}");
    }
}

/// Gives every server a user of its own, and the URLs with it.
async fn as_user(servers: &Servers, rights: &[&str]) -> Vec<String> {
    let mut urls = Vec::new();
    for server in servers {
        let user = [
            "ACL", "SETUSER", "locker", "reset", "on", ">secret", "~*", "&*", "+@all",
        ];
        let reply = server.command(&[&user, rights].concat()).await;
        assert!(reply.is_ok(), "{reply:?}");
        urls.push(format!("redis://locker:secret@{}", server.addr()));
    }
    urls
}

#[tokio::test]
async fn a_permission_that_is_missing_is_named() {
    let servers = Servers::start(3).await;
    for (rights, names) in [
        (&["-eval", "-evalsha"][..], "'eval"),
        (&["-eval", "-evalsha", "-script"], "'eval"),
        (&["-info"], "'info'"),
        (&["resetkeys", "~elsewhere:*"], "access"),
    ] {
        for fencing in BOTH {
            let given = as_user(&servers, rights).await;
            let redlock = build(given, |builder| builder.fencing(fencing())).await;
            // Two resources need a script with fencing and without it.
            let error = redlock.acquire(["job", "other"], TTL).await.unwrap_err();
            assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
            let outcomes = error.outcomes().unwrap();
            let mut refusals = 0;
            for (index, outcome) in outcomes.iter().enumerate() {
                if *outcome.answer() != Answer::Pending {
                    let text = server_error(outcomes, index);
                    assert!(
                        text.starts_with("NOPERM ") && text.contains(names),
                        "{text}"
                    );
                    refusals += 1;
                }
            }
            assert!(refusals >= 2, "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
    assert_eq!(servers.values_of("job").await, [None, None, None]);
}

#[tokio::test]
async fn a_permission_that_is_taken_away_is_named_and_the_other_masters_go_on() {
    let servers = Servers::start(3).await;
    let redlock = patient(as_user(&servers, &[]).await).await;
    let take_away = ["ACL", "SETUSER", "locker", "-evalsha", "-eval"];
    assert!(servers[1].command(&take_away).await.is_ok());
    let lock = redlock
        .acquire(["job"], TTL)
        .await
        .expect("a quorum of the others");
    let token = Some(lock.token().reveal());
    settled(&redlock).await;
    assert_eq!(servers.values_of("job").await, [token.clone(), None, token]);
    lock.release().await.expect("a quorum of the others");
    assert!(servers[2].command(&take_away).await.is_ok());
    let error = redlock.acquire(["job"], TTL).await.unwrap_err();
    for index in [1, 2] {
        let text = server_error(error.outcomes().unwrap(), index);
        assert!(
            text.starts_with("NOPERM ") && text.contains("'eval"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_user_who_may_not_load_scripts_can_lock() {
    let servers = Servers::start(3).await;
    for fencing in BOTH {
        let given = as_user(&servers, &["-script"]).await;
        let redlock = build(given, |builder| builder.fencing(fencing())).await;
        let mut lock = redlock.acquire(["job", "other"], TTL).await.unwrap();
        lock.extend(TTL * 2).await.unwrap();
        lock.release().await.unwrap();
        settled(&redlock).await;
        assert_eq!(servers.values_of("job").await, [None, None, None]);
    }
}
