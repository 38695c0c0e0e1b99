//! The process that outlives fredlock: it kills the command's group when fredlock is gone without a
//! word, or has been stopped until the lock's time was over.

use std::{
    io::{self, Write},
    os::{fd::AsFd, unix::process::CommandExt},
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, killpg},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

use super::{myself, signals::FORWARDED};
use crate::status;

/// The word that makes fredlock a guard: `fredlock NAME`, with orders on its standard input.
pub(crate) const NAME: &str = "__guard";

/// Changes of the end below this are not worth telling.
const STEP_MS: u64 = 5;

/// What fredlock has of its guard.
#[derive(Debug)]
pub(super) struct Guard {
    process: Child,
    end_ms: u64,
}

/// What the guard is told, one on a line.
#[derive(Debug, PartialEq, Eq)]
enum Order {
    /// The group to watch.
    Group(i32),
    /// When the lock's time is over, by the clock of both.
    End(u64),
    /// All is well; nothing is to be killed any more.
    Dismissed,
}

impl Guard {
    pub(super) fn start() -> io::Result<Self> {
        let mut process = Command::new(myself()?)
            .arg0("fredlock")
            .arg(NAME)
            // What the terminal sends is not for it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(orders) = &mut process.stdin {
            // A guard that was stopped must not hold up the one that it guards.
            fcntl(&*orders, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).ok();
        }
        Ok(Self { process, end_ms: 0 })
    }

    pub(super) fn pid(&self) -> Pid {
        pid(self.process.id())
    }

    pub(super) fn watch(&mut self, group: Pid) {
        self.tell(&format!("group {group}\n"));
    }

    /// So long it may live, unless more is told.
    pub(super) fn allow(&mut self, left: Duration) {
        let end_ms = now_ms() + u64::try_from(left.as_millis()).unwrap_or(u64::MAX / 2);
        if end_ms.abs_diff(self.end_ms) >= STEP_MS {
            self.end_ms = end_ms;
            self.tell(&format!("end {end_ms}\n"));
        }
    }

    /// Has the guard's time come, without this process having told it more? Then it has killed the
    /// group, or is about to.
    pub(super) fn has_fired(&self) -> bool {
        self.end_ms != 0 && now_ms() >= self.end_ms
    }

    pub(super) fn dismiss(&mut self) {
        self.tell("dismissed\n");
        // Not by the end of the pipe alone.
        drop(self.process.stdin.take());
    }

    fn tell(&mut self, order: &str) {
        if let Some(orders) = &mut self.process.stdin {
            // A guard that is gone can guard nothing, and all else goes on.
            drop(orders.write_all(order.as_bytes()));
        }
    }
}

pub(super) fn pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed())
}

/// The guard's own process.
pub(crate) fn main() -> u8 {
    for signal in FORWARDED {
        // It has to outlive whom they are meant for.
        drop(signal_hook::flag::register(
            signal,
            Arc::<AtomicBool>::default(),
        ));
    }
    let (mut group, mut end_ms) = (None, None);
    let mut orders = Orders::default();
    loop {
        let left = end_ms.map(|end: u64| end.saturating_sub(now_ms()));
        match orders.next_within(left) {
            Heard::Order(Order::Group(id)) => group = Some(Pid::from_raw(id)),
            Heard::Order(Order::End(end)) => end_ms = Some(end),
            Heard::Order(Order::Dismissed) => return 0,
            Heard::Nothing => {
                kill(group);
                // Once more if fredlock goes on, or goes.
                end_ms = None;
            }
            Heard::TheEnd => {
                kill(group);
                return status::LOST;
            }
        }
    }
}

fn kill(group: Option<Pid>) {
    if let Some(group) = group {
        killpg(group, Signal::SIGKILL).ok();
    }
}

/// What comes on standard input. Without a thread that reads it: the machine may have none left for a
/// guard, which could guard nothing then.
#[derive(Debug, Default)]
struct Orders(Vec<u8>);

enum Heard {
    Order(Order),
    /// Not within the time.
    Nothing,
    /// Fredlock is gone, or says what no fredlock would.
    TheEnd,
}

impl Orders {
    /// Waits so long for the next one, or for ever.
    fn next_within(&mut self, left_ms: Option<u64>) -> Heard {
        let end = left_ms.map(|left| now_ms().saturating_add(left));
        loop {
            if let Some(at) = self.0.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.0.drain(..=at).collect();
                let order = std::str::from_utf8(&line[..at]).ok().and_then(Order::parse);
                return order.map_or(Heard::TheEnd, Heard::Order);
            }
            let left = end.map(|end| end.saturating_sub(now_ms()));
            let timeout = match left {
                Some(left) => PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
                None => PollTimeout::NONE,
            };
            let stdin = io::stdin();
            let mut input = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
            match poll(&mut input, timeout) {
                Ok(0) if end.is_some_and(|end| now_ms() >= end) => return Heard::Nothing,
                // The longest that can be asked for was shorter, or a signal came.
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => {
                    let mut bytes = [0; 256];
                    match nix::unistd::read(stdin.as_fd(), &mut bytes) {
                        Ok(0) => return Heard::TheEnd,
                        Ok(count) => self.0.extend_from_slice(&bytes[..count]),
                        Err(Errno::EINTR | Errno::EAGAIN) => {}
                        Err(_) => return Heard::TheEnd,
                    }
                }
                Err(_) => return Heard::TheEnd,
            }
        }
    }
}

impl Order {
    fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            // A group of its own, never 0 or 1: those would be the guard's, or everybody.
            Some(("group", id)) => id.parse().ok().filter(|id| *id > 1).map(Self::Group),
            Some(("end", ms)) => ms.parse().ok().map(Self::End),
            None if line == "dismissed" => Some(Self::Dismissed),
            _ => None,
        }
    }
}

/// A clock that both processes share.
fn now_ms() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| {
        u64::try_from(Duration::from(now).as_millis()).unwrap_or(u64::MAX)
    })
}
