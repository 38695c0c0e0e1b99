//! The client under test, set up so that a wrong turn costs seconds: what must happen at once is
//! then told from what waits for a timeout, on a busy machine too.

use std::time::{Duration, Instant};

use fredlock::{Answer, Builder, Fencing, Lock, MasterError, Outcome, Outcomes, Redlock, Retry};

use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::servers::Servers;

/// So long that no key goes by itself while a test runs.
pub(crate) const TTL: Duration = Duration::from_secs(60);
/// How long a client that is [`patient`] waits for a master, and between two attempts.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// What happens without any waiting takes less, with much to spare.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(4);

/// Fenced and not.
pub(crate) const BOTH: [fn() -> Fencing; 2] = [Fencing::default, || Fencing::Off];

/// A client that waits long for every master and makes one attempt. All of its masters have joined.
pub(crate) async fn patient(urls: impl IntoIterator<Item = String>) -> Redlock {
    build(urls, |builder| builder).await
}

/// The same, changed.
pub(crate) async fn build(
    urls: impl IntoIterator<Item = String>,
    change: impl FnOnce(Builder) -> Builder,
) -> Redlock {
    let redlock = build_early(urls, change).await;
    // Where a master answers with errors only, this is how long a roll-back is tried there.
    let brief = Duration::from_millis(500);
    let hasty = redlock.with(|settings| settings.command_timeout(brief));
    eventually("all masters have joined", AT_ONCE, async || {
        let result = hasty.acquire(["warm-up"], brief).await;
        let outcomes = match &result {
            Ok(lock) => lock.outcomes(),
            Err(error) => error.outcomes().expect("an attempt"),
        };
        // A master that has not joined says so before any answer comes.
        let not_joined = |outcome: &Outcome| {
            matches!(
                outcome.answer(),
                Answer::Failed(MasterError::NotConnected(_))
            )
        };
        let joined = !outcomes.iter().any(not_joined);
        drop(result);
        settled(&redlock).await;
        joined
    })
    .await;
    redlock
}

/// The same, for masters some of which cannot join: a quorum is enough, and not even that is
/// waited for for long.
pub(crate) async fn build_early(
    urls: impl IntoIterator<Item = String>,
    change: impl FnOnce(Builder) -> Builder,
) -> Redlock {
    let builder = Redlock::builder().urls(urls).settings(|settings| {
        settings
            .command_timeout(PATIENCE)
            .retry(Retry::none().delay(PATIENCE).jitter(Duration::ZERO))
    });
    change(builder).connect().await.expect("a Redlock")
}

/// Waits until nothing of the client is under way any more: every command that it ever sent was
/// answered, and whatever it owed is taken back.
pub(crate) async fn settled(redlock: &Redlock) {
    eventually("the client has nothing under way", AT_ONCE, async || {
        redlock.background_tasks() == 0
    })
    .await;
}

/// A relay before each of the servers.
pub(crate) async fn relays(servers: &Servers) -> Vec<Relay> {
    let mut relays = Vec::new();
    for server in servers {
        relays.push(Relay::before(server).await);
    }
    relays
}

/// The URLs of the relays.
pub(crate) fn urls(relays: &[Relay]) -> Vec<String> {
    relays.iter().map(Relay::url).collect()
}

/// Holds the requests on all of these ways, or lets them go.
pub(crate) fn hold_requests(relays: &[Relay], on: bool) {
    for relay in relays {
        relay.hold_requests(on);
    }
}

/// Holds the replies on all of these ways, or lets them go.
pub(crate) fn hold_replies(relays: &[Relay], on: bool) {
    for relay in relays {
        relay.hold_replies(on);
    }
}

/// The key under which masters keep the fence of a resource without a hash tag.
pub(crate) fn fence_key(resource: &str) -> String {
    format!("{{{resource}}}:fence")
}

/// What a lock has written on each of so many masters.
pub(crate) fn on_all(count: usize, lock: &Lock) -> Vec<Option<String>> {
    vec![Some(lock.token().reveal()); count]
}

/// The answer of the master at this position.
pub(crate) fn answer(outcomes: &Outcomes, index: usize) -> &Answer {
    outcomes.iter().nth(index).expect("a master").answer()
}

/// The error of the master at this position.
pub(crate) fn master_error(outcomes: &Outcomes, index: usize) -> &MasterError {
    match answer(outcomes, index) {
        Answer::Failed(error) => error,
        other => panic!("master {index} did not fail but {other}: {outcomes}"),
    }
}

/// What the server said, where it answered with an error.
pub(crate) fn server_error(outcomes: &Outcomes, index: usize) -> &str {
    match master_error(outcomes, index) {
        MasterError::Server(text) => text,
        other => panic!("no answer of server {index} but {other:?}: {outcomes}"),
    }
}

/// A time that has to be short.
#[derive(Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "real servers live on real time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Panics if it took as long as waiting for something takes.
    pub(crate) fn assert_at_once(&self) {
        let took = self.elapsed();
        assert!(took < AT_ONCE, "took {took:?}");
    }
}
