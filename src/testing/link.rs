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
    server::{Reply, Server, Task},
};
use crate::{
    clock::after,
    master::{Asking, Call, Master, Missing, Operation, Question, Request},
    outcome::MasterError,
};

/// Decides what becomes of each request.
pub(super) type Network = Mutex<Box<dyn FnMut(&Message) -> Fate + Send>>;

/// A connection: what is sent on it stays in order, unless its fate says otherwise.
pub(super) struct Link {
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

impl Master for Link {
    fn name(&self) -> &Arc<str> {
        &self.server.name
    }

    fn call(&self, request: &Request, timeout: Duration) -> Call {
        let exchange = self.exchange(kind(request), Task::Do(request.clone()), timeout);
        Box::pin(async move {
            match exchange.await? {
                Reply::Answer(answer) => Ok(answer),
                Reply::Sight(_) => unreachable!("a request is answered"),
            }
        })
    }

    fn ask(&self, question: &Question, timeout: Duration) -> Asking {
        let kind = match question {
            Question::Inspect { .. } | Question::GuardState => MessageKind::Inspect,
            Question::Initialise => MessageKind::Initialise,
        };
        let exchange = self.exchange(kind, Task::Ask(question.clone()), timeout);
        Box::pin(async move {
            match exchange.await? {
                Reply::Sight(sight) => Ok(sight),
                Reply::Answer(_) => unreachable!("a question is answered with a sight"),
            }
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
    ) -> impl Future<Output = Result<Reply, MasterError>> + Send + 'static {
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

fn kind(request: &Request) -> MessageKind {
    match request.operation {
        Operation::Acquire { .. } => MessageKind::Acquire,
        Operation::Extend {
            missing: Missing::PutBack,
            ..
        } => MessageKind::PutBack,
        Operation::Extend { .. } => MessageKind::Extend,
        Operation::Release => MessageKind::Release,
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
