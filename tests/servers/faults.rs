//! What servers, networks and the client beneath can do to a connection, and what must hold then.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use fredlock::{
    Answer, Fencing, MasterError, Redlock, Retry, TTL_MIN,
    fred::types::{RespVersion, config::Config},
};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{
    address::Address,
    eventually,
    fake::{FakeServer, raw},
    relay::Relay,
    server::Server,
    servers::Servers,
};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(10);

async fn connect(urls: impl IntoIterator<Item = String>) -> Redlock {
    let builder = Redlock::builder().urls(urls);
    let builder = builder.settings(|settings| settings.retry(Retry::none()));
    builder.connect().await.expect("masters")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ttl_that_leaves_no_validity_ends_though_a_majority_hangs() {
    let servers = Servers::start(3).await;
    let redlock = connect(servers.urls()).await;
    servers.freeze(&[0, 1]);
    let acquiring = timeout(2 * SECOND, redlock.acquire(["a"], TTL_MIN));
    assert!(acquiring.await.expect("within its time").is_err());
    let limited = redlock.with(|settings| settings.wait_limit(Duration::ZERO));
    let acquiring = timeout(2 * SECOND, limited.acquire(["a"], TTL));
    assert!(acquiring.await.expect("within its time").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_at_another_address_too_never_votes_twice() {
    let servers = Servers::start(3).await;
    let address = Address::of(&servers[0]).await;
    let redlock = connect([address.url.clone(), servers[1].url(), servers[2].url()]).await;
    // It answers late there, so that a look at it takes its time.
    let late = Relay::before(&servers[1]).await;
    late.delay(Duration::from_millis(20));
    let mut count = 0;
    for _ in 0..3 {
        // Without the third, only a second vote of this one could make a quorum.
        servers.freeze(&[2]);
        address.lead_to(late.addr()).await;
        let once = |settings: fredlock::Settings| {
            let settings = settings.retry(fredlock::Retry::none());
            settings.command_timeout(Duration::from_millis(60))
        };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(400) {
            count += 1;
            let attempt = redlock.with(once).acquire([format!("a{count}")], TTL).await;
            assert!(attempt.is_err(), "one server made a quorum: {attempt:?}");
        }
        servers.thaw(&[2]);
        address.lead_to(servers[0].addr()).await;
        eventually("the right server votes", SOON, async || {
            let Ok(lock) = redlock.try_acquire(["b"], TTL).await else {
                return false;
            };
            // The answer of the one behind the forwarder may come after the lock was won.
            sleep(Duration::from_millis(20)).await;
            let voted = servers[0].get("b").await.is_some();
            lock.release().await.expect("released");
            voted
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_first_answer_ends_the_client_beneath_joins_all_the_same() {
    let server = Server::start().await;
    let pings = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pings);
    // To fred this is an error in its configuration, after which it never connects again.
    let fake = FakeServer::over(&server, move |command| {
        let is_first =
            command[0].eq_ignore_ascii_case("PING") && counted.fetch_add(1, Ordering::Relaxed) == 0;
        is_first.then(|| raw::error("ERR This instance has cluster support disabled"))
    })
    .await;
    let redlock = connect([fake.url()]).await;
    eventually("it votes", SOON, async || {
        redlock.acquire(["a"], TTL).await.is_ok()
    })
    .await;
    assert!(pings.load(Ordering::Relaxed) > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_that_is_cancelled_leaves_no_connection() {
    let server = Server::start().await;
    for _ in 0..50 {
        let url = server.url();
        // On a worker's own queue, where the task that was spawned last runs first.
        let spawned = tokio::spawn(async move {
            let mut connecting = pin!(Redlock::connect([url]));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(connecting.as_mut().poll(&mut cx).is_pending());
        });
        spawned.await.expect("polled once");
    }
    sleep(SECOND).await;
    eventually("no connection", SOON, async || {
        server.connected_clients().await == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_slower_than_the_command_timeout_is_not_given_up() {
    let server = Server::start().await;
    let relay = Relay::before(&server).await;
    relay.delay(Duration::from_millis(40));
    let redlock = connect([relay.url()]).await;
    let mut timed_out = 0;
    let begun = Instant::now();
    while begun.elapsed() < 2 * SECOND {
        // Its commands have 10 ms, too little for this link.
        let short = redlock.acquire(["a"], Duration::from_millis(100)).await;
        timed_out += u32::from(short.is_err());
    }
    assert!(timed_out > 0, "nothing was too slow for it");
    assert_eq!(relay.accepted(), 1, "the first connection is the only one");
    eventually("a longer ttl gets its lock", SOON, async || {
        redlock.acquire(["b"], TTL).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_stuck_in_a_write_is_replaced() {
    let server = Server::start().await;
    let address = Address::of(&server).await;
    let redlock = connect([address.url.clone()]).await;
    address.stalled.store(true, Ordering::Relaxed);
    sleep(Duration::from_millis(50)).await;
    // Calls of a quarter of a megabyte each: the buffers on the way are full after a few.
    let names: Vec<_> = (0..128).map(|n| format!("{n:0>1000}")).collect();
    let many = (0..80).map(|_| redlock.acquire(names.clone(), TTL));
    for outcome in futures::future::join_all(many).await {
        assert!(outcome.is_err());
    }
    // New connections pass; the old one never moves again.
    address.stalled.store(false, Ordering::Relaxed);
    eventually("it votes again", SOON, async || {
        redlock.acquire(["a"], TTL).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_command_cannot_have_is_no_vote() {
    let server = Server::start().await;
    for nonsense in [raw::int(1), raw::bulk("PONG"), raw::array(&[])] {
        let fake = FakeServer::over(&server, move |command| {
            let is_set = command[0].eq_ignore_ascii_case("SET");
            is_set.then(|| nonsense.clone())
        })
        .await;
        let builder = Redlock::builder().url(fake.url()).fencing(Fencing::Off);
        let builder = builder.settings(|settings| settings.retry(Retry::none()));
        let redlock = builder.connect().await.expect("master");
        let error = redlock.acquire(["a"], TTL).await.expect_err("no grant");
        let outcomes = error.outcomes().expect("one attempt");
        let first = outcomes.iter().next().expect("first").answer();
        let is_told = matches!(first, Answer::Failed(MasterError::Unexpected(_)));
        assert!(is_told, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn masters_serve_over_resp3_too() {
    let servers = Servers::start(3).await;
    for fencing in [Fencing::default(), Fencing::Off] {
        // A machine with other work to do is not taken for a master that fails.
        let mut builder = Redlock::builder()
            .fencing(fencing)
            .settings(|settings| settings.command_timeout(5 * SECOND));
        for url in servers.urls() {
            let mut config = Config::from_url(&url).expect("url");
            config.version = RespVersion::RESP3;
            builder = builder.config(config);
        }
        let redlock = builder.connect().await.expect("masters");
        let mut lock = redlock.acquire(["a", "b"], TTL).await.expect("free");
        let busy = redlock.try_acquire(["a"], TTL).await.expect_err("held");
        assert!(busy.is_busy(), "{busy}");
        // The roll-back of that leaves a larger fence, where nothing is put back: not after the flush.
        eventually("rolled back", SOON, async || {
            redlock.background_tasks() == 0
        })
        .await;
        servers[0].flush_all().await;
        lock.extend(TTL).await.expect("held");
        eventually("healed", SOON, async || servers[0].get("a").await.is_some()).await;
        lock.release().await.expect("released");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_shows_a_password() {
    let server = Server::start_with(&["--requirepass", "s3cret"]).await;
    let right = format!("redis://:s3cret@{}", server.addr());
    let wrong = format!("redis://:wr0ng-s3cret@{}", server.addr());
    let mut texts = Vec::new();
    for url in [right, wrong] {
        let builder = Redlock::builder().url(url).settings(|settings| settings);
        texts.push(format!("{builder:?}"));
        let builder = builder.connect_timeout(SECOND);
        let redlock = builder.connect().await.expect("a client");
        match redlock.try_acquire(["a"], TTL).await {
            Ok(lock) => texts.push(format!("{lock:?}")),
            Err(error) => texts.push(format!("{error} {error:?}")),
        }
        texts.push(format!("{redlock:?}"));
    }
    for url in [
        "redis://u:s3cret@",
        "nonsense://:s3cret@h",
        "redis://:s3cret@h:no",
    ] {
        if let Err(error) = Redlock::connect([url]).await {
            texts.push(format!("{error} {error:?}"));
        }
    }
    for text in texts {
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_closes_every_connection_though_one_server_hangs() {
    let servers = Servers::start(3).await;
    let redlock = connect(servers.urls()).await;
    drop(redlock.acquire(["a"], TTL).await.expect("free"));
    servers.freeze(&[2]);
    let begun = Instant::now();
    redlock.shutdown(SECOND).await;
    assert!(begun.elapsed() < 5 * SECOND);
    servers.thaw(&[2]);
    eventually("no connection", SOON, async || {
        let mut open = 0;
        for server in &servers {
            open += server.connected_clients().await;
        }
        open == 0
    })
    .await;
    // And none comes back.
    sleep(SECOND).await;
    assert_eq!(servers[2].connected_clients().await, 0);
}
