//! What a run came to, as it is printed.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use crate::{plan::Plan, schedule::Kind, verdict::Lateness};

#[derive(Debug)]
pub(crate) struct Report {
    /// Name and version.
    pub(crate) server: String,
    pub(crate) plan: Plan,
    pub(crate) took: Duration,
    pub(crate) acquisitions: usize,
    pub(crate) losses: u64,
    pub(crate) met_after_the_end: usize,
    pub(crate) writes_taken: u64,
    pub(crate) writes_refused: u64,
    pub(crate) faults: BTreeMap<Kind, u64>,
    pub(crate) signals: Lateness,
    pub(crate) violations: Vec<String>,
    /// Where the joined history is, if it is kept.
    pub(crate) history: Option<PathBuf>,
}

/// So many violations are shown; the others are most often the same again.
const SHOWN_MAX: usize = 3;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "chaos on {}, seed {}, {:.0} s of faults, {:.0} s in all",
            self.server,
            self.plan.seed,
            self.plan.lasts.as_secs_f64(),
            self.took.as_secs_f64()
        )?;
        let mut row =
            |what: &str, count: &dyn fmt::Display| writeln!(f, "    {what:<32}{count:>8}");
        row("acquisitions", &self.acquisitions)?;
        row("losses noticed", &self.losses)?;
        row("fenced writes taken", &self.writes_taken)?;
        row("fenced writes refused", &self.writes_refused)?;
        row("met in the section, too late", &self.met_after_the_end)?;
        for (kind, count) in &self.faults {
            row(&format!("{kind:?}"), count)?;
        }
        row("signals timed", &self.signals.timed)?;
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        row("largest lateness of a signal", &ms(self.signals.whole))?;
        row("less waiting for a core", &ms(self.signals.own))?;
        row("violations", &self.violations.len())?;
        for violation in self.violations.iter().take(SHOWN_MAX) {
            writeln!(f, "- {violation}")?;
        }
        if let Some(path) = &self.history {
            writeln!(f, "the joined history is in {}", path.display())?;
        }
        Ok(())
    }
}
