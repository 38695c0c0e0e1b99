//! The connection to one master: hardened, watched, and looked at before it may vote.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use fred::{
    clients::Client,
    interfaces::{ClientLike, EventInterface},
    types::{
        ConnectHandle, Value,
        config::{Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy},
    },
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    fred::send,
    identity::{Identity, Registry},
    native::Abilities,
    scripts::{Hashes, SOURCES},
    watchdog::Watchdog,
};
use crate::{outcome::MasterError, telemetry};

/// How long a connection, or its handshake, may take before it is tried again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the look at a new connection may take, and how soon it is repeated if it failed.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long a polite goodbye may take: a hung server answers none.
const QUIT_TIMEOUT: Duration = Duration::from_millis(500);
/// Why there is no connection, before a try to connect has failed.
const NO_ANSWER_YET: &str = "no answer yet";

/// One client on one master, which reconnects for ever.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) name: Arc<str>,
    pub(super) client: Client,
    pub(super) hashes: Hashes,
    pub(super) abilities: Abilities,
    pub(super) watchdog: Watchdog,
    registry: Arc<Registry>,
    last_error: Mutex<String>,
    standing: watch::Sender<Standing>,
    closed: CancellationToken,
    driver: OnceLock<ConnectHandle>,
}

/// What is known of the server at the other end.
#[derive(Debug, Clone)]
pub(crate) enum Standing {
    /// Nothing yet.
    Unknown,
    /// It could not be looked at: it is down, say, or refuses the user.
    Unseen(MasterError),
    /// It may vote.
    Fit,
    /// It may not.
    Unfit(MasterError),
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
            client: hardened(config, settings),
            hashes: Hashes::default(),
            abilities: Abilities::default(),
            watchdog: Watchdog::default(),
            registry,
            last_error: Mutex::new(NO_ANSWER_YET.to_owned()),
            standing: watch::Sender::new(Standing::Unknown),
            closed: CancellationToken::new(),
            driver: OnceLock::new(),
        });
        // Not a background task of the core: it lives as long as the connection does.
        tokio::spawn(Arc::clone(&connection).drive());
        connection
    }

    /// What is known of the server, as it changes.
    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// May a command be sent now?
    pub(super) fn admit(&self) -> Result<(), MasterError> {
        match &*self.standing.borrow() {
            // Told apart from a master that hangs: why there is no connection is what the caller
            // has to know.
            Standing::Fit if !self.client.is_connected() => {
                Err(MasterError::NotConnected(self.last_error()))
            }
            Standing::Fit if self.watchdog.admits() => Ok(()),
            Standing::Fit => Err(MasterError::Unresponsive),
            Standing::Unfit(error) | Standing::Unseen(error) => Err(error.clone()),
            Standing::Unknown => Err(MasterError::NotConnected(self.last_error())),
        }
    }

    pub(super) fn last_error(&self) -> String {
        self.error_slot().clone()
    }

    /// Gives the connection up and makes a new one. Does not wait.
    pub(super) fn reconnect(&self) {
        let (client, closed) = (self.client.clone(), self.closed.clone());
        tokio::spawn(async move {
            tokio::select! {
                // Whether it works shows in the connection's state.
                result = client.force_reconnection() => drop(result),
                () = closed.cancelled() => {}
            }
        });
    }

    pub(super) async fn close(&self) {
        self.closed.cancel();
        // A client that is dropped without this leaks its connection; a hung server never answers it.
        drop(tokio::time::timeout(QUIT_TIMEOUT, self.client.quit()).await);
        if let Some(driver) = self.driver.get() {
            driver.abort();
        }
    }

    async fn drive(self: Arc<Self>) {
        let mut errors = self.client.error_rx();
        let mut connections = self.client.reconnect_rx();
        if self.driver.set(self.client.connect()).is_err() {
            unreachable!("opened once");
        }
        let mut look_at = None;
        loop {
            let look = async {
                match look_at {
                    Some(pause) => sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.closed.cancelled() => return,
                connected = connections.recv() => if connected.is_ok() {
                    self.watchdog.answered();
                    // What was wrong before is no reason for what may go wrong from now on.
                    NO_ANSWER_YET.clone_into(&mut self.error_slot());
                    look_at = Some(Duration::ZERO);
                },
                error = errors.recv() => if let Ok((error, _)) = error {
                    error.details().clone_into(&mut self.error_slot());
                    self.note_down();
                },
                () = look => look_at = self.look().await.then_some(LOOK_AGAIN),
            }
        }
    }

    /// The connection failed before the server was ever looked at.
    fn note_down(&self) {
        let error = MasterError::NotConnected(self.last_error());
        self.standing.send_if_modified(|standing| {
            let is_news = matches!(standing, Standing::Unknown | Standing::Unseen(_));
            if is_news {
                *standing = Standing::Unseen(error);
            }
            is_news
        });
    }

    /// Looks at the server: its run id, role and mode, and what it can do. True if it has to be
    /// repeated.
    async fn look(&self) -> bool {
        let info = match send(self, "INFO", Vec::new(), LOOK_TIMEOUT).await {
            Ok(info) => info,
            Err(error) => {
                let is_first =
                    !matches!(&*self.standing.borrow(), Standing::Fit | Standing::Unfit(_));
                if is_first {
                    self.standing.send_replace(Standing::Unseen(error));
                }
                return self.client.is_connected();
            }
        };
        let Some(identity) = info.as_string().as_deref().and_then(Identity::parse) else {
            let error = MasterError::Unexpected("INFO names no run id".to_owned());
            self.standing.send_replace(Standing::Unseen(error));
            return true;
        };
        self.abilities.found(identity.native);
        self.load_scripts().await;
        let standing = match self.registry.admit(&self.name, &identity) {
            Ok(()) => {
                telemetry::master_connected(&self.name, &identity.server);
                Standing::Fit
            }
            Err(objection) => {
                let error = MasterError::Unfit(objection);
                telemetry::master_unfit(&self.name, &error);
                Standing::Unfit(error)
            }
        };
        // A replica may be promoted without a new connection: it is looked at again.
        let is_unfit = matches!(standing, Standing::Unfit(_));
        self.standing.send_replace(standing);
        is_unfit
    }

    async fn load_scripts(&self) {
        if self.hashes.is_complete() {
            return;
        }
        for (script, source) in SOURCES.into_iter().enumerate() {
            let arguments = vec![
                Value::from_static_str("LOAD"),
                Value::from_static_str(source),
            ];
            let hash = send(self, "SCRIPT", arguments, LOOK_TIMEOUT).await;
            // Where it is not permitted, scripts are sent whole.
            if let Some(hash) = hash.ok().and_then(|hash| hash.as_string()) {
                self.hashes.learn(script, hash);
            }
        }
    }

    fn error_slot(&self) -> MutexGuard<'_, String> {
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that never sends a command twice, never waits for a connection that is down, and
/// reconnects for ever.
fn hardened(mut config: Config, mut settings: ConnectionConfig) -> Client {
    config.fail_fast = false;
    settings.max_command_attempts = 1;
    // A bound above 0 can make a client fail for good; ours stand in front of it.
    settings.max_command_buffer_len = 0;
    settings.reconnect_on_auth_error = true;
    settings.connection_timeout = settings.connection_timeout.min(CONNECT_TIMEOUT);
    settings.internal_command_timeout = settings.internal_command_timeout.min(CONNECT_TIMEOUT);
    settings.tcp.nodelay = Some(true);
    // Without end, 5 to 500 ms apart.
    let policy = ReconnectPolicy::new_exponential(0, 5, 500, 2);
    Client::new(
        config,
        Some(PerformanceConfig::default()),
        Some(settings),
        Some(policy),
    )
}
