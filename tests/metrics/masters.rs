//! What each master takes, and its errors: every operation once, whoever waits for it.

use fredlock::{
    Redlock,
    metrics::{LABEL_ERROR, LABEL_MASTER, MASTER_ANSWER, MASTER_ERRORS},
    testing::{MemoryMasters, Pause},
};
use futures::future::join_all;
use tokio::time::{sleep, timeout};

use crate::{TTL, assert_times, client, client_with, ms, recorder::Book, settled};

const NAMES: [&str; 3] = ["memory-0", "memory-1", "memory-2"];

fn answers(book: &Book) -> [Vec<f64>; 3] {
    NAMES.map(|name| book.times_ms(MASTER_ANSWER, &[(LABEL_MASTER, name)]))
}

fn timeouts(book: &Book) -> [u64; 3] {
    NAMES.map(|name| {
        let labels = [(LABEL_MASTER, name), (LABEL_ERROR, "timeout")];
        book.count(MASTER_ERRORS, &labels)
    })
}

/// Locks of so many names at once, which are then forgotten.
async fn take(redlock: &Redlock, count: usize) {
    let names = (0..count).map(|index| format!("name-{index}"));
    let taken = names.map(async |name| redlock.acquire([name], TTL).await.unwrap().forget());
    join_all(taken).await;
}

#[tokio::test(start_paused = true)]
async fn each_master_is_timed_for_itself_and_who_answers_after_the_quorum_too() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    for (master, latency) in [10, 20, 70].into_iter().enumerate() {
        masters.set_latency(master, ms(latency));
    }
    let lock = redlock.acquire(["a"], TTL).await.unwrap();
    assert_times(&answers(&book)[2], &[]);
    sleep(ms(1_000)).await;
    lock.release().await.unwrap();
    settled(&redlock).await;
    for (times, latency) in answers(&book).iter().zip([10.0, 20.0, 70.0]) {
        assert_times(times, &[latency; 2]);
    }
    assert_eq!(timeouts(&book), [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_acquisition_is_answered_once_and_taken_back_once() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    (0..3).for_each(|master| masters.set_latency(master, ms(40)));
    assert!(timeout(ms(10), redlock.acquire(["a"], TTL)).await.is_err());
    settled(&redlock).await;
    for times in answers(&book) {
        assert_times(&times, &[40.0; 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_master_that_hangs_has_no_time_but_errors_and_one_that_refuses_has_both() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    masters.hang(0);
    masters.fail(1, "OOM command not allowed");
    masters.set_latency(1, ms(20));
    redlock.acquire(["a"], TTL).await.unwrap_err();
    masters.heal(0);
    settled(&redlock).await;
    assert_eq!(timeouts(&book)[1..], [0; 2]);
    assert!(
        (1..=2).contains(&timeouts(&book)[0]),
        "the acquire, and maybe its release"
    );
    let labels = [(LABEL_MASTER, "memory-1"), (LABEL_ERROR, "server")];
    assert_eq!(book.count(MASTER_ERRORS, &labels), 2);
    assert_times(&answers(&book)[1], &[20.0; 2]);
}

#[tokio::test(start_paused = true)]
async fn operations_that_travel_together_count_each_by_itself() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client_with(&masters, |builder| builder.direct_max(1)).await;
    masters.set_latency(2, ms(30));
    take(&redlock, 20).await;
    settled(&redlock).await;
    let [first, second, third] = answers(&book);
    assert_times(&first, &[0.0; 20]);
    assert_times(&second, &[0.0; 20]);
    assert_times(&third, &[30.0; 20]);
    assert_eq!(book.counts().len(), 2, "{:?}", book.counts());
}

#[tokio::test(start_paused = true)]
async fn operations_that_time_out_together_count_each_by_itself() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client_with(&masters, |builder| builder.direct_max(1)).await;
    masters.deafen(0);
    // Just too late, as all of them wait for 100 ms.
    masters.set_latency(1, ms(140));
    let names = (0..20).map(|index| format!("name-{index}"));
    join_all(names.map(async |name| redlock.acquire([name], TTL).await.unwrap_err())).await;
    // What takes them back is not answered yet by those two.
    sleep(ms(20)).await;
    assert_eq!(timeouts(&book), [20, 20, 0]);
    assert_times(&answers(&book)[2], &[0.0; 40]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_came_too_late_for_one_of_a_group_is_a_timeout_of_that_one() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client_with(&masters, |builder| builder.direct_max(0)).await;
    masters.set_latency(0, ms(90));
    let hasty = redlock.with(|settings| settings.command_timeout(ms(50)));
    let patient = redlock.with(|settings| settings.command_timeout(ms(400)));
    let locks = tokio::join!(hasty.acquire(["a"], TTL), patient.acquire(["b"], TTL));
    locks.0.unwrap().forget();
    locks.1.unwrap().forget();
    settled(&redlock).await;
    assert_eq!(timeouts(&book), [1, 0, 0]);
    assert_times(&answers(&book)[0], &[90.0]);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_was_never_sent_in_time_is_a_timeout() {
    let masters = MemoryMasters::new(1);
    let pause = Pause::new();
    let paused = |builder: fredlock::Builder| builder.direct_max(0).pause(&pause);
    let (redlock, book) = client_with(&masters, paused).await;
    pause.pause();
    redlock.acquire(["a"], TTL).await.unwrap_err();
    pause.resume();
    settled(&redlock).await;
    let labels = [(LABEL_MASTER, "memory-0"), (LABEL_ERROR, "timeout")];
    // The release was in time.
    assert_eq!(book.count(MASTER_ERRORS, &labels), 1);
    let answered = book.times_ms(MASTER_ANSWER, &labels[..1]);
    assert_times(&answered, &[0.0]);
}
