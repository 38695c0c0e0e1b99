//! Who has the terminal.

use std::{
    fs::File,
    io::{self, IsTerminal},
};

use nix::{
    sys::{
        signal::{SigSet, Signal},
        termios::{SetArg, Termios, tcgetattr, tcsetattr},
    },
    unistd::{Pid, getpgid, getpgrp, getpid, getppid, getsid, tcgetpgrp, tcsetpgrp},
};

/// The terminal that controls this process.
#[derive(Debug)]
pub(super) struct Terminal(File);

/// How the terminal was when the command got it.
#[derive(Debug)]
pub(super) struct Modes(Option<Termios>);

impl Terminal {
    /// `None` where there is none: for a job of cron, say.
    pub(super) fn open() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty");
        tty.ok().map(Self)
    }

    /// Is fredlock's own group the one that reads from it?
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.0) == Ok(getpgrp())
    }

    /// Is the command to have it from its beginning? Not in a pipeline, whose other members may need
    /// it: there it gets the terminal once it asks for it.
    pub(super) fn is_for_the_command(&self) -> bool {
        self.is_ours() && io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Gives it to a group. Says whether that worked.
    pub(super) fn hand_to(&self, group: Pid) -> bool {
        // Whoever does this from the background is stopped otherwise.
        let ttou = SigSet::from(Signal::SIGTTOU);
        let before = ttou.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        let result = tcsetpgrp(&self.0, group);
        if let Ok(before) = before {
            // The mask is inherited by what this process becomes.
            before.thread_set_mask().ok();
        }
        result.is_ok()
    }

    pub(super) fn modes(&self) -> Modes {
        Modes(tcgetattr(&self.0).ok())
    }

    /// A command that was killed has not tidied up.
    pub(super) fn restore(&self, modes: &Modes) {
        if let Some(modes) = &modes.0 {
            tcsetattr(&self.0, SetArg::TCSADRAIN, modes).ok();
        }
    }
}

/// Is there a shell that would see this process stop, and could continue it? Where there is none the
/// kernel too takes no notice of Ctrl-Z: the group is "orphaned".
pub(super) fn has_a_shell() -> bool {
    let (session, group) = (getsid(None), getpgrp());
    let mut child = getpid();
    let mut parent = getppid();
    // The first ancestor outside the group is the one that watches it.
    while Ok(child) != session && parent.as_raw() > 0 && getsid(Some(parent)) == session {
        if getpgid(Some(parent)) != Ok(group) {
            return true;
        }
        child = parent;
        parent = match super::family::parent_of(child) {
            Some(parent) => parent,
            None => return false,
        };
    }
    false
}
