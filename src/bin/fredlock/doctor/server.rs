//! What a server is: its version, and what that can do.

use super::probe::Facts;

/// A server by name and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) version: String,
    number: (u32, u32),
}

impl Server {
    pub(super) fn of(facts: &Facts) -> Option<Self> {
        // Valkey gives the version of Redis that it is compatible with as `redis_version`.
        let (name, version) = match (facts.field("valkey_version"), facts.field("redis_version")) {
            (Some(version), _) => ("Valkey", version),
            (None, Some(version)) => ("Redis", version),
            (None, None) => return None,
        };
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        Some(Self {
            name,
            version: version.to_owned(),
            number: (parts.next().unwrap_or(0), parts.next().unwrap_or(0)),
        })
    }

    /// Has it every command that is used?
    pub(super) fn is_supported(&self) -> bool {
        self.number
            >= if self.name == "Valkey" {
                (7, 2)
            } else {
                (6, 2)
            }
    }

    /// The commands that do without a script what is used where there is no fencing.
    pub(super) fn native_commands(&self) -> Vec<&'static str> {
        let table: &[((u32, u32), &str)] = if self.name == "Valkey" {
            &[((8, 1), "SET IFEQ"), ((9, 0), "DELIFEQ")]
        } else {
            &[((8, 4), "SET IFEQ"), ((8, 4), "DELEX IFEQ")]
        };
        let known = table.iter().filter(|(since, _)| self.number >= *since);
        known.map(|(_, command)| *command).collect()
    }
}
