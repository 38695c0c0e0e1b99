//! On masters that answer when they are told to.

use std::{
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio::{task::JoinHandle, time::advance};

use super::*;
use crate::{
    answers::Owed,
    entropy::Entropy,
    mark::Mark,
    master::{Arguments, Asking, Operation, Question, Watch},
    resources::Resources,
    token::Token,
};

const MS: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_millis(50);

/// Its requests travel with others: somebody else gives the answers.
struct Grouped {
    name: Arc<str>,
    owed: Mutex<Option<Owed>>,
}

impl Grouped {
    fn answer(&self, reply: Reply) {
        self.owed.lock().unwrap().take().unwrap().put(reply);
    }
}

impl Master for Grouped {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn send(&self, _: &Arc<Request>, _: Due, answers: &Arc<Answers>, index: usize) -> Option<Call> {
        *self.owed.lock().unwrap() = Some(answers.owe(index));
        None
    }

    fn ask(&self, _: &Question, _: Duration) -> Asking {
        unimplemented!("a round asks no questions")
    }

    fn watch(&self, _: &Resources) -> Watch {
        unimplemented!("nor does it wait")
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

impl fmt::Debug for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

fn round(background: &Background) -> (Vec<Arc<Grouped>>, Round) {
    let named = |index: usize| Grouped {
        name: index.to_string().into(),
        owed: Mutex::default(),
    };
    let masters: Vec<_> = (0..5).map(|index| Arc::new(named(index))).collect();
    let request = Arc::new(Request {
        operation: Operation::Acquire { ttl_ms: 1_000 },
        resources: Resources::parse(["a"]).unwrap(),
        token: Token::fresh(&Entropy::from_seed(1), Mark::fresh(&Entropy::from_seed(1))),
        value: "token".into(),
        fence: None,
        guard_ms: None,
        arguments: Arguments::default(),
    });
    let dynamic: Vec<_> = masters
        .iter()
        .map(|master| Arc::clone(master) as Arc<dyn Master>)
        .collect();
    let quorum = Quorum::majority(5);
    let round = Round::new(dynamic.iter(), quorum, &request, TIMEOUT, background);
    (masters, round)
}

/// Counts how often the future is polled.
async fn counted<F: Future>(future: F, polls: Arc<AtomicU32>) -> F::Output {
    let mut future = std::pin::pin!(future);
    poll_fn(|cx| {
        polls.fetch_add(1, Ordering::Relaxed);
        future.as_mut().poll(cx)
    })
    .await
}

fn waited_for(mut round: Round) -> (Arc<AtomicU32>, JoinHandle<Verdict>) {
    let polls = Arc::<AtomicU32>::default();
    let counter = Arc::clone(&polls);
    let verdict = tokio::spawn(async move { counted(round.verdict(), counter).await });
    (polls, verdict)
}

const GRANTED: Reply = Ok(Answer::Granted { seen: 0 });

async fn turn() {
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_verdict_takes_one_look_when_enough_have_answered_and_none_before() {
    let (masters, round) = round(&Background::new());
    let (polls, verdict) = waited_for(round);
    turn().await;
    for master in &masters[..3] {
        assert_eq!(polls.load(Ordering::Relaxed), 1);
        master.answer(GRANTED);
        turn().await;
    }
    assert_eq!(verdict.await.unwrap(), Verdict::Won);
    assert_eq!(polls.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_of_no_use_is_one_look_more() {
    let (masters, round) = round(&Background::new());
    let (polls, verdict) = waited_for(round);
    turn().await;
    for (index, master) in masters.iter().enumerate().take(4) {
        let busy = Ok(Answer::Busy {
            seen: 0,
            time_left: None,
        });
        master.answer(if index == 0 { busy } else { GRANTED });
        turn().await;
    }
    assert_eq!(verdict.await.unwrap(), Verdict::Won);
    assert_eq!(polls.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn whoever_wants_each_answer_is_told_of_each() {
    let (masters, mut round) = round(&Background::new());
    let heard = Arc::<AtomicU32>::default();
    let counter = Arc::clone(&heard);
    let listening = tokio::spawn(async move {
        while round.is_open() {
            round.next().await;
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    turn().await;
    for (index, master) in (0..).zip(&masters) {
        assert_eq!(heard.load(Ordering::Relaxed), index);
        master.answer(GRANTED);
        turn().await;
    }
    listening.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_travels_in_a_group_times_out_though_nobody_answers() {
    let (masters, mut round) = round(&Background::new());
    let begun = Instant::now();
    round.send();
    masters[0].answer(GRANTED);
    assert_eq!(round.verdict().await, Verdict::Unreachable);
    assert!((TIMEOUT..TIMEOUT + 3 * MS).contains(&begun.elapsed()));
    // What comes now is too late.
    masters[1].answer(GRANTED);
    let answers: Vec<_> = round.all().await.answers().cloned().collect();
    assert_eq!(answers[1], Answer::Failed(MasterError::Timeout));
}

#[tokio::test(start_paused = true)]
async fn what_follows_the_last_answer_needs_no_task_and_no_timer() {
    let background = Background::new();
    let (masters, mut round) = round(&background);
    round.send();
    for master in &masters[..3] {
        master.answer(GRANTED);
    }
    assert_eq!(round.verdict().await, Verdict::Won);
    assert!(round.goes_on());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&heard);
    round.end(move |outcomes| noted.lock().unwrap().extend(outcomes.answers().cloned()));
    masters[3].answer(Err(MasterError::Timeout));
    advance(10 * TIMEOUT).await;
    assert!(heard.lock().unwrap().is_empty(), "one is owed yet");
    assert_eq!(background.running(), 0);
    masters[4].answer(GRANTED);
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 5);
    assert_eq!(heard[3], Answer::Failed(MasterError::Timeout));
    assert!(heard.iter().all(|answer| *answer != Answer::Pending));
}
