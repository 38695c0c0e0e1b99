//! Job control: the terminal goes to the command and comes back, and Ctrl-Z stops both.

use nix::{
    sys::signal::{Signal as Posix, killpg},
    unistd::getpgrp,
};

use super::{
    supervise::Supervisor,
    terminal::{Terminal, has_a_shell},
};

impl Supervisor<'_> {
    /// Where the command was stopped by the terminal, the shell has to have its prompt back. Stopped by
    /// anybody else (SIGSTOP), it is left so, and the lock goes on being extended.
    pub(super) fn on_stop(&mut self, signal: Posix) {
        let Some(terminal) = &self.terminal else {
            return;
        };
        match signal {
            // It asked for the terminal, which is fredlock's to give.
            Posix::SIGTTIN | Posix::SIGTTOU if terminal.is_ours() => {
                self.give_terminal();
                self.family.signal(Posix::SIGCONT);
            }
            Posix::SIGTTIN | Posix::SIGTTOU | Posix::SIGTSTP if !has_a_shell() => {
                self.family.signal(Posix::SIGCONT);
            }
            Posix::SIGTTIN | Posix::SIGTTOU | Posix::SIGTSTP => {
                self.take_terminal(false);
                self.is_suspended = true;
                // The whole job, as the terminal would have done, and this process with it.
                killpg(getpgrp(), Posix::SIGSTOP).ok();
            }
            _ => {}
        }
    }

    pub(super) fn resume(&mut self) {
        self.is_suspended = false;
        if self.lock.remaining() <= self.plan.margin {
            // Too late: it must not run for another moment. `keep_time` kills it.
            return;
        }
        if self.terminal.as_ref().is_some_and(Terminal::is_ours) {
            self.give_terminal();
        }
        self.family.signal(Posix::SIGCONT);
    }

    fn give_terminal(&mut self) {
        if let Some(terminal) = &self.terminal {
            let modes = terminal.modes();
            if terminal.hand_to(self.family.group()) {
                self.given = Some(modes);
            }
        }
    }

    pub(super) fn take_terminal(&mut self, restore: bool) {
        if let (Some(terminal), Some(modes)) = (&self.terminal, self.given.take()) {
            terminal.hand_to(getpgrp());
            if restore {
                terminal.restore(&modes);
            }
        }
    }
}
