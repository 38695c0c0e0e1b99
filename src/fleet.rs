//! From what a builder was given to masters that may vote.

use std::{sync::Arc, time::Duration};

use fred::types::config::{Config, ConnectionConfig, ServerConfig};
use tokio::{sync::watch, time::Instant};

use crate::{
    background::Background,
    builder::BuildError,
    clock::after,
    master::{
        Master,
        connection::{Connection, Standing},
        fred::FredMaster,
        identity::Registry,
        queue::Queue,
    },
    outcome::MasterError,
    quorum::Quorum,
    telemetry,
};

/// How long `connect` waits for the rest once a quorum is connected.
const GRACE: Duration = Duration::from_millis(200);

/// What a master is made of.
pub(crate) enum Source {
    Url(String),
    Config(Box<Config>, Box<ConnectionConfig>),
    #[cfg(feature = "testing")]
    Memory(crate::testing::Link),
}

/// The name of a master, and what is known of it.
pub(crate) type Contact = (Arc<str>, watch::Receiver<Standing>);

/// The masters, and those that have to be looked at first.
pub(crate) struct Fleet {
    pub(crate) masters: Vec<Arc<dyn Master>>,
    pub(crate) contacts: Vec<Contact>,
}

impl Fleet {
    /// `direct_max` is how many calls to a master may be under way by themselves before more are
    /// grouped; by default, none are for masters in memory.
    pub(crate) fn open(
        sources: Vec<Source>,
        sentinels: bool,
        direct_max: Option<usize>,
        background: &Background,
    ) -> Result<Self, BuildError> {
        let mut configs = Vec::new();
        let mut masters: Vec<Arc<dyn Master>> = Vec::new();
        let mut addresses = Vec::new();
        for (index, source) in sources.into_iter().enumerate() {
            let (config, settings) = match source {
                Source::Url(url) => {
                    let config = config_of(&url).map_err(|reason| BuildError::InvalidUrl {
                        position: index + 1,
                        reason,
                    })?;
                    (config, ConnectionConfig::default())
                }
                Source::Config(config, settings) => (*config, *settings),
                #[cfg(feature = "testing")]
                Source::Memory(link) => {
                    let direct_max = direct_max.unwrap_or(usize::MAX);
                    masters.push(Arc::new(Queue::new(link, direct_max, background.clone())));
                    continue;
                }
            };
            let address = address_of(&config, sentinels)?;
            // Whatever the databases: it is the server that votes.
            if addresses.contains(&address) {
                return Err(BuildError::SameAddress(address));
            }
            let name: Arc<str> = match config.database {
                None | Some(0) => address.as_str().into(),
                Some(database) => format!("{address}/{database}").into(),
            };
            addresses.push(address);
            configs.push((name, config, settings));
        }
        let registry = Arc::<Registry>::default();
        let mut contacts = Vec::new();
        for (name, config, settings) in configs {
            let connection =
                Connection::open(Arc::clone(&name), config, settings, Arc::clone(&registry));
            contacts.push((name, connection.standing()));
            let wire = FredMaster::new(connection);
            let direct_max = direct_max.unwrap_or(Queue::<FredMaster>::DIRECT_MAX);
            masters.push(Arc::new(Queue::new(wire, direct_max, background.clone())));
        }
        Ok(Self { masters, contacts })
    }
}

/// The configuration that a URL stands for.
///
/// # Errors
/// What is wrong with it.
#[cfg_attr(
    not(feature = "cli"),
    expect(unreachable_pub, reason = "only the tool needs it outside")
)]
pub fn config_of(url: &str) -> Result<Config, String> {
    let scheme = url.split(':').next().unwrap_or("").to_ascii_lowercase();
    let (kind, _) = scheme.split_once(['-', '+']).unwrap_or((&scheme, ""));
    // fred takes any scheme for its default.
    if !["redis", "rediss", "valkey", "valkeys"].contains(&kind) {
        return Err("it must begin with `redis://`, `rediss://` or `redis+unix://`".to_owned());
    }
    let config = Config::from_url(url).map_err(|error| error.details().to_owned())?;
    // fred only logs this, and would send the password in clear.
    if ["rediss", "valkeys"].contains(&kind) && !config.uses_tls() {
        return Err("it asks for TLS: turn on the feature `rustls`".to_owned());
    }
    Ok(config)
}

fn address_of(config: &Config, sentinels: bool) -> Result<String, BuildError> {
    let hosts = || {
        let servers = config.server.hosts();
        let hosts: Vec<_> = servers
            .iter()
            .map(|server| format!("{}:{}", server.host, server.port))
            .collect();
        hosts.join("+")
    };
    match &config.server {
        ServerConfig::Clustered { .. } => Err(BuildError::Cluster(hosts())),
        ServerConfig::Sentinel { service_name, .. } if sentinels => {
            Ok(format!("{service_name}@{}", hosts()))
        }
        ServerConfig::Sentinel { .. } => Err(BuildError::SentinelManaged(hosts())),
        ServerConfig::Centralized { .. } => Ok(hosts()),
        #[cfg(unix)]
        ServerConfig::Unix { path } => Ok(path.display().to_string()),
    }
}

/// Waits until every master was looked at, for as long as is worth it.
pub(crate) async fn first_contact(
    contacts: Vec<Contact>,
    quorum: Quorum,
    limit: Duration,
) -> Result<(), BuildError> {
    let mut end = after(limit);
    let (mut fit, mut open) = (0, Vec::new());
    for contact in contacts {
        open.push(Box::pin(seen(contact)));
    }
    while !open.is_empty() {
        let next = futures::future::select_all(open);
        let Ok(((name, standing), _, rest)) = tokio::time::timeout_at(end, next).await else {
            break;
        };
        open = rest;
        match standing {
            Standing::Fit(_) => fit += 1,
            Standing::Unfit(MasterError::Unfit(reason)) => {
                return Err(BuildError::Unfit {
                    master: name.to_string(),
                    reason,
                });
            }
            _ => {}
        }
        if fit >= quorum.needed {
            end = end.min(Instant::now() + GRACE);
        }
    }
    if fit < quorum.needed {
        telemetry::started_without_quorum(fit, quorum.needed);
    }
    Ok(())
}

/// Waits until something is known of a master.
async fn seen((name, mut standing): Contact) -> (Arc<str>, Standing) {
    let known = standing
        .wait_for(|standing| !matches!(standing, Standing::Unknown))
        .await;
    let standing = known.map_or(Standing::Unknown, |standing| standing.clone());
    (name, standing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_that_asks_for_tls_never_gets_a_connection_without() {
        for url in ["rediss://:geheim@h:1", "REDISS://h", "valkeys://h"] {
            match config_of(url) {
                Ok(config) => assert!(config.uses_tls(), "{url}"),
                Err(reason) => assert!(reason.contains("TLS"), "{url}: {reason}"),
            }
        }
        assert!(!config_of("redis://h").unwrap().uses_tls());
        // There is none on a socket.
        assert!(config_of("rediss+unix:///s").unwrap_err().contains("TLS"));
    }

    #[test]
    fn url_of_something_else_is_refused() {
        for url in ["", "h:1", "http://h", "tls://h", "redisss://h"] {
            let reason = config_of(url).unwrap_err();
            assert!(reason.contains("redis://"), "{url}: {reason}");
        }
        for url in ["redis://h", "valkey://h:1/2", "redis+unix:///s"] {
            assert!(config_of(url).is_ok(), "{url}");
        }
    }
}
