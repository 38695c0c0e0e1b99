//! A real interactive shell on a terminal, in which the tool is typed.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use nix::pty::openpty;
use tokio::time::{Instant, sleep};

use crate::support::servers::Servers;
use crate::tool::{LIMIT, PLAIN};

pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_Z: &str = "\x1a";

/// A shell on a terminal of its own. Dropping it hangs up.
pub(crate) struct Shell {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    read: usize,
    process: Child,
}

impl Shell {
    pub(crate) fn start(servers: &Servers) -> Self {
        let pty = openpty(None, None).unwrap();
        let slave = || Stdio::from(pty.slave.try_clone().unwrap());
        let process = Command::new(PLAIN[0])
            .args([
                PLAIN[1],
                "setsid",
                "--ctty",
                "bash",
                "--norc",
                "--noprofile",
                "-i",
            ])
            .env("PS1", "")
            .env("TERM", "dumb")
            .env("FREDLOCK_MASTERS", servers.urls().join(","))
            .env("tool", env!("CARGO_BIN_EXE_fredlock"))
            .stdin(slave())
            .stdout(slave())
            .stderr(slave())
            .spawn()
            .expect("`setsid` (util-linux) and `bash`, which these tests need");
        drop(pty.slave);
        let keyboard = File::from(pty.master);
        let screen = Arc::<Mutex<String>>::default();
        let (mut output, shown) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // An error is the end of a terminal whose last process has gone.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]);
                shown.lock().unwrap().push_str(&text);
            }
        });
        Self {
            keyboard,
            screen,
            read: 0,
            process,
        }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the text comes, after the last one that was waited for.
    pub(crate) async fn shows(&mut self, text: &str) {
        let end = Instant::now() + LIMIT;
        loop {
            let screen = self.screen();
            if let Some(at) = screen[self.read..].find(text) {
                self.read += at + text.len();
                return;
            }
            assert!(Instant::now() < end, "{text:?} does not come:\n{screen}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// What comes before the text, after the last one that was waited for.
    pub(crate) async fn reads_to(&mut self, text: &str) -> String {
        let begin = self.read;
        self.shows(text).await;
        self.screen()[begin..self.read - text.len()].to_owned()
    }

    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
