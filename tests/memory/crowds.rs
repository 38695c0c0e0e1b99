//! Clients that want the same lock hear at the same moment that it is free: they do not all ask for
//! it, and whoever has been too late before goes first.

use std::time::Duration;

use fredlock::{
    Redlock, Retry,
    testing::{MemoryMasters, MessageKind},
};
use tokio::{
    task::JoinSet,
    time::{Instant, advance, sleep, timeout},
};

use super::notices::{
    HOUR, MASTERS, MS, SECOND, Sent, another_takes_it_everywhere, by_news_alone, crowded, waiter,
};

/// How many attempts so many clients make for each turn that one of them gets.
async fn attempts_for_a_turn(clients: u32, turns: u32, salt: u64) -> f64 {
    let masters = MemoryMasters::new(MASTERS);
    (0..MASTERS).for_each(|master| masters.set_latency(master, 2 * MS));
    let sent = Sent::noted_on(&masters);
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        // The same random choices in every run.
        let builder = Redlock::builder().memory(&masters);
        let builder = builder.seed(salt + u64::from(client));
        let retry = Retry::default().unlimited().delay(SECOND);
        let builder = builder.settings(|settings| settings.retry(retry));
        let redlock = builder.connect().await.unwrap();
        tasks.spawn(async move {
            for _ in 0..turns {
                let lock = redlock.acquire(["a"], HOUR).await.unwrap();
                sleep(MS).await;
                lock.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let attempts = u32::try_from(sent.count(MessageKind::Acquire)).unwrap();
    f64::from(attempts) / f64::from(clients * turns)
}

#[tokio::test(start_paused = true)]
async fn those_who_hear_of_a_free_lock_at_the_same_moment_do_not_all_ask_for_it() {
    const CONTESTS: u32 = 32;
    let mut contests = Vec::new();
    for contest in 0..CONTESTS {
        contests.push(attempts_for_a_turn(10, 20, 1_000 * u64::from(contest)).await);
        // Timers end with whole milliseconds of the runtime's clock, and where those lie is chance: each
        // contest begins at another place between two of them.
        advance(MS / CONTESTS).await;
    }
    // 3.6 and more where they do not spread, 4.3 where they do not look first whether it is free still; and
    // 3.0 to 3.3.
    let average = contests.iter().sum::<f64>() / f64::from(CONTESTS);
    assert!(average < 3.5, "{contests:?} attempts for a turn");
}

#[tokio::test(start_paused = true)]
async fn those_who_know_of_others_do_not_all_ask_at_the_end_of_the_same_ttl() {
    let masters = MemoryMasters::new(MASTERS);
    let redlock = crowded(&masters).await;
    let sent = Sent::noted_on(&masters);
    sent.lose(MessageKind::Watch);
    let mut late = Vec::new();
    for _ in 0..8 {
        masters.lose("a");
        for master in 0..MASTERS {
            masters.set(master, "a", "another", Some(50 * MS));
        }
        let ends = Instant::now() + 50 * MS;
        waiter(&redlock).await.unwrap();
        late.push(ends.elapsed());
    }
    assert!(late.iter().all(|late| *late <= 20 * MS), "{late:?}");
    assert!(late.iter().any(|late| *late > 5 * MS), "{late:?}");
}

/// It is as near to the masters as anybody, and the first to know.
#[tokio::test(start_paused = true)]
async fn whoever_has_just_had_it_and_wants_it_again_lets_others_go_first() {
    let masters = MemoryMasters::new(MASTERS);
    (0..MASTERS).for_each(|master| masters.set_latency(master, 2 * MS));
    let (one, other) = (
        crate::client(&masters, by_news_alone).await,
        crate::client(&masters, by_news_alone).await,
    );
    let acquire = |redlock: &Redlock| {
        let redlock = redlock.clone();
        tokio::spawn(async move { redlock.acquire(["a"], HOUR).await.unwrap() })
    };
    // Both have been refused once, and know that there are others.
    let held = one.acquire(["a"], HOUR).await.unwrap();
    let waiting = acquire(&other);
    sleep(20 * MS).await;
    held.release().await.unwrap();
    let mut held = waiting.await.unwrap();
    let mut waiting = acquire(&one);
    for turn in 0..6 {
        sleep(20 * MS).await;
        held.release().await.unwrap();
        let again = acquire([&other, &one][turn % 2]);
        let next = timeout(SECOND, waiting).await;
        held = next.expect("it is let go first").unwrap();
        waiting = again;
    }
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_notices_often_came_to_nothing_is_the_quicker() {
    let masters = MemoryMasters::new(MASTERS);
    let redlock = crowded(&masters).await;
    let sent = Sent::noted_on(&masters);
    // An acquisition that has not been too late yet.
    let waiting = waiter(&redlock);
    sleep(30 * MS).await;
    let mut pauses = Vec::new();
    for _ in 0..14 {
        let moment = Instant::now();
        another_takes_it_everywhere(&masters);
        sleep(30 * MS).await;
        pauses.push(sent.asked_after(moment));
    }
    let late: Duration = pauses[6..].iter().sum();
    // Eight times 8 ms, if it were none the quicker.
    assert!(late < 32 * MS, "{pauses:?}");
    assert_eq!(sent.count(MessageKind::Acquire), 1);
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_attempts_were_often_refused_is_the_quicker() {
    let masters = MemoryMasters::new(MASTERS);
    let (begun, servers) = (Instant::now(), masters.clone());
    let crowded = tokio::spawn(async move { crowded(&servers).await });
    let (mut calls, mut last) = (0, begun);
    while !crowded.is_finished() {
        sleep(MS).await;
        // (The roll-back of a waiter that was dropped is no attempt.)
        if masters.calls(0) > calls && begun.elapsed() < SECOND / 2 {
            (calls, last) = (masters.calls(0), Instant::now());
        }
    }
    // An attempt, 16 more, and their roll-backs: half of them after 8 ms, if it were none the quicker.
    assert_eq!(calls, 2 * 17);
    assert!(last - begun < 40 * MS, "{:?}", last - begun);
}
