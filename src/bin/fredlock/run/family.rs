//! The processes of the command: which there are, how they ended, and their end.

use std::{collections::HashSet, fs};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill, killpg},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getpid},
};

/// What was heard of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Stopped(Signal),
    Ended(u8),
}

/// The command, its group, and what descends from it.
#[derive(Debug)]
pub(super) struct Family {
    leader: Pid,
    /// Children of this process that have nothing to do with the command.
    strangers: HashSet<Pid>,
    has_ended: bool,
    is_reaped: bool,
}

impl Family {
    /// Everything that the command starts becomes a child of this process once its own parent is gone,
    /// whatever group it is in (Linux): nothing can get away.
    pub(super) fn adopt_orphans() -> HashSet<Pid> {
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_child_subreaper(true).ok();
        // Such as those of a shell that has become fredlock.
        children().collect()
    }

    pub(super) fn new(leader: Pid, strangers: HashSet<Pid>) -> Self {
        Self {
            leader,
            strangers,
            has_ended: false,
            is_reaped: false,
        }
    }

    /// Waits until the stand-in has stopped itself, or ended.
    pub(super) fn await_stand_in(&mut self) {
        #[cfg(target_os = "linux")]
        {
            use nix::sys::wait::{Id, waitid};
            let look = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            while waitid(Id::Pid(self.leader), look) == Err(Errno::EINTR) {}
            // The stop is no news.
            waitid(
                Id::Pid(self.leader),
                WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG,
            )
            .ok();
        }
        #[cfg(not(target_os = "linux"))]
        while waitpid(self.leader, Some(WaitPidFlag::WUNTRACED)) == Err(Errno::EINTR) {}
    }

    /// The id of the command, and of its group.
    pub(super) fn group(&self) -> Pid {
        self.leader
    }

    /// Sends a signal to the group. That nobody is left there is no error.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.is_reaped {
            killpg(self.leader, signal).ok();
        }
    }

    /// Sends a signal to the group, and to what has left it.
    pub(super) fn signal_all(&mut self, signal: Signal) {
        self.signal(signal);
        // Children only, whose ids nobody else can have before this process reaps them. Their own
        // children become ours with their end, and have their turn then.
        for child in self.other_children() {
            kill(child, signal).ok();
        }
    }

    /// Is a process of the group left?
    pub(super) fn has_group(&self) -> bool {
        !self.is_reaped && (!self.has_ended || group_is_alive(self.leader))
    }

    /// Is a process left, in the group or not?
    pub(super) fn is_left(&mut self) -> bool {
        self.has_group() || self.other_children().next().is_some()
    }

    /// The group is gone: its id may be somebody else's from now on.
    pub(super) fn bury(&mut self) {
        if !self.is_reaped {
            self.is_reaped = true;
            waitpid(self.leader, Some(WaitPidFlag::WNOHANG)).ok();
        }
    }

    fn other_children(&self) -> impl Iterator<Item = Pid> {
        let known = |child: &Pid| *child == self.leader || self.strangers.contains(child);
        children().filter(move |child| !known(child))
    }

    /// What has happened to the command, one thing at a time. Reaps orphans meanwhile.
    #[cfg(target_os = "linux")]
    pub(super) fn news(&mut self) -> Option<News> {
        use nix::sys::wait::{Id, waitid};
        // The command itself stays unreaped until its group is gone, so that nobody else gets its id.
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        if !self.has_ended
            && let Some(status) = waitid(Id::Pid(self.leader), look).ok().and_then(ended)
        {
            self.has_ended = true;
            return Some(News::Ended(status));
        }
        for child in zombies() {
            if child != self.leader && waitpid(child, Some(WaitPidFlag::WNOHANG)).is_ok() {
                self.strangers.remove(&child);
            }
        }
        let look = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        match waitid(Id::Pid(self.leader), look) {
            Ok(WaitStatus::Stopped(_, signal)) => Some(News::Stopped(signal)),
            _ => None,
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn news(&mut self) -> Option<News> {
        let look = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        loop {
            match waitpid(None::<Pid>, Some(look)) {
                Ok(WaitStatus::Stopped(pid, signal)) if pid == self.leader => {
                    return Some(News::Stopped(signal));
                }
                Ok(status) if status.pid() == Some(self.leader) => {
                    self.has_ended = true;
                    return ended(status).map(News::Ended);
                }
                Ok(WaitStatus::StillAlive) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

fn ended(status: WaitStatus) -> Option<u8> {
    match status {
        WaitStatus::Exited(_, code) => Some(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        WaitStatus::Signaled(_, signal, _) => Some(crate::status::of_signal(signal as i32)),
        _ => None,
    }
}

/// The parent of a process.
pub(super) fn parent_of(pid: Pid) -> Option<Pid> {
    stat(&pid.to_string()).map(|stat| stat.parent)
}

fn group_is_alive(group: Pid) -> bool {
    if killpg(group, None) == Err(Errno::ESRCH) {
        return false;
    }
    // A zombie counts for the kernel, and does nothing any more.
    !cfg!(target_os = "linux") || processes().any(|stat| stat.group == group && stat.is_alive)
}

fn children() -> impl Iterator<Item = Pid> {
    of_ours().filter(|stat| stat.is_alive).map(|stat| stat.pid)
}

#[cfg(target_os = "linux")]
fn zombies() -> impl Iterator<Item = Pid> {
    of_ours().filter(|stat| !stat.is_alive).map(|stat| stat.pid)
}

fn of_ours() -> impl Iterator<Item = Stat> {
    let own = getpid();
    processes().filter(move |stat| stat.parent == own)
}

/// What the kernel tells of a process.
struct Stat {
    pid: Pid,
    is_alive: bool,
    parent: Pid,
    group: Pid,
}

/// All processes, where there is a `/proc`.
fn processes() -> impl Iterator<Item = Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        name.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| stat(name))?
    })
}

fn stat(pid: &str) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // `PID (NAME) STATE PARENT GROUP …`, and the name may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let mut id = || fields.next()?.parse().ok().map(Pid::from_raw);
    Some(Stat {
        pid: Pid::from_raw(pid.parse().ok()?),
        is_alive: !matches!(state, "Z" | "X"),
        parent: id()?,
        group: id()?,
    })
}
