//! Output of which the reader has gone, as `head` does. That is no error: what is written to whom makes
//! no difference to what is done, and to its exit status.

use std::process::{Output, Stdio};

use tokio::{process::Command, time::timeout};

use crate::shell::Shell;
use crate::support::{server::Server, servers::Servers};
use crate::tool::{LIMIT, freed, run, tool};

/// A pipe whose reader has gone.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// The tool, with the masters, and time for them on a busy machine.
fn asking(servers: &Servers, words: &[&str]) -> Command {
    let mut command = tool(words);
    command
        .env("FREDLOCK_MASTERS", servers.urls().join(","))
        .env("FREDLOCK_COMMAND_TIMEOUT", "1s");
    command
}

/// Runs it without a reader of its output: its exit status, and what it said.
async fn without_reader(mut command: Command) -> (Option<i32>, String) {
    command.stdout(unread());
    let Output { status, stderr, .. } = ended(command).await;
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// Runs it to its end, with the streams that it has: `Command::output` would take others.
async fn ended(mut command: Command) -> Output {
    let process = command.spawn().unwrap();
    let output = timeout(LIMIT, process.wait_with_output()).await;
    output.expect("the tool ends").unwrap()
}

#[tokio::test]
async fn help_version_and_completions_end_well() {
    for words in [
        &["--help"][..],
        &["-h"],
        &["--version"],
        &["help", "run"],
        &["doctor", "--help"],
        &["completions", "bash"],
        &["completions", "zsh"],
        &["completions", "fish"],
    ] {
        let ended = without_reader(tool(words)).await;
        assert_eq!(ended, (Some(0), String::new()), "{words:?}");
    }
}

#[tokio::test]
async fn inspect_tells_by_its_status_whether_a_quorum_knows() {
    let servers = Servers::start(3).await;
    servers[0].set("job", "another").await;
    for status in [0, 69] {
        for words in [
            &["inspect", "job", "other"][..],
            &["inspect", "--json", "job"],
        ] {
            let ended = without_reader(asking(&servers, words)).await;
            assert_eq!(ended, (Some(status), String::new()), "{words:?}");
        }
        servers.kill(&[0, 1]).await;
    }
}

#[tokio::test]
async fn the_doctor_tells_by_its_status_what_it_found() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start_with(&durable).await);
    }
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    // It finds nothing; a number that is even; and too few.
    for (of, status) in [(3, 0), (2, 1), (1, 2)] {
        if of == 1 {
            servers[0].kill().await;
        }
        let masters = urls[..of].join(",");
        for more in [&[][..], &["--json"]] {
            let mut command = tool(&["doctor", "--masters", &masters, "--command-timeout", "1s"]);
            command.args(more);
            let ended = without_reader(command).await;
            assert_eq!(ended, (Some(status), String::new()), "{of} {more:?}");
        }
    }
}

#[tokio::test]
async fn masters_are_initialised() {
    let servers = Servers::start(3).await;
    let ended = without_reader(asking(&servers, &["init"])).await;
    assert_eq!(ended, (Some(0), String::new()));
    for server in &servers {
        assert!(server.get("fredlock:guard:marker").await.is_some());
    }
}

#[tokio::test]
async fn a_lock_is_broken() {
    let servers = Servers::start(3).await;
    for words in [
        &["break", "--yes", "job"][..],
        &["break", "--yes", "--json", "job"],
        // There is none.
        &["break", "--yes", "--json", "other"],
    ] {
        for server in &servers {
            server.set("job", "another").await;
        }
        let ended = without_reader(asking(&servers, words)).await;
        assert_eq!(ended, (Some(0), String::new()), "{words:?}");
        if words.contains(&"job") {
            freed(&servers, "job").await;
        }
    }
}

#[tokio::test]
async fn on_a_terminal_a_break_is_asked_for_all_the_same() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server.set("job", "another").await;
    }
    let mut shell = Shell::start(&servers);
    // Nobody reads descriptor 3 once that has been waited for.
    shell.types("exec 3> >(:); wait $!; $tool break --command-timeout 2s job >&3; echo st:$?\n");
    shell.shows("Say yes:").await;
    shell.types("no\n");
    shell.shows("nothing was done").await;
    shell.shows("st:1").await;
    assert!(servers.values_of("job").await.iter().all(Option::is_some));
    shell.types("$tool break --command-timeout 2s job >&3; echo end:$?\n");
    shell.shows("Say yes:").await;
    shell.types("yes\n");
    shell.shows("end:0").await;
    freed(&servers, "job").await;
}

#[tokio::test]
async fn nobody_who_reads_the_messages_changes_no_status() {
    let servers = Servers::start(1).await;
    let script = servers[0].path("script");
    std::fs::write(&script, "no rights").unwrap();
    let script = script.to_str().unwrap();
    for (words, status) in [
        (&["-v", "job", "--", "sh", "-c", "exit 7"][..], 7),
        (&["job", "--", "no-such-command"], 127),
        (&["job", "--", script], 126),
        (&["--no-such-option", "job", "--", "true"], 64),
        (
            &["--min-hold", "2s", "--max-hold", "1s", "job", "--", "true"],
            64,
        ),
        (
            &["--max-hold", "300ms", "-v", "job", "--", "sleep", "99"],
            76,
        ),
    ] {
        let mut command = run(&servers, words);
        command.stderr(unread());
        let ended = ended(command).await;
        assert_eq!(ended.status.code(), Some(status), "{words:?}: {ended:?}");
        freed(&servers, "job").await;
    }
    servers.kill(&[0]).await;
    for (words, status) in [
        (&["inspect", "job"][..], 69),
        (&["init"], 69),
        (&["break", "--yes", "job"], 69),
        (&["man", "/dev/null/man1"], 71),
        (&["doctor", "--quorum", "9"], 64),
        (&["completions", "no-such-shell"], 64),
    ] {
        let mut command = asking(&servers, words);
        command.stderr(unread());
        let ended = ended(command).await;
        assert_eq!(ended.status.code(), Some(status), "{words:?}: {ended:?}");
    }
}
