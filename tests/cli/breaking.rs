//! `fredlock break`.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::shell::Shell;
use crate::support::servers::Servers;
use crate::tool::{Running, eventually, freed, held, outcome, output, run, tool};

const GUARD_MARKER: &str = "fredlock:guard:marker";
const GUARD_QUARANTINE: &str = "fredlock:guard:quarantine";

/// As the holder sends it.
const EXTEND: &str = include_str!("../../src/master/extend.lua");

/// `fredlock break`, with the masters, and time for them on a busy machine.
fn breaking(servers: &Servers, words: &[&str]) -> Command {
    let mut command = tool(&["break"]);
    command
        .args(words)
        .env("FREDLOCK_MASTERS", servers.urls().join(","))
        .env("FREDLOCK_COMMAND_TIMEOUT", "2s");
    command
}

async fn as_json(command: Command) -> (i32, Value) {
    let output = output(command).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let status = output.status.code().unwrap();
    (
        status,
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")),
    )
}

/// What stands under the fence key of `job`.
async fn fence(servers: &Servers, index: usize) -> u64 {
    let text = servers[index].get("{job}:fence").await;
    text.map_or(0, |text| text.parse().unwrap())
}

/// A holder with the label `web-1`, whose command writes its fence and runs on.
async fn holder(servers: &Servers, ttl: &str) -> (Running, u64) {
    let words = ["--ttl", ttl, "--label", "web-1", "job", "--", "sh", "-c"];
    let script = "echo $FREDLOCK_FENCE; exec sleep 1000";
    let mut running = Running::start(run(servers, &[&words[..], &[script]].concat()));
    let fence = running.line().await.unwrap().parse().unwrap();
    (running, fence)
}

fn results(report: &Value) -> Vec<&str> {
    let masters = report["masters"].as_array().unwrap();
    masters
        .iter()
        .map(|master| master["result"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_broken_lock_is_gone_its_fence_is_passed_and_its_holder_loses_it() {
    let servers = Servers::start(3).await;
    let (mut holding, theirs) = holder(&servers, "9s").await;
    held(&servers, "job").await;
    let (status, report) = as_json(breaking(&servers, &["--yes", "--json", "job"])).await;
    assert_eq!((status, &report["status"]), (0, &json!("broken")));
    assert_eq!(results(&report), ["deleted"; 3], "{report:#}");
    let before = &report["before"];
    assert_eq!(
        (&before["verdict"], &before["label"]),
        (&json!("held"), &json!("web-1"))
    );
    let left = report["fence"].as_u64().unwrap();
    assert!(left > theirs, "{left} after {theirs}");
    for index in 0..3 {
        assert_eq!(servers[index].get("job").await, None);
        assert_eq!(fence(&servers, index).await, left);
        // As long as that of a holder, or clocks that are apart could fall behind it.
        let lives = servers[index].pttl("{job}:fence").await;
        assert!((590_000..610_000).contains(&lives), "{lives}");
    }
    // It learns of it by its next extension, and revives nothing.
    assert_eq!(holding.rest().await, [""; 0]);
    assert_eq!(holding.status().await, 76);
    freed(&servers, "job").await;
    // The next holder's fence is larger than what was left.
    let next = run(
        &servers,
        &["-n", "job", "--", "sh", "-c", "echo $FREDLOCK_FENCE"],
    );
    let next = String::from_utf8(output(next).await.stdout).unwrap();
    let next: u64 = next.trim().parse().unwrap();
    assert!(next > left, "{next} after {left}");
}

#[tokio::test]
async fn with_a_minority_down_and_one_that_comes_back_no_late_extension_revives_it() {
    let servers = Servers::start(5).await;
    let (mut holding, theirs) = holder(&servers, "30s").await;
    held(&servers, "job").await;
    // Neither is told of the break: one keeps the key, one comes back without.
    servers[3].freeze();
    servers[4].kill().await;
    let (status, report) = as_json(breaking(&servers, &["-y", "--json", "job"])).await;
    assert_eq!((status, &report["status"]), (0, &json!("broken")));
    assert_eq!(
        results(&report),
        ["deleted", "deleted", "deleted", "failed", "failed"],
        "{report:#}"
    );
    assert!(report["masters"][4]["error"].is_string());
    let left = report["fence"].as_u64().unwrap();
    for index in 0..3 {
        assert_eq!(fence(&servers, index).await, left);
    }
    // An extension that was under way, and puts back what is missing, comes after the break.
    servers[3].thaw();
    let theirs = theirs.to_string();
    let token = servers[3].get("job").await.unwrap();
    let keys = ["2", "job", "{job}:fence"];
    let arguments = [&token, "30000", "1", &theirs, "600000"];
    let late = [&["EVAL", EXTEND][..], &keys, &arguments].concat();
    assert_eq!(servers[0].command(&late).await.int(), Some(0));
    assert_eq!(servers[0].get("job").await, None);
    servers[4].restart().await;
    assert_eq!(holding.rest().await, [""; 0]);
    assert_eq!(holding.status().await, 76);
    for index in 0..3 {
        assert_eq!(servers[index].get("job").await, None, "{index}");
        assert_eq!(fence(&servers, index).await, left);
    }
}

#[tokio::test]
async fn too_few_masters_change_nothing() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server
            .set_for("job", "other", Duration::from_secs(60))
            .await;
    }
    servers.kill(&[0, 1]).await;
    let (status, said) = outcome(breaking(&servers, &["--yes", "job"])).await;
    assert_eq!(status, 69, "{said}");
    assert!(
        said.contains(&servers[0].addr()) && said.contains("nothing was done"),
        "{said}"
    );
    assert_eq!(servers[2].get("job").await, Some("other".to_owned()));
    assert_eq!(fence(&servers, 2).await, 0);
}

#[tokio::test]
async fn without_a_terminal_it_wants_yes_and_where_there_is_no_lock_it_says_so() {
    let servers = Servers::start(3).await;
    let (status, report) = as_json(breaking(&servers, &["--yes", "--json", "job"])).await;
    assert_eq!((status, &report["status"]), (0, &json!("free")));
    assert_eq!(fence(&servers, 0).await, 0);
    for server in &servers {
        server.set("job", "other").await;
    }
    let (status, said) = outcome(breaking(&servers, &["job"])).await;
    assert_eq!(status, 64, "{said}");
    assert!(said.contains("--yes"), "{said}");
    let one = Some("other".to_owned());
    assert_eq!(
        servers.values_of("job").await,
        [one.clone(), one.clone(), one]
    );
    assert_eq!(outcome(breaking(&servers, &["--yes", ""])).await.0, 64);
}

#[tokio::test]
async fn on_a_terminal_it_says_whose_it_is_and_does_nothing_before_the_answer_is_yes() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server.set("job", "0123456789abcdef").await;
    }
    let mut shell = Shell::start(&servers);
    shell.types("$tool break --command-timeout 2s job; echo st:$?\n");
    shell.shows("held by 01234567").await;
    shell.shows("Break the lock on job? Say yes:").await;
    shell.types("no\n");
    shell.shows("nothing was done").await;
    shell.shows("st:1").await;
    assert!(servers.values_of("job").await.iter().all(Option::is_some));
    shell.types("$tool break --command-timeout 2s job; echo end:$?\n");
    shell.shows("Break the lock on job? Say yes:").await;
    // Somebody else gets it while the operator thinks.
    servers[2].set("job", "a-newcomer-with-a-lock").await;
    shell.types("yes\n");
    shell.shows("job: broken, fence").await;
    shell.shows("taken  a-newcom").await;
    shell.shows("end:0").await;
    let newcomer = Some("a-newcomer-with-a-lock".to_owned());
    assert_eq!(servers.values_of("job").await, [None, None, newcomer]);
    assert_eq!(
        fence(&servers, 2).await,
        0,
        "nothing of a newcomer's is touched"
    );
}

#[tokio::test]
async fn the_fence_that_is_left_passes_one_that_is_ahead_of_the_clock_and_lives_beyond_the_holders_time()
 {
    let servers = Servers::start(1).await;
    let hour = Duration::from_secs(3600);
    servers[0].set_for("job", "other", hour).await;
    // Of a year that no clock shows yet.
    let theirs = 5_000_000_000_000_000;
    servers[0].set("{job}:fence", &theirs.to_string()).await;
    let (status, report) = as_json(breaking(&servers, &["--yes", "--json", "job"])).await;
    assert_eq!(status, 0, "{report:#}");
    let left = fence(&servers, 0).await;
    assert!(left > theirs, "{left}");
    assert_eq!(report["fence"], left);
    // An extension of so long may be under way, and fences are remembered for ten minutes more.
    let lives = servers[0].pttl("{job}:fence").await;
    assert!(lives > 3_600_000 + 500_000, "{lives}");
}

#[tokio::test]
async fn masters_that_hang_while_it_is_broken_leave_it_incomplete_with_69() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server.set("job", "0123456789abcdef").await;
    }
    let mut shell = Shell::start(&servers);
    shell.types("$tool break --command-timeout 1s job; echo st:$?\n");
    shell.shows("Break the lock on job? Say yes:").await;
    servers.freeze(&[0, 1]);
    shell.types("yes\n");
    shell.shows("job: incomplete, fence").await;
    shell
        .shows(&format!("{}  deleted", servers[2].addr()))
        .await;
    shell
        .shows("it may still be held: repair the masters, and run it again")
        .await;
    shell.shows("st:69").await;
}

#[tokio::test]
async fn a_key_that_is_no_text_is_broken_too() {
    let servers = Servers::start(1).await;
    // Not by the harness, whose words are text.
    let script = "return redis.call('SET', KEYS[1], '\\255\\254\\0\\193')";
    servers[0].command(&["EVAL", script, "1", "job"]).await;
    let (status, report) = as_json(breaking(&servers, &["--yes", "--json", "job"])).await;
    assert_eq!((status, results(&report)), (0, vec!["deleted"]));
    assert!(!servers[0].keys().await.contains(&"job".to_owned()));
}

#[tokio::test]
async fn a_master_that_came_up_empty_goes_into_quarantine_and_the_others_stay_out_of_it() {
    let servers = Servers::start(3).await;
    for index in 0..3 {
        servers[index].set("job", "other").await;
        if index > 0 {
            servers[index].set(GUARD_MARKER, "1").await;
        }
    }
    let words = ["--yes", "--json", "--restart-guard", "60s", "job"];
    let (status, report) = as_json(breaking(&servers, &words)).await;
    assert_eq!(
        (status, results(&report)),
        (0, vec!["deleted"; 3]),
        "{report:#}"
    );
    assert_eq!(report["before"]["masters"][0]["restart_guard"], "unmarked");
    assert!(servers[0].get(GUARD_MARKER).await.is_some());
    let left = servers[0].pttl(GUARD_QUARANTINE).await;
    assert!((30_000..=60_000).contains(&left), "{left}");
    for index in [1, 2] {
        assert_eq!(servers[index].get(GUARD_QUARANTINE).await, None);
    }
    eventually("no lock is left", async || {
        servers.values_of("job").await == [None, None, None]
    })
    .await;
}
