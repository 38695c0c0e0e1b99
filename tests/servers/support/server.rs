//! One real server on loopback, which a test can freeze, kill and restart.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::dir::Dir;
use super::port::Port;
use super::process::{self, Process, State};

/// How long a server may take to start.
const START_LIMIT: Duration = Duration::from_secs(10);

/// How much of its log a server's failure shows.
const LOG_TAIL_LINES: usize = 30;

/// How far a server must be to count as started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    /// It answers PING with PONG.
    Serves,
    /// It answers at all, if only that it is still loading.
    Answers,
}

/// A server process in a directory and on a port of its own.
///
/// Dropping it, also by a panic, kills the process and removes the directory. If the test's process
/// is killed, a watchdog does both.
#[derive(Debug)]
pub struct Server {
    // Dropped in this order: the process before the directory that it writes to, and the port last,
    // since the directory is named for it.
    process: Mutex<Option<Process>>,
    dir: Dir,
    port: Port,
    extra: Mutex<Vec<String>>,
    /// How many commands `commands_processed` itself has made this process execute.
    pub(super) own_probes: AtomicU64,
}

impl Server {
    /// Starts a server without persistence.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with more arguments, such as `["--maxmemory", "1mb"]`; they replace the
    /// defaults. The first may be the path of a configuration file.
    pub async fn start_with(extra: &[&str]) -> Self {
        Self::start_until(extra, Readiness::Serves).await
    }

    /// Starts a server that counts as started once it gives any answer, LOADING included.
    ///
    /// A server that goes on loading: fill one, `CONFIG SET rdbcompression no`, `SAVE`, then
    /// `restart_unready` it with `--key-load-delay` (microseconds for each key) and
    /// `--loading-process-events-interval-bytes 1024`, without which it answers only after 2 MB.
    pub async fn start_unready(extra: &[&str]) -> Self {
        Self::start_until(extra, Readiness::Answers).await
    }

    async fn start_until(extra: &[&str], readiness: Readiness) -> Self {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let port = Port::claim();
            let server = Self {
                dir: Dir::create(port.number()),
                port,
                process: Mutex::new(None),
                extra: Mutex::new(Vec::new()),
                own_probes: AtomicU64::new(0),
            };
            if server.launch(extra, readiness, deadline).await.is_ok() {
                return server;
            }
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// `127.0.0.1:PORT`.
    pub fn addr(&self) -> String {
        self.port.addr()
    }

    /// Where a file of this name in the server's own directory is, which its arguments may name
    /// without a path: `["--unixsocket", "server.sock"]`.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// The process id. Panics when the server is dead.
    pub fn pid(&self) -> u32 {
        self.with_process(Process::pid)
    }

    /// Whether it is neither frozen nor dead.
    pub fn is_running(&self) -> bool {
        let process = self.process.lock().expect("server's lock");
        process
            .as_ref()
            .is_some_and(|process| process.state() == State::Running)
    }

    /// Stops the process (SIGSTOP) and returns when it has stopped. Its kernel still accepts
    /// connections and bytes, which the server sees when it is thawed.
    pub fn freeze(&self) {
        self.with_process(Process::stop);
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.with_process(Process::go_on);
    }

    /// Kills the process (SIGKILL) and returns when it is gone. The port stays reserved. Harmless
    /// when it is dead.
    pub async fn kill(&self) {
        let process = self.process.lock().expect("server's lock").take();
        // Waiting for the end blocks, if only for milliseconds.
        tokio::task::spawn_blocking(move || drop(process))
            .await
            .expect("kill");
    }

    /// Kills the server if it lives and starts it again on the same port with the same arguments.
    /// It comes back empty, unless its arguments ask for persistence: the directory is the same.
    pub async fn restart(&self) {
        let extra = self.extra_args();
        self.restart_until(
            &extra.iter().map(String::as_str).collect::<Vec<_>>(),
            Readiness::Serves,
        )
        .await;
    }

    /// The same, with other arguments beside the defaults from now on.
    pub async fn restart_with(&self, extra: &[&str]) {
        self.restart_until(extra, Readiness::Serves).await;
    }

    /// The same, returning at the first answer of any kind, LOADING included.
    pub async fn restart_unready(&self, extra: &[&str]) {
        self.restart_until(extra, Readiness::Answers).await;
    }

    async fn restart_until(&self, extra: &[&str], readiness: Readiness) {
        let deadline = Instant::now() + START_LIMIT;
        self.kill().await;
        while self.launch(extra, readiness, deadline).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The password that the arguments set, which the harness's own connections need.
    pub(super) fn password(&self) -> Option<String> {
        let extra = self.extra_args();
        extra
            .windows(2)
            .rev()
            .find(|pair| pair[0] == "--requirepass")
            .map(|pair| pair[1].clone())
    }

    /// The last lines of the server's log.
    pub fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.dir.path().join("server.log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    /// Starts the process and waits until it is ready. The only error is a port that somebody else
    /// took.
    async fn launch(
        &self,
        extra: &[&str],
        readiness: Readiness,
        deadline: Instant,
    ) -> Result<(), PortTaken> {
        let binary = process::binary();
        *self.extra.lock().expect("server's lock") =
            extra.iter().map(ToString::to_string).collect();
        let args = self.all_args(extra, process::guards_debug(&binary));
        self.own_probes.store(0, Ordering::Relaxed);
        *self.process.lock().expect("server's lock") =
            Some(Process::spawn(&binary, &args, self.dir.path()));
        let mut last = "no answer yet".to_owned();
        loop {
            let ended = self.with_process(Process::state) == State::Ended;
            let log = self.log_tail();
            if ended
                && log
                    .lines()
                    .rev()
                    .take(5)
                    .any(|line| line.contains("Address already in use"))
            {
                self.kill().await;
                return Err(PortTaken);
            }
            let late = Instant::now() >= deadline;
            assert!(
                !ended && !late,
                "{} {args:?} did not start: {last}; its log:\n{log}",
                binary.display()
            );
            match self.probe(readiness).await {
                Ok(()) => return Ok(()),
                Err(reason) => last = reason,
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether it is this very process that answers, and far enough; otherwise what it said.
    async fn probe(&self, readiness: Readiness) -> Result<(), String> {
        let look = async {
            let mut connection = self.connect().await?;
            let info = connection.call(&["INFO", "server"]).await?;
            Ok::<_, std::io::Error>((info, connection.call(&["PING"]).await?))
        };
        let (info, pong) = match timeout(Duration::from_secs(1), look).await {
            Ok(replies) => replies.map_err(|error| error.to_string())?,
            Err(_) => return Err("no answer within a second".to_owned()),
        };
        // Without this, a foreign server that took the port in between would pass for ours.
        let process_id = format!("process_id:{}", self.pid());
        if !info
            .text()
            .is_some_and(|text| text.lines().any(|line| line == process_id))
        {
            return Err(format!(
                "not {process_id} (a wrapper script must exec the server) but {info:?}"
            ));
        }
        match readiness {
            Readiness::Serves if pong.text() != Some("PONG") => Err(format!("{pong:?}")),
            _ => Ok(()),
        }
    }

    /// The defaults that `extra` does not replace, then `extra`.
    fn all_args(&self, extra: &[&str], guards_debug: bool) -> Vec<String> {
        let mut defaults = vec![
            ("--bind", "127.0.0.1"),
            ("--save", ""),
            ("--appendonly", "no"),
        ];
        if guards_debug {
            defaults.push(("--enable-debug-command", "yes"));
        }
        defaults.retain(|(name, _)| !extra.contains(name));
        let has_file = extra.first().is_some_and(|first| !first.starts_with('-'));
        let (file, extra) = extra.split_at(usize::from(has_file));
        let mut args: Vec<_> = file.iter().map(ToString::to_string).collect();
        args.extend(["--port".to_owned(), self.port().to_string()]);
        args.extend(
            defaults
                .iter()
                .flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]),
        );
        args.extend(extra.iter().map(ToString::to_string));
        args
    }

    fn extra_args(&self) -> Vec<String> {
        self.extra.lock().expect("server's lock").clone()
    }

    fn with_process<T>(&self, act: impl FnOnce(&Process) -> T) -> T {
        let process = self.process.lock().expect("server's lock");
        act(process
            .as_ref()
            .unwrap_or_else(|| panic!("the server on port {} is dead", self.port())))
    }
}

/// Somebody else listens on the port that was chosen.
#[derive(Debug)]
struct PortTaken;
