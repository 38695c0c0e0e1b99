//! `fredlock inspect`: who holds what.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use fredlock::{Fence, Finding, GuardState, Holder, Inspection, Possession};
use serde::Serialize;

use crate::{args, connect, output, report, since::Since, status};

/// Looks at all resources; gives the exit status.
pub(crate) fn run(task: &args::Inspect) -> u8 {
    let inspected = connect::with(&task.masters, async |redlock| {
        let mut all = Vec::new();
        for resource in &task.resources {
            let inspection = redlock.inspect(resource).await;
            all.push(
                inspection
                    .map_err(|error| (status::USAGE, format!("{error}: take another name")))?,
            );
        }
        Ok(all)
    });
    let inspections = match inspected {
        Ok(inspections) => inspections,
        Err((status, text)) => {
            report::say(&text);
            return status;
        }
    };
    let told = output::write(|out| {
        if task.json {
            json(out, &inspections)
        } else {
            inspections.iter().try_for_each(|one| table(out, one))
        }
    });
    if let Err((status, text)) = told {
        report::say(&text);
        return status;
    }
    let is_unknown = |one: &Inspection| matches!(one.verdict(), Possession::Unknown);
    if inspections.iter().any(is_unknown) {
        status::NO_QUORUM
    } else {
        0
    }
}

/// Its fields stay; others may be added.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    resource: String,
    verdict: &'static str,
    holder: Option<String>,
    label: Option<String>,
    for_at_least_ms: Option<u64>,
    /// At the latest, by the holder's clock.
    held_since: Option<String>,
    /// The same by our clock.
    held_for_at_least_ms: Option<u64>,
    masters: Vec<Master>,
}

#[derive(Debug, Serialize)]
struct Master {
    #[serde(rename = "master")]
    name: String,
    state: &'static str,
    error: Option<String>,
    holder: Option<String>,
    label: Option<String>,
    time_left_ms: Option<u64>,
    fence: Option<u64>,
    restart_guard: Option<&'static str>,
    took_ms: f64,
}

fn json(out: &mut impl Write, inspections: &[Inspection]) -> io::Result<()> {
    let reports: Vec<_> = inspections.iter().map(Report::new).collect();
    serde_json::to_writer_pretty(&mut *out, &reports)?;
    writeln!(out)
}

impl Report {
    pub(crate) fn new(inspection: &Inspection) -> Self {
        let (verdict, holder, left) = match inspection.verdict() {
            Possession::Held {
                holder,
                for_at_least,
                ..
            } => ("held", Some(holder), *for_at_least),
            Possession::Free => ("free", None, None),
            Possession::Split => ("split", None, None),
            _ => ("unknown", None, None),
        };
        let since = Since::of(inspection);
        Self {
            resource: inspection.resource().to_owned(),
            verdict,
            holder: holder.map(short),
            label: holder.and_then(label),
            for_at_least_ms: left.map(ms),
            held_since: since.map(|since| since.to_string()),
            held_for_at_least_ms: since.and_then(Since::ago).map(ms),
            masters: inspection.findings().map(Master::new).collect(),
        }
    }
}

impl Master {
    fn new(finding: &Finding) -> Self {
        let state = finding.state().ok();
        let holder = state.and_then(fredlock::KeyState::holder);
        Self {
            name: finding.master().to_owned(),
            state: match (state, holder) {
                (None, _) => "failed",
                (_, None) => "free",
                (_, Some(_)) => "held",
            },
            error: finding.state().err().map(ToString::to_string),
            holder: holder.map(short),
            label: holder.and_then(label),
            time_left_ms: state.and_then(fredlock::KeyState::time_left).map(ms),
            fence: state
                .map(fredlock::KeyState::fence)
                .filter(|fence| *fence != Fence::NONE)
                .map(Fence::get),
            restart_guard: state
                .and_then(fredlock::KeyState::guard)
                .map(|guard| match guard {
                    GuardState::Ready => "ready",
                    GuardState::Quarantined { .. } => "quarantined",
                    _ => "unmarked",
                }),
            took_ms: finding.took().as_secs_f64() * 1e3,
        }
    }
}

/// The table of one resource, with colours if it goes to a terminal.
pub(crate) fn table(
    out: &mut (impl Write + IsTerminal),
    inspection: &Inspection,
) -> io::Result<()> {
    let colours = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let report = Report::new(inspection);
    let colour = match report.verdict {
        "held" => "33",
        "free" => "32",
        _ => "31",
    };
    let (begin, end) = if colours {
        (format!("\x1b[{colour}m"), "\x1b[0m")
    } else {
        (String::new(), "")
    };
    let since = report
        .held_since
        .as_ref()
        .map_or_else(String::new, |since| {
            format!(", held since {since} at the latest")
        });
    writeln!(
        out,
        "{}: {begin}{}{end}{since}",
        printable(&report.resource),
        inspection.verdict()
    )?;
    let rows = report.masters.iter().map(Master::row);
    let heads = [
        "MASTER", "STATE", "HOLDER", "LABEL", "LEFT", "FENCE", "GUARD",
    ]
    .map(str::to_owned);
    let rows: Vec<_> = std::iter::once(heads).chain(rows).collect();
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in rows {
        let cells: Vec<_> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        writeln!(out, "  {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

impl Master {
    fn row(&self) -> [String; 7] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let left = match (self.state, self.time_left_ms) {
            ("held", None) => Some("no expiry".to_owned()),
            (_, left) => {
                left.map(|left| humantime::format_duration(Duration::from_millis(left)).to_string())
            }
        };
        [
            self.name.clone(),
            self.error.clone().unwrap_or_else(|| self.state.to_owned()),
            or_dash(self.holder.clone()),
            or_dash(self.label.clone()),
            or_dash(left),
            or_dash(self.fence.map(|fence| fence.to_string())),
            or_dash(self.restart_guard.map(str::to_owned)),
        ]
    }
}

/// The part of its value that may be shown, without the label.
pub(crate) fn short(holder: &Holder) -> String {
    let text = holder.to_string();
    text.split_once('…')
        .map_or(text.clone(), |(short, _)| format!("{short}…"))
}

pub(crate) fn label(holder: &Holder) -> Option<String> {
    holder.label().map(|label| label.to_string())
}

/// A name for people to read: what would break a line, or steer a terminal, is shown as `?`.
pub(crate) fn printable(name: &str) -> String {
    name.replace(char::is_control, "?")
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
