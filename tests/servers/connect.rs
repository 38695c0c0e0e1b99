//! Connecting: what is waited for, and who joins later.

use std::time::Duration;

use fredlock::fred::{
    clients::Client,
    types::{Builder as FredBuilder, config::Config},
};
use fredlock::{AcquireError, BuildError, Builder, Fencing, Redlock};
use tokio::time::Instant;

use crate::support::{
    eventually,
    fake::{FakeServer, raw},
    server::Server,
    servers::Servers,
};
use crate::voters::{AT_ONCE, LONG, both, client, idle, they_vote};

/// Long enough to tell a connect that waits for it from one that does not.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

fn builder(urls: Vec<String>) -> Builder {
    Redlock::builder()
        .urls(urls)
        .connect_timeout(CONNECT_TIMEOUT)
        .settings(|settings| {
            settings
                .retry(fredlock::Retry::none())
                .command_timeout(Duration::from_millis(200))
        })
}

/// Connects, which must not take long.
async fn at_once(builder: Builder) -> Redlock {
    let begun = Instant::now();
    let redlock = builder.connect().await.expect("connected");
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    redlock
}

#[tokio::test]
async fn master_that_is_down_at_the_start_is_not_waited_for_and_joins_when_it_comes_up() {
    for fencing in both() {
        let servers = Servers::start(3).await;
        servers[2].kill().await;
        let redlock = at_once(builder(servers.urls()).fencing(fencing)).await;
        let lock = redlock
            .try_acquire(["k"], LONG)
            .await
            .expect("two of three");
        servers[2].restart().await;
        they_vote(&redlock, &[&servers[2]]).await;
        lock.release().await.expect("released");
    }
}

#[tokio::test]
async fn quorum_is_one_of_all_masters_though_only_one_is_up() {
    let servers = Servers::start(3).await;
    servers.kill(&[1, 2]).await;
    let redlock = at_once(builder(servers.urls())).await;
    let refused = redlock.try_acquire(["k"], LONG).await;
    let Err(error @ AcquireError::NoQuorum(_)) = refused else {
        panic!("{refused:?}")
    };
    assert!(!error.is_busy());
    idle(&redlock).await;
    assert_eq!(servers[0].get("k").await, None);
}

#[tokio::test]
async fn masters_may_all_be_down_at_the_start_and_are_used_once_they_are_up() {
    let servers = Servers::start(3).await;
    servers.kill(&[0, 1, 2]).await;
    let redlock = at_once(builder(servers.urls())).await;
    let refused = redlock.try_acquire(["k"], LONG).await;
    let Err(error @ AcquireError::NoQuorum(_)) = refused else {
        panic!("{refused:?}")
    };
    let text = error.to_string();
    for server in &servers {
        assert!(
            text.contains(&format!("{} not connected: ", server.addr())),
            "{text}"
        );
    }
    assert!(text.contains("refused"), "{text}");
    for server in &servers {
        server.restart().await;
    }
    they_vote(&redlock, &servers.iter().collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn master_that_hangs_holds_connect_up_by_the_grace_alone() {
    let servers = Servers::start(3).await;
    servers.freeze(&[0]);
    let redlock = at_once(builder(servers.urls())).await;
    let lock = redlock
        .try_acquire(["k"], LONG)
        .await
        .expect("two of three");
    servers.thaw(&[0]);
    they_vote(&redlock, &[&servers[0]]).await;
    lock.release().await.expect("released");
}

#[tokio::test]
async fn master_that_accepts_and_never_answers_holds_connect_up_by_the_grace_alone() {
    let silent = FakeServer::start(|_| Some(raw::silence())).await;
    let servers = Servers::start(2).await;
    let mut urls = servers.urls();
    urls.push(silent.url());
    let redlock = at_once(builder(urls)).await;
    let lock = redlock
        .try_acquire(["k"], LONG)
        .await
        .expect("two of three");
    assert!(
        !lock.outcomes().to_string().contains("granted; "),
        "{lock:?}"
    );
}

#[tokio::test]
async fn majority_that_hangs_holds_connect_up_by_the_connect_timeout() {
    let servers = Servers::start(3).await;
    servers.freeze(&[0, 1]);
    let limit = Duration::from_millis(500);
    let begun = Instant::now();
    let redlock = at_once(builder(servers.urls()).connect_timeout(limit)).await;
    assert!(begun.elapsed() >= limit);
    let refused = redlock.try_acquire(["k"], LONG).await;
    assert!(
        matches!(refused, Err(AcquireError::NoQuorum(_))),
        "{refused:?}"
    );
    servers.thaw(&[0, 1]);
    they_vote(&redlock, &servers.iter().collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn configurations_and_clients_of_fred_are_masters_and_the_client_itself_is_not_used() {
    let servers = Servers::start(3).await;
    let config = |index: usize| Config::from_url(&servers[index].url()).expect("config");
    let theirs: Client = FredBuilder::from_config(config(1)).build().expect("client");
    let builder = builder(vec![servers[0].url()])
        .client(&theirs)
        .config(config(2));
    let redlock = at_once(builder).await;
    they_vote(&redlock, &servers.iter().collect::<Vec<_>>()).await;
    // It was never connected, and is neither connected nor closed by ours.
    drop(redlock);
    for server in &servers {
        eventually("closed", AT_ONCE, async || {
            server.connected_clients().await == 0
        })
        .await;
    }
}

#[tokio::test]
async fn masters_behind_sentinels_must_be_allowed() {
    let master = Server::start().await;
    let file = master.path("sentinel.conf");
    let monitor = format!("sentinel monitor m 127.0.0.1 {} 1\n", master.port());
    std::fs::write(&file, monitor).expect("written");
    let sentinel = Server::start_with(&[&file.display().to_string(), "--sentinel"]).await;
    let url = format!("redis-sentinel://{}?sentinelServiceName=m", sentinel.addr());
    let refused = Redlock::connect([url.clone()]).await;
    let Err(error @ BuildError::SentinelManaged(_)) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        error.to_string().contains("allow_sentinel_managed"),
        "{error}"
    );
    let redlock = at_once(builder(vec![url]).allow_sentinel_managed(true)).await;
    they_vote(&redlock, &[&master]).await;
    let lock = redlock.try_acquire(["k"], LONG).await.expect("acquired");
    let name = format!("m@{}", sentinel.addr());
    assert!(lock.outcomes().to_string().contains(&name), "{lock:?}");
}

#[tokio::test]
async fn url_that_cannot_be_used_is_named_by_its_place_and_shows_no_password() {
    let refused = Redlock::connect(["redis://127.0.0.1", "redis://me:geheim@127.0.0.1:port"]).await;
    let Err(error @ BuildError::InvalidUrl { position: 2, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        !format!("{error} {error:?}").contains("geheim"),
        "{error:?}"
    );
}

#[test]
fn connecting_without_a_runtime_is_an_error() {
    let connect = std::pin::pin!(Redlock::connect(["redis://127.0.0.1"]));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(refused) = connect.poll(&mut context) else {
        panic!("it waits")
    };
    assert!(matches!(refused, Err(BuildError::NoRuntime)), "{refused:?}");
}

#[tokio::test]
async fn clients_of_several_kinds_exclude_each_other() {
    let servers = Servers::start(3).await;
    let one = client(servers.urls(), Fencing::default()).await;
    let other = at_once(builder(servers.urls())).await;
    let lock = one.try_acquire(["k"], LONG).await.expect("acquired");
    let busy = other.try_acquire(["k"], LONG).await;
    assert!(matches!(busy, Err(AcquireError::Busy(_))), "{busy:?}");
    lock.release().await.expect("released");
}
