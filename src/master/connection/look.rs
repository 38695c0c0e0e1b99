//! The look at the server behind a connection: who it is, and whether it may vote.

use std::time::Duration;

use fred::{clients::Client, types::Value};

use super::{
    super::{epoch::Line, exchange::exchange, identity::Identity, scripts::SOURCES},
    Connection, NOT_LOOKED_AT, Standing,
};
use crate::{outcome::MasterError, telemetry};

/// How long the look at a connection may take, and how soon it is repeated if it failed.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// What a look came to.
pub(super) enum Look {
    Done,
    Again,
    /// It took the question and gave no answer.
    Hung,
}

impl Connection {
    /// The server has to be looked at before it may vote (again).
    pub(super) fn lost(&self, error: MasterError) {
        self.standing.send_if_modified(|standing| {
            let is_news = !matches!(standing, Standing::Unfit(_));
            if is_news {
                *standing = Standing::Unseen(error);
            }
            is_news
        });
    }

    /// A new connection leads to whoever is there now.
    pub(super) fn doubt(&self) {
        self.standing.send_if_modified(|standing| {
            let was_fit = matches!(standing, Standing::Fit(_));
            if was_fit {
                let error = MasterError::NotConnected(NOT_LOOKED_AT.to_owned());
                *standing = Standing::Unseen(error);
            }
            was_fit
        });
    }

    /// Looks at the server: its run id, role and mode, and what it can do.
    pub(super) async fn look(&self, line: &Line) -> Look {
        let client = &line.client;
        // Before the question: an answer by a later connection fits no earlier epoch.
        let epoch = line.now();
        let info = match exchange(self, client, "INFO", Vec::new(), LOOK_TIMEOUT).await {
            Ok(info) => info,
            Err(MasterError::Timeout) => return Look::Hung,
            Err(error) => {
                self.lost(error);
                return Look::Again;
            }
        };
        self.watchdog.answered();
        let Some(identity) = info.as_string().as_deref().and_then(Identity::parse) else {
            let error = MasterError::Unexpected("INFO names no run id".to_owned());
            self.standing.send_replace(Standing::Unseen(error));
            return Look::Again;
        };
        if let Err(objection) = self.registry.admit(&self.name, &identity) {
            let error = MasterError::Unfit(objection);
            let is_news = self.standing.send_if_modified(|standing| {
                let is_news = !matches!(standing, Standing::Unfit(known) if *known == error);
                *standing = Standing::Unfit(error.clone());
                is_news
            });
            if is_news {
                telemetry::master_unfit(&self.name, &error);
            }
            // A replica may be promoted without a new connection.
            return Look::Again;
        }
        self.abilities.found(identity.native);
        if !matches!(*self.standing.borrow(), Standing::Fit(known) if known == epoch) {
            self.load_scripts(client).await;
            telemetry::master_connected(&self.name, &identity.server);
            self.standing.send_replace(Standing::Fit(epoch));
        }
        Look::Done
    }

    /// On every connection: a server that has restarted has forgotten them.
    async fn load_scripts(&self, client: &Client) {
        let loads = SOURCES
            .into_iter()
            .enumerate()
            .map(async |(script, source)| {
                let arguments = vec![
                    Value::from_static_str("LOAD"),
                    Value::from_static_str(source),
                ];
                let hash = exchange(self, client, "SCRIPT", arguments, LOOK_TIMEOUT).await;
                // Where it is not permitted, scripts are sent whole.
                if let Some(hash) = hash.ok().and_then(|hash| hash.as_string()) {
                    self.hashes.learn(script, hash);
                }
            });
        futures::future::join_all(loads).await;
    }
}
