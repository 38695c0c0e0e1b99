//! No server is left behind.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{SOON, server::Postgres};

const CHILD: &str = "FREDLOCK_POSTGRES_CHILD";

/// Starts a server in a process of its own, which is killed outright.
#[tokio::test]
async fn a_server_and_its_files_are_gone_after_its_test_however_that_ends() {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "server_tests::start_a_server_and_wait",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let told = tokio::task::spawn_blocking(|| {
        let mut told = lines.map_while(Result::ok);
        told.find_map(|line| Some(line.split_once("directory=")?.1.to_owned()))
    });
    let dir = told.await.unwrap().expect("the server's directory");
    assert!(Path::new(&dir).join("data/postmaster.pid").exists());
    process.kill().unwrap();
    process.wait().unwrap();
    let deadline = Instant::now() + SOON;
    // It goes last.
    while Path::new(&dir).exists() {
        assert!(Instant::now() < deadline, "{dir} is still there");
        sleep(Duration::from_millis(10)).await;
    }

    let postgres = Postgres::start().await;
    let dir = postgres.dir().to_owned();
    assert!(dir.join("data/postmaster.pid").exists());
    drop(postgres);
    assert!(!dir.exists());
}

#[tokio::test]
#[ignore = "no test: the process that the test above kills"]
async fn start_a_server_and_wait() {
    let postgres = Postgres::start().await;
    println!("directory={}", postgres.dir().display());
    // Somebody who runs all ignored tests does not wait for it.
    if std::env::var_os(CHILD).is_some() {
        sleep(Duration::from_secs(60)).await;
    }
}
