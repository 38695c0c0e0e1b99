//! Without fencing, a master does by a command of its own what else takes a script.

use std::time::Duration;

use fredlock::{Fencing, Redlock};

use crate::support::{
    eventually,
    fake::{FakeServer, raw},
    server::Server,
};

const TTL: Duration = Duration::from_secs(20);

/// One master is a quorum of one: all its commands are ours.
async fn client(url: String) -> Redlock {
    let settings = |settings: fredlock::Settings| settings.command_timeout(Duration::from_secs(5));
    Redlock::builder()
        .url(url)
        .fencing(Fencing::Off)
        .settings(settings)
        .connect()
        .await
        .unwrap()
}

/// Which compare-and-delete the server has, and whether it can set a key if its value is equal.
async fn abilities(server: &Server) -> (Option<&'static str>, bool) {
    let version = server.version().await;
    let (name, number) = version.split_once(' ').unwrap();
    let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap());
    let number = (parts.next().unwrap(), parts.next().unwrap());
    match name {
        "valkey" => ((number >= (9, 0)).then_some("delifeq"), number >= (8, 1)),
        _ => ((number >= (8, 4)).then_some("delex"), number >= (8, 4)),
    }
}

#[tokio::test]
async fn native_commands_are_used_exactly_where_the_server_has_them() {
    let server = Server::start().await;
    let (delete, set_ifeq) = abilities(&server).await;
    let client = client(server.url()).await;

    client
        .acquire(["a"], TTL)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    assert_eq!(server.calls("set").await, 1, "acquired without a script");
    assert_eq!(server.calls(delete.unwrap_or("evalsha")).await, 1);
    assert_eq!(server.calls("evalsha").await, u64::from(delete.is_none()));
    assert_eq!(server.get("a").await, None);

    let often = client.with(|settings| settings.extension_threshold(Duration::from_millis(500)));
    let before = server.calls("evalsha").await;
    let renewed = async |_signal| {
        tokio::time::sleep(Duration::from_millis(1_300)).await;
    };
    often
        .using(["a"], Duration::from_secs(1), renewed)
        .await
        .unwrap();
    let scripts = server.calls("evalsha").await - before - u64::from(delete.is_none());
    let renewals = if set_ifeq {
        server.calls("set").await - 2
    } else {
        scripts
    };
    assert!(renewals >= 1, "it was renewed");
    assert_eq!(scripts > 0, !set_ifeq);
}

#[tokio::test]
async fn an_explicit_extension_is_never_by_a_command_that_could_shorten() {
    let server = Server::start().await;
    let mut lock = client(server.url())
        .await
        .acquire(["a"], TTL)
        .await
        .unwrap();
    lock.extend(TTL / 2).await.unwrap();
    assert_eq!(server.calls("set").await, 1);
    assert!(server.pttl("a").await > 15_000);
}

/// A proxy, say, that shows another version than it lets through.
#[tokio::test]
async fn a_server_that_does_not_know_a_native_command_is_served_by_scripts_for_good() {
    let server = Server::start().await;
    let info = "redis_version:8.6.0\r\nrun_id:0123456789abcdef\r\nrole:master\r\n";
    let answer = move |command: &[String]| match command[0].as_str() {
        "INFO" => Some(raw::bulk(info)),
        "DELEX" => Some(raw::error(
            "ERR unknown command 'DELEX', with args beginning with: 'a'",
        )),
        _ => None,
    };
    let fake = FakeServer::over(&server, answer).await;
    let client = client(fake.url()).await;
    for _ in 0..3 {
        client
            .acquire(["a"], TTL)
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        eventually("it is free", TTL / 4, || async {
            server.get("a").await.is_none()
        })
        .await;
    }
    let asked = fake
        .received()
        .iter()
        .filter(|command| command[0] == "DELEX")
        .count();
    assert_eq!(asked, 1);
}
