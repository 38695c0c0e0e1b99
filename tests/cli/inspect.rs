//! `fredlock inspect`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::servers::Servers;
use crate::tool::{Running, held, output, run, tool};

async fn inspect(servers: &Servers, words: &[&str]) -> (i32, String) {
    let mut command = tool(&["inspect", "--masters", &servers.urls().join(",")]);
    command.args(words);
    let output = output(command).await;
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

async fn as_json(servers: &Servers, words: &[&str]) -> (i32, Value) {
    let (status, text) = inspect(servers, &[&["--json"], words].concat()).await;
    (
        status,
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")),
    )
}

#[expect(clippy::disallowed_methods, reason = "what fences are made from")]
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// An RFC 3339 time in UTC, as milliseconds since 1970, by `date`.
fn millis(text: &str) -> u64 {
    let date = std::process::Command::new("date")
        .args(["--utc", "--date", text, "+%s%3N"])
        .output()
        .unwrap();
    let text = String::from_utf8(date.stdout).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("{text:?}"))
}

#[tokio::test]
async fn a_held_lock_is_shown_with_its_holder_label_time_and_fence_on_every_master() {
    let servers = Servers::start(3).await;
    let words = [
        "--label",
        "web-1",
        "job",
        "--",
        "sh",
        "-c",
        "echo $FREDLOCK_FENCE; exec sleep 1000",
    ];
    let before = now_ms();
    let mut holding = Running::start(run(&servers, &words));
    let fence: u64 = holding.line().await.unwrap().parse().unwrap();
    held(&servers, "job").await;
    servers.kill(&[2]).await;
    let (status, reports) = as_json(&servers, &["job", "other"]).await;
    assert_eq!(status, 0, "{reports:#}");
    let job = &reports[0];
    assert_eq!(
        (&job["resource"], &job["verdict"], &job["label"]),
        (&json!("job"), &json!("held"), &json!("web-1"))
    );
    let left = job["for_at_least_ms"].as_u64().unwrap();
    assert!((1_000..30_000).contains(&left), "{left}");
    // Since when is in the fence, which is made from the time of day.
    let since = millis(job["held_since"].as_str().unwrap());
    assert!(
        (before..=now_ms()).contains(&since),
        "{since} after {before}: {job:#}"
    );
    assert_eq!(since, fence / 1000);
    let held = job["held_for_at_least_ms"].as_u64().unwrap();
    assert!(held <= now_ms() - before, "{held}");
    let token = servers[0].get("job").await.unwrap();
    for index in [0, 1] {
        let master = &job["masters"][index];
        assert_eq!(
            (&master["state"], &master["fence"]),
            (&json!("held"), &json!(fence)),
            "{job:#}"
        );
        assert_eq!(master["master"], servers[index].addr());
    }
    assert_eq!(job["masters"][2]["state"], "failed");
    assert!(job["masters"][2]["error"].is_string());
    assert_eq!(reports[1]["verdict"], "free");
    assert_eq!(reports[1]["held_since"], Value::Null);
    let (status, text) = inspect(&servers, &["job"]).await;
    assert_eq!(status, 0);
    for part in [
        "job: held by",
        "(web-1) for at least",
        ", held since 20",
        "Z at the latest",
        "MASTER",
        &servers[1].addr(),
        &fence.to_string(),
        "not connected",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains('\x1b'),
        "colours are for terminals: {text:?}"
    );
    assert!(
        !text.contains(&token) && !reports.to_string().contains(&token),
        "whoever has it can release the lock"
    );
    holding.signal(Signal::SIGTERM);
    assert_eq!(holding.status().await, 143);
}

#[tokio::test]
async fn a_time_that_has_not_come_by_our_clock_is_shown_without_how_long_ago_and_no_fence_shows_none()
 {
    let servers = Servers::start(1).await;
    let token = "01234567-89ab-4def-8123-456789abcdef";
    servers[0]
        .set_for("job", token, Duration::from_secs(60))
        .await;
    let (_, reports) = as_json(&servers, &["job"]).await;
    assert_eq!(reports[0]["verdict"], "held");
    assert_eq!(reports[0]["held_since"], Value::Null);
    let future = (now_ms() + 3_600_000) * 1000;
    servers[0].set("{job}:fence", &future.to_string()).await;
    let (_, reports) = as_json(&servers, &["job"]).await;
    assert_eq!(
        millis(reports[0]["held_since"].as_str().unwrap()),
        future / 1000
    );
    assert_eq!(reports[0]["held_for_at_least_ms"], Value::Null);
    // A client that is not of ours has no fence: this is that of the last one of ours.
    servers[0]
        .set_for("job", "another", Duration::from_secs(60))
        .await;
    let (_, reports) = as_json(&servers, &["job"]).await;
    assert_eq!(reports[0]["held_since"], Value::Null);
}

#[tokio::test]
async fn a_split_vote_and_too_few_masters_are_told_apart() {
    let servers = Servers::start(3).await;
    for (index, holder) in ["a", "b", "c"].iter().enumerate() {
        servers[index]
            .set_for("job", holder, Duration::from_secs(60))
            .await;
    }
    let (status, reports) = as_json(&servers, &["job"]).await;
    assert_eq!((status, &reports[0]["verdict"]), (0, &json!("split")));
    servers.kill(&[0, 1]).await;
    let (status, reports) = as_json(&servers, &["job"]).await;
    assert_eq!((status, &reports[0]["verdict"]), (69, &json!("unknown")));
}

#[tokio::test]
async fn a_name_that_no_resource_has_is_a_usage_error() {
    let servers = Servers::start(1).await;
    assert_eq!(inspect(&servers, &[""]).await.0, 64);
    assert_eq!(inspect(&servers, &[]).await.0, 64);
    // One that would steer a terminal is one, and is shown without that.
    let (status, text) = inspect(&servers, &["a\u{1b}[2Jb"]).await;
    assert_eq!(status, 0);
    assert!(text.starts_with("a?[2Jb: free"), "{text:?}");
}
