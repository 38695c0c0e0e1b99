//! Who answers behind an address, and whether it may vote.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::native::Native;

/// What `INFO` says of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    run_id: String,
    role: String,
    mode: String,
    /// Such as `Valkey 9.1.2`.
    pub(super) server: String,
    pub(super) native: Native,
}

impl Identity {
    /// Parses the text of `INFO`; `None` if it is none.
    pub(super) fn parse(info: &str) -> Option<Self> {
        let fields: HashMap<&str, &str> = info
            .lines()
            .filter_map(|line| line.trim_end().split_once(':'))
            .collect();
        let field = |name| fields.get(name).copied();
        // Valkey gives the version of Redis that it is compatible with as `redis_version`.
        let (name, version) = match field("valkey_version") {
            Some(version) => ("Valkey", version),
            None => (
                "Redis",
                field("redis_version").unwrap_or("of unknown version"),
            ),
        };
        Some(Self {
            run_id: field("run_id")?.to_owned(),
            role: field("role").unwrap_or("master").to_owned(),
            mode: field("redis_mode")
                .or(field("server_mode"))
                .unwrap_or("standalone")
                .to_owned(),
            server: format!("{name} {version}"),
            native: Native::of(name, version),
        })
    }

    /// Why it may not vote, if so.
    fn objection(&self) -> Option<String> {
        match (self.mode.as_str(), self.role.as_str()) {
            ("cluster", _) => {
                Some("it is a node of a cluster; masters are single servers".to_owned())
            }
            ("sentinel", _) => Some("it is a sentinel, not a master".to_owned()),
            (_, "master") => None,
            (_, role) => Some(format!("its role is {role}, not master")),
        }
    }
}

/// Which server votes under which name: one server must not vote twice.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<HashMap<String, Arc<str>>>);

impl Registry {
    /// Admits the server under the name, in place of the one that was there before; or says why not.
    pub(super) fn admit(&self, name: &Arc<str>, identity: &Identity) -> Result<(), String> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|_, admitted| admitted != name);
        if let Some(objection) = identity.objection() {
            return Err(objection);
        }
        if let Some(other) = servers.get(&identity.run_id) {
            return Err(format!(
                "it is the same server as {other}; one server must not vote twice"
            ));
        }
        servers.insert(identity.run_id.clone(), Arc::clone(name));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(run_id: &str, role: &str, mode: &str) -> Identity {
        let info = format!(
            "# Server\r\nredis_version:7.0.15\r\nredis_mode:{mode}\r\nrun_id:{run_id}\r\nrole:{role}\r\n"
        );
        Identity::parse(&info).unwrap()
    }

    #[test]
    fn a_text_without_a_run_id_is_no_identity() {
        assert_eq!(
            Identity::parse("# Server\r\nredis_version:7.0.15\r\n"),
            None
        );
    }

    #[test]
    fn valkey_is_told_from_the_redis_it_is_compatible_with() {
        let info = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nserver_mode:standalone\r\nrun_id:a\r\nrole:master\r\n";
        let identity = Identity::parse(info).unwrap();
        assert_eq!(identity.server, "Valkey 9.1.2");
        assert_eq!(identity.objection(), None);
    }

    #[test]
    fn only_single_masters_vote_and_each_once() {
        let registry = Registry::default();
        let [a, b]: [Arc<str>; 2] = ["a:1".into(), "b:2".into()];
        assert!(
            registry
                .admit(&a, &identity("x", "slave", "standalone"))
                .unwrap_err()
                .contains("slave")
        );
        assert!(
            registry
                .admit(&a, &identity("x", "master", "cluster"))
                .unwrap_err()
                .contains("cluster")
        );
        assert!(
            registry
                .admit(&a, &identity("x", "master", "sentinel"))
                .unwrap_err()
                .contains("sentinel")
        );
        assert_eq!(
            registry.admit(&a, &identity("x", "master", "standalone")),
            Ok(())
        );
        assert!(
            registry
                .admit(&b, &identity("x", "master", "standalone"))
                .unwrap_err()
                .contains("a:1")
        );
        // A restart gives a new run id, and frees the old one.
        assert_eq!(
            registry.admit(&a, &identity("y", "master", "standalone")),
            Ok(())
        );
        assert_eq!(
            registry.admit(&b, &identity("x", "master", "standalone")),
            Ok(())
        );
    }
}
