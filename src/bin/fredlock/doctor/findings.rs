//! What can be found: each with why it matters, and what to set.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// It could not be looked at.
    Unknown,
    /// The guarantees hold as long as nothing else goes wrong, or less is left of them than could be.
    Warning,
    /// No lock can be had, or the guarantees do not hold.
    Broken,
}

/// One finding.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    /// A name that stays.
    pub(super) check: &'static str,
    pub(super) level: Level,
    /// Which master; none if it is about all of them.
    pub(super) master: Option<String>,
    /// What was found.
    #[serde(rename = "finding")]
    pub(super) found: String,
    /// Why it matters.
    pub(super) why: &'static str,
    /// What to do about it.
    pub(super) cure: &'static str,
}

impl Finding {
    pub(super) fn new(check: &'static Check, level: Level, found: impl Into<String>) -> Self {
        Self {
            check: check.name,
            level,
            master: None,
            found: found.into(),
            why: check.why,
            cure: check.cure,
        }
    }

    pub(super) fn on(self, master: &str) -> Self {
        Self {
            master: Some(master.to_owned()),
            ..self
        }
    }
}

/// What is the same in all findings of a kind.
#[derive(Debug)]
pub(super) struct Check {
    name: &'static str,
    why: &'static str,
    cure: &'static str,
}

macro_rules! checks {
    ($($constant:ident $name:literal: $why:literal; $cure:literal;)*) => {
        $(pub(super) const $constant: Check = Check { name: $name, why: $why, cure: $cure };)*
        /// All their names.
        #[cfg(test)]
        pub(super) const NAMES: &[&str] = &[$($name),*];
    };
}

checks! {
    QUORUM "quorum":
        "a lock needs a majority of all masters that are named";
        "repair the masters that are named below";
    EVEN_NUMBER "even-number":
        "it bears no more failures than one master fewer does, since a majority needs one more; it only bears one more master that comes back empty";
        "take one master more, or one fewer";
    SINGLE_MASTER "single-master":
        "when it fails no lock can be had, and when it comes back empty two holders are possible";
        "take three or five masters on machines that fail independently";
    UNREACHABLE "unreachable":
        "it does not vote, and the fewer are left the fewer may fail";
        "start it, or look at its address, its password and the network";
    SLOW "slow":
        "a command that takes longer than --command-timeout (a tenth of the ttl, 5 to 100 ms) counts as failed, and every round trip is taken off the validity";
        "take a longer --command-timeout, or ttl, or a master that is nearer, or find out what keeps it busy (SLOWLOG GET)";
    SAME_SERVER "same-server":
        "one server must not vote twice: its failure, or its vote for two holders, would count twice; fredlock refuses to start";
        "name each server once";
    REPLICA "replica":
        "it takes no writes and may lag behind its master; fredlock refuses to start";
        "name its master instead, or detach it (REPLICAOF NO ONE)";
    CLUSTER_NODE "cluster-node":
        "it has only its own slots, and a fail-over inside the cluster can lose locks; fredlock refuses to start";
        "take servers with cluster-enabled no";
    SENTINEL "sentinel":
        "it keeps no keys; fredlock refuses to start";
        "name servers instead";
    REPLICAS_ATTACHED "replicas-attached":
        "a replica that is promoted may not have the newest locks, and then two holders are possible";
        "detach the replicas, or make sure that none is ever promoted under the address of the master";
    EVICTION "eviction":
        "a server that is full drops keys by this policy, locks and fences among them, and then two holders are possible";
        "CONFIG SET maxmemory-policy noeviction";
    MEMORY "memory":
        "a master that is full refuses locks (OOM), or drops them";
        "raise maxmemory, or move other data elsewhere";
    PERSISTENCE "persistence":
        "a master that restarts without its newest data has forgotten locks and fences, and then two holders are possible";
        "CONFIG SET appendonly yes and appendfsync always, or use the restart guard (--restart-guard), or a larger quorum";
    RESTARTED "restarted":
        "what it had granted before may be forgotten and still be held";
        "wait for one ttl before you use it; for the next time see the finding on persistence";
    VERSION "version":
        "fredlock is made for Redis 6.2 and later, and Valkey 7.2 and later; others are untested";
        "update it";
    SCRIPTS "scripts":
        "fenced locks are taken, extended and released by scripts";
        "ACL SETUSER … +eval +evalsha +script|load";
    INFO "info":
        "fredlock has to know who it is before it may vote (run id, role, mode), and gets no lock from it";
        "ACL SETUSER … +info";
    CONFIG "config":
        "what could not be looked at may be wrong";
        "ACL SETUSER … +config|get for whom runs the doctor, or look it up where the service is set up";
    CLOCK "clock":
        "servers count expiry by the time of day: when a clock that is wrong is set right, locks end early; and fences of clients whose clocks are apart rise only while masters remember";
        "let NTP or chrony set the clocks of all machines, slowly";
    CLIENTS "maxclients":
        "a master with too many clients refuses further ones, and does not vote for those";
        "raise maxclients, and the limit of open files, or find out who does not close connections";
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_help_names_every_check() {
        let mut command = crate::args::Arguments::command();
        let doctor = command.find_subcommand_mut("doctor").unwrap();
        let help = doctor.render_long_help().to_string();
        let words: Vec<_> = help
            .split_once("Checks:")
            .unwrap()
            .1
            .split([',', ' ', '\n'])
            .collect();
        for name in super::NAMES {
            assert!(words.contains(name), "{name}");
        }
    }
}
