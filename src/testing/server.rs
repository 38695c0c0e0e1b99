//! One in-memory master: its keys, its clock, and the requests that are on their way to it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::{clock::Clock, network::Fate, store::Store};
use crate::{
    master::{Holder, Question, Request, Sight},
    outcome::{Answer, MasterError},
    resources::Resources,
};

/// One master, shared by all clients and the test.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: Arc<str>,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) latency: Duration,
    pub(super) calls: u64,
    condition: Condition,
    /// Requests under way, by arrival.
    inbox: BTreeMap<(Instant, u64), Letter>,
    /// What arrived while it was frozen is done no sooner than this.
    thawed: Instant,
    sequence: u64,
}

/// How the master is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    Well,
    /// Refuses connections.
    Stopped,
    /// Takes requests, and does them when it is well again.
    Frozen,
    /// Takes requests, and never does them.
    Deaf,
    /// Does what is asked; answers are lost.
    Mute,
    /// Answers every request with an error.
    Failing(String),
}

/// A request on its way, and where its answer goes.
#[derive(Debug)]
struct Letter {
    task: Task,
    answer: Slot,
}

/// What a client asks.
#[derive(Debug, Clone)]
pub(super) enum Task {
    /// One after another, with nothing in between.
    Do(Vec<Arc<Request>>),
    Ask(Question),
}

/// What the master says to it.
#[derive(Debug)]
pub(super) enum Told {
    /// For each request.
    Answers(Vec<Answer>),
    Sight(Sight),
}

type Slot = Arc<Mutex<Option<Result<Told, MasterError>>>>;

/// A request that was sent: when its answer can be here, if ever.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) answer_at: Option<Instant>,
    slot: Slot,
}

impl Server {
    pub(super) fn new(name: String) -> Self {
        let now = Instant::now();
        let state = State {
            store: Store::default(),
            clock: Clock::new(),
            latency: Duration::ZERO,
            calls: 0,
            condition: Condition::Well,
            inbox: BTreeMap::new(),
            thawed: now,
            sequence: 0,
        };
        Self {
            name: name.into(),
            state: Mutex::new(state),
        }
    }

    /// The master as it is now: everything that has arrived is done.
    pub(super) fn now(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.settle(Instant::now());
        state
    }
}

impl State {
    /// Sends a request. `last_arrival` is that of the client's last one to this master.
    pub(super) fn send(
        &mut self,
        task: &Task,
        fate: Fate,
        last_arrival: &mut Instant,
    ) -> Result<Sent, MasterError> {
        self.calls += 1;
        if fate.refused || self.condition == Condition::Stopped {
            return Err(MasterError::NotConnected("stopped".to_owned()));
        }
        let sent = Instant::now() + fate.request_delay + self.latency / 2;
        let arrival = if fate.late {
            sent
        } else {
            sent.max(*last_arrival)
        };
        if !fate.late {
            *last_arrival = arrival;
        }
        let slot = Slot::default();
        if !fate.request_lost {
            self.post(arrival, task, &slot);
        }
        if let Some(after) = fate.repeat_after {
            self.post(arrival + after, task, &Slot::default());
        }
        self.settle(Instant::now());
        let is_lost = fate.reply_lost || fate.request_lost || self.condition == Condition::Mute;
        let answer_at = (!is_lost).then(|| arrival + fate.reply_delay + self.latency / 2);
        Ok(Sent { answer_at, slot })
    }

    /// Are the keys free? Else gives what tells of the next change of one of them. No answer at all
    /// where the master gives none.
    #[expect(
        clippy::option_option,
        reason = "no answer, and the answer that there is nothing to wait for"
    )]
    pub(super) fn watch(
        &mut self,
        resources: &Resources,
    ) -> Option<Option<(Arc<Notify>, Option<Holder>)>> {
        match self.condition {
            Condition::Well => {
                let now = self.time();
                Some(self.store.watch(resources, now))
            }
            _ => None,
        }
    }

    fn post(&mut self, arrival: Instant, task: &Task, slot: &Slot) {
        self.sequence += 1;
        let letter = Letter {
            task: task.clone(),
            answer: Arc::clone(slot),
        };
        self.inbox.insert((arrival, self.sequence), letter);
    }

    /// Does everything that has arrived by now, in order, each at its moment.
    fn settle(&mut self, now: Instant) {
        if self.condition == Condition::Frozen {
            return;
        }
        while let Some(entry) = self.inbox.first_entry() {
            let arrival = entry.key().0;
            if arrival > now {
                return;
            }
            let letter = entry.remove();
            let answer = match &self.condition {
                Condition::Failing(error) => Err(MasterError::Server(error.clone())),
                Condition::Deaf => continue,
                _ => {
                    let now = self.clock.at(arrival.max(self.thawed));
                    Ok(match &letter.task {
                        Task::Do(requests) => {
                            let answers = requests.iter().map(|one| self.store.apply(one, now));
                            Told::Answers(answers.collect())
                        }
                        Task::Ask(question) => Told::Sight(self.store.tell(question, now)),
                    })
                }
            };
            *letter.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        }
    }

    pub(super) fn set_condition(&mut self, condition: Condition) {
        let now = Instant::now();
        if self.condition == Condition::Frozen {
            self.thawed = now;
        }
        self.condition = condition;
        self.settle(now);
    }

    /// Ends the process and starts it anew: what was on its way is gone, and every fault is over.
    pub(super) fn restart(&mut self) {
        self.inbox.clear();
        self.store.watchers.clear();
        self.condition = Condition::Well;
    }

    /// What its clock shows.
    pub(super) fn time(&self) -> Duration {
        self.clock.at(Instant::now())
    }
}

impl Sent {
    /// The answer, if the master gave one.
    pub(super) fn take(&self) -> Option<Result<Told, MasterError>> {
        self.slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
