//! The command lines for operators: `inspect`, `doctor`, `init`, `break`, `completions`, `man`.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::{duration::ttl, masters::Masters};

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
pub(crate) struct Init {
    #[command(flatten)]
    pub(crate) masters: Masters,
}

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

#[derive(Debug, Clone, Args)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Man {
    /// Where to write them: a directory, which is made if it is not there.
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
}
