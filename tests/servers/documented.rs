//! What docs/operating.md says of servers.

use std::time::Duration;

use fredlock::{Fencing, Redlock, Retry};
use tokio::time::{sleep, timeout};

use crate::support::{eventually, server::Server, servers::Servers};

const DOCUMENT: &str = include_str!("../../docs/operating.md");
const TTL: Duration = Duration::from_secs(20);
/// It is extended after a third.
const SHORT_TTL: Duration = Duration::from_millis(300);
const LIMIT: Duration = Duration::from_secs(10);

/// The words of its `ACL SETUSER` lines, those for this server included.
async fn permissions(server: &Server) -> Vec<String> {
    let version = server.version().await;
    let number = |text: &str| text.parse::<u32>().unwrap_or_else(|_| panic!("{text}"));
    let has = |wanted: &str| {
        let (name, least) = wanted.split_once(' ').expect("a name and a version");
        let (least, _) = least.split_once('.').expect("a version");
        let (this, has) = version.split_once(' ').expect("a name and a version");
        let (has, _) = has.split_once('.').expect("a version");
        // The tested servers have the first minor version that counts, or an earlier major one.
        this.eq_ignore_ascii_case(name) && number(has) >= number(least)
    };
    let mut words = Vec::new();
    for line in DOCUMENT.lines() {
        let Some(line) = line.strip_prefix("ACL SETUSER fredlock ") else {
            continue;
        };
        let line = line.split("# Builder::").next().unwrap_or(line);
        let (line, is_for_this) = match line.split_once("# Fencing::Off, from ") {
            Some((line, wanted)) => (line, has(wanted)),
            None => (line, true),
        };
        if is_for_this {
            words.extend(line.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Every operation, in every way in which it can be called on a server; whatever comes of it.
async fn use_everything(servers: &Servers) {
    let urls: Vec<_> = servers
        .iter()
        .map(|server| format!("redis://fredlock:PASSWORD@{}", server.addr()))
        .collect();
    let ways = [
        (Fencing::default(), None),
        (Fencing::Off, None),
        (Fencing::default(), Some(TTL * 2)),
        (Fencing::Off, Some(TTL * 2)),
    ];
    for (fencing, guard) in ways {
        let builder = Redlock::builder().urls(&urls).fencing(fencing);
        let builder = builder.restart_guard(guard);
        let redlock = builder.connect().await.expect("three masters");
        let redlock = redlock.with(|settings| settings.retry(Retry::none()).command_timeout(LIMIT));
        servers[0].script_flush().await;
        if guard.is_some() {
            drop(redlock.initialise().await);
        }
        for resources in [&["invoice:1"][..], &["invoice:2", "invoice:3"]] {
            let resources = || resources.iter().copied();
            if let Ok(mut lock) = redlock.try_acquire(resources(), TTL).await {
                drop(redlock.try_acquire(resources(), TTL).await);
                drop(redlock.inspect("invoice:1").await);
                // One who waits is told of changes.
                let waiting = redlock.with(|settings| {
                    settings
                        .retry(Retry::default())
                        .wait_limit(Duration::from_millis(200))
                });
                eventually("waited", LIMIT, async || {
                    drop(waiting.acquire(resources(), TTL).await);
                    servers[0].calls("client|tracking").await > 0 || denials(servers).await > 0
                })
                .await;
                // Its roll-back leaves a fence that is larger than ours, and may be under way still.
                eventually("rolled back", LIMIT, async || {
                    redlock.background_tasks() == 0 || denials(servers).await > 0
                })
                .await;
                servers[0].flush_all().await;
                // Where that is not permitted, it is tried again as long as the lock is valid.
                drop(timeout(Duration::from_secs(1), lock.extend(TTL * 2)).await);
                eventually("put back", LIMIT, async || {
                    let keys = servers[0].keys().await;
                    resources().all(|name| keys.iter().any(|key| key == name))
                        || denials(servers).await > 0
                })
                .await;
                drop(lock.release().await);
            }
            // Extensions that all have the same ttl have a command of their own.
            let routine = async |_| {
                sleep(SHORT_TTL / 6).await;
                servers[0].flush_all().await;
                sleep(SHORT_TTL / 2).await;
            };
            drop(redlock.using(resources(), SHORT_TTL, routine).await);
            if denials(servers).await > 0 {
                return;
            }
        }
        redlock.shutdown(SHORT_TTL).await;
    }
}

/// How many commands the servers did not permit.
async fn denials(servers: &Servers) -> usize {
    let mut count = 0;
    for server in servers {
        count += server.command(&["ACL", "LOG"]).await.items().len();
    }
    count
}

async fn set_user(server: &Server, permissions: &[String]) {
    let mut command = vec!["ACL", "SETUSER", "fredlock", "reset"];
    command.extend(permissions.iter().map(String::as_str));
    assert!(server.command(&command).await.is_ok(), "{command:?}");
    server.command(&["ACL", "LOG", "RESET"]).await;
    server.command(&["SCRIPT", "FLUSH"]).await;
    server.flush_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_permissions_of_the_document_are_enough_and_each_is_needed() {
    let servers = Servers::start(3).await;
    let all = permissions(&servers[0]).await;
    assert!(!all.is_empty(), "it has no line for this server");
    for server in &servers {
        set_user(server, &all).await;
    }
    use_everything(&servers).await;
    for server in &servers {
        let log = server.command(&["ACL", "LOG"]).await;
        assert!(log.items().is_empty(), "{log:?}");
    }
    let needed = all.iter().filter(|word| word.starts_with(['+', '~']));
    for word in needed {
        let less: Vec<_> = all.iter().filter(|other| *other != word).cloned().collect();
        for server in &servers {
            set_user(server, &less).await;
        }
        // A stalled machine may lose a lock before it was used in every way.
        for _ in 0..3 {
            if denials(&servers).await == 0 {
                use_everything(&servers).await;
            }
        }
        assert!(denials(&servers).await > 0, "{word} is not needed");
    }
}
