//! What the command finds: its environment and its streams.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;

use crate::support::servers::Servers;
use crate::tool::{LIMIT, output, run};

#[tokio::test]
async fn the_command_finds_resources_fence_and_label_in_its_environment_over_what_was_inherited() {
    let servers = Servers::start(3).await;
    let mut last = 0;
    for _ in 0..2 {
        let script = "echo \"$FREDLOCK_RESOURCES\"; echo $FREDLOCK_FENCE; echo \"$FREDLOCK_LABEL\"";
        let mut command = run(&servers, &["b", "a", "b", "--", "sh", "-c", script]);
        command
            .env("FREDLOCK_LABEL", "inherited")
            .env("FREDLOCK_RESOURCES", "inherited")
            .env("FREDLOCK_FENCE", "1");
        let said = String::from_utf8(output(command).await.stdout).unwrap();
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[..2], ["a", "b"], "{said}");
        let fence: u64 = lines[2].parse().unwrap();
        assert!(fence > last.max(1), "{fence} after {last}");
        last = fence;
        assert!(lines[3].contains('/') && lines[3] != "inherited", "{said}");
    }
}

#[tokio::test]
async fn the_standard_streams_pass_through() {
    let servers = Servers::start(1).await;
    let mut command = run(&servers, &["job", "--", "sh", "-c", "cat; echo err >&2"]);
    command.stdin(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(b"through\0binary\xff").await.unwrap();
    drop(stdin);
    let output = tokio::time::timeout(LIMIT, process.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(output.stdout, b"through\0binary\xff");
    assert_eq!(output.stderr, b"err\n");
}
