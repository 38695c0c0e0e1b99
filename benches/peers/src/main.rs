//! Acquire and release, alone and with 64 workers: fredlock, bare fred, and rslock.
//!
//!     benches/run

#[path = "../../speed/mod.rs"]
mod speed;

use std::time::Duration;

use rslock::LockManager;
use speed::contender::{Contender, Ended, Entrant, TTL};

/// rslock, on the redis crate, as its documentation uses it.
struct Rslock(LockManager);

impl Contender for Rslock {
    fn pair(&self, key: &str) -> Ended {
        let (manager, key) = (self.0.clone(), key.to_owned());
        Box::pin(async move {
            let lock = manager.lock(key.as_bytes(), TTL).await;
            let lock = lock.map_err(|error| error.to_string())?;
            manager.unlock(&lock).await;
            Ok(())
        })
    }
}

fn main() -> Result<(), String> {
    speed::run(|masters| {
        let mut manager = LockManager::new(masters.to_vec());
        manager.set_retry(1, Duration::from_millis(1));
        Ok(vec![Entrant::new("rslock", Rslock(manager))])
    })
}
