//! The command line of `fredlock run`.

use std::{ffi::OsString, time::Duration};

use clap::Args;
use fredlock::OwnerLabel;

use super::{
    duration::{duration, ttl},
    masters::Masters,
};

#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) masters: Masters,

    /// How long masters keep the lock unless it is extended, which is done while the command runs.
    ///
    /// From 500ms. So long it stays when this machine dies; and this is how long a majority of masters
    /// can be away, less two thirds, before the command is ended.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = ttl)]
    pub(crate) ttl: Duration,

    /// How long to wait for the lock. [default: for ever while somebody holds it, 10s without a quorum]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// Tries once, and does not wait.
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// The exit status where the lock is busy, 0 to 255.
    #[arg(short = 'E', long, value_name = "N", default_value_t = crate::status::BUSY)]
    pub(crate) conflict_exit_code: u8,

    /// The longest that the lock is held: the command has ended by then.
    ///
    /// SIGTERM comes earlier by the grace, or by a third of this if that is shorter.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) max_hold: Option<Duration>,

    /// Keeps the lock at least so long, also if the command ends earlier.
    ///
    /// So that two hosts whose clocks differ by less do not both run a short cron job. fredlock waits for it;
    /// a signal ends that, and leaves the lock to its ttl.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) min_hold: Option<Duration>,

    /// How long after SIGTERM comes SIGKILL; at most a third of the ttl.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,

    /// What this holder calls itself, for whoever looks at the lock: 1 to 128 bytes. [default: HOST/PID]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<OwnerLabel>,

    /// Says nothing where the lock is busy, and shows no progress.
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Tells what happens to the lock.
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// What to hold: all of them, or none. 1 to 128 names of 1 to 1024 bytes.
    #[arg(value_name = "RESOURCE", required = true)]
    pub(crate) resources: Vec<String>,

    /// The command and its arguments.
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}
