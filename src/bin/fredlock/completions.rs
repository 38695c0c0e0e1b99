//! `fredlock completions`: a script that completes the command line in a shell.

use clap::CommandFactory;

use crate::{
    args::{self, Arguments},
    output,
};

/// Prints the script; gives the exit status.
pub(crate) fn run(task: &args::Completions) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(
        task.shell,
        &mut Arguments::command(),
        "fredlock",
        &mut script,
    );
    output::print(&script)
}
