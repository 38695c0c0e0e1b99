//! The process that becomes the command.
//!
//! Between its start and the command's, a process has to do what only it can do for itself: ask to be
//! killed with its parent, and take the terminal before the command looks at it. Without unsafe code
//! that takes a program of its own, which is fredlock again.

use std::{
    ffi::OsString,
    io::{self, ErrorKind},
    os::unix::process::CommandExt,
    path::Path,
    process::Command,
};

use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::{getpid, getppid},
};

use super::terminal::Terminal;
use crate::{report, status};

/// The word that makes fredlock a stand-in: `fredlock NAME PARENT TERMINAL COMMAND ARG…`.
pub(crate) const NAME: &str = "__stand-in";

/// Is the command to have the terminal?
pub(super) const FOREGROUND: &str = "foreground";
pub(super) const BACKGROUND: &str = "background";

/// Becomes the command; returns a status only where that fails.
pub(crate) fn main(mut words: impl Iterator<Item = OsString>) -> u8 {
    let (parent, place, program) = (words.next(), words.next(), words.next());
    let (Some(parent), Some(place), Some(program)) = (parent, place, program) else {
        return status::USAGE;
    };
    die_with_parent();
    // It may have died before the kernel was asked.
    if parent.to_str() != Some(&getppid().to_string()) {
        return status::SYSTEM;
    }
    if place == FOREGROUND
        && let Some(terminal) = Terminal::open()
    {
        terminal.hand_to(getpid());
    }
    // Until the guard knows of it; whoever started it continues it then.
    kill(getpid(), Signal::SIGSTOP).ok();
    let error = Command::new(&program).args(words).exec();
    // By now it is not ignored any more, and would end this where nobody reads what is said.
    SigSet::from(Signal::SIGPIPE).thread_block().ok();
    report::say(&format!(
        "cannot run \"{}\": {}",
        program.display(),
        cure(&error, &program)
    ));
    status_of(&error, &program)
}

/// Only the command itself, and not a program that gets other rights by being run; the guard kills
/// its group.
fn die_with_parent() {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).ok();
}

fn cure(error: &io::Error, program: &OsString) -> String {
    match (error.kind(), Path::new(program).exists()) {
        (ErrorKind::NotFound, true) => format!("{error}: look at its first line, #!"),
        (ErrorKind::NotFound, false) => format!("{error}: look at its name, and at PATH"),
        (ErrorKind::PermissionDenied, _) => format!("{error}: chmod +x may be missing"),
        _ => error.to_string(),
    }
}

fn status_of(error: &io::Error, program: &OsString) -> u8 {
    let is_path = program.as_encoded_bytes().contains(&b'/');
    if error.kind() == ErrorKind::NotFound && !(is_path && Path::new(program).exists()) {
        status::NOT_FOUND
    } else {
        status::NOT_EXECUTABLE
    }
}
