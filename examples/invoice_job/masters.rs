//! The masters that hold the locks: servers, or in memory.

use std::{env, fmt, time::Duration};

use fredlock::{BuildError, Redlock, Retry, testing::MemoryMasters};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// As many as it takes so that two may fail.
const FIVE: usize = 5;

pub enum Masters {
    /// The process ids are known only where some are to be killed.
    Servers {
        urls: Vec<String>,
        pids: Vec<Pid>,
    },
    Memory(MemoryMasters),
}

impl Masters {
    pub fn from_environment(kill: bool) -> Result<Self, String> {
        let urls = list("FREDLOCK_MASTERS");
        if urls.is_empty() {
            return Ok(Self::Memory(MemoryMasters::new(FIVE)));
        }
        let pids = if kill { pids(urls.len())? } else { Vec::new() };
        Ok(Self::Servers { urls, pids })
    }

    /// One more client of these masters.
    pub async fn connect(&self) -> Result<Redlock, BuildError> {
        let builder = match self {
            Self::Servers { urls, .. } => Redlock::builder().urls(urls),
            Self::Memory(masters) => Redlock::builder().memory(masters),
        };
        // While somebody holds a lock it is asked for again and again, up to a limit.
        let busy = Retry::default().unlimited();
        let limit = Duration::from_secs(20);
        builder
            .settings(|settings| settings.retry_busy(busy).wait_limit(limit))
            .connect()
            .await
    }

    /// Kills the first two, and says which.
    pub fn kill_two(&self) -> Result<String, String> {
        match self {
            Self::Servers { pids, .. } => {
                for &pid in &pids[..2] {
                    kill(pid, Signal::SIGKILL).map_err(|error| format!("kill {pid}: {error}"))?;
                }
                Ok(format!(
                    "KILLED two masters, processes {} and {}",
                    pids[0], pids[1]
                ))
            }
            Self::Memory(masters) => {
                masters.stop(0);
                masters.stop(1);
                Ok("STOPPED two masters: memory-0 and memory-1".to_owned())
            }
        }
    }
}

impl fmt::Display for Masters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Servers { urls, .. } => write!(f, "{} servers of FREDLOCK_MASTERS", urls.len()),
            Self::Memory(_) => write!(f, "{FIVE} masters in memory (FREDLOCK_MASTERS is not set)"),
        }
    }
}

/// The process ids of all masters.
fn pids(masters: usize) -> Result<Vec<Pid>, String> {
    let pids = list("FREDLOCK_MASTER_PIDS");
    // 0 and negative numbers would mean whole groups of processes.
    let pid = |pid: &String| pid.parse().ok().filter(|&pid| pid > 1).map(Pid::from_raw);
    let pids: Vec<_> = pids.iter().filter_map(pid).collect();
    if pids.len() != masters || masters < FIVE {
        return Err(format!(
            "--kill needs {FIVE} or more masters and FREDLOCK_MASTER_PIDS with the process id of each: \
             run it through compose/with-masters"
        ));
    }
    Ok(pids)
}

fn list(variable: &str) -> Vec<String> {
    let text = env::var(variable).unwrap_or_default();
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}
