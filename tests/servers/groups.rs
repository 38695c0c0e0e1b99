//! Operations that wait for the same master travel together, and each is as if it were alone.

use std::{
    collections::HashSet,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use fredlock::{AcquireError, Answer, Fencing, Lock, MasterError, Redlock, Retry};
use futures::future::join_all;

use crate::acquirers::{
    AT_ONCE, BOTH, PATIENCE, Stopwatch, TTL, answer, build, hold_replies, master_error, on_all,
    patient, relays, server_error, settled, urls,
};
use crate::support::{
    eventually,
    fake::{FakeServer, raw},
    server::Server,
    servers::Servers,
};

/// So many that most of them wait.
pub(crate) const MANY: usize = 200;

pub(crate) fn job(number: usize) -> String {
    format!("job-{number}")
}

pub(crate) async fn acquire_many(redlock: &Redlock) -> Vec<Result<Lock, AcquireError>> {
    join_all((0..MANY).map(|number| redlock.try_acquire([job(number)], TTL))).await
}

/// How many calls of scripts it has had.
async fn commands(server: &Server) -> u64 {
    let calls = join_all(["evalsha", "eval"].map(|name| server.calls(name)));
    calls.await.iter().sum()
}

#[tokio::test]
async fn many_at_once_take_a_master_few_calls() {
    let servers = Servers::start(3).await;
    for fencing in BOTH {
        let redlock = build(servers.urls(), |builder| builder.fencing(fencing())).await;
        let before = commands(&servers[0]).await;
        let locks: Result<Vec<_>, _> = acquire_many(&redlock).await.into_iter().collect();
        let locks = locks.expect("all are free");
        settled(&redlock).await;
        for (number, lock) in locks.iter().enumerate().step_by(20) {
            assert_eq!(servers.values_of(&job(number)).await, on_all(3, lock));
        }
        let released = join_all(locks.into_iter().map(Lock::release)).await;
        assert!(released.iter().all(Result::is_ok), "{released:?}");
        settled(&redlock).await;
        let calls = commands(&servers[0]).await - before;
        // 400 operations: four at either time go by themselves, the rest by 64.
        assert!(calls < 60, "{calls} calls");
        let keys = servers[0].keys().await;
        assert!(!keys.iter().any(|key| key.starts_with("job-")), "{keys:?}");
    }
}

#[tokio::test]
async fn what_fails_for_one_fails_for_it_alone() {
    // With one master, every answer is there when it is decided. The second has no fence for a number,
    // which shows only after its key was written.
    let (no_lock, no_fence) = (150, 160);
    for fencing in BOTH {
        let servers = Servers::start(1).await;
        let fence_key = format!("{{{}}}:fence", job(no_fence));
        for key in [job(no_lock), fence_key] {
            servers[0].command(&["LPUSH", &key, "no lock"]).await;
        }
        let redlock = build(servers.urls(), |builder| builder.fencing(fencing())).await;
        let mut failed = Vec::new();
        for (number, result) in acquire_many(&redlock).await.into_iter().enumerate() {
            if let Err(error) = result {
                let outcomes = error.outcomes().unwrap();
                let text = server_error(outcomes, 0);
                assert!(text.starts_with("WRONGTYPE "), "{number}: {text}");
                failed.push(number);
            }
        }
        if fencing() == Fencing::Off {
            assert_eq!(failed, [no_lock]);
        } else {
            assert_eq!(failed, [no_lock, no_fence]);
        }
    }
}

#[tokio::test]
async fn a_permission_that_one_lacks_is_missed_by_it_alone() {
    let servers = Servers::start(1).await;
    for server in &servers {
        let user = [
            "ACL", "SETUSER", "some", "on", ">pass", "+@all", "~job-1*", "~{job-1*",
        ];
        assert!(server.command(&user).await.is_ok());
    }
    let url = |server: &Server| format!("redis://some:pass@{}", server.addr());
    let redlock = patient(servers.iter().map(url)).await;
    for (number, result) in acquire_many(&redlock).await.into_iter().enumerate() {
        let permitted = job(number).starts_with("job-1");
        match result {
            Ok(_) => assert!(permitted, "{number}"),
            Err(error) => {
                assert!(!permitted, "{number}: {error}");
                let text = server_error(error.outcomes().unwrap(), 0).to_owned();
                assert!(text.starts_with("NOPERM "), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn a_full_master_says_so_to_each_and_takes_back_what_it_has() {
    for fencing in BOTH {
        let servers = Servers::start(1).await;
        let redlock = build(servers.urls(), |builder| builder.fencing(fencing())).await;
        // Half of the names have been locked before, so that a fence stands there.
        let locks: Result<Vec<_>, _> = acquire_many(&redlock).await.into_iter().collect();
        let mut locks = locks.expect("there is memory yet");
        let kept = locks.split_off(MANY / 2);
        let released = join_all(locks.into_iter().map(Lock::release)).await;
        assert!(released.iter().all(Result::is_ok), "{released:?}");
        let full = ["CONFIG", "SET", "maxmemory", "1"];
        assert!(servers[0].command(&full).await.is_ok());
        for (number, result) in acquire_many(&redlock).await.into_iter().enumerate() {
            let error = result.expect_err("no memory");
            let outcomes = error.outcomes().unwrap();
            if number < MANY / 2 {
                let text = server_error(outcomes, 0);
                assert!(text.starts_with("OOM "), "{number}: {text}");
            }
        }
        let released = join_all(kept.into_iter().map(Lock::release)).await;
        assert!(released.iter().all(Result::is_ok), "{released:?}");
    }
}

#[tokio::test]
async fn a_release_that_is_not_permitted_is_told_so_and_is_none() {
    for fencing in BOTH {
        let servers = Servers::start(1).await;
        let redlock = build(servers.urls(), |builder| builder.fencing(fencing())).await;
        let locks: Result<Vec<_>, _> = acquire_many(&redlock).await.into_iter().collect();
        let locks = locks.expect("all are free");
        // One at a time: a server refuses a rule for a command that it does not know.
        for rule in ["-del", "-delex", "-delifeq"] {
            let rules = ["ACL", "SETUSER", "default", rule];
            servers[0].command(&rules).await;
        }
        for result in join_all(locks.into_iter().map(Lock::release)).await {
            let error = result.expect_err("it may delete nothing");
            let text = error.to_string();
            // As Redis 7.0, newer ones, and Valkey say it.
            let said = ["can't run this command", "no permissions to run", "NOPERM"];
            assert!(said.iter().any(|said| text.contains(said)), "{text}");
        }
        assert!(servers[0].get(&job(MANY - 1)).await.is_some());
    }
}

#[tokio::test]
async fn a_reply_that_has_not_a_part_for_each_is_nobodys() {
    let server = Server::start().await;
    let travelled = Arc::new(Mutex::new(HashSet::new()));
    let together = Arc::clone(&travelled);
    // Without fencing, one that goes by itself is no script; and a key is a lock.
    let fake = FakeServer::over(&server, move |command| {
        let keys: usize = match &command[0][..] {
            "EVALSHA" | "EVAL" => command[2].parse().unwrap(),
            _ => return None,
        };
        let keys = command[3..3 + keys].iter().cloned();
        together.lock().unwrap().extend(keys);
        Some(raw::array(&[raw::int(0)]))
    })
    .await;
    let redlock = build([fake.url()], |builder| builder.fencing(Fencing::Off)).await;
    let results = acquire_many(&redlock).await;
    let travelled = travelled.lock().unwrap().clone();
    assert!(travelled.len() > MANY / 2, "{}", travelled.len());
    for (number, result) in results.iter().enumerate() {
        let has_travelled = travelled.contains(&job(number));
        match result {
            Ok(_) => assert!(!has_travelled, "{number}"),
            Err(error) => {
                assert!(has_travelled, "{number}: {error}");
                let error = master_error(error.outcomes().unwrap(), 0);
                assert!(matches!(error, MasterError::Unexpected(_)), "{error}");
            }
        }
    }
    results.into_iter().flatten().for_each(Lock::forget);
}

#[tokio::test]
async fn a_lost_reply_is_unknown_to_each_and_each_is_taken_back() {
    let servers = Servers::start(3).await;
    let relays = relays(&servers).await;
    let redlock = patient(urls(&relays)).await;
    let impatient = redlock.with(|settings| {
        let settings = settings.retry(Retry::none());
        settings.command_timeout(Duration::from_millis(300))
    });
    hold_replies(&relays[..2], true);
    for result in acquire_many(&impatient).await {
        let error = result.expect_err("two of three are not heard");
        assert!(matches!(error, AcquireError::NoQuorum(_)), "{error}");
        let outcomes = error.outcomes().unwrap();
        let first = answer(outcomes, 0);
        assert_eq!(*first, Answer::Failed(MasterError::Timeout));
    }
    hold_replies(&relays[..2], false);
    eventually("no key is left", PATIENCE, async || {
        let keys = join_all(servers.iter().map(Server::keys)).await.concat();
        !keys.iter().any(|key| key.starts_with("job-"))
    })
    .await;
    settled(&redlock).await;
}

#[tokio::test]
async fn each_has_a_time_limit_of_its_own() {
    let servers = Servers::start(1).await;
    let relays = relays(&servers).await;
    let redlock = build(urls(&relays), |builder| {
        builder.settings(|settings| settings.retry(Retry::none()))
    })
    .await;
    let short = redlock.with(|settings| settings.command_timeout(Duration::from_millis(200)));
    let long = redlock.with(|settings| settings.command_timeout(PATIENCE));
    relays[0].hold_requests(true);
    let watch = Stopwatch::start();
    let shorts = async {
        let results = join_all((0..20).map(|n| short.try_acquire([format!("short-{n}")], TTL)));
        assert!(results.await.iter().all(Result::is_err));
        // Long before the others' limit, with which they travel.
        watch.assert_at_once();
        relays[0].hold_requests(false);
    };
    let longs = join_all((0..20).map(|n| long.try_acquire([format!("long-{n}")], TTL)));
    let (longs, ()) = tokio::join!(longs, shorts);
    for result in longs {
        drop(result.expect("it is answered in the end"));
    }
    settled(&redlock).await;
}

#[tokio::test]
async fn scripts_that_are_forgotten_meanwhile_are_not_missed() {
    let servers = Servers::start(3).await;
    let redlock = patient(servers.urls()).await;
    let workers = join_all((0..32).map(|worker| {
        let redlock = &redlock;
        async move {
            for _ in 0..20 {
                let lock = redlock.try_acquire([job(worker)], TTL).await.unwrap();
                lock.release().await.unwrap();
            }
        }
    }));
    let forget = async {
        for _ in 0..10 {
            for server in &servers {
                server.script_flush().await;
            }
        }
    };
    tokio::join!(workers, forget);
    settled(&redlock).await;
}

/// Somebody who begins many and looks at none must not keep the masters from the rest.
#[tokio::test]
async fn callers_that_stop_looking_hold_nobody_up() {
    let servers = Servers::start(3).await;
    let redlock = build(servers.urls(), |builder| {
        builder.fencing(Fencing::default())
    })
    .await;
    let left_alone: Vec<_> = (0..50)
        .map(|number| {
            let (redlock, name) = (redlock.clone(), format!("left-{number}"));
            let mut begun = Box::pin(async move { redlock.try_acquire([name], TTL).await });
            let mut cx = Context::from_waker(Waker::noop());
            assert!(matches!(begun.as_mut().poll(&mut cx), Poll::Pending));
            begun
        })
        .collect();
    let watch = Stopwatch::start();
    for number in 0..20 {
        let lock = pin!(redlock.try_acquire([job(number)], TTL)).await;
        lock.unwrap().release().await.unwrap();
    }
    watch.assert_at_once();
    drop(left_alone);
    eventually("all is taken back", AT_ONCE, async || {
        let keys = servers[0].keys().await;
        !keys.iter().any(|key| key.starts_with("left-"))
    })
    .await;
}
