//! What every command does with its words and its output.

use crate::support::servers::Servers;
use crate::tool::{PLAIN, freed, outcome, output, run, tool};

/// The tool, with a disk that is full behind its standard output.
fn to_full(servers: &Servers, words: &[&str]) -> tokio::process::Command {
    let mut shell = tokio::process::Command::new("sh");
    shell
        .args(["-c", "exec \"$0\" \"$@\" > /dev/full"])
        .arg(env!("CARGO_BIN_EXE_fredlock"))
        .args(words)
        .env("FREDLOCK_MASTERS", servers.urls().join(","))
        .stdin(std::process::Stdio::null());
    shell
}

#[tokio::test]
async fn output_that_cannot_be_written_gives_71() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server.set("job", "another").await;
    }
    for words in [
        &["--help"][..],
        &["--version"],
        &["help", "run"],
        &["completions", "bash"],
        &["inspect", "job"],
        &["inspect", "--json", "job"],
        &["doctor"],
        &["doctor", "--json"],
        &["init"],
        &["break", "--yes", "job"],
    ] {
        let ended = outcome(to_full(&servers, words)).await;
        assert_eq!(ended.0, 71, "{words:?}: {ended:?}");
        assert!(
            ended.1.contains("cannot write the output: No space left"),
            "{words:?}: {ended:?}"
        );
    }
    // Nothing is broken that was not shown.
    assert!(servers.values_of("job").await.iter().all(Option::is_some));
    let ended = outcome(to_full(&servers, &["break", "--yes", "--json", "job"])).await;
    assert_eq!(ended.0, 71, "{ended:?}");
    assert!(
        ended.1.contains("the lock is broken, with fence"),
        "{ended:?}"
    );
    freed(&servers, "job").await;
}

#[tokio::test]
async fn every_command_gives_64_for_a_wrong_command_line() {
    let wrong = "redis://127.0.0.1:1,redis://127.0.0.1:1";
    for words in [
        &["no-such-command"][..],
        &["inspect", "--masters", wrong, "job"],
        &["inspect", "--masters", "redis://127.0.0.1:1"],
        &["doctor", "--masters", "http://h"],
        &["init", "--masters", wrong],
        &["init"],
        &["break", "--masters", wrong, "--yes", "job"],
        &["break", "--masters", "redis://127.0.0.1:1", "--yes"],
        &["completions", "no-such-shell"],
        &["man"],
    ] {
        let ended = outcome(tool(words)).await;
        assert_eq!(ended.0, 64, "{words:?}: {ended:?}");
        assert!(!ended.1.is_empty(), "{words:?}");
    }
}

#[tokio::test]
async fn a_larger_quorum_is_asked_of_the_masters_and_a_smaller_one_refused() {
    let servers = Servers::start(3).await;
    servers.kill(&[0]).await;
    for (quorum, status) in [("2", 0), ("3", 69), ("1", 64)] {
        let ended = outcome(run(
            &servers,
            &["-n", "--quorum", quorum, "job", "--", "true"],
        ))
        .await;
        assert_eq!(ended.0, status, "{quorum}: {ended:?}");
    }
}

#[tokio::test]
async fn completions_are_scripts_that_know_the_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(output(tool(&["completions", shell])).await.stdout).unwrap();
        assert!(
            script.contains("min-hold") && script.contains("doctor"),
            "{shell}"
        );
    }
    let command = "source <(\"$tool\" completions bash) && complete -p fredlock";
    let mut bash = tokio::process::Command::new(PLAIN[0]);
    bash.args([PLAIN[1], "bash"]);
    bash.args(["-c", command])
        .env("tool", env!("CARGO_BIN_EXE_fredlock"))
        .stdout(std::process::Stdio::piped());
    let output = output(bash).await;
    assert!(output.status.success(), "{output:?}");
}
