//! From what the masters said to findings: no I/O.

use std::{collections::HashMap, time::Duration};

use super::{
    clock::Offset,
    findings::{self as check, Finding, Level},
    probe::{Facts, Limits, Probe},
    server::Server,
};
use crate::args;

/// Clocks that NTP sets are nearer than this by far.
const CLOCKS_APART_MAX: f64 = 1.0;

pub(super) struct Judge<'a> {
    probes: &'a [Probe],
    pub(super) ttl: Duration,
    quorum: usize,
    limits: Limits,
    findings: Vec<Finding>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(probes: &'a [Probe], task: &args::Doctor, quorum: usize) -> Self {
        Self {
            probes,
            ttl: task.ttl,
            quorum,
            limits: Limits::of(task),
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

    pub(super) fn find(
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
            _ if count.is_multiple_of(2) => Finding::new(
                &check::EVEN_NUMBER,
                Level::Warning,
                format!("there are {count} masters"),
            ),
            _ => return,
        };
        self.findings.push(finding);
    }

    fn quorum(&mut self) {
        let (all, needed) = (self.probes.len(), self.quorum);
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
                self.find(name, &check::SENTINEL, Level::Broken, "it is a sentinel");
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
                "a round trip takes {:.1} ms, and {:.0} ms are allowed",
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
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
