//! From what the masters said to findings: no I/O.

use std::{collections::HashMap, time::Duration};

use super::{
    clock::Offset,
    findings::{self as check, Finding, Level},
    probe::{Facts, Limits, Probe},
    server::Server,
};

/// Clocks that NTP sets are nearer than this by far.
const CLOCKS_APART_MAX: f64 = 1.0;

/// From here on it is nearly full.
const FULL: f64 = 0.9;

pub(super) struct Judge<'a> {
    probes: &'a [Probe],
    ttl: Duration,
    limits: Limits,
    findings: Vec<Finding>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(probes: &'a [Probe], ttl: Duration) -> Self {
        Self {
            probes,
            ttl,
            limits: Limits::of(ttl),
            findings: Vec::new(),
        }
    }

    /// All findings, those about all masters first.
    pub(super) fn findings(mut self) -> Vec<Finding> {
        self.number();
        self.quorum();
        self.clocks_among_masters();
        let mut seen: HashMap<&str, &str> = HashMap::new();
        for probe in self.probes {
            let name = probe.name.as_str();
            let facts = match &probe.facts {
                Ok(facts) => facts,
                Err(error) => {
                    self.find(
                        name,
                        &check::UNREACHABLE,
                        Level::Warning,
                        format!("no connection: {error}"),
                    );
                    continue;
                }
            };
            if let Some(id) = facts.field("run_id")
                && let Some(other) = seen.insert(id, name)
            {
                self.find(
                    name,
                    &check::SAME_SERVER,
                    Level::Broken,
                    format!("it is the same server as {other}"),
                );
            }
            self.identity(name, facts);
            self.speed(name, facts);
            self.rights(name, facts);
            self.memory(name, facts);
            self.persistence(name, facts);
            self.clients(name, facts);
            self.clock(name, facts);
        }
        self.findings
    }

    fn find(
        &mut self,
        master: &str,
        check: &'static check::Check,
        level: Level,
        finding: impl Into<String>,
    ) {
        self.findings
            .push(Finding::new(check, level, finding).on(master));
    }

    fn number(&mut self) {
        let count = self.probes.len();
        let finding = match count {
            1 => Finding::new(&check::SINGLE_MASTER, Level::Warning, "there is one master"),
            _ if count % 2 == 0 => Finding::new(
                &check::EVEN_NUMBER,
                Level::Warning,
                format!("there are {count} masters"),
            ),
            _ => return,
        };
        self.findings.push(finding);
    }

    fn quorum(&mut self) {
        let (all, needed) = (self.probes.len(), self.probes.len() / 2 + 1);
        let votes = |probe: &&Probe| {
            let facts = probe.facts.as_ref();
            facts.is_ok_and(|facts| {
                facts.info_error.is_none()
                    && facts.script_error.is_none()
                    && !self.is_too_slow(facts)
            })
        };
        let able = self.probes.iter().filter(votes).count();
        if able < needed {
            let text = format!("{able} of {all} masters can vote for a lock, and {needed} have to");
            self.findings
                .push(Finding::new(&check::QUORUM, Level::Broken, text));
        }
    }

    fn identity(&mut self, name: &str, facts: &Facts) {
        match facts.field("redis_mode").or(facts.field("server_mode")) {
            Some("cluster") => self.find(
                name,
                &check::CLUSTER_NODE,
                Level::Broken,
                "it is a node of a cluster",
            ),
            Some("sentinel") => {
                self.find(name, &check::SENTINEL, Level::Broken, "it is a sentinel")
            }
            _ => {}
        }
        match facts.field("role") {
            Some("slave") => self.find(name, &check::REPLICA, Level::Broken, "it is a replica"),
            _ if facts.number("connected_slaves").unwrap_or(0) > 0 => {
                let count = facts.number("connected_slaves").unwrap_or(0);
                self.find(
                    name,
                    &check::REPLICAS_ATTACHED,
                    Level::Warning,
                    format!("replicas attached: {count}"),
                );
            }
            _ => {}
        }
        if let Some(server) = Server::of(facts)
            && !server.is_supported()
        {
            let text = format!("it is {} {}", server.name, server.version);
            self.find(name, &check::VERSION, Level::Warning, text);
        }
    }

    fn is_too_slow(&self, facts: &Facts) -> bool {
        facts.round_trip() > self.limits.command_timeout
    }

    fn speed(&mut self, name: &str, facts: &Facts) {
        let round_trip = facts.round_trip();
        let limit = self.limits.command_timeout;
        if round_trip > limit / 2 {
            let text = format!(
                "a round trip takes {:.1} ms, and {:.0} ms are allowed with this ttl",
                ms(round_trip),
                ms(limit)
            );
            self.find(name, &check::SLOW, Level::Warning, text);
        }
    }

    fn rights(&mut self, name: &str, facts: &Facts) {
        if let Some(error) = &facts.info_error {
            self.find(
                name,
                &check::INFO,
                Level::Broken,
                format!("INFO is refused: {error}"),
            );
        }
        // A node of a cluster that is not set up yet refuses them for another reason.
        if let Some(error) = &facts.script_error
            && facts.field("redis_mode") != Some("cluster")
        {
            self.find(
                name,
                &check::SCRIPTS,
                Level::Broken,
                format!("scripts are refused: {error}"),
            );
        }
    }

    fn memory(&mut self, name: &str, facts: &Facts) {
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

    fn persistence(&mut self, name: &str, facts: &Facts) {
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

    fn clients(&mut self, name: &str, facts: &Facts) {
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

    fn clock(&mut self, name: &str, facts: &Facts) {
        let Some(offset) = facts.clock else {
            let finding = Finding::new(&check::CLOCK, Level::Unknown, "TIME gives no time");
            return self.findings.push(finding.on(name));
        };
        if offset.apart_from(&Offset::OURS) > CLOCKS_APART_MAX {
            let side = if offset.seconds > 0.0 {
                "ahead of"
            } else {
                "behind"
            };
            let text = format!("its clock is {:.1} s {side} ours", offset.seconds.abs());
            self.find(name, &check::CLOCK, Level::Warning, text);
        }
    }

    fn clocks_among_masters(&mut self) {
        let clocks: Vec<_> = self
            .probes
            .iter()
            .filter_map(|probe| Some((&probe.name, probe.facts.as_ref().ok()?.clock?)))
            .collect();
        let pairs = clocks
            .iter()
            .flat_map(|a| clocks.iter().map(move |b| (a, b)));
        let apart = |a: &Offset, b: &Offset| a.apart_from(b);
        let worst = pairs.max_by(|x, y| apart(&x.0.1, &x.1.1).total_cmp(&apart(&y.0.1, &y.1.1)));
        if let Some(((a, first), (b, second))) = worst
            && apart(first, second) > CLOCKS_APART_MAX
        {
            let text = format!(
                "the clocks of {a} and {b} are {:.1} s apart",
                (first.seconds - second.seconds).abs()
            );
            self.findings
                .push(Finding::new(&check::CLOCK, Level::Warning, text));
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

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "it is about a tenth")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
