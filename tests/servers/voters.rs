//! Clients of the library under test, set so that each wait of theirs can be told from the others.

use std::time::Duration;

use fredlock::{Fencing, Redlock, Retry};

use crate::support::{eventually, server::Server, servers::Servers};

/// A time to live that no test outlasts.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// What is to happen at once may take this long on a machine that is busy; it is well below
/// [`COMMAND_TIMEOUT`] and any retry.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(2);

/// How long commands may take: what waits for one is told from what does not by seconds.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// With fences and without, for what must hold either way. A test's output says which it was.
pub(crate) fn both() -> impl Iterator<Item = Fencing> {
    [Fencing::default(), Fencing::Off]
        .into_iter()
        .inspect(|fencing| println!("with {fencing:?}"))
}

/// A client on these URLs that tries once; no master need be up.
pub(crate) async fn client<U: Into<String>>(
    urls: impl IntoIterator<Item = U>,
    fencing: Fencing,
) -> Redlock {
    let builder = Redlock::builder().urls(urls).fencing(fencing);
    let builder = builder.settings(|settings| {
        settings
            .command_timeout(COMMAND_TIMEOUT)
            .retry(Retry::none())
    });
    builder.connect().await.expect("connected")
}

/// A client on these servers, of which every one votes; they are empty.
pub(crate) async fn client_of(servers: &Servers, fencing: Fencing) -> Redlock {
    let redlock = client(servers.urls(), fencing).await;
    all_vote(&redlock, servers).await;
    redlock
}

/// Waits until every server votes, and leaves them empty.
pub(crate) async fn all_vote(redlock: &Redlock, servers: &Servers) {
    let everyone: Vec<_> = servers.iter().collect();
    they_vote(redlock, &everyone).await;
    for server in servers {
        server.flush_all().await;
    }
}

/// Waits until these servers vote.
pub(crate) async fn they_vote(redlock: &Redlock, servers: &[&Server]) {
    eventually("every server votes", AT_ONCE * 2, async || {
        let Ok(lock) = redlock.try_acquire(["warm-up"], LONG).await else {
            return false;
        };
        let token = Some(lock.token().reveal());
        // Where it votes, the key was on its way before the lock was held.
        idle(redlock).await;
        let mut all = true;
        for server in servers {
            all &= server.get("warm-up").await == token;
        }
        let freed = lock.release().await.is_ok();
        idle(redlock).await;
        all && freed
    })
    .await;
}

/// Waits until the client has nothing under way.
pub(crate) async fn idle(redlock: &Redlock) {
    eventually("nothing is under way", AT_ONCE * 2, async || {
        redlock.background_tasks() == 0
    })
    .await;
}

/// Waits until no server has the key.
pub(crate) async fn gone(servers: &Servers, key: &str) {
    eventually("the key is gone", AT_ONCE, async || {
        servers.values_of(key).await.iter().all(Option::is_none)
    })
    .await;
}

/// Waits until every server has this value.
pub(crate) async fn everywhere(servers: &Servers, key: &str, value: &str) {
    eventually("the value is everywhere", AT_ONCE, async || {
        let values = servers.values_of(key).await;
        values.iter().all(|found| found.as_deref() == Some(value))
    })
    .await;
}
