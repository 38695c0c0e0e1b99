//! Running the built tool, and looking at what it and its commands do.

use std::{
    process::{Output, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::{Instant, sleep, timeout},
};

use crate::support::servers::Servers;

/// Far longer than anything here takes on a loaded machine; only what hangs is cut off by it.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// `fredlock run`, with the masters.
pub(crate) fn run(servers: &Servers, words: &[&str]) -> Command {
    let mut command = tool(&["run"]);
    command
        .args(words)
        .env("FREDLOCK_MASTERS", servers.urls().join(","))
        // A machine that is busy with tests is slower than 100 ms now and then.
        .env("FREDLOCK_COMMAND_TIMEOUT", "1s");
    command
}

/// `env` of coreutils, which becomes the program that comes next, with no signal ignored: what a
/// background job of a script starts ignores SIGINT and SIGQUIT, and so would all below it.
pub(crate) const PLAIN: [&str; 2] = ["env", "--default-signal"];

/// `fredlock`, without any of this process's settings for it.
pub(crate) fn tool(words: &[&str]) -> Command {
    let mut command = Command::new(PLAIN[0]);
    command
        .args([PLAIN[1], env!("CARGO_BIN_EXE_fredlock")])
        .args(words)
        .env_remove("FREDLOCK_MASTERS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs it to its end.
pub(crate) async fn output(mut command: Command) -> Output {
    let output = timeout(LIMIT, command.output()).await;
    output.expect("the tool ends").expect("the tool starts")
}

/// Its exit status, and what it said.
pub(crate) async fn outcome(command: Command) -> (i32, String) {
    let output = output(command).await;
    let said = String::from_utf8(output.stderr).unwrap();
    (
        output
            .status
            .code()
            .unwrap_or_else(|| panic!("{:?}: {said}", output.status)),
        said,
    )
}

/// The tool while it runs, with the lines that its command writes.
pub(crate) struct Running {
    pub(crate) process: Child,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let stdout = process.stdout.take().unwrap();
        Self {
            process,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// The next line of the command; `None` when it, and all that it started, have closed it.
    pub(crate) async fn line(&mut self) -> Option<String> {
        timeout(LIMIT, self.lines.next_line())
            .await
            .expect("a line, or the end")
            .unwrap()
    }

    /// All the lines that are to come.
    pub(crate) async fn rest(&mut self) -> Vec<String> {
        let mut rest = Vec::new();
        while let Some(line) = self.line().await {
            rest.push(line);
        }
        rest
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.process.id().expect("the tool runs");
        kill(pid(&id.to_string()), signal).unwrap();
    }

    pub(crate) async fn status(&mut self) -> i32 {
        let status = timeout(LIMIT, self.process.wait())
            .await
            .expect("the tool ends")
            .unwrap();
        status.code().unwrap_or_else(|| panic!("{status:?}"))
    }
}

pub(crate) fn pid(text: &str) -> Pid {
    Pid::from_raw(
        text.parse()
            .unwrap_or_else(|_| panic!("{text:?} is no process id")),
    )
}

/// Does the process run? One that has ended and was not reaped yet does not.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    state.is_some_and(|state| !["Z", "X"].contains(&state))
}

/// Waits until it holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds().await {
        assert!(Instant::now() < end, "{what}: not within {LIMIT:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The part of a shell's script that writes the time, in nanoseconds since 1970, about every 20 ms,
/// for ever. Nothing of it fails when a signal to the group ends one of its programs.
pub(crate) const BEATS: &str = "while :; do date +%s%N; sleep 0.02; done";

/// When a key expires by itself on one of the servers, in milliseconds since 1970.
pub(crate) async fn expiry(servers: &Servers, index: usize, key: &str) -> i64 {
    // As PEXPIRETIME, which Redis has since 7.0.
    let script = "local left, now = redis.call('PTTL', KEYS[1]), redis.call('TIME') \
        return left < 0 and left or now[1] * 1000 + math.floor(now[2] / 1000) + left";
    let reply = servers[index].command(&["EVAL", script, "1", key]).await;
    reply.int().unwrap_or_else(|| panic!("{reply:?}"))
}

/// Waits until every server has the key: one that was connected to late gets it by the next extension.
pub(crate) async fn held(servers: &Servers, key: &str) {
    eventually("every master has the key", async || {
        servers.values_of(key).await.iter().all(Option::is_some)
    })
    .await;
}

/// Waits until no server that runs has the key. For less than the ttl of a lock for which no other was
/// asked (30 s), at the end of which every key goes by itself.
pub(crate) async fn freed(servers: &Servers, key: &str) {
    let is_freed = eventually("no key is left", async || {
        servers.values_of(key).await.iter().all(Option::is_none)
    });
    let freed = timeout(LIMIT / 2, is_freed).await;
    freed.expect("no key is left, before the time of a lock is over");
}
