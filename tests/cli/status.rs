//! The exit statuses of `fredlock run`: the command's own, and those of what cannot run.

use crate::support::servers::Servers;
use crate::tool::{freed, outcome, output, run, tool};

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
