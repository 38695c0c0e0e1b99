//! `fredlock`: runs a command under a lock over several Redis or Valkey masters, and looks at the
//! masters. `fredlock help` tells its use.
//!
//! | module | what |
//! | --- | --- |
//! | `args` | the command line, its help, and what man pages have beside that |
//! | `status` | the exit statuses |
//! | `report` | what is said on standard error, without ever waiting for it |
//! | `output` | what was asked for, on standard output |
//! | `runtime`, `connect` | from the command line to connected masters |
//! | `inspect`, `init`, `breaking` | `fredlock inspect`, `fredlock init`, `fredlock break`; `since` tells since when a lock is held |
//! | `man`, `completions` | what is installed beside the tool |
//! | `doctor` | `fredlock doctor`: `probe` asks a master, `judge` finds what is wrong, `report` tells it |
//! | `run` | `fredlock run`: `session` leads from the one to the other, `hold` has the lock, `who` looks for its holder, `failure` tells why it was not had, `supervise` has the command, `deadline` ends it in time, `family` its processes, `stand_in` what becomes the command, `guard` the process that outlives a killed fredlock, `job` and `terminal` job control, `signals` what was sent to fredlock |

#[cfg(not(unix))]
compile_error!("the tool runs commands in process groups and needs a Unix; build without `cli`");

mod args;
mod breaking;
mod completions;
mod connect;
mod doctor;
mod init;
mod inspect;
mod man;
mod output;
mod report;
mod run;
mod runtime;
mod since;
mod status;

use std::{env, process::ExitCode};

use clap::Parser;

use crate::args::{Arguments, Task};

fn main() -> ExitCode {
    // fredlock starts itself for two tasks, and is in a hurry then.
    let mut words = env::args_os().skip(1);
    match words.next().as_deref().and_then(|word| word.to_str()) {
        Some(run::stand_in::NAME) => return ExitCode::from(run::stand_in::main(words)),
        Some(run::guard::NAME) => return ExitCode::from(run::guard::main()),
        _ => {}
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return ExitCode::from(told_by_clap(&error)),
    };
    ExitCode::from(match arguments.task {
        Task::Run(task) => run::run(&task),
        Task::Inspect(task) => inspect::run(&task),
        Task::Doctor(task) => doctor::run(&task),
        Task::Init(task) => init::run(&task),
        Task::Break(task) => breaking::run(&task),
        Task::Completions(task) => completions::run(&task),
        Task::Man(task) => man::run(&task),
    })
}

/// Help and the version are no errors, but they have to be written.
fn told_by_clap(error: &clap::Error) -> u8 {
    let written = error.print();
    if error.use_stderr() {
        // Where nobody reads it, the status has to do.
        return status::USAGE;
    }
    match output::checked(written) {
        Ok(()) => 0,
        Err((status, text)) => {
            report::say(&text);
            status
        }
    }
}
