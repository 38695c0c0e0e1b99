//! On a wire that notes what it is sent, and answers when it is told to.

use std::{
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{sync::Semaphore, time::advance};

use super::*;
use crate::{
    entropy::Entropy,
    mark::Mark,
    master::{Arguments, Operation},
    outcome::Answer,
    resources::Resources,
    token::Token,
};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Noted {
    name: Arc<str>,
    /// What was sent together, by the names of the resources.
    sent: Mutex<Vec<Vec<String>>>,
    /// One permit for each answer.
    answers: Semaphore,
    error: Option<MasterError>,
}

impl Noted {
    fn queue(error: Option<MasterError>) -> Queue<Self> {
        let wire = Self {
            name: "noted".into(),
            sent: Mutex::default(),
            answers: Semaphore::new(0),
            error,
        };
        Queue::new(wire, 1, Background::new())
    }

    async fn exchange(&self, group: impl IntoIterator<Item = &Request>) -> Result<(), MasterError> {
        let names = group
            .into_iter()
            .map(|request| request.resources.to_string());
        lock_noted(&self.sent).push(names.collect());
        self.answers.acquire().await.unwrap().forget();
        self.error.clone().map_or(Ok(()), Err)
    }
}

fn lock_noted<T>(noted: &Mutex<T>) -> MutexGuard<'_, T> {
    noted.lock().unwrap()
}

impl Wire for Noted {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    async fn send(&self, request: &Request, _: Duration) -> Reply {
        self.exchange([request]).await?;
        Ok(Answer::Released)
    }

    async fn send_group(
        &self,
        group: &[Arc<Request>],
        _: Duration,
    ) -> Result<Vec<Reply>, MasterError> {
        self.exchange(group.iter().map(Arc::as_ref)).await?;
        // Each its own: as many names as it has.
        let replies = group.iter().map(|request| {
            Ok(Answer::Granted {
                seen: request.resources.len() as u64,
            })
        });
        Ok(replies.collect())
    }

    async fn ask(&self, _: &Question, _: Duration) -> Result<Sight, MasterError> {
        unimplemented!("questions do not stand in the queue")
    }

    fn watch(&self, _: &Resources) -> Watch {
        unimplemented!("nor does waiting")
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

fn request(names: &[&str]) -> Arc<Request> {
    Arc::new(Request {
        operation: Operation::Acquire { ttl_ms: 1_000 },
        resources: Resources::parse(names.iter().copied()).unwrap(),
        token: Token::fresh(&Entropy::from_seed(1), Mark::fresh(&Entropy::from_seed(1))),
        value: "token".into(),
        fence: None,
        guard_ms: None,
        arguments: Arguments::default(),
    })
}

/// An operation that was sent.
struct Sent {
    /// By itself.
    call: Option<Call>,
    answers: Arc<Answers>,
}

impl Sent {
    fn goes_on(&self) -> bool {
        self.call.is_none()
    }

    async fn reply(self) -> Reply {
        if let Some(call) = self.call {
            return call.await;
        }
        poll_fn(|cx| {
            self.answers.reset(cx.waker());
            if let Some(reply) = self.answers.get(0) {
                return Poll::Ready(reply.clone());
            }
            self.answers.arm(1);
            Poll::Pending
        })
        .await
    }
}

/// Sends it, and leaves it at that.
fn sent(queue: &Queue<Noted>, names: &[&str], timeout: Duration) -> Sent {
    let answers = Answers::of(1);
    let due = Due {
        timeout,
        deadline: Instant::now() + timeout,
    };
    let mut call = queue.send(&request(names), due, &answers, 0);
    if let Some(call) = &mut call {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(call.as_mut().poll(&mut cx).is_pending());
    }
    Sent { call, answers }
}

fn noted(queue: &Queue<Noted>) -> Vec<Vec<String>> {
    lock_noted(&queue.0.wire.sent).clone()
}

fn answer(queue: &Queue<Noted>, times: usize) {
    queue.0.wire.answers.add_permits(times);
}

/// Lets the background run.
async fn turn() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lone_operation_is_sent_at_once_by_its_own_task() {
    let queue = Noted::queue(None);
    let call = sent(&queue, &["a"], LONG);
    assert_eq!(noted(&queue), [["a"]], "no other task has run");
    answer(&queue, 1);
    assert_eq!(call.reply().await, Ok(Answer::Released));
    assert_eq!(queue.0.background.running(), 0);
    let again = sent(&queue, &["b"], LONG);
    assert!(!again.goes_on(), "the place is free again");
}

#[tokio::test(start_paused = true)]
async fn what_waits_travels_together_in_order_and_gets_replies_of_its_own() {
    let queue = Noted::queue(None);
    let first = sent(&queue, &["a"], LONG);
    let second = sent(&queue, &["b"], LONG);
    let third = sent(&queue, &["c", "d"], LONG);
    turn().await;
    assert_eq!(noted(&queue), [vec!["a"], vec!["b", "c, d"]]);
    assert!(!first.goes_on() && second.goes_on() && third.goes_on());
    answer(&queue, 2);
    assert_eq!(second.reply().await, Ok(Answer::Granted { seen: 1 }));
    assert_eq!(third.reply().await, Ok(Answer::Granted { seen: 2 }));
}

#[tokio::test(start_paused = true)]
async fn nothing_overtakes_what_waits() {
    let queue = Noted::queue(None);
    let taken = sent(&queue, &["a"], LONG);
    let _first = sent(&queue, &["b"], LONG);
    // The place is free, but `b` has not been sent yet.
    drop(taken);
    let second = sent(&queue, &["c"], LONG);
    assert!(second.goes_on(), "it stands behind b");
    turn().await;
    assert_eq!(noted(&queue), [vec!["a"], vec!["b", "c"]]);
}

#[tokio::test(start_paused = true)]
async fn those_who_were_answered_together_travel_together_again() {
    let queue = Arc::new(Noted::queue(None));
    let first = sent(&queue, &["a"], LONG);
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move {
                for name in ["b", "c"] {
                    sent(&queue, &[name], LONG).reply().await.unwrap();
                }
            })
        })
        .collect();
    turn().await;
    // A place to go by themselves is free when the answers come.
    drop(first);
    answer(&queue, 1);
    turn().await;
    assert_eq!(noted(&queue), [vec!["a"], vec!["b"; 10], vec!["c"; 10]]);
    answer(&queue, 1);
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn groups_are_bounded_by_operations_and_by_resources() {
    let queue = Noted::queue(None);
    let _first = sent(&queue, &["a"], LONG);
    let calls: Vec<_> = (0..150).map(|_| sent(&queue, &["b"], LONG)).collect();
    let many: Vec<_> = (0..100).map(|name| name.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let _large = [sent(&queue, &many, LONG), sent(&queue, &many, LONG)];
    answer(&queue, 100);
    turn().await;
    let sizes: Vec<_> = noted(&queue).iter().map(Vec::len).collect();
    // The last 22 and a large one, as both together have no more than 128 resources; and the other.
    assert_eq!(sizes, [1, 64, 64, 23, 1]);
    drop(calls);
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_holds_the_next_group_up_for_two_milliseconds_only() {
    let queue = Noted::queue(None);
    let _first = sent(&queue, &["a"], LONG);
    let _second = sent(&queue, &["b"], LONG);
    turn().await;
    let _third = sent(&queue, &["c"], LONG);
    turn().await;
    assert_eq!(noted(&queue).len(), 2, "waits for the answer to b");
    advance(3 * MS).await;
    turn().await;
    assert_eq!(noted(&queue).concat(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_group_is_one_of_each() {
    let queue = Noted::queue(Some(MasterError::Timeout));
    let _first = sent(&queue, &["a"], LONG);
    let calls = [sent(&queue, &["b"], LONG), sent(&queue, &["c"], LONG)];
    answer(&queue, 10);
    for call in calls {
        assert_eq!(call.reply().await, Err(MasterError::Timeout));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_late_before_it_was_sent_is_never_sent() {
    let queue = Noted::queue(None);
    let _first = sent(&queue, &["a"], LONG);
    let _second = sent(&queue, &["b"], LONG);
    turn().await;
    let late = sent(&queue, &["c"], MS);
    let _patient = sent(&queue, &["d"], LONG);
    advance(3 * MS).await;
    turn().await;
    assert_eq!(noted(&queue).concat(), ["a", "b", "d"]);
    assert_eq!(late.reply().await, Err(MasterError::Timeout));
}

#[tokio::test(start_paused = true)]
async fn what_is_late_takes_no_room_from_what_is_not_however_much_it_is() {
    let queue = Noted::queue(None);
    let _first = sent(&queue, &["a"], LONG);
    let _second = sent(&queue, &["b"], LONG);
    turn().await;
    let late: Vec<_> = (0..300).map(|_| sent(&queue, &["c"], MS)).collect();
    let patient: Vec<_> = (0..3).map(|_| sent(&queue, &["d"], LONG)).collect();
    advance(3 * MS).await;
    turn().await;
    assert_eq!(noted(&queue).concat(), ["a", "b", "d", "d", "d"]);
    for late in late {
        assert_eq!(late.reply().await, Err(MasterError::Timeout));
    }
    drop(patient);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_nobody_listens_to_any_more_is_sent_all_the_same() {
    let queue = Noted::queue(None);
    let _first = sent(&queue, &["a"], LONG);
    drop(sent(&queue, &["b"], LONG));
    turn().await;
    assert_eq!(noted(&queue).concat(), ["a", "b"]);
}

#[cfg(feature = "metrics")]
#[tokio::test(start_paused = true)]
async fn what_was_late_before_it_was_sent_is_counted_as_failed_once() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let queue = ::metrics::with_local_recorder(&recorder, || Noted::queue(None));
    let count = |kind| {
        let text = recorder.handle().render();
        let start = format!("fredlock_master_errors_total{{master=\"noted\",error=\"{kind}\"}} ");
        let count = text.lines().find_map(|line| line.strip_prefix(&start));
        count.expect("there from the start").to_owned()
    };
    let _first = sent(&queue, &["a"], LONG);
    let _second = sent(&queue, &["b"], LONG);
    turn().await;
    let _late = sent(&queue, &["c"], MS);
    advance(3 * MS).await;
    turn().await;
    assert_eq!(count("timeout"), "1");
}

#[test]
fn nobody_waits_for_a_runtime_that_has_ended() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let (first, second) = (runtime(), runtime());
    let queue = first.block_on(async { Noted::queue(None) });
    let calls = first.block_on(async { [sent(&queue, &["a"], LONG), sent(&queue, &["b"], LONG)] });
    drop(first);
    second.block_on(async {
        let [_direct, queued] = calls;
        for call in [queued, sent(&queue, &["c"], LONG)] {
            let reply = timeout(LONG, call.reply())
                .await
                .expect("an answer, not silence");
            assert!(matches!(reply, Err(MasterError::ConnectionLost(_))));
        }
    });
}
