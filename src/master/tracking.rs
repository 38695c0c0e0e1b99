//! The connection by which a master tells waiters that a key was changed: client-side caching
//! without a cache.
//!
//! A `GET` on a connection with `CLIENT TRACKING ON` makes the server push one notice when that key
//! is changed next: deleted (by a script, `DEL`, or compare-and-delete), extended or set. Plain
//! tracking, as only waiters read on this connection; broadcast by prefix would tell of every lock of
//! everybody. The push for a natural expiry comes when the server finds the time for it.
//!
//! Pushes are hints. The connection is not looked at as the one that votes is, and where the server
//! or the user's permissions do not allow for any of it, waiters poll.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fred::{
    clients::Client,
    interfaces::{ClientLike, EventInterface, TrackingInterface},
    types::{
        RespVersion, Value,
        config::{Config, ConnectionConfig},
    },
};
use tokio::{
    runtime::Handle,
    sync::broadcast::error::RecvError,
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Holder, Watched,
    exchange::{custom, hardened, meaning},
};
use crate::{outcome::MasterError, resources::Resources, telemetry};

mod session;

use session::{Interest, Session};

/// How long the connection stays after the last waiter: the next one often comes soon.
const LINGER: Duration = Duration::from_secs(1);
/// How long a question may take; nobody waits for it.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
/// How soon a server is asked again that refused to tell.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// How long a polite goodbye may take: a hung server answers none.
const QUIT_TIMEOUT: Duration = Duration::from_millis(500);

/// The way to be told by one master.
pub(super) struct Tracking {
    name: Arc<str>,
    config: Config,
    settings: ConnectionConfig,
    /// It drives the connection, whichever runtime waits.
    runtime: Handle,
    state: Mutex<State>,
    closed: CancellationToken,
}

#[derive(Default)]
struct State {
    /// Only while somebody waits, and a little longer.
    session: Option<Arc<Session>>,
    refused_until: Option<Instant>,
    refusal_was_told: bool,
}

impl Tracking {
    /// Connects to nothing. Has to be called on the runtime of the connection to come.
    pub(super) fn new(name: Arc<str>, mut config: Config, settings: ConnectionConfig) -> Arc<Self> {
        // Only this version of the protocol has pushes beside answers.
        config.version = RespVersion::RESP3;
        Arc::new(Self {
            name,
            config,
            settings,
            runtime: Handle::current(),
            state: Mutex::default(),
            closed: CancellationToken::new(),
        })
    }

    /// See [`Master::watch`](super::Master::watch).
    pub(super) async fn watch(self: Arc<Self>, resources: Resources) -> Watched {
        // Before the question: a push may overtake the answer.
        let Some(interest) = self.register(resources) else {
            return Watched::Silent;
        };
        let session = &interest.session;
        let mut line = session.line.subscribe();
        loop {
            let up = tokio::select! {
                biased;
                () = session.ended.cancelled() => return Watched::Silent,
                up = line.wait_for(Option::is_some) => up.map_or(None, |up| *up),
            };
            let holder = match interest.holder(&self.runtime).await {
                Ok(None) => return Watched::Free,
                Err(MasterError::Server(_)) => return Watched::Silent,
                Ok(Some((resource, value))) => {
                    let value = value.as_str();
                    value.and_then(|value| Holder::of(resource, &value))
                }
                // What was asked on a connection is forgotten with it.
                Err(_) => None,
            };
            tokio::select! {
                biased;
                () = session.ended.cancelled() => return Watched::Silent,
                () = interest.changed.notified() => return Watched::Changed(holder),
                _ = line.wait_for(|now| *now != up) => {}
            }
        }
    }

    /// Waits until the connection is closed; not for a runtime that no longer runs.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        let session = self.state().session.clone();
        if let Some(session) = session {
            drop(timeout(2 * QUIT_TIMEOUT, session.closed.cancelled()).await);
        }
    }

    fn register(self: &Arc<Self>, resources: Resources) -> Option<Interest> {
        let mut state = self.state();
        let is_refused = state.refused_until.is_some_and(|end| Instant::now() < end);
        if is_refused || self.closed.is_cancelled() {
            return None;
        }
        let session = match &state.session {
            Some(session) if !session.ended.is_cancelled() => Arc::clone(session),
            _ => {
                let session = Arc::new(Session::new(hardened(&self.config, &self.settings)));
                state.session = Some(Arc::clone(&session));
                drop(
                    self.runtime
                        .spawn(Arc::clone(self).drive(Arc::clone(&session))),
                );
                session
            }
        };
        // While the state is locked: a session that nobody is interested in ends under that lock.
        Some(Interest::new(session, resources))
    }

    async fn drive(self: Arc<Self>, session: Arc<Session>) {
        // However this task ends, also with its runtime.
        let _closed = session.closed.clone().drop_guard();
        let _ended = session.ended.clone().drop_guard();
        let client = &session.client;
        let mut pushes = client.invalidation_rx();
        let (mut connections, mut errors) = (client.reconnect_rx(), client.error_rx());
        let mut task = AbortOnDropHandle::new(client.connect());
        let mut number = 0;
        loop {
            tokio::select! {
                biased;
                () = self.closed.cancelled() => break,
                () = session.ended.cancelled() => break,
                _ = &mut task => break,
                push = pushes.recv() => match push {
                    Ok(push) => session.tell(&push.keys),
                    Err(RecvError::Lagged(_)) => session.tell_all(),
                    Err(RecvError::Closed) => break,
                },
                error = errors.recv() => {
                    session.line.send_replace(None);
                    if let Ok((error, _)) = error
                        && let said @ MasterError::Server(_) = meaning(&error)
                    {
                        self.refuse(&said);
                        break;
                    }
                },
                _ = connections.recv() => {
                    session.line.send_replace(None);
                    match turn_on(client).await {
                        Ok(()) => {
                            number += 1;
                            session.line.send_replace(Some(number));
                        }
                        Err(said @ MasterError::Server(_)) => {
                            self.refuse(&said);
                            break;
                        }
                        Err(_) => break,
                    }
                },
                () = session.unused() => if self.forget(&session) { break },
            }
        }
        // Not only at the end of the task: a goodbye may take its time.
        session.ended.cancel();
        self.forget(&session);
        if client.is_connected() {
            drop(timeout(QUIT_TIMEOUT, client.quit()).await);
        }
    }

    /// Lets go of the session, unless somebody has come who needs it.
    fn forget(&self, session: &Arc<Session>) -> bool {
        let mut state = self.state();
        if *session.count.borrow() > 0 && !session.ended.is_cancelled() {
            return false;
        }
        session.ended.cancel();
        if state
            .session
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, session))
        {
            state.session = None;
        }
        true
    }

    /// The server, or the user's permissions, do not allow for it.
    fn refuse(&self, error: &MasterError) {
        let was_told = {
            let mut state = self.state();
            state.refused_until = Some(Instant::now() + ASK_AGAIN);
            std::mem::replace(&mut state.refusal_was_told, true)
        };
        if !was_told {
            telemetry::tracking_refused(&self.name, error);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn turn_on(client: &Client) -> Result<(), MasterError> {
    let words = ["TRACKING", "ON"].map(Value::from_static_str);
    let reply = custom(client, "CLIENT", words.into(), ASK_TIMEOUT).await;
    reply.map(drop).map_err(|error| meaning(&error))
}

impl fmt::Debug for Tracking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration holds a password.
        f.debug_struct("Tracking")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "tracking_tests.rs"]
mod tests;
