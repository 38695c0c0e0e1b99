//! The examples of a service's life, run as people run them.

use std::{path::PathBuf, process::Stdio, time::Duration};

use fredlock::{OwnerLabel, Redlock, UsingError};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    sync::Notify,
    time::{Instant, timeout},
};

use crate::support::servers::Servers;
use crate::{LIMIT, settled};

#[path = "../../examples/leader/election.rs"]
mod election;

use election::Election;

/// Cargo puts examples beside the directory of tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.set_file_name("examples");
    path.push(name);
    assert!(
        path.exists(),
        "{} is missing: cargo build --all-features --examples",
        path.display()
    );
    path
}

/// Sends SIGTERM to the service once it works, and `before` was done; gives its status, its lines, and
/// how long it took.
async fn terminated(
    servers: &Servers,
    words: &[&str],
    before: impl Fn(),
) -> (i32, Vec<String>, Duration) {
    let mut process = Command::new(example("service"))
        .args(words)
        .env("FREDLOCK_MASTERS", servers.urls().join(","))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
    let (mut lines, mut begun, mut told) = (Vec::new(), 0, None);
    while let Some(line) = timeout(LIMIT, output.next_line()).await.unwrap().unwrap() {
        begun += usize::from(line.contains("begins with fence"));
        lines.push(line);
        if begun == 2 && told.is_none() {
            before();
            let id = i32::try_from(process.id().unwrap()).unwrap();
            kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
            told = Some(Instant::now());
        }
    }
    let status = timeout(LIMIT, process.wait()).await.unwrap().unwrap();
    let took = told.expect("both routines have begun").elapsed();
    (status.code().unwrap(), lines, took)
}

#[tokio::test]
async fn a_service_that_is_terminated_finishes_its_steps_releases_and_ends_in_time() {
    let servers = Servers::start(3).await;
    let (status, lines, _) = terminated(&servers, &[], || {}).await;
    assert_eq!(status, 0, "{lines:#?}");
    let has = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(
        has("ready, 3 of 3") && has("SIGTERM") && has("all had ended: true"),
        "{lines:#?}"
    );
    for queue in ["invoices", "reminders"] {
        assert!(has(&format!("{queue}: stopped after")), "{lines:#?}");
        assert!(has(&format!("{queue}: ended")), "{lines:#?}");
        assert_eq!(servers.values_of(queue).await, [None, None, None]);
    }
}

#[tokio::test]
async fn a_service_with_a_routine_that_does_not_heed_its_signal_ends_at_the_deadline() {
    let servers = Servers::start(1).await;
    let (status, lines, took) = terminated(&servers, &["--stubborn"], || {}).await;
    assert_eq!(status, 1, "{lines:#?}");
    assert!(took >= Duration::from_millis(1900), "{took:?}");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("all had ended: false")),
        "{lines:#?}"
    );
    // Never released while the routine may still be writing.
    assert!(servers[0].get("invoices").await.is_some());
}

/// Far beyond the deadline of the example, which is two seconds, and before anything else could end it:
/// the ttl of its locks is ten.
const DEADLINE_MISSED: Duration = Duration::from_secs(7);

#[tokio::test]
async fn a_service_that_is_terminated_while_a_majority_hangs_ends_at_the_deadline() {
    tokio::join!(
        ends_while_a_majority_hangs(&[]),
        ends_while_a_majority_hangs(&["--stubborn"])
    );
}

async fn ends_while_a_majority_hangs(words: &[&str]) {
    let servers = Servers::start(3).await;
    let (status, lines, took) = terminated(&servers, words, || servers.freeze(&[0, 1])).await;
    assert!(took < DEADLINE_MISSED, "{took:?}: {lines:#?}");
    // What could not be released on two of three is left to its ttl, and the service says so.
    assert_eq!(status, 1, "{lines:#?}");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("all had ended: false")),
        "{lines:#?}"
    );
    if words.is_empty() {
        for queue in ["invoices", "reminders"] {
            let stopped = format!("{queue}: stopped after");
            assert!(
                lines.iter().any(|line| line.contains(&stopped)),
                "{lines:#?}"
            );
        }
    }
}

/// Longer than any test: no term ends by itself.
const TTL: Duration = Duration::from_secs(60);

fn candidate(redlock: &Redlock, name: &str) -> Election {
    Election::new(redlock, "election", OwnerLabel::new(name).unwrap(), TTL)
}

#[tokio::test]
async fn of_two_candidates_one_leads_and_the_other_follows_when_it_resigns_with_a_larger_term() {
    let servers = Servers::start(3).await;
    let redlock = Redlock::connect(servers.urls()).await.unwrap();
    let redlock = redlock.with(|settings| settings.command_timeout(Duration::from_secs(2)));
    let (first, second) = (candidate(&redlock, "a"), candidate(&redlock, "b"));
    let (elected, resign) = (Notify::new(), Notify::new());
    assert_eq!(second.leader().await.unwrap(), None);
    let leading = first.campaign(async |term| {
        elected.notify_one();
        resign.notified().await;
        assert!(!term.is_over());
        term.number()
    });
    let following = async {
        elected.notified().await;
        assert_eq!(second.leader().await.unwrap().as_deref(), Some("a"));
        let campaign = second.campaign(async |term| {
            let leader = first.successor(Some("a"), Duration::from_millis(10)).await;
            assert_eq!(leader.unwrap(), "b");
            term.number()
        });
        let resigning = async {
            // It stands in the queue by then, or comes to it later: either way it follows.
            resign.notify_one();
        };
        tokio::join!(campaign, resigning).0
    };
    let (one, two) = timeout(LIMIT, async { tokio::join!(leading, following) })
        .await
        .unwrap();
    assert!(two.unwrap() > one.unwrap());
    settled(&redlock).await;
    assert_eq!(first.leader().await.unwrap(), None);
}

#[tokio::test]
async fn a_leader_is_told_when_it_is_deposed() {
    let servers = Servers::start(3).await;
    let redlock = Redlock::connect(servers.urls()).await.unwrap();
    let hasty = redlock.with(|settings| settings.command_timeout(Duration::from_secs(2)));
    let election = Election::new(
        &hasty,
        "election",
        OwnerLabel::new("a").unwrap(),
        Duration::from_secs(2),
    );
    let result = timeout(
        LIMIT,
        election.campaign(async |term| {
            for server in &servers {
                server.del("election").await;
            }
            timeout(LIMIT, term.over()).await.expect("it is told");
            term.is_over()
        }),
    );
    let result = result.await.unwrap();
    assert!(
        matches!(
            result,
            Err(UsingError::Lost {
                output: Some(true),
                ..
            })
        ),
        "{result:?}"
    );
}
