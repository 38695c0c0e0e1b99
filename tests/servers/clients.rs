//! What the tests of `using` share: a client of the masters, and looks at its keys.

use std::time::Duration;

use fredlock::{LostReason, Redlock, Retry, Settings, UsingError};

use super::support::{eventually, servers::Servers};

/// The resource of most tests.
pub(crate) const KEY: &str = "job";

/// Within this happens what must happen at once, on a machine with other work to do. Times to live
/// and timeouts that would do instead are longer.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// A time to live that never ends within a test.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A client that makes one attempt and gives masters two seconds for an answer, so that a machine
/// with other work to do is not taken for masters that fail; with other settings as the test needs
/// them.
pub(crate) async fn client(
    servers: &Servers,
    settings: impl FnOnce(Settings) -> Settings,
) -> Redlock {
    let redlock = client_of(servers.urls(), settings).await;
    connected(&redlock, servers).await;
    redlock
}

/// Waits until every master has answered the client, which by itself waits for a quorum only.
pub(crate) async fn connected(redlock: &Redlock, servers: &Servers) {
    let warm_up = redlock.with(|settings| settings.retry(Retry::default()));
    eventually("every master is connected", SOON, async || {
        drop(warm_up.acquire(["warm-up"], LONG).await);
        let fences = servers.values_of("{warm-up}:fence").await;
        fences.iter().all(Option::is_some)
    })
    .await;
    idle(redlock).await;
}

/// A client of masters by whatever way; not all of them need to be connected yet.
pub(crate) async fn client_of(
    urls: Vec<String>,
    settings: impl FnOnce(Settings) -> Settings,
) -> Redlock {
    let builder = Redlock::builder().urls(urls);
    let builder = builder
        .settings(|defaults| settings(defaults.retry(Retry::none()).command_timeout(ms(2_000))));
    builder.connect().await.expect("masters")
}

/// On how many masters that run the key stands.
pub(crate) async fn carriers(servers: &Servers, key: &str) -> usize {
    servers.values_of(key).await.into_iter().flatten().count()
}

/// Waits until no master that runs has the key. Its ttl must be too long to be the reason.
pub(crate) async fn freed(servers: &Servers, key: &str) {
    eventually("the key is gone from every master", SOON, async || {
        carriers(servers, key).await == 0
    })
    .await;
}

/// Waits until the client has no task of its own.
pub(crate) async fn idle(redlock: &Redlock) {
    eventually("no background task is left", SOON, async || {
        redlock.background_tasks() == 0
    })
    .await;
}

/// The outcome of a `using` that was lost.
pub(crate) fn lost<T: std::fmt::Debug>(
    result: Result<T, UsingError<T>>,
) -> (Option<T>, LostReason, String) {
    let error = result.expect_err("lost");
    let text = error.to_string();
    match error {
        UsingError::Lost { output, reason, .. } => (output, reason, text),
        error => panic!("{error}"),
    }
}
