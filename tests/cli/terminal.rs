//! Job control: the command on a terminal.

use std::time::Duration;

use tokio::time::sleep;

use crate::shell::{CTRL_C, CTRL_Z, Shell};
use crate::support::servers::Servers;
use crate::tool::freed;

#[tokio::test]
async fn the_command_reads_the_terminal_and_ctrl_c_ends_it() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    shell.types(
        "$tool run job -- sh -c 'echo ready; read x; echo got-$x; exec sleep 1000'; echo st:$?\n",
    );
    shell.shows("\nready").await;
    shell.types("words\n");
    shell.shows("\ngot-words").await;
    shell.types(CTRL_C);
    shell.shows("st:130").await;
    // The shell has its terminal back.
    shell.types("echo back-$((1 + 1))\n");
    shell.shows("\nback-2").await;
    freed(&servers, "job").await;
}

#[tokio::test]
async fn ctrl_z_stops_it_with_its_job_and_fg_and_bg_let_it_go_on() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    shell.types("$tool run job -- sh -c 'echo ready; read x; echo got-$x; read y; echo and-$y'; echo st:$?\n");
    shell.shows("\nready").await;
    shell.types(CTRL_Z);
    shell.shows("Stopped").await;
    shell.types("fg\n");
    shell.types("words\n");
    shell.shows("\ngot-words").await;
    shell.types(CTRL_Z);
    shell.shows("Stopped").await;
    // In the background it is stopped again, as it reads.
    shell.types("bg\n");
    shell.types("while [ -n \"$(jobs -r)\" ]; do sleep 0.05; done; jobs; fg; echo st:$?\n");
    shell.shows("Stopped").await;
    shell.types("more\n");
    shell.shows("\nand-more").await;
    shell.shows("\nst:0").await;
    freed(&servers, "job").await;
}

#[tokio::test]
async fn a_command_that_was_stopped_past_the_end_never_runs_again() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    let script = "trap \"echo con\"\"tinued\" CONT; echo ready; while :; do sleep 0.02; done";
    shell.types(&format!(
        "$tool run --ttl 1s job -- bash -c '{script}'; echo st:$?\n"
    ));
    shell.shows("\nready").await;
    shell.types(CTRL_Z);
    shell.shows("Stopped").await;
    freed(&servers, "job").await;
    shell.types("fg; echo end:$?\n");
    shell.shows("\nend:76").await;
    assert!(!shell.screen().contains("continued"), "{}", shell.screen());
}

#[tokio::test]
async fn in_a_pipeline_the_command_gets_the_terminal_when_it_asks_for_it() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    shell.types("$tool run job -- sh -c 'read x; echo got-$x; exec sleep 1000' | cat; echo st:${PIPESTATUS[0]}\n");
    // Echoed by the terminal, and read once it is the command's.
    sleep(Duration::from_millis(100)).await;
    shell.types("words\n");
    shell.shows("\ngot-words").await;
    shell.types(CTRL_C);
    shell.shows("st:130").await;
}

#[tokio::test]
async fn ctrl_c_reaches_a_command_that_has_no_need_of_the_terminal() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    shell.types("$tool run job -- sh -c 'echo ready; exec sleep 1000' < /dev/null | cat\n");
    shell.shows("\nready").await;
    shell.types(CTRL_C);
    // `cat` dies of it too, and the shell gives up the rest of the line with it.
    shell.types("echo st:${PIPESTATUS[0]}\n");
    shell.shows("st:130").await;
    freed(&servers, "job").await;
}

#[tokio::test]
async fn the_terminal_is_as_it_was_after_a_command_that_was_killed() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    shell.types("$tool run job -- sh -c 'stty -echo; echo ready; kill -KILL $$'; echo st:$?\n");
    shell.shows("\nready").await;
    shell.shows("\nst:137").await;
    shell.types("stty -a | tr ' ;' '\\n\\n' | grep '^.\\?echo$' | sed s/^/mode:/\n");
    shell.shows("\nmode:echo").await;
}
