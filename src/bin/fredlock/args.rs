//! The command line and its help.

use std::{ffi::OsString, time::Duration};

use clap::{Args, Parser, Subcommand};
use fredlock::OwnerLabel;

/// The shortest ttl: below it a process cannot be ended for certain within what is left.
const TTL_MIN: Duration = Duration::from_millis(500);

/// Locks over several Redis or Valkey masters, for commands.
#[derive(Debug, Parser)]
#[command(
    name = "fredlock",
    version,
    about,
    max_term_width = 100,
    disable_help_subcommand = false,
    after_help = "Every user of a resource must name the same masters: lists that share too few of \
                  them exclude nothing."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Runs a command while it holds resources.
    ///
    /// Waits until it holds all the resources on a majority of the masters, runs the command, extends
    /// the lock as long as that runs, and releases it.
    ///
    /// The command runs in a process group of its own, with the standard streams of fredlock. SIGINT,
    /// SIGTERM, SIGHUP and SIGQUIT are passed on to the group, and are ignored by it where fredlock was
    /// started with them ignored (nohup). On a terminal the group is in the foreground; after Ctrl-Z
    /// fredlock stops with it, nothing extends the lock any more, and once its time is over the stopped
    /// command is killed and never continued.
    ///
    /// Before the lock's time is over without an extension (because a majority of the masters does not
    /// answer, say) the group gets SIGTERM, and SIGKILL when the grace is over, which is before anybody
    /// else can have the lock. If the masters say that it is gone already, SIGKILL comes at once. On
    /// Linux, processes that left the group are killed too. When the command has ended by itself, what
    /// it left behind in its group is ended in the same way before the lock is released; what left the
    /// group (a daemon) lives on.
    ///
    /// If fredlock itself is killed (SIGKILL, or no memory left), or stopped until the lock's time is
    /// over, a second process of it kills the group.
    #[command(after_help = RUN_AFTER)]
    Run(Box<Run>),
    /// Shows who holds resources, on which masters, and for how long.
    ///
    /// Reads only. Of the value that a holder's key has no more is shown than eight characters, since
    /// whoever knows it can release the lock.
    #[command(after_help = INSPECT_AFTER)]
    Inspect(Inspect),
    /// Looks at the masters, and says what would break the guarantees.
    ///
    /// Reads only. Each finding has why it matters, and what to set. What cannot be looked at, since the
    /// service denies it, is a finding too.
    #[command(after_help = DOCTOR_AFTER)]
    Doctor(Doctor),
    /// Marks new masters as such, so that a restart guard need not wait.
    ///
    /// Call it only if no master has come up empty within the longest ttl in use: the masters cannot tell
    /// a new cluster from one that has lost everything a moment ago. Harmless once the masters are in
    /// use: those that came up empty since are left to their quarantine then.
    #[command(after_help = INIT_AFTER)]
    Init(Init),
    /// Takes a lock from its holder, for operators.
    ///
    /// Says whose it is, asks, and deletes it on all masters. The holder is not asked: it loses the lock
    /// at its next extension at the latest (`fredlock run` then kills its command), and until then it
    /// works on. So the fence that is left on the masters is larger than the holder's: no late extension
    /// revives the lock, and what it protects refuses the holder once it has seen a larger fence, that
    /// of the next holder, or this one. Of a lock over several resources all is lost with one.
    ///
    /// Whoever gets the lock after it was looked at is left alone. Nothing is done while too few masters
    /// answer; those that do not answer keep the lock until its time is over, which helps nobody.
    #[command(after_help = BREAK_AFTER)]
    Break(Break),
    /// Prints a script that completes fredlock's command line in a shell.
    ///
    /// For bash: fredlock completions bash > ~/.local/share/bash-completion/completions/fredlock
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

const RUN_AFTER: &str = "\
Environment of the command (set over what was inherited):
  FREDLOCK_RESOURCES  the resources, sorted, one on a line
  FREDLOCK_FENCE      a number greater than that of every earlier holder: hand it to what you write
                      to, which has to refuse smaller ones
  FREDLOCK_LABEL      the label

Exit status:
  that of the command, or 128 + N if signal N ended it; and
   64  the command line, or the list of masters, is wrong
   69  no quorum of masters: too few answered, or too late for the ttl, or one must not vote
   71  this machine could not start a process
   75  busy: somebody else held the lock, with --no-wait or until --wait was over (-E changes it)
   76  the lock was lost, or --max-hold was over, before the command had ended
  126  the command was found and cannot be run
  127  the command was not found
  128 + N  signal N came while it waited for the lock

Examples:
  fredlock run --no-wait -E 0 --min-hold 30s nightly-report -- /usr/local/bin/report
  fredlock run --ttl 10s --wait 5m deploy:web deploy:api -- sh -c './deploy --fence $FREDLOCK_FENCE'";

const INSPECT_AFTER: &str = "\
Exit status:
   0  every resource was looked at
  64  the command line, or the list of masters, is wrong
  69  too few masters can tell who holds it

JSON (--json): an array with an object for each resource; fields stay, and others may be added:
  resource, verdict (held, free, split or unknown), holder, label, for_at_least_ms, and
  masters  for each: master, state (held, free or failed), error, holder, label, time_left_ms,
           fence, restart_guard (ready, quarantined or unmarked), took_ms; null where there is none";

const INIT_AFTER: &str = "\
Exit status:
   0  every master is initialised
  64  the command line, or the list of masters, is wrong
  69  not every master answered
  75  the masters are in use, and some came up empty: these vote when the guard's time is over";

#[derive(Debug, Clone, Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) masters: Masters,

    /// Writes JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,

    /// What to look at.
    #[arg(value_name = "RESOURCE", required = true)]
    pub(crate) resources: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Init {
    #[command(flatten)]
    pub(crate) masters: Masters,
}

const BREAK_AFTER: &str = "\
Exit status:
   0  the lock is broken, or there was none
   1  not confirmed: nothing was done
  64  the command line, or the list of masters, is wrong, or nobody can be asked and --yes is missing
  69  too few masters answered: nothing was done, or, as it says then, it has to be run again

JSON (--json): an object; fields stay, and others may be added:
  resource, status (broken, free, declined or incomplete), fence (that was left), before (what
  `fredlock inspect` tells), and
  masters  for each: master, result (deleted, free, taken or failed), error, holder, label (of whoever
           has taken it since); empty if nothing was done";

#[derive(Debug, Clone, Args)]
pub(crate) struct Break {
    #[command(flatten)]
    pub(crate) masters: Masters,

    /// Does not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Writes JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,

    /// Whose lock to break.
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: String,
}

const DOCTOR_AFTER: &str = "\
Exit status:
   0  healthy: nothing was found
   1  warnings, or something could not be looked at
   2  broken: no lock can be had, or the guarantees do not hold
  64  the command line is wrong

JSON (--json); fields stay, and others may be added:
  status    healthy, warnings or broken
  ttl_ms    the ttl that the round trips were measured against
  quorum    how many masters have to agree
  masters   for each: master, reachable, error, server, native_commands, uptime_seconds,
            round_trip_ms, clock_offset_ms, restart_guard; null where it is not known
  findings  for each: check, level (unknown, warning or broken), master (null: all), finding, why, cure

Checks: quorum, even-number, single-master, unreachable, slow, same-server, replica, cluster-node,
sentinel, replicas-attached, eviction, memory, persistence, restarted, version, scripts, info,
config, clock, maxclients";

#[derive(Debug, Clone, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) masters: Masters,

    /// The ttl of your locks: what is slow, or has just been restarted, is so against it.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = ttl)]
    pub(crate) ttl: Duration,

    /// Writes JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Masters {
    /// The masters, by their URLs.
    ///
    /// `redis://[user:password@]host[:port][/database]`, `rediss://…` with TLS, or `redis+unix:///path`.
    /// 1 to 63, five as a rule, and the same for all users of a resource. Passwords are better kept in
    /// the environment: others on the machine can see a command line.
    #[arg(
        long = "masters",
        env = "FREDLOCK_MASTERS",
        hide_env_values = true,
        value_name = "URL,URL…",
        value_delimiter = ',',
        required = true
    )]
    pub(crate) urls: Vec<String>,

    /// How long a master that came up empty has no vote: the same for all users of the masters.
    ///
    /// At least the longest ttl in use. See `fredlock init`. [default: no guard]
    #[arg(long, env = "FREDLOCK_RESTART_GUARD", value_name = "DURATION", value_parser = duration)]
    pub(crate) restart_guard: Option<Duration>,

    /// How long a command to a master may take. [default: a tenth of the ttl, within 5ms to 100ms]
    ///
    /// More for masters that are far away: it is taken off the time in which the lock can be extended.
    #[arg(long, env = "FREDLOCK_COMMAND_TIMEOUT", value_name = "DURATION", value_parser = duration)]
    pub(crate) command_timeout: Option<Duration>,

    /// How many masters have to agree, if more than a majority.
    ///
    /// One more bears one more master that comes back empty, and one failure less.
    #[arg(long, env = "FREDLOCK_QUORUM", value_name = "N")]
    pub(crate) quorum: Option<usize>,
}

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

/// As people write it: `500ms`, `30s`, `2m`, `1h 30m`; and 0.
fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    humantime::parse_duration(text).map_err(|error| format!("{error}; such as 500ms, 30s or 2m"))
}

fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text)?;
    if (TTL_MIN..=fredlock::TTL_MAX).contains(&ttl) {
        Ok(ttl)
    } else {
        Err("it must be from 500ms to 100 years".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("2m", 120_000), ("0", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "-1s", "1x", "abc"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(ttl("499ms").is_err());
    }
}
