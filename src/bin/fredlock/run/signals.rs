//! What was sent to fredlock, as events.

use std::{collections::HashSet, io, sync::mpsc::Sender, thread};

use signal_hook::{
    consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP},
    iterator::Signals,
};

use super::Event;

/// Those that are passed on to the command.
pub(super) const FORWARDED: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Begins to send the signals as events. Those that fredlock was started with ignored (by `nohup`, or
/// as a job in the background of a script) stay so, for the command too.
pub(super) fn listen(events: Sender<Event>) -> io::Result<()> {
    let ignored = ignored();
    let wanted = FORWARDED.into_iter().chain([SIGTSTP]);
    let mut wanted: Vec<_> = wanted.filter(|signal| !ignored.contains(signal)).collect();
    // Even if ignored: the kernel would not tell how the command ended.
    wanted.extend([SIGCHLD, SIGCONT]);
    let mut signals = Signals::new(wanted)?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// As far as it can be known: Linux tells.
fn ignored() -> HashSet<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    (1..=64)
        .filter(|signal| mask >> (signal - 1) & 1 == 1)
        .collect()
}
