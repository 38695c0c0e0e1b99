//! Which of a master's connections is the present one.

use std::sync::{Mutex, PoisonError};

use fred::{clients::Client, interfaces::EventInterface, types::config::Server};
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

/// The time of one connection, from its handshake to the next one's. None ever comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch {
    client: u64,
    connection: u64,
}

/// A client, and a count of its connections in step with its answers: fred tells of a new
/// connection before it sends any command over it. (Its state alone would not do: a command that is
/// sent between a disconnection and its discovery travels by the next connection.)
#[derive(Debug)]
pub(super) struct Line {
    pub(super) client: Client,
    number: u64,
    connections: Mutex<Connections>,
}

#[derive(Debug)]
struct Connections {
    news: Receiver<Server>,
    count: u64,
}

impl Line {
    /// `number` tells the clients of one master apart.
    pub(super) fn new(client: Client, number: u64) -> Self {
        let news = client.reconnect_rx();
        let connections = Mutex::new(Connections { news, count: 0 });
        Self {
            client,
            number,
            connections,
        }
    }

    /// The epoch of the latest connection that an answer can have come by.
    pub(super) fn now(&self) -> Epoch {
        let mut connections = self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Some may have been missed: that they were is news enough.
        while let Ok(_) | Err(TryRecvError::Lagged(_)) = connections.news.try_recv() {
            connections.count += 1;
        }
        Epoch {
            client: self.number,
            connection: connections.count,
        }
    }

    /// The one client that comes after this.
    pub(super) fn next(&self, client: Client) -> Self {
        Self::new(client, self.number + 1)
    }
}
