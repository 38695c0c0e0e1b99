//! One client's way to one in-memory master.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

use super::{
    network::{Fate, Message, MessageKind},
    server::{Server, Task, Told},
};
use crate::{
    clock::after,
    master::{Missing, Operation, Question, Reply, Request, Sight, Watch, Watched, queue::Wire},
    outcome::MasterError,
    resources::Resources,
};

/// Decides what becomes of each request.
pub(super) type Network = Mutex<Box<dyn FnMut(&Message) -> Fate + Send>>;

/// A connection: what is sent on it stays in order, unless its fate says otherwise.
pub(crate) struct Link {
    pub(super) server: Arc<Server>,
    pub(super) network: Arc<Network>,
    pub(super) master: usize,
    pub(super) client: usize,
    last_arrival: Arc<Mutex<Instant>>,
}

impl Link {
    pub(super) fn new(
        server: &Arc<Server>,
        network: &Arc<Network>,
        master: usize,
        client: usize,
    ) -> Self {
        Self {
            server: Arc::clone(server),
            network: Arc::clone(network),
            master,
            client,
            last_arrival: Arc::new(Mutex::new(Instant::now())),
        }
    }
}

impl Wire for Link {
    fn name(&self) -> &Arc<str> {
        &self.server.name
    }

    async fn send(&self, request: &Request, timeout: Duration) -> Reply {
        let task = Task::Do(vec![Arc::new(request.clone())]);
        match self.exchange(kind(request), task, timeout).await? {
            Told::Answers(answers) => answers.into_iter().next().ok_or(MasterError::Timeout),
            Told::Sight(_) => unreachable!("a request is answered"),
        }
    }

    async fn send_group(
        &self,
        group: &[Arc<Request>],
        timeout: Duration,
    ) -> Result<Vec<Reply>, MasterError> {
        let task = Task::Do(group.to_vec());
        match self.exchange(MessageKind::Group, task, timeout).await? {
            Told::Answers(answers) => Ok(answers.into_iter().map(Ok).collect()),
            Told::Sight(_) => unreachable!("requests are answered"),
        }
    }

    async fn ask(&self, question: &Question, timeout: Duration) -> Result<Sight, MasterError> {
        let kind = match question {
            Question::Inspect { .. } | Question::GuardState | Question::Alive { .. } => {
                MessageKind::Inspect
            }
            Question::Break(_) => MessageKind::Release,
            Question::Initialise => MessageKind::Initialise,
        };
        let task = Task::Ask(question.clone());
        match self.exchange(kind, task, timeout).await? {
            Told::Sight(sight) => Ok(sight),
            Told::Answers(_) => unreachable!("a question is answered with a sight"),
        }
    }

    fn watch(&self, resources: &Resources) -> Watch {
        let (server, network) = (Arc::clone(&self.server), Arc::clone(&self.network));
        let resources = resources.clone();
        let message = Message {
            master: self.master,
            client: self.client,
            kind: MessageKind::Watch,
        };
        Box::pin(async move {
            let fate = (network.lock().unwrap_or_else(PoisonError::into_inner))(&message);
            let way = server.now().latency / 2;
            pass(way + fate.request_delay).await;
            if fate.refused {
                return Watched::Silent;
            }
            let asked = if fate.request_lost {
                None
            } else {
                server.now().watch(&resources)
            };
            let Some(changed) = asked else {
                return std::future::pending().await;
            };
            let watched = match changed {
                None => Watched::Free,
                Some((changed, holder)) => {
                    let false_alarm = async {
                        match fate.repeat_after {
                            Some(after) => pass(after).await,
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        biased;
                        () = changed.notified() => {}
                        () = false_alarm => {}
                    }
                    Watched::Changed(holder)
                }
            };
            if fate.reply_lost {
                return std::future::pending().await;
            }
            pass(way + fate.reply_delay).await;
            watched
        })
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

impl Link {
    /// Sends it at the first poll; the reply comes within the timeout.
    fn exchange(
        &self,
        kind: MessageKind,
        task: Task,
        timeout: Duration,
    ) -> impl Future<Output = Result<Told, MasterError>> + Send + 'static {
        let (server, network) = (Arc::clone(&self.server), Arc::clone(&self.network));
        let last_arrival = Arc::clone(&self.last_arrival);
        let message = Message {
            master: self.master,
            client: self.client,
            kind,
        };
        async move {
            let gives_up = after(timeout);
            let sent = {
                let fate = (network.lock().unwrap_or_else(PoisonError::into_inner))(&message);
                let mut last_arrival = last_arrival.lock().unwrap_or_else(PoisonError::into_inner);
                server.now().send(&task, fate, &mut last_arrival)?
            };
            match sent.answer_at {
                Some(at) if at < gives_up => {
                    if at > Instant::now() {
                        sleep_until(at).await;
                    }
                    // A frozen master has not done it, and a restarted one never will.
                    drop(server.now());
                    if let Some(reply) = sent.take() {
                        return reply;
                    }
                }
                _ => {}
            }
            sleep_until(gives_up).await;
            Err(MasterError::Timeout)
        }
    }
}

async fn pass(time: Duration) {
    // On paused time any sleep takes a millisecond.
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

fn kind(request: &Request) -> MessageKind {
    match request.operation {
        Operation::Acquire { .. } => MessageKind::Acquire,
        Operation::Extend {
            missing: Missing::PutBack,
            ..
        } => MessageKind::PutBack,
        Operation::Extend { .. } => MessageKind::Extend,
        Operation::Release { .. } => MessageKind::Release,
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("server", &self.server.name)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
