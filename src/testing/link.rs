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
    server::Server,
};
use crate::{
    clock::after,
    master::{Missing, Operation, Reply, Request, queue::Wire},
    outcome::MasterError,
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

    fn admit(&self) -> Result<(), MasterError> {
        Ok(())
    }

    async fn send(&self, request: &Request, timeout: Duration) -> Reply {
        let group = std::slice::from_ref(request);
        let replies = self.exchange(kind(request), group, timeout).await?;
        replies
            .into_iter()
            .next()
            .unwrap_or(Err(MasterError::Timeout))
    }

    async fn send_group(
        &self,
        group: &[Request],
        timeout: Duration,
    ) -> Result<Vec<Reply>, MasterError> {
        self.exchange(MessageKind::Group, group, timeout).await
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

impl Link {
    /// One message, which arrives, is lost or is late as a whole.
    async fn exchange(
        &self,
        kind: MessageKind,
        requests: &[Request],
        timeout: Duration,
    ) -> Result<Vec<Reply>, MasterError> {
        let message = Message {
            master: self.master,
            client: self.client,
            kind,
        };
        let gives_up = after(timeout);
        let sent = {
            let fate = (self.network.lock().unwrap_or_else(PoisonError::into_inner))(&message);
            let mut last_arrival = self
                .last_arrival
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            self.server.now().send(requests, fate, &mut last_arrival)?
        };
        match sent.answer_at {
            Some(at) if at < gives_up => {
                if at > Instant::now() {
                    sleep_until(at).await;
                }
                // A frozen master has not done it, and a restarted one never will.
                drop(self.server.now());
                if let Some(replies) = sent.take() {
                    return Ok(replies);
                }
            }
            _ => {}
        }
        sleep_until(gives_up).await;
        Err(MasterError::Timeout)
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
