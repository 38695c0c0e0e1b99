//! `fredlock init`: marks new masters for the restart guard.

use fredlock::InitialiseError;

use crate::{args, connect, output, report, status};

/// Initialises all masters; gives the exit status.
pub(crate) fn run(task: &args::Init) -> u8 {
    let done = connect::with(&task.masters, async |redlock| {
        redlock.initialise().await.map_err(|error| match error {
            // Time heals it.
            InitialiseError::InUse(_) => (status::BUSY, error.to_string()),
            _ => (
                status::NO_QUORUM,
                format!("{error}: repair them, and run it again"),
            ),
        })
    });
    match done {
        Ok(done) => {
            let lines = done
                .iter()
                .map(|master| format!("{}  {}\n", master.master(), master.state()));
            output::print(lines.collect::<Vec<_>>().concat().as_bytes())
        }
        Err((status, text)) => {
            report::say(&text);
            status
        }
    }
}
