//! `fredlock doctor`: looks at the masters, and says what would break the guarantees.

mod clock;
mod findings;
mod judge;
mod probe;
mod report;
mod server;
mod settings;

use std::sync::Arc;

use self::{findings::Level, judge::Judge, probe::Probe};
use crate::{args, output, runtime, status};

/// Exit statuses of its own.
const WARNINGS: u8 = 1;
const BROKEN: u8 = 2;

/// Looks at all masters; gives the exit status.
pub(crate) fn run(task: &args::Doctor) -> u8 {
    let mut configs = Vec::new();
    for (index, url) in task.masters.urls.iter().enumerate() {
        match fredlock::config_of(url.trim()) {
            Ok(config) => configs.push(config),
            Err(reason) => {
                return fail(
                    status::USAGE,
                    &format!("the URL of master {} cannot be used: {reason}", index + 1),
                );
            }
        }
    }
    // Less than a majority would break exclusion, and more than all can never be had.
    let (all, quorum) = (
        configs.len(),
        task.masters.quorum.unwrap_or(configs.len() / 2 + 1),
    );
    if !(all / 2 + 1..=all).contains(&quorum) {
        return fail(
            status::USAGE,
            &format!("a quorum of {quorum} of {all} masters cannot be: take a majority at least"),
        );
    }
    let runtime = match runtime::start() {
        Ok(runtime) => runtime,
        Err(error) => return fail(status::SYSTEM, &format!("cannot start: {error}")),
    };
    let task_settings = Arc::new(probe::Limits::of(task));
    let probes = runtime.block_on(async {
        let probes = configs.into_iter().map(|config| {
            // Each by itself, so that a slow one makes no other look slow.
            tokio::spawn(Probe::make(config, Arc::clone(&task_settings)))
        });
        let mut made = Vec::new();
        for probe in probes.collect::<Vec<_>>() {
            made.extend(probe.await.ok());
        }
        made
    });
    let findings = Judge::new(&probes, task, quorum).findings();
    let told = output::write(|out| {
        if task.json {
            report::json(out, task.ttl, quorum, &probes, &findings)
        } else {
            report::text(out, quorum, &probes, &findings)
        }
    });
    if let Err((status, text)) = told {
        return fail(status, &text);
    }
    match findings.iter().map(|finding| finding.level).max() {
        None => 0,
        Some(Level::Unknown | Level::Warning) => WARNINGS,
        Some(Level::Broken) => BROKEN,
    }
}

fn fail(status: u8, text: &str) -> u8 {
    crate::report::say(text);
    status
}
