//! Who has what is waited for, and for how long this process has known that.
//!
//! Not since when by its fence ([`crate::since`]): whoever waits raises that with every attempt.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fredlock::{Holder, Possession, Redlock};
use tokio::time::Instant;

use super::failure::whole;
use crate::inspect::{label, short};

/// Remembers since when a holder has been seen.
#[derive(Debug, Default)]
pub(super) struct Who(Mutex<Option<(Holder, Instant)>>);

impl Who {
    /// Whoever has one of the resources: `web-1 (5f0c3a91…) for at least 12s`. Without a name where
    /// masters cannot tell, or none has a quorum of them.
    pub(super) async fn tell(&self, redlock: &Redlock, resources: &[String]) -> String {
        for resource in resources {
            if let Ok(inspection) = redlock.inspect(resource).await
                && let Possession::Held { holder, .. } = inspection.verdict()
            {
                let name = label(holder).unwrap_or_else(|| "somebody else".to_owned());
                let long = match whole(self.seen(holder)).as_str() {
                    "0s" => String::new(),
                    long => format!(" for at least {long}"),
                };
                return format!("{name} ({}){long}", short(holder));
            }
        }
        "somebody else".to_owned()
    }

    /// For how long this process has known that holder.
    fn seen(&self, holder: &Holder) -> Duration {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, since)) if known == holder => since.elapsed(),
            _ => {
                *last = Some((holder.clone(), Instant::now()));
                Duration::ZERO
            }
        }
    }
}
