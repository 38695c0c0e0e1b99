//! The connection to one master: hardened, watched, and looked at before it may vote.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use fred::{
    clients::Client,
    interfaces::{ClientLike, EventInterface},
    types::config::{Config, ConnectionConfig},
};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    epoch::{Epoch, Line},
    exchange::hardened,
    identity::Registry,
    native::Abilities,
    scripts::Hashes,
    watchdog::Watchdog,
};
use crate::{outcome::MasterError, telemetry};

mod look;

use look::{LOOK_AGAIN, Look};

/// How soon a client is replaced whose task has ended.
const REPLACE_AFTER: Duration = Duration::from_millis(200);
/// How long a polite goodbye may take: a hung server answers none.
const QUIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Why there is no connection, before a try to connect has failed.
const NO_ANSWER_YET: &str = "no answer yet";
const NOT_LOOKED_AT: &str = "connected again, not looked at yet";
const CLOSED: &str = "closed by a shutdown";

/// One client at a time on one master, which reconnects for ever.
pub(crate) struct Connection {
    pub(super) name: Arc<str>,
    pub(super) hashes: Hashes,
    pub(super) abilities: Abilities,
    pub(super) watchdog: Watchdog,
    config: Config,
    settings: ConnectionConfig,
    line: RwLock<Arc<Line>>,
    registry: Arc<Registry>,
    last_error: Mutex<String>,
    standing: watch::Sender<Standing>,
    suspected: Notify,
    closed: CancellationToken,
    ended: CancellationToken,
}

/// What is known of the server at the other end.
#[derive(Debug, Clone)]
pub(crate) enum Standing {
    /// Nothing yet.
    Unknown,
    /// It could not be looked at: it is down, say, or refuses the user, or its connection is new.
    Unseen(MasterError),
    /// It may vote, on the connection through which it was looked at: behind the next one may be
    /// another server, which votes already under another name.
    Fit(Epoch),
    /// It may not.
    Unfit(MasterError),
}

/// Leave to send a command, by the connection of its time.
pub(super) struct Admission {
    line: Arc<Line>,
    epoch: Epoch,
}

impl Admission {
    pub(super) fn client(&self) -> &Client {
        &self.line.client
    }

    /// Did the answer just received come by that connection? Else it may be another server's.
    pub(super) fn confirm(&self) -> Result<(), MasterError> {
        if self.line.now() == self.epoch {
            Ok(())
        } else {
            let anew = "connected anew before the answer came".to_owned();
            Err(MasterError::ConnectionLost(anew))
        }
    }
}

/// Why a client is of no more use.
enum End {
    Closed,
    Hung,
    /// Its task has ended, which no error should do to it.
    Died,
}

impl Connection {
    /// Begins to connect; never waits for it.
    pub(crate) fn open(
        name: Arc<str>,
        config: Config,
        settings: ConnectionConfig,
        registry: Arc<Registry>,
    ) -> Arc<Self> {
        let connection = Arc::new(Self {
            name,
            hashes: Hashes::default(),
            abilities: Abilities::default(),
            watchdog: Watchdog::default(),
            line: RwLock::new(Arc::new(Line::new(hardened(&config, &settings), 0))),
            config,
            settings,
            registry,
            last_error: Mutex::new(NO_ANSWER_YET.to_owned()),
            standing: watch::Sender::new(Standing::Unknown),
            suspected: Notify::new(),
            closed: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        // Not a background task of the core: it lives as long as the connection does.
        tokio::spawn(Arc::clone(&connection).drive());
        connection
    }

    /// For another connection to the same server.
    pub(super) fn configuration(&self) -> (Config, ConnectionConfig) {
        (self.config.clone(), self.settings.clone())
    }

    /// What is known of the server, as it changes.
    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// May a command be sent now, and by which connection?
    pub(super) fn admit(&self) -> Result<Admission, MasterError> {
        let line = self.line();
        let epoch = line.now();
        match &*self.standing.borrow() {
            Standing::Fit(looked_at) if *looked_at != epoch => {
                Err(MasterError::NotConnected(NOT_LOOKED_AT.to_owned()))
            }
            // Told apart from a master that hangs: why there is no connection is what the caller
            // has to know.
            Standing::Fit(_) if !line.client.is_connected() => {
                Err(MasterError::NotConnected(self.last_error()))
            }
            Standing::Fit(_) if self.watchdog.admits() => Ok(Admission { line, epoch }),
            Standing::Fit(_) => Err(MasterError::Unresponsive),
            Standing::Unfit(error) | Standing::Unseen(error) => Err(error.clone()),
            Standing::Unknown => Err(MasterError::NotConnected(self.last_error())),
        }
    }

    fn line(&self) -> Arc<Line> {
        let line = self.line.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&line)
    }

    pub(super) fn last_error(&self) -> String {
        self.error_slot().clone()
    }

    /// Too many calls in a row have timed out: see whether it answers at all.
    pub(super) fn suspect(&self) {
        self.suspected.notify_one();
    }

    /// Waits until the connection is closed; not for a runtime that no longer runs.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        drop(timeout(2 * QUIT_TIMEOUT, self.ended.cancelled()).await);
    }

    async fn drive(self: Arc<Self>) {
        // However this task ends, also with its runtime: nobody is to wait for it any longer.
        let _ended = self.ended.clone().drop_guard();
        while !self.closed.is_cancelled() {
            let line = self.line();
            match self.live(&line).await {
                End::Closed => return CLOSED.clone_into(&mut self.error_slot()),
                End::Hung => {
                    telemetry::master_hung(&self.name);
                    self.lost(MasterError::Unresponsive);
                }
                End::Died => {
                    self.lost(MasterError::NotConnected(self.last_error()));
                    sleep(REPLACE_AFTER).await;
                }
            }
            // A new one, as fred's own counters are wrong once its task has ended early.
            let fresh = hardened(&self.config, &self.settings);
            let fresh = Arc::new(line.next(fresh));
            *self.line.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
    }

    /// Drives one client until it is of no more use. Its task is aborted then, which closes its
    /// socket, even where that is stuck in a write that the server never reads.
    async fn live(&self, line: &Line) -> End {
        let client = &line.client;
        let mut errors = client.error_rx();
        let mut connections = client.reconnect_rx();
        let mut task = AbortOnDropHandle::new(client.connect());
        let mut look_at = None;
        loop {
            // Its commands may be left behind when something else happens: they change nothing.
            let look = async {
                match look_at {
                    Some(pause) => sleep(pause).await,
                    None => std::future::pending().await,
                }
                self.look(line).await
            };
            tokio::select! {
                biased;
                () = self.closed.cancelled() => {
                    drop(timeout(QUIT_TIMEOUT, client.quit()).await);
                    return End::Closed;
                }
                ended = &mut task => {
                    if let Ok(Err(error)) = ended {
                        error.details().clone_into(&mut self.error_slot());
                    }
                    return End::Died;
                }
                // Before connections: an error that came first is noted first. Who answers on the
                // next connection may be somebody else.
                error = errors.recv() => if let Ok((error, _)) = error {
                    error.details().clone_into(&mut self.error_slot());
                    self.lost(MasterError::NotConnected(self.last_error()));
                    look_at = Some(LOOK_AGAIN);
                },
                connected = connections.recv() => if connected.is_ok() {
                    self.watchdog.answered();
                    // What was wrong before is no reason for what may go wrong from now on.
                    NO_ANSWER_YET.clone_into(&mut self.error_slot());
                    self.doubt();
                    look_at = Some(Duration::ZERO);
                },
                () = self.suspected.notified() => look_at = Some(Duration::ZERO),
                look = look => match look {
                    Look::Done => look_at = None,
                    Look::Again => look_at = Some(LOOK_AGAIN),
                    Look::Hung => return End::Hung,
                },
            }
        }
    }

    fn error_slot(&self) -> MutexGuard<'_, String> {
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration holds a password.
        f.debug_struct("Connection")
            .field("name", &self.name)
            .field("standing", &*self.standing.borrow())
            .finish_non_exhaustive()
    }
}
