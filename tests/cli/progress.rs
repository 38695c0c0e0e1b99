//! The line on a terminal that says who is waited for.

use std::time::Duration;

use tokio::time::Instant;

use crate::shell::{CTRL_C, CTRL_Z, Shell};
use crate::support::servers::Servers;
use crate::tool::{Running, held, run};

#[tokio::test]
async fn waiting_is_shown_on_a_terminal_alone_and_ends_with_ctrl_c() {
    let servers = Servers::start(1).await;
    servers[0]
        .set_for("job", "another", Duration::from_secs(100))
        .await;
    let mut shell = Shell::start(&servers);
    shell.types("$tool run job -- true; echo st:$?\n");
    shell
        .shows("waiting for job: held by somebody else (ano…), for 1m")
        .await;
    shell.types(CTRL_Z);
    shell.shows("Stopped").await;
    shell.types("fg; echo end:$?\n");
    shell.shows("waiting for job: held by").await;
    shell.types(CTRL_C);
    shell.shows("end:130").await;
}

/// What stands in the line on the screen behind `for at least`, in whole seconds; `None` if it does not.
fn at_least(line: &str) -> Option<u64> {
    let text = line.split_once(" for at least ")?.1;
    let text = text.split_once(',')?.0;
    if text.ends_with("ms") {
        return Some(0);
    }
    let seconds = text.strip_suffix('s').and_then(|text| text.parse().ok());
    Some(seconds.unwrap_or_else(|| panic!("{line:?}")))
}

#[tokio::test]
async fn the_line_on_a_terminal_says_who_holds_the_lock_since_when_and_how_long_still() {
    let servers = Servers::start(3).await;
    let words = [
        "--label",
        "web-1",
        "job",
        "--",
        "sh",
        "-c",
        "echo on; exec sleep 1000",
    ];
    let mut holding = Running::start(run(&servers, &words));
    holding.line().await;
    held(&servers, "job").await;
    let token = servers[0].get("job").await.unwrap();
    let mut shell = Shell::start(&servers);
    shell.types("$tool run --command-timeout 2s job -- true\n");
    // For how long is counted since it was seen first.
    shell.shows("waiting for job: held by ").await;
    let first = shell.reads_to("waited").await;
    assert!(
        first.starts_with(&format!("web-1 ({}…), for ", &token[..8])),
        "{first}"
    );
    assert!(!first.contains(&token[..9]), "{first}");
    let left = first.rsplit_once(", for ").unwrap().1;
    assert!(
        left.starts_with(['1', '2', '3']) && left.ends_with("s more unless extended, "),
        "{first}"
    );
    let begun = Instant::now();
    let mut long = 0;
    while long < 2 {
        shell.shows("waiting for job: held by web-1 (").await;
        long = at_least(&shell.reads_to("waited").await).unwrap();
    }
    // Never longer than it has been.
    assert!(begun.elapsed() + Duration::from_secs(1) > Duration::from_secs(long));
    shell.types(CTRL_C);
}

#[tokio::test]
async fn a_successor_is_told_with_how_long_it_has_been_seen_itself_and_the_line_fits_the_terminal()
{
    let servers = Servers::start(3).await;
    let take = async |value: &str| {
        for server in &servers {
            server.set("j", value).await;
        }
    };
    take("the-first").await;
    let mut shell = Shell::start(&servers);
    // What is too long for the terminal would scroll instead of being replaced.
    shell.types("stty columns 70 rows 20\n");
    shell.types("$tool run --command-timeout 2s j -- true\n");
    shell
        .shows("waiting for j: held by somebody else (the-…), ")
        .await;
    shell.shows("somebody else (the-…) for at least 2s").await;
    take("no-longer-the-first").await;
    shell.shows("somebody else (no-longe…), ").await;
    shell
        .shows("somebody else (no-longe…) for at least 1s")
        .await;
    let screen = shell.screen();
    shell.types(CTRL_C);
    let lines = screen
        .split(['\r', '\n'])
        .map(|line| line.replace("\x1b[K", ""));
    let longest = lines
        .filter(|line| line.starts_with("waiting"))
        .map(|line| line.chars().count())
        .max();
    assert_eq!(longest, Some(69), "{screen}");
}
