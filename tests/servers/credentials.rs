//! Passwords, users and databases.

use fredlock::{Fencing, Redlock};

use crate::support::{
    eventually,
    fake::{FakeServer, raw},
    server::Server,
    servers::Servers,
};
use crate::voters::{AT_ONCE, LONG, both, client, gone, idle};

/// A URL of the server with what goes before the host and after the port.
fn url(server: &Server, credentials: &str, path: &str) -> String {
    format!("redis://{credentials}127.0.0.1:{}{path}", server.port())
}

/// Waits until an acquisition on the only master gives an error with this in it.
async fn says(redlock: &Redlock, what: &str) {
    // A command that is sent while the loss of the connection is being noticed waits for its timeout.
    let redlock = redlock.with(|settings| settings.command_timeout(AT_ONCE / 10));
    eventually(what, AT_ONCE, async || {
        let refused = redlock.try_acquire(["k"], LONG).await;
        let text = refused.expect_err("not acquired").to_string();
        println!("{text}");
        text.contains(what)
    })
    .await;
}

/// Acquires and releases.
async fn works(redlock: &Redlock) {
    let lock = redlock.try_acquire(["k"], LONG).await.expect("acquired");
    lock.release().await.expect("released");
}

#[tokio::test]
async fn password_of_the_url_is_used_and_shown_nowhere() {
    let servers = Servers::start_with(3, &["--requirepass", "geheim"]).await;
    for fencing in both() {
        let urls = servers.iter().map(|server| url(server, ":geheim@", ""));
        let redlock = client(urls, fencing).await;
        let lock = redlock.try_acquire(["k"], LONG).await.expect("acquired");
        let shown = format!("{redlock:?} {lock:?} {}", lock.outcomes());
        assert!(!shown.contains("geheim"), "{shown}");
        lock.release().await.expect("released");
        idle(&redlock).await;
        gone(&servers, "k").await;
    }
}

#[tokio::test]
async fn wrong_password_is_named_and_the_client_recovers_once_the_server_has_it() {
    let server = Server::start_with(&["--requirepass", "theirs"]).await;
    let redlock = client([url(&server, ":ours@", "")], Fencing::default()).await;
    says(&redlock, "WRONGPASS").await;
    // By ACL, as the harness goes on using the password of the server's arguments.
    let reply = server
        .command(&["ACL", "SETUSER", "default", ">ours"])
        .await;
    assert!(reply.is_ok(), "{reply:?}");
    eventually("it takes part", AT_ONCE * 2, async || {
        redlock.try_acquire(["k"], LONG).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn missing_password_is_named() {
    let server = Server::start_with(&["--requirepass", "theirs"]).await;
    let redlock = client([server.url()], Fencing::default()).await;
    says(&redlock, "NOAUTH").await;
}

#[tokio::test]
async fn password_that_is_changed_counts_from_the_next_connection_on() {
    let server = Server::start_with(&["--requirepass", "ours"]).await;
    // The harness's own password changes too: this connection was let in before.
    let mut admin = server.connect().await.expect("connection");
    let mut change = async |password: &str| {
        let set = ["ACL", "SETUSER", "default", "resetpass", password];
        assert!(admin.call(&set).await.expect("reply").is_ok());
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        admin.call(&kill).await.expect("reply");
    };
    let redlock = client([url(&server, ":ours@", "")], Fencing::default()).await;
    works(&redlock).await;
    change(">theirs").await;
    says(&redlock, "WRONGPASS").await;
    change(">ours").await;
    works_again(&redlock).await;
}

/// Waits until an acquisition succeeds.
async fn works_again(redlock: &Redlock) {
    let redlock = redlock.with(|settings| settings.command_timeout(AT_ONCE / 10));
    eventually("it takes part again", AT_ONCE * 2, async || {
        redlock.try_acquire(["k"], LONG).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn user_needs_no_more_than_the_commands_of_a_lock() {
    let server = Server::start().await;
    let commands =
        "+ping +client +info +script|load +evalsha +eval +get +set +del +pttl +pexpire +exists";
    for fencing in both() {
        server.command(&["ACL", "DELUSER", "locker"]).await;
        let mut command = vec!["ACL", "SETUSER", "locker", "on", ">geheim", "~*"];
        command.extend(commands.split(' '));
        let reply = server.command(&command).await;
        assert!(reply.is_ok(), "{reply:?}");
        let redlock = client([url(&server, "locker:geheim@", "")], fencing).await;
        let mut lock = redlock.try_acquire(["k"], LONG).await.expect("acquired");
        lock.extend(LONG).await.expect("extended");
        lock.release().await.expect("released");
    }
}

#[tokio::test]
async fn release_is_done_by_script_where_the_native_command_is_not_permitted() {
    let server = Server::start().await;
    let info = server.command(&["INFO"]).await;
    let info = info.text().expect("text").replace("redis_version:", "was:");
    let info = format!("{info}\r\nredis_version:8.4.0\r\n");
    let fake = FakeServer::over(&server, move |command| match &*command[0] {
        "INFO" if command.len() == 1 => Some(raw::bulk(&info)),
        name @ ("DELEX" | "DELIFEQ") => Some(raw::error(&format!(
            "NOPERM User locker has no permissions to run the '{name}' command"
        ))),
        _ => None,
    })
    .await;
    let redlock = client([fake.url()], Fencing::Off).await;
    works(&redlock).await;
    works(&redlock).await;
    assert_eq!(server.get("k").await, None);
    let asked = fake.received();
    let refused = asked.iter().filter(|command| command[0].starts_with("DEL"));
    assert_eq!(refused.count(), 1, "asked once, and never again");
}

#[tokio::test]
async fn user_that_may_not_ask_who_the_server_is_gets_no_vote_and_the_permission_is_named() {
    let server = Server::start().await;
    let reply = server
        .command(&[
            "ACL", "SETUSER", "locker", "on", ">geheim", "~*", "+@all", "-info",
        ])
        .await;
    assert!(reply.is_ok(), "{reply:?}");
    let redlock = client([url(&server, "locker:geheim@", "")], Fencing::default()).await;
    says(&redlock, "NOPERM").await;
    says(&redlock, "info").await;
    server.command(&["ACL", "SETUSER", "locker", "+info"]).await;
    works_again(&redlock).await;
}

#[tokio::test]
async fn database_of_the_url_has_the_keys_and_is_part_of_the_masters_name() {
    let servers = Servers::start(3).await;
    for fencing in both() {
        let urls = servers.iter().map(|server| url(server, "", "/3"));
        let redlock = client(urls, fencing).await;
        let lock = redlock.try_acquire(["k"], LONG).await.expect("acquired");
        idle(&redlock).await;
        let text = lock.outcomes().to_string();
        for server in &servers {
            assert_eq!(server.get("k").await, None, "in database 0");
            let mut connection = server.connect().await.expect("connection");
            connection.call(&["SELECT", "3"]).await.expect("selected");
            let found = connection.call(&["GET", "k"]).await.expect("reply");
            assert_eq!(found.text(), Some(&*lock.token().reveal()));
            assert!(text.contains(&format!("{}/3 ", server.addr())), "{text}");
        }
        // Another database is another lock.
        let elsewhere = client(servers.urls(), fencing).await;
        works(&elsewhere).await;
        lock.release().await.expect("released");
    }
}

#[tokio::test]
async fn database_that_the_server_does_not_have_is_named() {
    let server = Server::start().await;
    let redlock = client([url(&server, "", "/99")], Fencing::default()).await;
    says(&redlock, "DB index is out of range").await;
}
