//! Routines that block their thread.

use std::{thread, time::Duration};

use fredlock::{LostReason, Redlock, UsingError};
use tokio::{
    runtime::Builder,
    sync::oneshot,
    time::{Instant, sleep},
};

use super::clients::{KEY, client, client_of, ms};
use super::steady::steadily;
use super::support::{resp::Connection, servers::Servers};

/// Blocks the thread, as a computation would, or a call that is not async.
#[expect(clippy::disallowed_methods, reason = "blocking is what is tested")]
fn block(time: Duration) {
    thread::sleep(time);
}

#[tokio::test(flavor = "current_thread")]
async fn the_first_look_after_the_only_thread_was_blocked_says_lost() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let ttl = ms(100);
    let result = redlock
        .using([KEY], ttl, async |signal| {
            let token = signal.token();
            block(2 * ttl);
            // No await since: no timer can have run.
            assert_eq!(signal.remaining(), Duration::ZERO);
            let seen = signal.check();
            assert!(matches!(seen, Err(LostReason::Expired { .. })), "{seen:?}");
            assert!(signal.is_aborted() && token.is_cancelled());
            "done all the same"
        })
        .await;
    match result {
        Err(UsingError::Lost {
            output: Some("done all the same"),
            reason: LostReason::Expired { .. },
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_routine_that_never_looks_is_told_of_the_loss_by_its_result() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let ttl = ms(100);
    let result = redlock.using([KEY], ttl, async |_| block(2 * ttl)).await;
    assert!(
        matches!(
            result,
            Err(UsingError::Lost {
                output: Some(()),
                ..
            })
        ),
        "{result:?}"
    );
}

/// The client was built on a runtime that its own thread blocks, so nothing extends the lock and no
/// task of the client can say so. The routine waits on another.
#[tokio::test]
async fn a_waiter_is_woken_in_time_though_the_clients_own_runtime_is_blocked() {
    steadily(async || {
        let servers = Servers::start(3).await;
        let urls = servers.urls();
        let (ttl, blocked) = (ms(500), ms(2_000));
        let (send_client, receive_client) = oneshot::channel();
        let (send_now, now) = oneshot::channel();
        let (send_end, end) = oneshot::channel::<()>();
        let runtime = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("runtime").block_on(async move {
                let redlock = client_of(urls, |settings| settings).await;
                assert!(send_client.send(redlock).is_ok());
                assert!(now.await.is_ok());
                block(blocked);
                assert!(end.await.is_ok());
            });
        });
        let redlock = receive_client.await.expect("client");
        let begun = Instant::now();
        let using = redlock.using([KEY], ttl, async |signal| {
            assert!(send_now.send(()).is_ok());
            let reason = signal.aborted().await;
            assert!(matches!(reason, LostReason::Expired { .. }), "{reason}");
            begun.elapsed()
        });
        match using.await {
            Err(UsingError::Lost {
                output: Some(fired),
                ..
            }) => assert!(fired < ms(1_500), "{fired:?}"),
            other => panic!("{other:?}"),
        }
        assert!(send_end.send(()).is_ok());
        runtime.join().expect("no panic");
    })
    .await;
}

/// The time to live of the locks that must not be lost, long enough for a machine that has twenty
/// runtimes to run at once.
const TTL: Duration = ms(1_000);

/// What a routine does before it blocks.
#[derive(Debug, Clone, Copy)]
enum First {
    Nothing,
    Pause,
    Command,
}

impl First {
    async fn run(self, addr: &str) {
        match self {
            Self::Nothing => {}
            Self::Pause => sleep(ms(20)).await,
            Self::Command => {
                let mut connection = Connection::open(addr).await.expect("connection");
                connection.call(&["PING"]).await.expect("reply");
            }
        }
    }
}

/// Twenty routines, each in a runtime of its own with two worker threads of which it blocks one for
/// two ttls: what was lost.
async fn lost_of_twenty(servers: &Servers, first: First) -> Vec<String> {
    let mut threads = Vec::new();
    for number in 0..20 {
        let (urls, addr) = (servers.urls(), servers[0].addr());
        threads.push(tokio::task::spawn_blocking(move || {
            let mut runtime = Builder::new_multi_thread();
            let runtime = runtime.worker_threads(2).enable_all().build();
            runtime.expect("runtime").block_on(async move {
                let redlock = client_of(urls, |settings| settings).await;
                let using = async move { using(&redlock, number, first, &addr).await };
                // On a worker: the thread of `block_on` is none.
                tokio::spawn(using).await.expect("no panic").err()
            })
        }));
    }
    let mut lost = Vec::new();
    for thread in threads {
        lost.extend(thread.await.expect("no panic"));
    }
    lost
}

async fn using(redlock: &Redlock, number: u32, first: First, addr: &str) -> Result<(), String> {
    let using = redlock.using([format!("{KEY}-{number}")], TTL, async |signal| {
        first.run(addr).await;
        block(2 * TTL);
        signal.check()
    });
    let checked = using.await.map_err(|error| error.to_string())?;
    checked.map_err(|reason| reason.to_string())
}

const NONE: [String; 0] = [];

#[tokio::test]
async fn blocking_one_of_two_threads_from_the_start_loses_nothing() {
    steadily(async || {
        let servers = Servers::start(3).await;
        assert_eq!(lost_of_twenty(&servers, First::Nothing).await, NONE);
    })
    .await;
}

#[tokio::test]
async fn blocking_one_of_two_threads_with_replies_outstanding_loses_nothing() {
    steadily(async || {
        let servers = Servers::start(5).await;
        servers.freeze(&[1, 3]);
        assert_eq!(lost_of_twenty(&servers, First::Nothing).await, NONE);
    })
    .await;
}

/// The thread that saw the timer fire is then the one that looked at all timers and sockets.
#[tokio::test]
async fn blocking_one_of_two_threads_after_a_pause_loses_nothing() {
    steadily(async || {
        let servers = Servers::start(3).await;
        assert_eq!(lost_of_twenty(&servers, First::Pause).await, NONE);
    })
    .await;
}

#[tokio::test]
async fn blocking_one_of_two_threads_after_a_reply_loses_nothing() {
    steadily(async || {
        let servers = Servers::start(3).await;
        assert_eq!(lost_of_twenty(&servers, First::Command).await, NONE);
    })
    .await;
}
