//! What is said on standard error.
//!
//! By a thread of its own: a terminal that is held (Ctrl-S), or a pipe that nobody reads, blocks
//! whoever writes to it, and whoever has to end a command in time must not wait for that.

use std::{
    io::{self, IsTerminal, Write},
    sync::mpsc::{self, Receiver, SyncSender, TrySendError},
    thread,
    time::Duration,
};

use nix::sys::signal::{SigSet, Signal};

/// How many lines may wait for being written; those beyond are lost.
const LINES_MAX: usize = 256;

/// How long the end waits for lines to be written.
const FINISH_MAX: Duration = Duration::from_millis(500);

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Level {
    /// Errors.
    Quiet,
    /// Where the lock is busy, and progress on a terminal, too.
    Normal,
    /// What happens to the lock, too.
    Verbose,
}

/// Writes lines without waiting for it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    lines: SyncSender<Line>,
    level: Level,
    shows_progress: bool,
}

#[derive(Debug)]
enum Line {
    Whole(String),
    Progress(String),
    /// All that came before is written once this is dropped.
    Flush(SyncSender<()>),
}

impl Reporter {
    pub(crate) fn new(level: Level) -> Self {
        let (lines, written) = mpsc::sync_channel(LINES_MAX);
        // Without the thread nothing is said, and all else goes on.
        drop(
            thread::Builder::new()
                .name("report".to_owned())
                .spawn(move || write(&written)),
        );
        let shows_progress = level >= Level::Normal && io::stderr().is_terminal();
        Self {
            lines,
            level,
            shows_progress,
        }
    }

    /// Says something at any level.
    pub(crate) fn error(&self, text: &str) {
        self.say(Level::Quiet, text);
    }

    /// Says something unless it is to be quiet.
    pub(crate) fn notice(&self, text: &str) {
        self.say(Level::Normal, text);
    }

    /// Says something if everything is to be told.
    pub(crate) fn detail(&self, text: &str) {
        self.say(Level::Verbose, text);
    }

    /// Shows the present state on a terminal, in place of the last one; an empty one ends it. What is
    /// too wide for the terminal is cut off: the cursor does not come back over more than one row.
    pub(crate) fn progress(&self, text: &str) {
        if self.shows_progress {
            let columns = terminal_size::terminal_size_of(io::stderr())
                .map_or(usize::MAX, |(terminal_size::Width(columns), _)| {
                    columns.into()
                });
            // The last column is left to the cursor. Some terminals are of no width at all.
            let width = if columns == 0 {
                usize::MAX
            } else {
                columns - 1
            };
            self.put(Line::Progress(text.chars().take(width).collect()));
        }
    }

    /// Waits until all is written, but not for long.
    pub(crate) fn finish(&self) {
        let (written, done) = mpsc::sync_channel(0);
        self.put(Line::Flush(written));
        // Written, or no thread to write, or nobody who reads.
        done.recv_timeout(FINISH_MAX).ok();
    }

    /// Takes the events of the library.
    pub(crate) fn subscribe(&self) {
        if self.level == Level::Verbose {
            let reporter = self.clone();
            tracing_subscriber::fmt()
                .with_max_level(tracing::Level::DEBUG)
                .with_ansi(false)
                .without_time()
                .with_writer(move || Event(reporter.clone(), Vec::new()))
                .init();
        }
    }

    fn say(&self, level: Level, text: &str) {
        if self.level >= level {
            // One message is one line, whatever a server put into its errors.
            let text = text.replace(['\n', '\r'], " ");
            self.put(Line::Whole(format!("fredlock: {text}\n")));
        }
    }

    fn put(&self, line: Line) {
        // Full: nobody has read for a while. Disconnected: this machine could start no thread to write,
        // and fredlock is about to end.
        if let Err(TrySendError::Disconnected(Line::Whole(text))) = self.lines.try_send(line) {
            drop(io::stderr().lock().write_all(text.as_bytes()));
        }
    }
}

/// Says something where nothing has to be done in time.
pub(crate) fn say(text: &str) {
    let text = text.replace(['\n', '\r'], " ");
    // Nobody to tell.
    writeln!(io::stderr().lock(), "fredlock: {text}").ok();
}

fn write(lines: &Receiver<Line>) {
    // While the command has the terminal, writing to it could stop this process.
    SigSet::from(Signal::SIGTTOU).thread_block().ok();
    let mut has_progress = false;
    for line in lines {
        let (mut text, mut done) = (String::new(), None);
        if has_progress {
            text.push_str("\r\x1b[K");
        }
        match line {
            Line::Whole(line) => {
                text.push_str(&line);
                has_progress = false;
            }
            Line::Progress(progress) => {
                text.push_str(&progress);
                has_progress = !progress.is_empty();
            }
            Line::Flush(waiting) => {
                has_progress = false;
                done = Some(waiting);
            }
        }
        let mut stderr = io::stderr().lock();
        // Nobody to tell.
        drop(
            stderr
                .write_all(text.as_bytes())
                .and_then(|()| stderr.flush()),
        );
        // Whoever waits is told.
        drop(done);
    }
}

/// One event on its way to the thread.
struct Event(Reporter, Vec<u8>);

impl Write for Event {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.0.detail(String::from_utf8_lossy(&self.1).trim());
    }
}
