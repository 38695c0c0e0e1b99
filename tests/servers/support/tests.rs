//! The servers, real and fake, do what the harness says: a fault that is not injected would let
//! every test pass.

use std::time::Duration;

use tokio::time::timeout;

use super::eventually;
use super::fake::{FakeServer, raw};
use super::resp::{Connection, Resp};
use super::server::Server;
use super::servers::Servers;

/// Longer than anything on loopback takes, and short enough to wait for in vain.
pub(super) const MOMENT: Duration = Duration::from_millis(100);

/// Whether a reply comes within a moment.
pub(super) async fn answered(connection: &mut Connection) -> bool {
    timeout(MOMENT, connection.read()).await.is_ok()
}

#[tokio::test]
async fn frozen_server_executes_nothing_until_it_is_thawed() {
    let servers = Servers::start(2).await;
    servers[1].set("k", "1").await;
    let mut connection = servers[1].connect().await.expect("connection");
    servers.freeze(&[1]);
    connection.send(&["SET", "k", "2"]).await.expect("sent");
    assert!(!answered(&mut connection).await);
    assert_eq!(servers.values_of("k").await, [None, None]);
    servers.thaw(&[1]);
    assert!(connection.read().await.expect("reply").is_ok());
    assert_eq!(servers.values_of("k").await, [None, Some("2".to_owned())]);
}

#[tokio::test]
async fn frozen_server_that_is_killed_never_executes_what_was_sent_to_it() {
    let server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).await;
    server.set("kept", "1").await;
    let mut connection = server.connect().await.expect("connection");
    server.freeze();
    connection.send(&["SET", "late", "1"]).await.expect("sent");
    server.restart().await;
    assert_eq!(server.keys().await, ["kept"]);
}

#[tokio::test]
async fn restarted_server_is_empty_and_another_process_on_the_same_port() {
    let server = Server::start().await;
    server.set("k", "1").await;
    let (pid, url) = (server.pid(), server.url());
    server.kill().await;
    assert!(server.try_command(&["PING"]).await.is_err());
    server.restart_with(&["--maxmemory", "1mb"]).await;
    assert_eq!((server.get("k").await, server.url()), (None, url));
    assert_ne!(server.pid(), pid);
    assert_eq!(
        server
            .command(&["CONFIG", "GET", "maxmemory"])
            .await
            .items()[1]
            .text(),
        Some("1048576")
    );
}

#[tokio::test]
async fn counts_leave_out_the_counting() {
    let server = Server::start_with(&["--requirepass", "secret"]).await;
    let before = server.commands_processed().await;
    assert_eq!(server.commands_processed().await, before);
    let mut connection = server.connect().await.expect("connection");
    assert_eq!(
        server.commands_processed().await,
        before + 1,
        "the connection's AUTH"
    );
    connection
        .call(&["EVAL", "return 1", "0"])
        .await
        .expect("reply");
    assert_eq!(server.commands_processed().await, before + 2);
    assert_eq!(
        (server.calls("eval").await, server.calls("evalsha").await),
        (1, 0)
    );
    // The connections that asked may be closing yet.
    let limit = Duration::from_secs(5);
    let clients = async || server.connected_clients().await;
    eventually("one is left", limit, async || clients().await == 1).await;
    assert_eq!(server.kill_clients().await, 1);
    eventually("none is left", limit, async || clients().await == 0).await;
}

#[tokio::test]
async fn fake_answers_for_the_real_server_what_it_is_told_to_in_order() {
    let server = Server::start().await;
    let moved =
        |command: &[String]| (command[0] == "GET").then(|| raw::error("MOVED 1 127.0.0.1:1"));
    let fake = FakeServer::over(&server, moved).await;
    let mut connection = Connection::open(&fake.addr()).await.expect("connection");
    for command in [
        &["HELLO", "3"][..],
        &["SET", "k", "1"],
        &["GET", "k"],
        &["PTTL", "k"],
    ] {
        connection.send(command).await.expect("sent");
    }
    assert!(!connection.read().await.expect("reply").items().is_empty());
    assert!(connection.read().await.expect("reply").is_ok());
    assert_eq!(
        connection.read().await.expect("reply").error(),
        Some("MOVED 1 127.0.0.1:1")
    );
    assert_eq!(connection.read().await.expect("reply"), Resp::Int(-1));
    assert_eq!(fake.received()[2], ["GET", "k"]);
    assert_eq!(server.get("k").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn fake_without_a_real_server_answers_what_clients_ask_at_connecting() {
    let fake = FakeServer::start(|command| (command[0] == "SET").then(raw::silence)).await;
    let mut connection = Connection::open(&fake.addr()).await.expect("connection");
    assert_eq!(
        connection.call(&["PING"]).await.expect("reply").text(),
        Some("PONG")
    );
    assert_eq!(
        connection
            .call(&["HELLO", "3"])
            .await
            .expect("reply")
            .items()
            .len(),
        12
    );
    assert_eq!(
        connection
            .call(&["CLIENT", "ID"])
            .await
            .expect("reply")
            .int(),
        Some(1)
    );
    assert!(
        connection
            .call(&["INFO"])
            .await
            .expect("reply")
            .text()
            .expect("text")
            .contains("role:master")
    );
    assert!(
        connection
            .call(&["GET", "k"])
            .await
            .expect("reply")
            .error()
            .is_some()
    );
    connection.send(&["SET", "k", "1"]).await.expect("sent");
    assert!(!answered(&mut connection).await);
}
