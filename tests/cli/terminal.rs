//! Job control: a real interactive shell on a terminal, in which the tool is typed.

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
use crate::tool::{LIMIT, PLAIN, freed};

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";

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

    fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn the_command_reads_the_terminal_and_ctrl_c_ends_it() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    shell.types(
        "$tool run job -- sh -c 'echo ready; read x; echo got-$x; exec sleep 1000'; echo st:$?\n",
    );
    shell.shows("\nready").await;
    shell.types("words\n");
    shell.shows("\ngot-words").await;
    shell.types(CTRL_C);
    shell.shows("st:130").await;
    // The shell has its terminal back.
    shell.types("echo back-$((1 + 1))\n");
    shell.shows("\nback-2").await;
    freed(&servers, "job").await;
}

#[tokio::test]
async fn ctrl_z_stops_it_with_its_job_and_fg_and_bg_let_it_go_on() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    shell.types("$tool run job -- sh -c 'echo ready; read x; echo got-$x; read y; echo and-$y'; echo st:$?\n");
    shell.shows("\nready").await;
    shell.types(CTRL_Z);
    shell.shows("Stopped").await;
    shell.types("fg\n");
    shell.types("words\n");
    shell.shows("\ngot-words").await;
    shell.types(CTRL_Z);
    shell.shows("Stopped").await;
    // In the background it is stopped again, as it reads.
    shell.types("bg\n");
    shell.types("while [ -n \"$(jobs -r)\" ]; do sleep 0.05; done; jobs; fg; echo st:$?\n");
    shell.shows("Stopped").await;
    shell.types("more\n");
    shell.shows("\nand-more").await;
    shell.shows("\nst:0").await;
    freed(&servers, "job").await;
}

#[tokio::test]
async fn a_command_that_was_stopped_past_the_end_never_runs_again() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    let script = "trap \"echo con\"\"tinued\" CONT; echo ready; while :; do sleep 0.02; done";
    shell.types(&format!(
        "$tool run --ttl 1s job -- bash -c '{script}'; echo st:$?\n"
    ));
    shell.shows("\nready").await;
    shell.types(CTRL_Z);
    shell.shows("Stopped").await;
    freed(&servers, "job").await;
    shell.types("fg; echo end:$?\n");
    shell.shows("\nend:76").await;
    assert!(!shell.screen().contains("continued"), "{}", shell.screen());
}

#[tokio::test]
async fn in_a_pipeline_the_command_gets_the_terminal_when_it_asks_for_it() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    shell.types("$tool run job -- sh -c 'read x; echo got-$x; exec sleep 1000' | cat; echo st:${PIPESTATUS[0]}\n");
    // Echoed by the terminal, and read once it is the command's.
    sleep(Duration::from_millis(100)).await;
    shell.types("words\n");
    shell.shows("\ngot-words").await;
    shell.types(CTRL_C);
    shell.shows("st:130").await;
}

#[tokio::test]
async fn ctrl_c_reaches_a_command_that_has_no_need_of_the_terminal() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    shell.types("$tool run job -- sh -c 'echo ready; exec sleep 1000' < /dev/null | cat\n");
    shell.shows("\nready").await;
    shell.types(CTRL_C);
    // `cat` dies of it too, and the shell gives up the rest of the line with it.
    shell.types("echo st:${PIPESTATUS[0]}\n");
    shell.shows("st:130").await;
    freed(&servers, "job").await;
}

#[tokio::test]
async fn waiting_is_shown_on_a_terminal_alone_and_ends_with_ctrl_c() {
    let servers = Servers::start(1).await;
    servers[0]
        .set_for("job", "another", Duration::from_secs(100))
        .await;
    let mut shell = Shell::start(&servers);
    shell.types("$tool run job -- true; echo st:$?\n");
    shell
        .shows("waiting for job: held by somebody else, for 1m")
        .await;
    shell.types(CTRL_Z);
    shell.shows("Stopped").await;
    shell.types("fg; echo end:$?\n");
    shell.shows("waiting for job: held by").await;
    shell.types(CTRL_C);
    shell.shows("end:130").await;
}

#[tokio::test]
async fn the_terminal_is_as_it_was_after_a_command_that_was_killed() {
    let servers = Servers::start(1).await;
    let mut shell = Shell::start(&servers);
    shell.types("$tool run job -- sh -c 'stty -echo; echo ready; kill -KILL $$'; echo st:$?\n");
    shell.shows("\nready").await;
    shell.shows("\nst:137").await;
    shell.types("stty -a | tr ' ;' '\\n\\n' | grep '^.\\?echo$' | sed s/^/mode:/\n");
    shell.shows("\nmode:echo").await;
}
