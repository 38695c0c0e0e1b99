//! The relay does what it says: a fault that is not injected would let every test pass.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::eventually;
use super::relay::Relay;
use super::resp::Connection;
use super::server::Server;
use super::tests::{MOMENT, answered};

/// How long what must happen may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(5);

/// A server with a relay before it.
async fn relayed() -> (Server, Relay, Connection) {
    let server = Server::start().await;
    let relay = Relay::before(&server).await;
    let mut connection = Connection::open(&relay.addr()).await.expect("connection");
    assert_eq!(
        connection
            .call(&["SET", "k", "0"])
            .await
            .expect("reply")
            .text(),
        Some("OK")
    );
    (server, relay, connection)
}

#[tokio::test]
async fn relay_delays_each_way_without_limiting_how_much_is_under_way() {
    let (_server, relay, mut connection) = relayed().await;
    relay.delay(MOMENT);
    let start = Instant::now();
    for _ in 0..50 {
        connection.send(&["INCR", "k"]).await.expect("sent");
        sleep(Duration::from_millis(1)).await;
    }
    for count in 1..=50 {
        assert_eq!(connection.read().await.expect("reply").int(), Some(count));
    }
    let took = start.elapsed();
    assert!(took >= 2 * MOMENT && took < 20 * MOMENT, "{took:?}");
}

#[tokio::test]
async fn relay_drops_replies_to_commands_that_are_executed() {
    let (server, relay, mut connection) = relayed().await;
    relay.drop_replies(true);
    connection.send(&["SET", "k", "1"]).await.expect("sent");
    assert!(!answered(&mut connection).await);
    assert_eq!(
        (server.get("k").await.as_deref(), relay.replies_dropped()),
        (Some("1"), "+OK\r\n".len())
    );
    relay.drop_replies(false);
    assert_eq!(
        connection.call(&["GET", "k"]).await.expect("reply").text(),
        Some("1")
    );
}

#[tokio::test]
async fn relay_holds_requests_and_replies_until_they_are_let_go() {
    let (server, relay, mut connection) = relayed().await;
    relay.hold_requests(true);
    connection.send(&["SET", "k", "1"]).await.expect("sent");
    assert!(!answered(&mut connection).await);
    assert_eq!(server.get("k").await.as_deref(), Some("0"));
    assert!(relay.requests_held() > 0);
    relay.hold_replies(true);
    relay.hold_requests(false);
    assert!(!answered(&mut connection).await);
    assert_eq!(server.get("k").await.as_deref(), Some("1"));
    relay.hold_replies(false);
    assert!(connection.read().await.expect("reply").is_ok());
}

#[tokio::test]
async fn relay_cuts_present_connections_and_forgets_what_it_held() {
    let (server, relay, mut connection) = relayed().await;
    relay.hold_requests(true);
    connection.send(&["SET", "k", "1"]).await.expect("sent");
    eventually("the request is held", LIMIT, async || {
        relay.requests_held() > 0
    })
    .await;
    relay.cut().await;
    relay.hold_requests(false);
    let error = connection.read().await.expect_err("cut");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let mut second = Connection::open(&relay.addr()).await.expect("connection");
    assert_eq!(
        second.call(&["GET", "k"]).await.expect("reply").text(),
        Some("0")
    );
    assert_eq!(
        (
            relay.connections(),
            relay.accepted(),
            server.connected_clients().await
        ),
        (1, 2, 1)
    );
    relay.refuse(true).await;
    assert!(second.read().await.is_err());
    let mut third = Connection::open(&relay.addr()).await.expect("connection");
    assert!(third.call(&["PING"]).await.is_err());
    relay.refuse(false).await;
    let mut fourth = Connection::open(&relay.addr()).await.expect("connection");
    assert!(fourth.call(&["PING"]).await.is_ok());
}

#[tokio::test]
async fn relay_cuts_on_the_next_reply_after_the_command_was_executed() {
    let (server, relay, mut connection) = relayed().await;
    relay.cut_on_next_reply();
    assert!(connection.call(&["SET", "k", "1"]).await.is_err());
    assert_eq!(server.get("k").await.as_deref(), Some("1"));
    let mut second = Connection::open(&relay.addr()).await.expect("connection");
    assert!(second.call(&["PING"]).await.is_ok(), "only once");
}

#[tokio::test]
async fn detached_requests_reach_the_server_long_after_their_clients_have_gone() {
    let (server, relay, mut cut_off) = relayed().await;
    let mut gone = Connection::open(&relay.addr()).await.expect("connection");
    gone.call(&["PING"]).await.expect("reply");
    relay.hold_requests(true);
    cut_off.send(&["SET", "k", "late"]).await.expect("sent");
    gone.send(&["SET", "other", "late"]).await.expect("sent");
    drop(gone);
    relay.detach().await;
    relay.hold_requests(false);
    assert!(cut_off.read().await.is_err(), "the client's side is closed");
    assert_eq!(relay.connections(), 0);
    let mut next = Connection::open(&relay.addr()).await.expect("connection");
    assert!(
        next.call(&["SET", "k", "next"])
            .await
            .expect("reply")
            .is_ok()
    );
    sleep(MOMENT).await;
    assert_eq!(
        (server.get("k").await.as_deref(), server.get("other").await),
        (Some("next"), None)
    );
    assert!(relay.release_detached().await > 0);
    assert_eq!(
        (
            server.get("k").await.as_deref(),
            server.get("other").await.as_deref()
        ),
        (Some("late"), Some("late"))
    );
    assert_eq!(relay.release_detached().await, 0);
    assert!(
        next.call(&["PING"]).await.is_ok(),
        "connections made since are left alone"
    );
}
