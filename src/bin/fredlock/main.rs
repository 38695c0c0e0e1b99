//! `fredlock`: runs a command under a lock over several Redis or Valkey masters, and looks at the
//! masters. `fredlock help` tells its use.
//!
//! | module | what |
//! | --- | --- |
//! | `args` | the command line and its help |
//! | `status` | the exit statuses |
//! | `report` | what is said on standard error, without ever waiting for it |
//! | `connect` | from the command line to connected masters |
//! | `inspect`, `init`, `breaking` | `fredlock inspect`, `fredlock init`, `fredlock break` |
//! | `doctor` | `fredlock doctor`: `probe` asks a master, `judge` finds what is wrong, `report` tells it |
//! | `run` | `fredlock run`: `hold` has the lock, `supervise` the command, `family` its processes, `stand_in` what becomes the command, `guard` the process that outlives a killed fredlock, `job` and `terminal` job control, `signals` what was sent to fredlock |

#[cfg(not(unix))]
compile_error!("the tool runs commands in process groups and needs a Unix; build without `cli`");

mod args;
mod breaking;
mod connect;
mod doctor;
mod init;
mod inspect;
mod report;
mod run;
mod status;

use std::{env, process::ExitCode};

use clap::{CommandFactory, Parser};

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
        Err(error) => {
            // Where nobody reads it, the status has to do.
            drop(error.print());
            let is_wrong = error.use_stderr();
            return ExitCode::from(if is_wrong { status::USAGE } else { 0 });
        }
    };
    ExitCode::from(match arguments.task {
        Task::Run(task) => run::run(&task),
        Task::Inspect(task) => inspect::run(&task),
        Task::Doctor(task) => doctor::run(&task),
        Task::Init(task) => init::run(&task),
        Task::Break(task) => breaking::run(&task),
        Task::Completions { shell } => {
            let mut command = Arguments::command();
            clap_complete::generate(shell, &mut command, "fredlock", &mut std::io::stdout());
            0
        }
    })
}
