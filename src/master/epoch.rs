//! Which of a client's connections is the present one.

use std::sync::{Mutex, PoisonError};

use fred::{clients::Client, interfaces::EventInterface, types::config::Server};
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

/// The time of one connection of a client, from its handshake to the next one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// Counts a client's connections, in step with its answers: fred tells of a new connection before
/// it sends any command over it. (Its state alone would not do: a command that is sent between a
/// disconnection and its discovery travels by the next connection.)
#[derive(Debug)]
pub(super) struct Epochs(Mutex<State>);

#[derive(Debug)]
struct State {
    connections: Receiver<Server>,
    count: u64,
}

impl Epochs {
    pub(super) fn new(client: &Client) -> Self {
        let connections = client.reconnect_rx();
        Self(Mutex::new(State {
            connections,
            count: 0,
        }))
    }

    /// The epoch of the latest connection that an answer can have come by.
    pub(super) fn now(&self) -> Epoch {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Some may have been missed: that they were is news enough.
        while let Ok(_) | Err(TryRecvError::Lagged(_)) = state.connections.try_recv() {
            state.count += 1;
        }
        Epoch(state.count)
    }
}
