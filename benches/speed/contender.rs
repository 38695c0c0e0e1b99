//! What is compared: each takes and gives back one lock on five masters.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use fredlock::{Fencing, Redlock};

pub type Ended = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// How long a lock would live that is not released.
pub const TTL: Duration = Duration::from_secs(10);

/// The timeout of a command: a machine that is busy with something else must not end the bench.
pub const PATIENCE: Duration = Duration::from_secs(2);

pub trait Contender: Send + Sync {
    /// Acquires the key and releases it, once each.
    fn pair(&self, key: &str) -> Ended;
}

/// A contender, and its name in the tables.
pub struct Entrant {
    pub name: &'static str,
    pub contender: Arc<dyn Contender>,
}

impl Entrant {
    pub fn new(name: &'static str, contender: impl Contender + 'static) -> Self {
        Self {
            name,
            contender: Arc::new(contender),
        }
    }
}

/// fredlock, with or without fencing.
pub struct Ours(Redlock);

impl Ours {
    pub async fn connect(masters: &[String], fencing: Fencing) -> Result<Self, String> {
        let builder = Redlock::builder().urls(masters).fencing(fencing);
        let builder = builder.settings(|settings| settings.command_timeout(PATIENCE));
        let redlock = builder.connect().await.map_err(|error| error.to_string())?;
        Ok(Self(redlock))
    }
}

impl Contender for Ours {
    fn pair(&self, key: &str) -> Ended {
        let (redlock, key) = (self.0.clone(), key.to_owned());
        Box::pin(async move {
            let lock = redlock.try_acquire([key], TTL).await;
            let lock = lock.map_err(|error| error.to_string())?;
            let granted = lock.outcomes().clone();
            let released = lock.release().await;
            released.map_err(|error| format!("{error}; acquired by {granted}"))?;
            Ok(())
        })
    }
}
