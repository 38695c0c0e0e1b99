//! Which masters, and what all of their users have to agree on.

use std::time::Duration;

use clap::Args;

use super::duration::duration;

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
