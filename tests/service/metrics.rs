//! The example `metrics`, run as people run it: printed in memory, and scraped on real servers.

use std::process::Stdio;

use fredlock::metrics::{
    ACQUISITIONS, ATTEMPTS, EXTENSIONS, HELD, LOST, MASTER_ANSWER, MASTER_ERRORS, RELEASES, WAIT,
    WAITING,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::Command,
    time::timeout,
};

use crate::{LIMIT, examples::example, support::servers::Servers};

/// What it does is one and the same wherever its masters are.
#[track_caller]
fn assert_counted(text: &str) {
    for expected in [
        format!("{ACQUISITIONS}{{outcome=\"acquired\"}} 5"),
        format!("{ACQUISITIONS}{{outcome=\"busy\"}} 1"),
        format!("{LOST}{{reason=\"expired\"}} 1"),
        format!("{RELEASES}{{outcome=\"released\"}} 4"),
        format!("{RELEASES}{{outcome=\"expired\"}} 1"),
        format!("{WAIT}_count 5"),
    ] {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}\n{text}"
        );
    }
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    assert!(!samples.collect::<String>().contains("invoice"), "{text}");
}

#[tokio::test]
async fn the_example_of_metrics_prints_what_it_did_in_memory() {
    let mut command = Command::new(example("metrics"));
    let output = command
        .env_remove("FREDLOCK_MASTERS")
        .kill_on_drop(true)
        .output();
    let output = timeout(LIMIT, output).await.unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{error}");
    assert_counted(&text);
    assert!(
        text.contains("# busy: invoice:4") && text.contains("# lost: the validity"),
        "{text}"
    );
    // Five acquisitions and their releases, and one that was busy and what takes it back.
    for master in 0..5 {
        let answers = format!("{MASTER_ANSWER}_count{{master=\"memory-{master}\"}} 12");
        assert!(
            text.lines().any(|line| line == answers),
            "{answers}\n{text}"
        );
    }
}

/// What is answered to one request.
async fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains(&format!("Content-Length: {}\r\n", text.len())),
        "{head}"
    );
    text.to_owned()
}

#[tokio::test]
async fn the_example_of_metrics_serves_them_of_real_masters_as_often_as_it_is_asked() {
    let servers = Servers::start(3).await;
    let mut process = Command::new(example("metrics"))
        .args(["--serve", "127.0.0.1:0"])
        .env("FREDLOCK_MASTERS", servers.urls().join(","))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let address = loop {
        let line = timeout(LIMIT, lines.next_line()).await.unwrap().unwrap();
        let line = line.expect("it ends before it serves");
        if let Some(address) = line.strip_prefix("# serving at http://") {
            break address.trim_end_matches("/metrics").to_owned();
        }
    };
    for _ in 0..2 {
        let text = timeout(LIMIT, scrape(&address)).await.unwrap();
        assert_counted(&text);
        for server in &servers {
            let master = format!("{MASTER_ANSWER}_count{{master=\"{}\"}}", server.addr());
            assert!(text.contains(&master), "{master}\n{text}");
        }
        for name in [ATTEMPTS, EXTENSIONS, HELD, MASTER_ERRORS, WAITING] {
            assert!(text.contains(&format!("# HELP {name} ")), "{name}\n{text}");
        }
        assert!(
            text.lines().any(|line| line == format!("{HELD} 0")),
            "{text}"
        );
    }
    process.kill().await.unwrap();
}
