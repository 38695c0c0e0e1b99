//! From what a builder was given to masters that may vote.

use std::{sync::Arc, time::Duration};

use fred::types::config::{Config, ConnectionConfig, ServerConfig};
use tokio::{sync::watch, time::Instant};

use crate::{
    builder::BuildError,
    master::{
        Master,
        connection::{Connection, Standing},
        fred::FredMaster,
        identity::Registry,
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
    Ready(Arc<dyn Master>),
}

/// The name of a master, and what is known of it.
pub(crate) type Contact = (Arc<str>, watch::Receiver<Standing>);

/// The masters, and those that have to be looked at first.
pub(crate) struct Fleet {
    pub(crate) masters: Vec<Arc<dyn Master>>,
    pub(crate) contacts: Vec<Contact>,
}

impl Fleet {
    pub(crate) fn open(sources: Vec<Source>, sentinels: bool) -> Result<Self, BuildError> {
        let mut configs = Vec::new();
        #[cfg_attr(not(feature = "testing"), expect(unused_mut))]
        let mut masters: Vec<Arc<dyn Master>> = Vec::new();
        let mut names: Vec<Arc<str>> = Vec::new();
        for (index, source) in sources.into_iter().enumerate() {
            let (config, settings) = match source {
                Source::Url(url) => {
                    let invalid = |reason| BuildError::InvalidUrl {
                        position: index + 1,
                        reason,
                    };
                    (parse(&url).map_err(invalid)?, ConnectionConfig::default())
                }
                Source::Config(config, settings) => (*config, *settings),
                #[cfg(feature = "testing")]
                Source::Ready(master) => {
                    masters.push(master);
                    continue;
                }
            };
            let name = name_of(&config, sentinels)?;
            if names.contains(&name) {
                return Err(BuildError::SameAddress(name.to_string()));
            }
            names.push(Arc::clone(&name));
            configs.push((name, config, settings));
        }
        let registry = Arc::<Registry>::default();
        let mut contacts = Vec::new();
        for (name, config, settings) in configs {
            let connection =
                Connection::open(Arc::clone(&name), config, settings, Arc::clone(&registry));
            contacts.push((name, connection.standing()));
            masters.push(Arc::new(FredMaster::new(connection)));
        }
        Ok(Self { masters, contacts })
    }
}

fn parse(url: &str) -> Result<Config, String> {
    let config = Config::from_url(url).map_err(|error| error.details().to_owned())?;
    if asks_for_tls(url) && !config.uses_tls() {
        return Err("it asks for TLS, which needs the feature `rustls`".to_owned());
    }
    Ok(config)
}

/// A fred that was built without TLS would connect in plain text, and send the password so.
fn asks_for_tls(url: &str) -> bool {
    let scheme = url.trim_start().to_ascii_lowercase();
    ["rediss", "valkeys"]
        .iter()
        .any(|tls| scheme.starts_with(tls))
}

fn name_of(config: &Config, sentinels: bool) -> Result<Arc<str>, BuildError> {
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
            Ok(format!("{service_name}@{}", hosts()).into())
        }
        ServerConfig::Sentinel { .. } => Err(BuildError::SentinelManaged(hosts())),
        ServerConfig::Centralized { .. } => Ok(hosts().into()),
        #[cfg(unix)]
        ServerConfig::Unix { path } => Ok(path.display().to_string().into()),
    }
}

/// Waits until every master was looked at, for as long as is worth it.
pub(crate) async fn first_contact(
    contacts: Vec<Contact>,
    quorum: Quorum,
    limit: Duration,
) -> Result<(), BuildError> {
    let begun = Instant::now();
    let mut end = begun + limit;
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
            Standing::Fit => fit += 1,
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
    fn a_url_that_asks_for_tls_gets_tls_or_is_refused() {
        for url in [
            "rediss://a:1",
            "valkeys://a:1",
            "REDISS://a:1",
            " rediss://a:1",
            "rediss-sentinel://a:1?sentinelServiceName=b",
        ] {
            assert!(parse(url).map_or(true, |config| config.uses_tls()), "{url}");
        }
        let plain = parse("redis://rediss:rediss@a:1").unwrap();
        assert!(!plain.uses_tls());
    }
}
