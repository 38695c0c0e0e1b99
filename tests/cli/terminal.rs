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
use crate::tool::{LIMIT, PLAIN, Running, freed, held, run};

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

    /// What comes before the text, after the last one that was waited for.
    async fn reads_to(&mut self, text: &str) -> String {
        let begin = self.read;
        self.shows(text).await;
        self.screen()[begin..self.read - text.len()].to_owned()
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
        .shows("waiting for job: held by somebody else (ano…), for 1m")
        .await;
    shell.types(CTRL_Z);
    shell.shows("Stopped").await;
    shell.types("fg; echo end:$?\n");
    shell.shows("waiting for job: held by").await;
    shell.types(CTRL_C);
    shell.shows("end:130").await;
}

/// What stands in the line on the screen behind `for at least`, in whole seconds; `None` if it does not.
fn at_least(line: &str) -> Option<u64> {
    let text = line.split_once(" for at least ")?.1;
    let text = text.split_once(',')?.0;
    if text.ends_with("ms") {
        return Some(0);
    }
    let seconds = text.strip_suffix('s').and_then(|text| text.parse().ok());
    Some(seconds.unwrap_or_else(|| panic!("{line:?}")))
}

#[tokio::test]
async fn the_line_on_a_terminal_says_who_holds_the_lock_since_when_and_how_long_still() {
    let servers = Servers::start(3).await;
    let words = [
        "--label",
        "web-1",
        "job",
        "--",
        "sh",
        "-c",
        "echo on; exec sleep 1000",
    ];
    let mut holding = Running::start(run(&servers, &words));
    holding.line().await;
    held(&servers, "job").await;
    let token = servers[0].get("job").await.unwrap();
    let mut shell = Shell::start(&servers);
    shell.types("$tool run --command-timeout 2s job -- true\n");
    // For how long is counted since it was seen first.
    shell.shows("waiting for job: held by ").await;
    let first = shell.reads_to("waited").await;
    assert!(
        first.starts_with(&format!("web-1 ({}…), for ", &token[..8])),
        "{first}"
    );
    assert!(!first.contains(&token[..9]), "{first}");
    let left = first.rsplit_once(", for ").unwrap().1;
    assert!(
        left.starts_with(['1', '2', '3']) && left.ends_with("s more unless extended, "),
        "{first}"
    );
    let begun = Instant::now();
    let mut long = 0;
    while long < 2 {
        shell.shows("waiting for job: held by web-1 (").await;
        long = at_least(&shell.reads_to("waited").await).unwrap();
    }
    // Never longer than it has been.
    assert!(begun.elapsed() + Duration::from_secs(1) > Duration::from_secs(long));
    shell.types(CTRL_C);
}

#[tokio::test]
async fn a_successor_is_told_with_how_long_it_has_been_seen_itself_and_the_line_fits_the_terminal()
{
    let servers = Servers::start(3).await;
    let take = async |value: &str| {
        for server in &servers {
            server.set("j", value).await;
        }
    };
    take("the-first").await;
    let mut shell = Shell::start(&servers);
    // What is too long for the terminal would scroll instead of being replaced.
    shell.types("stty columns 70 rows 20\n");
    shell.types("$tool run --command-timeout 2s j -- true\n");
    shell
        .shows("waiting for j: held by somebody else (the-…), ")
        .await;
    shell.shows("somebody else (the-…) for at least 2s").await;
    take("no-longer-the-first").await;
    shell.shows("somebody else (no-longe…), ").await;
    shell
        .shows("somebody else (no-longe…) for at least 1s")
        .await;
    let screen = shell.screen();
    shell.types(CTRL_C);
    let lines = screen
        .split(['\r', '\n'])
        .map(|line| line.replace("\x1b[K", ""));
    let longest = lines
        .filter(|line| line.starts_with("waiting"))
        .map(|line| line.chars().count())
        .max();
    assert_eq!(longest, Some(69), "{screen}");
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
