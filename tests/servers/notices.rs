//! The connection by which a master tells waiters: how long it lasts, and what may go wrong on it.
//!
//! Where nothing tells them, these waiters ask again after so long that it shows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::{sleep, timeout};

use crate::acquirers::{AT_ONCE, PATIENCE, Stopwatch, TTL, relays, settled, urls};
use crate::support::{
    eventually,
    fake::{FakeServer, raw},
    server::Server,
    servers::Servers,
};
use crate::waiters::{acquire, asking_every, listens, tracking_clients};

#[tokio::test]
async fn the_connection_for_notices_is_there_only_while_somebody_waits() {
    let servers = Servers::start(3).await;
    let redlock = asking_every(PATIENCE, servers.urls(), |b| b).await;
    let held = redlock.acquire(["job"], TTL).await.unwrap();
    for server in &servers {
        assert_eq!(server.connected_clients().await, 1);
    }
    for _ in 0..2 {
        let waiting = acquire(&redlock);
        for server in &servers {
            eventually("it is opened", AT_ONCE, async || {
                tracking_clients(server).await == 1
            })
            .await;
            eventually("it is the second", AT_ONCE, async || {
                server.connected_clients().await == 2
            })
            .await;
        }
        waiting.abort();
        for server in &servers {
            eventually("it is closed", AT_ONCE, async || {
                server.connected_clients().await == 1
            })
            .await;
        }
    }
    // A shutdown does not wait for that.
    let waiting = acquire(&redlock);
    listens(&servers).await;
    waiting.abort();
    drop(held);
    assert!(redlock.shutdown(AT_ONCE).await);
    for server in &servers {
        eventually("nothing is left", AT_ONCE, async || {
            server.connected_clients().await == 0
        })
        .await;
    }
}

/// A waiter comes soon after the last one has left, as a rule.
#[tokio::test]
async fn waiters_that_come_one_after_another_share_the_connection_for_notices() {
    let servers = Servers::start(1).await;
    let relays = relays(&servers).await;
    servers[0].set("job", "somebody else").await;
    let redlock = asking_every(PATIENCE, urls(&relays), |b| b).await;
    let before = relays[0].accepted();
    let waiters = 10;
    for _ in 0..waiters {
        let waiting = acquire(&redlock);
        eventually("it listens", AT_ONCE, async || {
            tracking_clients(&servers[0]).await == 1 && redlock.waiting() == 1
        })
        .await;
        waiting.abort();
        drop(waiting.await);
        // Long enough for the connection to go, if it went at once.
        sleep(Duration::from_millis(30)).await;
    }
    let opened = relays[0].accepted() - before;
    // One, and more only where the machine stood still for a second between two waiters.
    assert!((1..=waiters / 2).contains(&opened), "{opened} connections");
}

#[tokio::test]
async fn a_waiter_that_came_soon_after_the_last_one_had_left_is_told_for_as_long_as_it_waits() {
    let servers = Servers::start(3).await;
    let redlock = asking_every(PATIENCE, servers.urls(), |b| b).await;
    let held = redlock.acquire(["job"], TTL).await.unwrap();
    let first = acquire(&redlock);
    listens(&servers).await;
    first.abort();
    let waiting = acquire(&redlock);
    // Beyond the second for which the connection would have stayed without it.
    sleep(Duration::from_millis(1_500)).await;
    let time = Stopwatch::start();
    held.release().await.unwrap();
    drop(timeout(AT_ONCE, waiting).await.expect("told").unwrap());
    time.assert_at_once();
}

#[tokio::test]
async fn a_waiter_for_two_is_not_told_that_they_are_free_while_one_is_held() {
    let server = Server::start().await;
    server.set("job", "somebody else").await;
    let redlock = asking_every(PATIENCE, [server.url()], |b| b).await;
    settled(&redlock).await;
    let before = server.calls("evalsha").await;
    let waiting = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.acquire(["job", "other"], TTL).await.unwrap() }
    });
    eventually(
        "it has asked",
        AT_ONCE,
        async || matches!(&telling(&server).await[..], [(_, last)] if last == "get"),
    )
    .await;
    // Long enough for attempts, if it were told.
    sleep(Duration::from_millis(300)).await;
    server.del("job").await;
    drop(timeout(AT_ONCE, waiting).await.expect("told").unwrap());
    settled(&redlock).await;
    // An attempt and its roll-back, and the lock and its release.
    assert_eq!(server.calls("evalsha").await - before, 4);
}

/// The connections on which the server tells of changes, by their ids, and the last command of each.
async fn telling(server: &Server) -> Vec<(String, String)> {
    let list = server.command(&["CLIENT", "LIST"]).await;
    let lines = list.text().expect("a list").lines();
    let field = |line: &str, name: &str| {
        let value = line.split(' ').find_map(|field| field.strip_prefix(name));
        value.expect("a field").to_owned()
    };
    lines
        .filter(|line| field(line, "flags=").contains('t'))
        .map(|line| (field(line, "id="), field(line, "cmd=")))
        .collect()
}

#[tokio::test]
async fn a_waiter_is_told_by_the_next_connection_once_the_one_it_listened_on_was_closed() {
    let servers = Servers::start(3).await;
    let redlock = asking_every(PATIENCE, servers.urls(), |b| b).await;
    let held = redlock.acquire(["job"], TTL).await.unwrap();
    let waiting = acquire(&redlock);
    listens(&servers).await;
    for server in &servers {
        let [(id, _)] = &telling(server).await[..] else {
            panic!("one connection for notices");
        };
        let killed = server.command(&["CLIENT", "KILL", "ID", id]).await;
        assert_eq!(killed.int(), Some(1));
        eventually("it asks on another one", AT_ONCE, async || {
            let now = telling(server).await;
            matches!(&now[..], [(next, last)] if next != id && last == "get")
        })
        .await;
    }
    let time = Stopwatch::start();
    held.release().await.unwrap();
    drop(timeout(AT_ONCE, waiting).await.expect("told").unwrap());
    time.assert_at_once();
}

/// A server that holds `job` for somebody else, and tells that these keys were changed before it
/// answers the first question; and how many it was asked.
async fn telling_first(server: &Server, keys: Vec<String>) -> (FakeServer, Arc<AtomicUsize>) {
    server.set("job", "somebody else").await;
    let questions = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&questions);
    let fake = FakeServer::over(server, move |command| {
        let is_question = command[0].eq_ignore_ascii_case("GET");
        let is_first = is_question && asked.fetch_add(1, Ordering::Relaxed) == 0;
        let push = |key: &String| {
            let keys = raw::array(&[raw::bulk(key)]);
            format!(">2\r\n{}{keys}", raw::bulk("invalidate"))
        };
        is_first.then(|| keys.iter().map(push).collect::<String>() + &raw::bulk("somebody else"))
    });
    (fake.await, questions)
}

/// For that, a waiter has to have been woken, and refused.
async fn asks_again(fake: &FakeServer, questions: &AtomicUsize) {
    let redlock = asking_every(PATIENCE, [fake.url()], |b| b).await;
    let waiting = acquire(&redlock);
    eventually("it asks again", AT_ONCE, async || {
        questions.load(Ordering::Relaxed) >= 2
    })
    .await;
    waiting.abort();
}

#[tokio::test]
async fn a_notice_that_overtakes_the_answer_to_its_question_is_not_lost() {
    let server = Server::start().await;
    let (fake, questions) = telling_first(&server, vec!["job".to_owned()]).await;
    asks_again(&fake, &questions).await;
}

/// More notices at once than the client keeps: the first of them are gone.
#[tokio::test]
async fn a_waiter_whose_notice_was_one_too_many_is_told_all_the_same() {
    let server = Server::start().await;
    let others = (0..100).map(|number| format!("other-{number}"));
    let keys = std::iter::once("job".to_owned()).chain(others);
    let (fake, questions) = telling_first(&server, keys.collect()).await;
    asks_again(&fake, &questions).await;
}

/// Each question that a server that hangs is asked stays in the queue of the connection, whoever
/// asked it and left: as soon as one was asked in vain for a second, that connection is given up.
#[tokio::test]
async fn waiters_that_leave_soon_leave_no_questions_behind_where_a_master_hangs() {
    let server = Server::start().await;
    server.set("job", "somebody else").await;
    let fake = FakeServer::over(&server, |command| {
        let is_question = command[0].eq_ignore_ascii_case("GET");
        is_question.then(raw::silence)
    })
    .await;
    let redlock = asking_every(PATIENCE, [fake.url()], |b| b).await;
    let count = |words: &[&str]| {
        let is_one = |command: &Vec<String>| {
            let mut pairs = command.iter().zip(words);
            pairs.all(|(word, of)| word.eq_ignore_ascii_case(of))
        };
        fake.received()
            .iter()
            .filter(|command| is_one(command))
            .count()
    };
    // One waiter after the other, none of which is there when a question has been open for long.
    eventually(
        "the connection is given up for another",
        AT_ONCE,
        async || {
            let waiting = acquire(&redlock);
            sleep(Duration::from_millis(50)).await;
            waiting.abort();
            drop(waiting.await);
            count(&["CLIENT", "TRACKING"]) >= 2
        },
    )
    .await;
    assert!(count(&["GET"]) > 1, "they have asked");
    settled(&redlock).await;
}
