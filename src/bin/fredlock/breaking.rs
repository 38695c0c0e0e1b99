//! `fredlock break`: takes a lock from its holder, for operators.

use std::io::{self, IsTerminal, Write};

use fredlock::{BreakError, BreakPlan, BreakState, Broken, Redlock};
use serde::Serialize;

use crate::{args, connect, inspect, output, report, status};

/// The exit status where the question was not answered with yes.
const DECLINED: u8 = 1;

/// Breaks the lock; gives the exit status.
pub(crate) fn run(task: &args::Break) -> u8 {
    let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !task.yes && !can_ask {
        report::say("nobody can be asked on this terminal, or there is none: say --yes");
        return status::USAGE;
    }
    let done = connect::with(&task.masters, async |redlock| {
        let plan = redlock
            .plan_break(&task.resource)
            .await
            .map_err(|error| failure(&error))?;
        if !task.json {
            output::write(|out| inspect::table(out, plan.inspection()))?;
        }
        if plan.is_free() {
            return tell(task, &plan, "free", None);
        }
        if !task.yes && !confirmed(&plan).await {
            tell(task, &plan, "declined", None)?;
            return Err((DECLINED, "not confirmed: nothing was done".to_owned()));
        }
        finish(task, redlock, &plan).await
    });
    match done {
        Ok(()) => 0,
        Err((status, text)) => {
            report::say(&text);
            status
        }
    }
}

async fn finish(
    task: &args::Break,
    redlock: &Redlock,
    plan: &BreakPlan,
) -> Result<(), (u8, String)> {
    match redlock.break_lock(plan).await {
        Ok(broken) => tell(task, plan, "broken", Some(&broken)).map_err(|(status, text)| {
            let fence = broken.fence();
            (
                status,
                format!("{text}; the lock is broken, with fence {fence}"),
            )
        }),
        Err(error) => {
            if let BreakError::Incomplete(broken) = &error {
                tell(task, plan, "incomplete", Some(broken))?;
            }
            Err(failure(&error))
        }
    }
}

/// Asks on the terminal. Anything but yes is a no, and so is the end of it.
async fn confirmed(plan: &BreakPlan) -> bool {
    let question = format!(
        "Its holder is not asked, and works on until it looks. Break the lock on {}? Say yes: ",
        inspect::printable(plan.inspection().resource())
    );
    // By a thread of its own: the connections live on meanwhile.
    let answer = tokio::task::spawn_blocking(move || {
        let mut stderr = io::stderr().lock();
        write!(stderr, "{question}").and_then(|()| stderr.flush())?;
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        io::Result::Ok(line)
    });
    answer.await.is_ok_and(|line| {
        line.is_ok_and(|line| ["y", "yes"].contains(&line.trim().to_lowercase().as_str()))
    })
}

fn failure(error: &BreakError) -> (u8, String) {
    match error {
        BreakError::NoQuorum(inspection) => {
            let failures: Vec<_> = inspection
                .findings()
                .filter_map(|one| Some(format!("{} {}", one.master(), one.state().err()?)))
                .collect();
            let text = format!("{error}: nothing was done ({})", failures.join("; "));
            (status::NO_QUORUM, text)
        }
        BreakError::Incomplete(_) => (
            status::NO_QUORUM,
            format!("{error}: repair the masters, and run it again"),
        ),
        _ => (status::USAGE, format!("{error}: take another name")),
    }
}

/// Its fields stay; others may be added.
#[derive(Debug, Serialize)]
struct Report<'a> {
    resource: &'a str,
    /// `broken`, `free`, `declined` or `incomplete`.
    status: &'static str,
    /// What was left as the fence.
    fence: Option<u64>,
    /// Empty if nothing was done.
    masters: Vec<Master<'a>>,
    /// As `fredlock inspect` tells it.
    before: inspect::Report,
}

#[derive(Debug, Serialize)]
struct Master<'a> {
    #[serde(rename = "master")]
    name: &'a str,
    /// `deleted`, `free`, `taken` or `failed`.
    result: &'static str,
    error: Option<String>,
    /// Whose it is by now.
    holder: Option<String>,
    label: Option<String>,
}

fn tell(
    task: &args::Break,
    plan: &BreakPlan,
    status: &'static str,
    broken: Option<&Broken>,
) -> Result<(), (u8, String)> {
    let masters = broken.map(|broken| broken.masters().map(Master::new).collect());
    let report = Report {
        resource: plan.inspection().resource(),
        status,
        fence: broken.map(|broken| broken.fence().get()),
        masters: masters.unwrap_or_default(),
        before: inspect::Report::new(plan.inspection()),
    };
    output::write(|out| {
        if task.json {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)
        } else {
            text(out, &report)
        }
    })
}

fn text(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let name = inspect::printable(report.resource);
    match report.fence {
        Some(fence) => writeln!(out, "{name}: {}, fence {fence}", report.status)?,
        None if report.status == "free" => writeln!(out, "{name}: there is nothing to break")?,
        None => {}
    }
    for master in &report.masters {
        let (holder, error) = (master.holder.as_deref(), master.error.as_deref());
        let more = holder.or(error).unwrap_or_default();
        writeln!(
            out,
            "{}",
            format!("  {}  {}  {more}", master.name, master.result).trim_end()
        )?;
    }
    Ok(())
}

impl<'a> Master<'a> {
    fn new(master: &'a fredlock::BrokenMaster) -> Self {
        let (result, error, holder) = match master.state() {
            BreakState::Deleted => ("deleted", None, None),
            BreakState::Free => ("free", None, None),
            BreakState::Taken(holder) => ("taken", None, Some(holder)),
            BreakState::Failed(error) => ("failed", Some(error.to_string()), None),
            _ => ("failed", None, None),
        };
        Self {
            name: master.master(),
            result,
            error,
            holder: holder.map(inspect::short),
            label: holder.and_then(inspect::label),
        }
    }
}
