//! `fredlock inspect`.

use std::time::Duration;

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
    let (status, text) = inspect(&servers, &["job"]).await;
    assert_eq!(status, 0);
    for part in [
        "job: held by",
        "(web-1) for at least",
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
}
