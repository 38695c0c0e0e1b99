//! The exit statuses, which are those of `sysexits.h` and of shells where these have one.

/// The command line, or the list of masters, is wrong (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// Too few masters answered, or one must not vote (`EX_UNAVAILABLE`).
pub(crate) const NO_QUORUM: u8 = 69;
/// Something went wrong on this machine, such as a process that cannot be started (`EX_OSERR`).
pub(crate) const SYSTEM: u8 = 71;
/// Somebody else holds the lock (`EX_TEMPFAIL`).
pub(crate) const BUSY: u8 = 75;
/// The lock was lost before the command had ended.
pub(crate) const LOST: u8 = 76;
/// The command was found, and cannot be run.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// That of a process which a signal has ended.
pub(crate) fn of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
