//! The findings, for people and for programs.

use std::{io, time::Duration};

use serde::Serialize;

use super::{
    findings::{Finding, Level},
    probe::{Facts, Probe},
    server::Server,
};

/// Its fields stay; others may be added.
#[derive(Debug, Serialize)]
struct Report<'a> {
    /// `healthy`, `warnings` or `broken`: exit status 0, 1 and 2.
    status: &'static str,
    ttl_ms: u64,
    /// How many masters have to agree.
    quorum: usize,
    masters: Vec<Master<'a>>,
    findings: &'a [Finding],
}

#[derive(Debug, Serialize)]
struct Master<'a> {
    #[serde(rename = "master")]
    name: &'a str,
    reachable: bool,
    /// Why not.
    error: Option<&'a str>,
    /// Such as `Valkey 9.1.0`.
    server: Option<String>,
    native_commands: Vec<&'static str>,
    uptime_seconds: Option<u64>,
    /// The middle of several.
    round_trip_ms: Option<f64>,
    /// How far its clock is ahead of ours.
    clock_offset_ms: Option<f64>,
    restart_guard: Option<bool>,
}

impl<'a> Master<'a> {
    fn new(probe: &'a Probe) -> Self {
        let facts = probe.facts.as_ref().ok();
        let server = facts.and_then(Server::of);
        Self {
            name: &probe.name,
            reachable: facts.is_some(),
            error: probe.facts.as_ref().err().map(String::as_str),
            native_commands: server
                .as_ref()
                .map(Server::native_commands)
                .unwrap_or_default(),
            server: server.map(|server| format!("{} {}", server.name, server.version)),
            uptime_seconds: facts.and_then(|facts| facts.number("uptime_in_seconds")),
            round_trip_ms: facts.map(|facts| facts.round_trip().as_secs_f64() * 1e3),
            clock_offset_ms: facts.and_then(|facts| Some(facts.clock?.seconds * 1e3)),
            restart_guard: facts.map(|facts| facts.has_guard),
        }
    }
}

pub(super) fn json(
    out: &mut dyn io::Write,
    ttl: Duration,
    quorum: usize,
    probes: &[Probe],
    findings: &[Finding],
) -> io::Result<()> {
    let report = Report {
        status: match findings.iter().map(|finding| finding.level).max() {
            None => "healthy",
            Some(Level::Unknown | Level::Warning) => "warnings",
            Some(Level::Broken) => "broken",
        },
        ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
        quorum,
        masters: probes.iter().map(Master::new).collect(),
        findings,
    };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}

pub(super) fn text(
    out: &mut dyn io::Write,
    quorum: usize,
    probes: &[Probe],
    findings: &[Finding],
) -> io::Result<()> {
    for probe in probes {
        match &probe.facts {
            Ok(facts) => writeln!(out, "{}  {}", probe.name, line_of(facts))?,
            Err(error) => writeln!(out, "{}  no connection: {error}", probe.name)?,
        }
    }
    for (index, finding) in findings.iter().enumerate() {
        let level = match finding.level {
            Level::Unknown => "UNKNOWN",
            Level::Warning => "WARNING",
            Level::Broken => "BROKEN",
        };
        let master = finding
            .master
            .as_ref()
            .map_or_else(String::new, |master| format!(" {master}:"));
        writeln!(
            out,
            "\n{level} {}:{master} {}",
            finding.check, finding.found
        )?;
        // The same advice once, below the last that needs it.
        let next = findings.get(index + 1);
        if next.is_none_or(|next| next.check != finding.check) {
            writeln!(out, "  why: {}", finding.why)?;
            writeln!(out, "  do:  {}", finding.cure)?;
        }
    }
    let count = |level| {
        findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    writeln!(
        out,
        "\n{} masters, quorum {}: {} broken, {} warnings, {} unknown",
        probes.len(),
        quorum,
        count(Level::Broken),
        count(Level::Warning),
        count(Level::Unknown),
    )
}

fn line_of(facts: &Facts) -> String {
    let server = Server::of(facts);
    let name = server.as_ref().map_or_else(
        || "unknown server".to_owned(),
        |server| format!("{} {}", server.name, server.version),
    );
    let native = server
        .map(|server| server.native_commands().join(", "))
        .filter(|native| !native.is_empty());
    let uptime = facts.number("uptime_in_seconds").map(Duration::from_secs);
    let uptime = uptime.map_or_else(String::new, |uptime| {
        format!(", up {}", humantime::format_duration(uptime))
    });
    format!(
        "{name}{uptime}, round trip {:.1} ms, native commands: {}{}",
        facts.round_trip().as_secs_f64() * 1e3,
        native.as_deref().unwrap_or("none"),
        if facts.has_guard {
            ", restart guard"
        } else {
            ""
        }
    )
}
