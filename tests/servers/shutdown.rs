//! Shutting down while routines run.

use std::{sync::mpsc, thread};

use fredlock::{AbortMode, AcquireError, LostReason, UsingError};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use super::clients::{KEY, LONG, SOON, carriers, client, client_of, idle, ms};
use super::support::{eventually, relay::Relay, server::Server, servers::Servers};

#[tokio::test]
async fn a_shutdown_fires_the_signal_frees_the_lock_and_ends_within_its_deadline() {
    let servers = Servers::start(5).await;
    let redlock = client(&servers, |settings| settings).await;
    let (send, started) = oneshot::channel();
    let clone = redlock.clone();
    let running = tokio::spawn(async move {
        let using = clone.using([KEY], LONG, async |signal| {
            send.send(()).unwrap();
            signal.aborted().await;
            "done"
        });
        using.await
    });
    started.await.unwrap();
    let begun = Instant::now();
    assert!(redlock.shutdown(2 * SOON).await, "{redlock:?}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // It was waited for: nothing more is on its way.
    assert_eq!(carriers(&servers, KEY).await, 0);
    assert_eq!(redlock.background_tasks(), 0);
    match running.await.unwrap() {
        Err(UsingError::Lost {
            output: Some("done"),
            reason: LostReason::ShutDown,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    for clone in [redlock.clone(), redlock.with(|settings| settings)] {
        let refused = clone.acquire([KEY], LONG).await.unwrap_err();
        assert!(matches!(refused, AcquireError::ShutDown), "{refused}");
        let refused = clone.using([KEY], LONG, async |_| unreachable!()).await;
        let refused: UsingError<()> = refused.unwrap_err();
        assert!(
            matches!(refused, UsingError::Acquire(AcquireError::ShutDown)),
            "{refused}"
        );
    }
    eventually("the connections are closed", SOON, async || {
        servers[0].connected_clients().await == 0
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_outlives_a_shutdown_says_why_it_cannot_be_released() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let lock = redlock.acquire([KEY], LONG).await.unwrap();
    assert!(redlock.shutdown(2 * SOON).await, "{redlock:?}");
    let error = lock.release().await.unwrap_err();
    assert!(
        error.to_string().contains("closed by a shutdown"),
        "{error}"
    );
}

#[tokio::test]
async fn a_shutdown_drops_routines_that_are_to_be_dropped() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| {
        settings.abort_mode(AbortMode::DropRoutine)
    })
    .await;
    let (send, started) = oneshot::channel();
    let clone = redlock.clone();
    let running = tokio::spawn(async move {
        let using = clone.using([KEY], LONG, async |_| {
            send.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        using.await
    });
    started.await.unwrap();
    assert!(redlock.shutdown(SOON).await);
    assert_eq!(carriers(&servers, KEY).await, 0);
    let result = running.await.unwrap();
    assert!(
        matches!(
            result,
            Err(UsingError::Lost {
                output: None,
                reason: LostReason::ShutDown,
                ..
            })
        ),
        "{result:?}"
    );
}

#[tokio::test]
async fn a_shutdown_says_that_a_routine_did_not_end_in_time() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let using = redlock.using([KEY], LONG, async |signal| {
        let begun = Instant::now();
        let ended = redlock.shutdown(ms(100)).await;
        assert!(signal.is_aborted());
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        ended
    });
    match using.await {
        Err(UsingError::Lost {
            output: Some(false),
            reason: LostReason::ShutDown,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
}

/// A hung master answers no goodbye while commands before it are unanswered: letting go of it takes
/// half a second, for which the caller of a shutdown with a deadline need not wait.
#[tokio::test]
async fn a_shutdown_keeps_its_deadline_while_masters_hang() {
    let servers = Servers::start(3).await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(client(&servers, |settings| settings.command_timeout(ms(50))).await);
    }
    servers.freeze(&[0, 1, 2]);
    // One of five, as the machine may have other work to do at any of them.
    let mut fastest = SOON;
    for redlock in &clients {
        assert!(redlock.try_acquire([KEY], ms(600)).await.is_err());
        let begun = Instant::now();
        assert!(!redlock.shutdown(ms(50)).await, "a roll-back is unanswered");
        fastest = fastest.min(begun.elapsed());
    }
    assert!(fastest < ms(300), "{fastest:?}");
    for redlock in &clients {
        idle(redlock).await;
    }
}

/// Its command is on its way, and its reply held back until the shutdown has begun.
#[tokio::test]
async fn an_acquisition_under_way_is_taken_back_before_a_shutdown_ends() {
    let server = Server::start().await;
    let relay = Relay::before(&server).await;
    let redlock = client_of(vec![relay.url()], |settings| settings.command_timeout(SOON)).await;
    relay.hold_replies(true);
    let clone = redlock.clone();
    let acquiring = tokio::spawn(async move { clone.acquire([KEY], LONG).await });
    eventually("the key is set", SOON, async || {
        server.get(KEY).await.is_some()
    })
    .await;
    let clone = redlock.clone();
    let ending = tokio::spawn(async move { clone.shutdown(2 * SOON).await });
    eventually("no more is given", SOON, async || {
        let refused = redlock.try_acquire(["other"], LONG);
        matches!(
            timeout(ms(10), refused).await,
            Ok(Err(AcquireError::ShutDown))
        )
    })
    .await;
    assert!(!ending.is_finished(), "an acquisition is under way");
    relay.hold_replies(false);
    let refused = acquiring.await.unwrap().unwrap_err();
    assert!(matches!(refused, AcquireError::ShutDown), "{refused}");
    assert!(ending.await.unwrap());
    assert_eq!(server.get(KEY).await, None);
}

/// Nothing extends a lock whose client's runtime is gone. The routine runs on another.
#[tokio::test]
async fn the_end_of_the_clients_runtime_fires_the_signal() {
    let servers = Servers::start(3).await;
    let urls = servers.urls();
    let (send_client, receive_client) = oneshot::channel();
    let (end, ended) = mpsc::channel();
    let runtime = thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let redlock = runtime.block_on(client_of(urls, |settings| settings));
        assert!(send_client.send(redlock).is_ok());
        // Until the test says so.
        assert!(ended.recv().is_ok());
        runtime.shutdown_background();
    });
    let redlock = receive_client.await.unwrap();
    let using = redlock.using([KEY], LONG, async |signal| {
        let token = signal.token();
        end.send(()).unwrap();
        timeout(SOON, token.cancelled()).await.expect("it fires");
        signal.aborted().await
    });
    let result = timeout(2 * SOON, using).await.expect("it ends");
    match result {
        Err(UsingError::Lost {
            output: Some(LostReason::ShutDown),
            reason: LostReason::ShutDown,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    runtime.join().unwrap();
}
