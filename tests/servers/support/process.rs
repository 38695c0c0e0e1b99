//! The server's process: started, stopped, continued, killed, and never left behind.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// Waits on its standard input, which ends with the process of the test however that ends, and then
/// does what `Drop` did not get to do. The directory tells whether the id is still the server's.
const WATCHDOG: &str = r#"
    trap '' INT HUP TERM
    read -r _
    [ "$(readlink "/proc/$1/cwd")" = "$2" ] && kill -KILL "$1"
    rm -rf -- "$2"
"#;

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It is stopped by a signal.
    Stopped,
    /// It has ended.
    Ended,
}

/// A running server. Dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct Process {
    server: Child,
    watchdog: Child,
}

impl Process {
    /// Starts `binary` in `dir`, with its output added to `dir/server.log`.
    pub fn spawn(binary: &Path, args: &[String], dir: &Path) -> Self {
        let log = File::options()
            .create(true)
            .append(true)
            .open(dir.join("server.log"))
            .expect("server's log");
        let server = Command::new(binary)
            .args(args)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("second handle of the server's log"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", binary.display()));
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", &server.id().to_string()])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match watchdog {
            Ok(watchdog) => Self { server, watchdog },
            Err(error) => {
                let mut server = server;
                server
                    .kill()
                    .and_then(|()| server.wait())
                    .expect("killed the server");
                panic!("cannot start sh, which watches over the server: {error}");
            }
        }
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// What the server is doing now.
    pub fn state(&self) -> State {
        // WNOWAIT: this only looks; whoever waits for the end later still gets it.
        let look = WaitPidFlag::WSTOPPED
            | WaitPidFlag::WEXITED
            | WaitPidFlag::WNOWAIT
            | WaitPidFlag::WNOHANG;
        match waitid(Id::Pid(self.nix_pid()), look).expect("the server is this process's child") {
            WaitStatus::StillAlive => State::Running,
            WaitStatus::Stopped(..) => State::Stopped,
            _ => State::Ended,
        }
    }

    /// Stops the server and returns when it has stopped. Nothing that is sent from then on is
    /// executed.
    pub fn stop(&self) {
        kill(self.nix_pid(), Signal::SIGSTOP).expect("SIGSTOP");
        // A signal is only a request: until the kernel reports the stop, the server may go on
        // executing.
        let wait = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        let status =
            waitid(Id::Pid(self.nix_pid()), wait).expect("the server is this process's child");
        assert!(
            matches!(status, WaitStatus::Stopped(..)),
            "the server did not stop: {status:?}"
        );
    }

    /// Lets a stopped server go on.
    pub fn go_on(&self) {
        kill(self.nix_pid(), Signal::SIGCONT).expect("SIGCONT");
    }

    /// The id in the form that the signals want.
    fn nix_pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.pid()).expect("process ids fit in i32"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog first: it would remove the directory, which a restart still needs. No
        // SIGCONT before the kill: a stopped server dies of SIGKILL as it is, and must not execute
        // what piled up meanwhile.
        for child in [&mut self.watchdog, &mut self.server] {
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                eprintln!("could not end process {}: {error}", child.id());
            }
        }
    }
}

/// The server to run: `FREDLOCK_SERVER`, or else the first of `redis-server` and `valkey-server` on
/// `PATH`.
pub fn binary() -> PathBuf {
    if let Some(binary) = std::env::var_os("FREDLOCK_SERVER").filter(|binary| !binary.is_empty()) {
        return binary.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    ["redis-server", "valkey-server"]
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)))
        .find(|candidate| candidate.is_file())
        .expect(
            "these tests need a real Redis or Valkey server and found none: \
             `apt-get install redis-server`, or run the tests under `compose/with-masters`, \
             which installs it, or set FREDLOCK_SERVER to a server's path",
        )
}

/// Whether DEBUG has to be allowed by a setting: from version 7 on, while older servers do not know
/// the setting. Tells, once, what server it is.
pub fn guards_debug(binary: &Path) -> bool {
    static GUARDS: OnceLock<bool> = OnceLock::new();
    *GUARDS.get_or_init(|| {
        let output = Command::new(binary).arg("--version").output();
        let output =
            output.unwrap_or_else(|error| panic!("cannot run {}: {error}", binary.display()));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // Past the capture of the tests' output: whoever runs them is to see what they ran on.
        let line = format!(
            "\nreal servers: {} ({})\n",
            text.trim_end(),
            binary.display()
        );
        std::io::stderr()
            .write_all(line.as_bytes())
            .expect("standard error");
        let version = text
            .split_once("v=")
            .and_then(|(_, rest)| rest.split('.').next()?.parse::<u32>().ok());
        version.unwrap_or_else(|| panic!("{} tells no version: {text:?}", binary.display())) >= 7
    })
}
