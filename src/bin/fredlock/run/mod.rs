//! `fredlock run`: a command under a lock.

mod deadline;
mod failure;
mod family;
pub(crate) mod guard;
mod hold;
mod job;
mod plan;
mod session;
mod signals;
pub(crate) mod stand_in;
mod supervise;
mod terminal;
mod who;

use std::{io, path::PathBuf};

use fredlock::OwnerLabel;

use self::{failure::Failure, hold::End, session::Session};
use crate::{
    args,
    report::{Level, Reporter},
    status,
};

/// What the main thread is told.
#[derive(Debug)]
enum Event {
    /// A signal was sent to this process.
    Signal(i32),
    /// The lock is not had yet; how that stands.
    Waiting(String),
    /// The lock is held.
    Held(fredlock::Signal),
    /// The holding has ended; nothing of the lock is told any more.
    Over(End),
}

/// Runs the command under the lock; gives the exit status.
pub(crate) fn run(task: &args::Run) -> u8 {
    let level = match (task.quiet, task.verbose) {
        (true, _) => Level::Quiet,
        (_, true) => Level::Verbose,
        _ => Level::Normal,
    };
    let reporter = Reporter::new(level);
    let status = match Session::start(task, reporter.clone()) {
        Ok(session) => session.run(),
        Err(failure) => {
            reporter.error(&failure.text);
            failure.status
        }
    };
    reporter.finish();
    status
}

/// Where to look for it: on which machine, and which process.
fn default_label() -> Option<OwnerLabel> {
    let host = nix::unistd::gethostname().ok()?.into_string().ok()?;
    OwnerLabel::new(format!("{host}/{}", std::process::id())).ok()
}

/// What the command line alone does not show.
fn check(task: &args::Run) -> Result<(), Failure> {
    let text = if task
        .resources
        .iter()
        .any(|name| name.contains(['\n', '\0']))
    {
        "a resource has a line break in its name, so FREDLOCK_RESOURCES could not list it: take another name"
    } else if task.min_hold > task.max_hold && task.max_hold.is_some() {
        "--min-hold is longer than --max-hold: take a shorter one"
    } else {
        return Ok(());
    };
    Err(Failure {
        status: status::USAGE,
        text: text.to_owned(),
    })
}

fn system(what: &str, error: &io::Error) -> Failure {
    Failure {
        status: status::SYSTEM,
        text: format!("cannot {what}: {error}: look at the limits of this machine (ulimit -a)"),
    }
}

/// This program, also when its file was replaced meanwhile.
fn myself() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok("/proc/self/exe".into())
    } else {
        std::env::current_exe()
    }
}
