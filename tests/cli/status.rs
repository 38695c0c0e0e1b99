//! Each exit status of `fredlock run`.

use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::support::{relay::Relay, server::Server, servers::Servers};
use crate::tool::{PLAIN, Running, eventually, freed, outcome, output, run, tool};

const README: &str = include_str!("../../README.md");

#[tokio::test]
async fn the_command_gives_its_own_status_and_the_lock_is_released() {
    let servers = Servers::start(3).await;
    for status in [0, 1, 7, 255] {
        let command = format!("exit {status}");
        let ended = outcome(run(&servers, &["job", "--", "sh", "-c", &command])).await;
        assert_eq!(ended, (status, String::new()));
        freed(&servers, "job").await;
    }
}

#[tokio::test]
async fn a_command_that_a_signal_ends_gives_128_and_its_number() {
    let servers = Servers::start(1).await;
    for (signal, status) in [("TERM", 143), ("KILL", 137), ("INT", 130)] {
        let command = format!("kill -{signal} $$");
        let ended = outcome(run(&servers, &["job", "--", "sh", "-c", &command])).await;
        assert_eq!(ended.0, status, "{ended:?}");
    }
}

#[tokio::test]
async fn a_command_that_is_not_there_gives_127_and_one_that_cannot_be_run_126() {
    let servers = Servers::start(1).await;
    let broken = servers[0].path("broken-script");
    std::fs::write(&broken, "#!/no/such/interpreter\n").unwrap();
    let broken = broken.to_str().unwrap();
    let not_executable = outcome(run(&servers, &["job", "--", broken])).await;
    assert_eq!(not_executable.0, 126, "{not_executable:?}");
    assert!(not_executable.1.contains("chmod +x"), "{not_executable:?}");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(broken, mode).unwrap();
    let without_interpreter = outcome(run(&servers, &["job", "--", broken])).await;
    assert_eq!(without_interpreter.0, 126, "{without_interpreter:?}");
    let missing = outcome(run(&servers, &["job", "--", "no-such-command"])).await;
    assert_eq!(missing.0, 127, "{missing:?}");
    assert!(
        missing.1.contains("no-such-command") && missing.1.lines().count() == 1,
        "{missing:?}"
    );
    freed(&servers, "job").await;
}

#[tokio::test]
async fn a_wrong_command_line_or_list_of_masters_gives_64() {
    let masters = ["--masters", "redis://127.0.0.1:1"];
    let wrong: [&[&str]; 12] = [
        &["job", "true"],
        &["job", "--"],
        &["--", "true"],
        &["--no-such-option", "job", "--", "true"],
        &["--ttl", "5", "job", "--", "true"],
        &["--ttl", "100ms", "job", "--", "true"],
        &["--wait", "soon", "job", "--", "true"],
        &["--wait", "1s", "--no-wait", "job", "--", "true"],
        &["-E", "256", "job", "--", "true"],
        &["--min-hold", "2s", "--max-hold", "1s", "job", "--", "true"],
        &["", "--", "true"],
        &["a\nb", "--", "true"],
    ];
    for words in wrong {
        let mut command = tool(&["run"]);
        command.args(masters).args(words);
        let ended = outcome(command).await;
        assert_eq!(ended.0, 64, "{words:?}: {ended:?}");
        assert!(!ended.1.is_empty(), "{words:?}");
    }
    for masters in [
        "http://h",
        "127.0.0.1:1",
        "redis://127.0.0.1:1,redis://127.0.0.1:1",
        "",
    ] {
        let ended = outcome(tool(&["run", "--masters", masters, "job", "--", "true"])).await;
        assert_eq!(ended.0, 64, "{masters}: {ended:?}");
    }
    let without_masters = outcome(tool(&["run", "job", "--", "true"])).await;
    assert_eq!(without_masters.0, 64, "{without_masters:?}");
    assert!(
        without_masters.1.contains("--masters"),
        "{without_masters:?}"
    );
}

#[tokio::test]
async fn help_and_version_are_no_errors_and_help_and_readme_have_every_status() {
    for words in [
        &["--help"][..],
        &["--version"],
        &["run", "--help"],
        &["help", "run"],
    ] {
        let ended = output(tool(words)).await;
        assert_eq!(ended.status.code(), Some(0), "{words:?}");
        assert!(
            !ended.stdout.is_empty() && ended.stderr.is_empty(),
            "{words:?}"
        );
    }
    let help = String::from_utf8(output(tool(&["run", "--help"])).await.stdout).unwrap();
    let given = include_str!("../../src/bin/fredlock/status.rs").lines();
    let given = given.filter_map(|line| line.split_once(": u8 = ")?.1.strip_suffix(';'));
    let given: Vec<_> = given.chain(["128 + N"]).collect();
    assert_eq!(given.len(), 8, "{given:?}");
    for status in given {
        let has_line = help
            .lines()
            .any(|line| line.trim_start().starts_with(status));
        assert!(has_line, "{status}: {help}");
        assert!(
            README.contains(&format!("\n| {status} |")),
            "{status} in the README"
        );
    }
}

#[tokio::test]
async fn no_quorum_of_masters_gives_69_and_names_them() {
    let servers = Servers::start(3).await;
    servers.kill(&[0, 1]).await;
    for words in [&["--no-wait"][..], &["--wait", "300ms"], &["--quiet", "-n"]] {
        let words = [words, &["job", "--", "true"]].concat();
        let ended = outcome(run(&servers, &words)).await;
        assert_eq!(ended.0, 69, "{words:?}: {ended:?}");
        assert!(
            ended.1.contains(&servers[0].addr()) && ended.1.lines().count() == 1,
            "{ended:?}"
        );
    }
    freed(&servers, "job").await;
}

#[tokio::test]
async fn a_majority_that_hangs_gives_69_too() {
    let servers = Servers::start(3).await;
    servers.freeze(&[0, 1]);
    // Nor is it the status of a lock that is busy.
    for words in [&["--wait", "300ms"][..], &["-n"], &["-n", "-E", "3"]] {
        let words = [words, &["job", "--", "true"]].concat();
        let ended = outcome(run(&servers, &words)).await;
        assert_eq!(ended.0, 69, "{words:?}: {ended:?}");
        assert!(ended.1.contains(&servers[0].addr()), "{ended:?}");
    }
    for words in [
        &["inspect", "job"][..],
        &["init"],
        &["break", "--yes", "job"],
    ] {
        let mut command = tool(words);
        command.env("FREDLOCK_MASTERS", servers.urls().join(","));
        let ended = outcome(command).await;
        assert_eq!(ended.0, 69, "{words:?}: {ended:?}");
    }
}

#[tokio::test]
async fn masters_that_are_too_slow_for_the_ttl_give_69() {
    let server = Server::start().await;
    let relay = Relay::before(&server).await;
    relay.delay(Duration::from_millis(260));
    let url = relay.url();
    let words = ["run", "--ttl", "500ms", "--wait", "4s", "--masters", &url];
    let mut command = tool(&words);
    command.args(["--command-timeout", "5s", "job", "--", "true"]);
    let ended = outcome(command).await;
    assert_eq!(ended.0, 69, "{ended:?}");
    assert!(
        ended.1.contains(&format!("{} timed out", relay.addr())),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_fence_that_is_used_up_gives_69() {
    let servers = Servers::start(1).await;
    servers[0].set("{job}:fence", "9007199254740990").await;
    let ended = outcome(run(&servers, &["job", "--", "true"])).await;
    assert_eq!(ended.0, 69, "{ended:?}");
    assert!(ended.1.contains("used up"), "{ended:?}");
}

#[tokio::test]
async fn a_master_that_must_not_vote_gives_69_and_is_named() {
    let (master, other) = (Server::start().await, Server::start().await);
    let port = master.port().to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    let masters = [master.url(), other.url(), replica.url()].join(",");
    let ended = outcome(tool(&[
        "run",
        "-n",
        "--masters",
        &masters,
        "job",
        "--",
        "true",
    ]))
    .await;
    assert_eq!(ended.0, 69, "{ended:?}");
    assert!(
        ended.1.contains(&replica.addr()) && ended.1.contains("slave"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_busy_lock_gives_75_or_what_was_asked_for() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server
            .set_for("job", "another", Duration::from_secs(60))
            .await;
    }
    for (words, status) in [
        (&["--no-wait"][..], 75),
        (&["-n", "-E", "0"], 0),
        (&["--wait", "300ms", "--conflict-exit-code", "3"], 3),
        (&["--wait", "0"], 75),
    ] {
        let words = [words, &["job", "--", "touch", "/no/such/directory/ran"]].concat();
        let ended = outcome(run(&servers, &words)).await;
        assert_eq!(ended.0, status, "{words:?}: {ended:?}");
        assert!(
            ended.1.contains("job is held by somebody else"),
            "{ended:?}"
        );
        assert_eq!(ended.1.lines().count(), 1, "{ended:?}");
    }
    // A minority that hangs changes nothing.
    servers[2].freeze();
    for (words, status) in [(&["-n"][..], 75), (&["--wait", "300ms", "-E", "9"], 9)] {
        let words = [words, &["job", "--", "true"]].concat();
        let ended = outcome(run(&servers, &words)).await;
        assert_eq!(ended.0, status, "{words:?}: {ended:?}");
    }
    let quiet = outcome(run(&servers, &["-n", "--quiet", "job", "--", "true"])).await;
    assert_eq!(quiet, (75, String::new()));
}

#[tokio::test]
async fn the_wait_that_runs_out_was_as_long_as_asked_for() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server.set("job", "another").await;
    }
    let begun = tokio::time::Instant::now();
    let mut waits = run(&servers, &["--wait", "2500ms", "job", "--", "true"]);
    // So long before its end the last attempt begins.
    waits.env("FREDLOCK_COMMAND_TIMEOUT", "500ms");
    let ended = outcome(waits).await;
    assert_eq!(ended.0, 75, "{ended:?}");
    assert!(
        begun.elapsed() > Duration::from_millis(1900),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_machine_that_can_start_no_process_gives_71_and_the_lock_is_released() {
    let servers = Servers::start(3).await;
    for server in &servers {
        server.set("job", "another").await;
    }
    let mut waiting = Running::start(run(&servers, &["job", "--", "echo", "ran"]));
    eventually("it has asked", async || {
        servers[2].calls("evalsha").await > 0
    })
    .await;
    let process = waiting.process.id().unwrap().to_string();
    // What is open stays so; whatever starts a process needs more.
    let limits = tokio::process::Command::new("prlimit")
        .args(["--nofile=3:3", "--pid", &process])
        .status()
        .await
        .expect("`prlimit` (util-linux), which this test needs");
    assert!(limits.success());
    for server in &servers {
        server.del("job").await;
    }
    assert_eq!(waiting.rest().await, [""; 0]);
    let mut said = String::new();
    let mut stderr = waiting.process.stderr.take().unwrap();
    stderr.read_to_string(&mut said).await.unwrap();
    assert_eq!(waiting.status().await, 71, "{said}");
    assert!(
        said.contains("cannot start the command") && said.contains("ulimit"),
        "{said}"
    );
    freed(&servers, "job").await;
}

#[tokio::test]
async fn with_any_limit_of_open_files_it_runs_or_says_why_not() {
    let servers = Servers::start(1).await;
    let mut seen = [false; 2];
    for files in 4..24 {
        let script = format!("ulimit -n {files}; exec \"$0\" run -n job -- echo ran");
        let mut shell = tokio::process::Command::new(PLAIN[0]);
        shell
            .args([
                PLAIN[1],
                "sh",
                "-c",
                &script,
                env!("CARGO_BIN_EXE_fredlock"),
            ])
            .env("FREDLOCK_MASTERS", servers.urls().join(","))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true);
        let (status, said) = outcome(shell).await;
        match status {
            0 => seen[0] = true,
            71 => {
                seen[1] = true;
                assert!(said.contains("ulimit"), "{files}: {said}");
            }
            // No connection could be opened.
            69 => assert!(said.contains("not connected"), "{files}: {said}"),
            _ => panic!("{files}: {status}: {said}"),
        }
        freed(&servers, "job").await;
    }
    assert_eq!(seen, [true; 2]);
}
