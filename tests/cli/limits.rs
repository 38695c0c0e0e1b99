//! A machine that has too little left: 71.

use tokio::io::AsyncReadExt;

use crate::support::servers::Servers;
use crate::tool::{PLAIN, Running, eventually, freed, outcome, run};

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
