//! Nobody is woken for too few answers, and nobody is forgotten.

use std::{
    sync::{Barrier, atomic::AtomicU32},
    task::Wake,
    thread::{self, JoinHandle},
};

use super::*;
use crate::outcome::Answer;

const REPLY: Reply = Ok(Answer::Released);

#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Answers that somebody waits for.
fn awaited(calls: usize) -> (Arc<Answers>, Arc<Count>, Vec<Owed>) {
    let (answers, woken) = (Answers::of(calls), Arc::<Count>::default());
    answers.reset(&Waker::from(Arc::clone(&woken)));
    let owed = (0..calls).map(|index| answers.owe(index)).collect();
    (answers, woken, owed)
}

fn put(owed: &mut Vec<Owed>) {
    owed.remove(0).put(REPLY);
}

#[test]
fn the_waiter_is_woken_by_as_many_answers_as_it_wants_and_not_before() {
    let (answers, woken, mut owed) = awaited(5);
    answers.arm(3);
    put(&mut owed);
    put(&mut owed);
    assert_eq!(woken.get(), 0);
    put(&mut owed);
    assert_eq!(woken.get(), 1);
    let there = (0..5).filter(|&index| answers.get(index).is_some());
    assert_eq!(there.collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn answers_that_come_before_it_says_how_many_it_wants_count() {
    let (answers, woken, mut owed) = awaited(5);
    put(&mut owed);
    put(&mut owed);
    assert_eq!(woken.get(), 0, "not armed yet");
    answers.arm(2);
    assert_eq!(woken.get(), 1);
}

#[test]
fn a_reset_begins_to_count_anew() {
    let (answers, woken, mut owed) = awaited(5);
    answers.arm(1);
    put(&mut owed);
    answers.reset(&Waker::from(Arc::clone(&woken)));
    answers.arm(1);
    assert_eq!(woken.get(), 1, "none since");
    put(&mut owed);
    assert_eq!(woken.get(), 2);
}

#[test]
fn an_answer_that_nobody_is_left_to_give_is_an_error_and_not_silence() {
    let (answers, woken, owed) = awaited(1);
    answers.arm(1);
    drop(owed);
    assert_eq!(woken.get(), 1);
    assert!(matches!(
        answers.get(0),
        Some(Err(MasterError::ConnectionLost(_)))
    ));
}

#[test]
fn with_the_last_answer_that_is_owed_what_follows_is_done_once() {
    let (answers, _, mut owed) = awaited(2);
    let done = Arc::<Count>::default();
    let noted = Arc::clone(&done);
    answers.with_last(move || noted.wake());
    put(&mut owed);
    assert_eq!(done.get(), 0);
    drop(owed);
    assert_eq!(done.get(), 1);

    let noted = Arc::clone(&done);
    answers.with_last(move || noted.wake());
    assert_eq!(done.get(), 2, "none is owed any more");
}

/// Gives each answer from a thread of its own, all at the same moment as the caller goes on.
fn put_at_once(owed: Vec<Owed>) -> (Arc<Barrier>, Vec<JoinHandle<()>>) {
    let start = Arc::new(Barrier::new(owed.len() + 1));
    let give = |owed: Owed| {
        let start = Arc::clone(&start);
        thread::spawn(move || {
            start.wait();
            owed.put(REPLY);
        })
    };
    let threads = owed.into_iter().map(give).collect();
    (start, threads)
}

#[test]
fn nobody_is_forgotten_whoever_comes_first() {
    for _ in 0..500 {
        let (answers, woken, owed) = awaited(3);
        let done = Arc::<Count>::default();
        let (start, threads) = put_at_once(owed);
        start.wait();
        answers.arm(3);
        let noted = Arc::clone(&done);
        answers.with_last(move || noted.wake());
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(woken.get() > 0);
        assert_eq!(done.get(), 1);
    }
}
