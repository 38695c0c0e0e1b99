//! Findings about how a master is set up. What is not known is never taken for right.

use std::time::Duration;

use super::{
    findings::{self as check, Level},
    judge::Judge,
    probe::Facts,
};

/// From here on it is nearly full.
const FULL: f64 = 0.9;

impl Judge<'_> {
    pub(super) fn memory(&mut self, name: &str, facts: &Facts) {
        let limit = facts
            .setting("maxmemory")
            .ok()
            .and_then(|text| text.parse().ok());
        let limit: Option<u64> = limit.or(facts.number("maxmemory"));
        let policy = facts
            .setting("maxmemory-policy")
            .ok()
            .or(facts.field("maxmemory_policy"));
        match (policy, limit) {
            (Some("noeviction"), _) => {}
            (Some(policy), Some(0)) => {
                let text = format!("maxmemory-policy is {policy}, though maxmemory is not set yet");
                self.find(name, &check::EVICTION, Level::Warning, text);
            }
            (Some(policy), _) => {
                self.find(
                    name,
                    &check::EVICTION,
                    Level::Broken,
                    format!("maxmemory-policy is {policy}"),
                );
            }
            (None, _) => self.unknown(name, facts, "maxmemory-policy"),
        }
        match (limit, facts.number("used_memory")) {
            (Some(0), _) => {}
            (Some(limit), Some(used)) if ratio(used, limit) < FULL => {}
            (Some(limit), Some(used)) => {
                let text = format!(
                    "{used} of {limit} bytes are used ({:.0} %)",
                    100.0 * ratio(used, limit)
                );
                self.find(name, &check::MEMORY, Level::Warning, text);
            }
            _ => self.unknown(name, facts, "maxmemory"),
        }
    }

    pub(super) fn persistence(&mut self, name: &str, facts: &Facts) {
        let has_log = match (facts.setting("appendonly"), facts.field("aof_enabled")) {
            (Ok(value), _) => Some(value == "yes"),
            (Err(_), Some(value)) => Some(value == "1"),
            (Err(_), None) => None,
        };
        let is_durable = match (has_log, facts.setting("appendfsync")) {
            (Some(true), Ok("always")) => Some(true),
            (Some(true), Err(_)) | (None, _) => None,
            _ => Some(false),
        };
        match is_durable {
            // The guard has what persistence would give.
            _ if facts.has_guard => return,
            Some(true) => return,
            None => self.unknown(
                name,
                facts,
                if has_log.is_none() {
                    "appendonly"
                } else {
                    "appendfsync"
                },
            ),
            Some(false) => {
                let text = match (has_log, facts.setting("appendfsync"), facts.setting("save")) {
                    (Some(true), Ok(sync), _) => format!("appendfsync is {sync}"),
                    (_, _, Ok("")) => "nothing is kept on disk".to_owned(),
                    _ => "only snapshots are kept on disk (appendonly is no)".to_owned(),
                };
                self.find(name, &check::PERSISTENCE, Level::Warning, text);
            }
        }
        if let Some(uptime) = facts.number("uptime_in_seconds")
            && Duration::from_secs(uptime) < self.ttl
        {
            self.find(
                name,
                &check::RESTARTED,
                Level::Warning,
                format!("it started {uptime} s ago"),
            );
        }
    }

    pub(super) fn clients(&mut self, name: &str, facts: &Facts) {
        let limit = facts
            .setting("maxclients")
            .ok()
            .and_then(|text| text.parse().ok());
        match (
            facts.number("connected_clients"),
            limit.or(facts.number("maxclients")),
        ) {
            (Some(clients), Some(limit)) if ratio(clients, limit) < FULL => {}
            (Some(clients), Some(limit)) => {
                let text = format!("{clients} of {limit} clients are connected");
                self.find(name, &check::CLIENTS, Level::Warning, text);
            }
            _ => self.unknown(name, facts, "maxclients"),
        }
    }

    /// Never taken for right: a service that denies `CONFIG` may have set anything.
    fn unknown(&mut self, name: &str, facts: &Facts, setting: &str) {
        let reason = facts
            .setting(setting)
            .err()
            .unwrap_or("INFO does not have it either");
        self.find(
            name,
            &check::CONFIG,
            Level::Unknown,
            format!("{setting} is not known: {reason}"),
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is about a tenth")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
