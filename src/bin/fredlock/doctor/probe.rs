//! Asking one master. Reads only.

use std::{collections::HashMap, sync::Arc, time::Duration};

use fredlock::fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{
        ClusterHash, CustomCommand, Value,
        config::{Config, ConnectionConfig, Options, ServerConfig},
    },
};
use tokio::time::{Instant, timeout};

use super::clock::{Offset, now};
use crate::args;

/// How long a master may take to be connected to, and to answer. A hung one takes no longer.
const CONNECT_MAX: Duration = Duration::from_secs(2);
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How many round trips are measured, and how long that goes on.
const ROUND_TRIPS: usize = 20;
const ROUND_TRIPS_MAX: Duration = Duration::from_secs(2);

/// The restart guard's key.
const GUARD_MARKER: &str = "fredlock:guard:marker";

/// The settings that are looked at.
pub(super) const SETTINGS: [&str; 6] = [
    "maxmemory",
    "maxmemory-policy",
    "appendonly",
    "appendfsync",
    "save",
    "maxclients",
];

/// What is too slow for a ttl.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) command_timeout: Duration,
}

impl Limits {
    /// As the library has it by default ([`fredlock::Settings::command_timeout`]).
    pub(super) fn of(task: &args::Doctor) -> Self {
        let by_ttl = (task.ttl / 10).clamp(Duration::from_millis(5), Duration::from_millis(100));
        Self {
            command_timeout: task.masters.command_timeout.unwrap_or(by_ttl),
        }
    }
}

/// What was heard of one master.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) name: String,
    /// Or why there is nothing to tell.
    pub(super) facts: Result<Facts, String>,
}

/// What a master said.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) round_trips: Vec<Duration>,
    info: HashMap<String, String>,
    /// Why there is no `INFO`.
    pub(super) info_error: Option<String>,
    settings: HashMap<&'static str, Result<String, String>>,
    /// Why scripts cannot be run.
    pub(super) script_error: Option<String>,
    pub(super) clock: Option<Offset>,
    pub(super) has_guard: bool,
}

impl Facts {
    /// A field of `INFO`.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }

    /// A setting, or why it is not known.
    pub(super) fn setting(&self, name: &str) -> Result<&str, &str> {
        match self.settings.get(name) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(error),
            None => Err("it was not asked for"),
        }
    }

    /// The middle of the round trips.
    pub(super) fn round_trip(&self) -> Duration {
        let mut sorted = self.round_trips.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

impl Probe {
    pub(super) async fn make(config: Config, limits: Arc<Limits>) -> Self {
        let name = name_of(&config);
        let facts = Asker::connect(config).await;
        let facts = match facts {
            Ok(asker) => asker.all(&limits).await,
            Err(error) => Err(error),
        };
        Self { name, facts }
    }
}

fn name_of(config: &Config) -> String {
    let address = match &config.server {
        ServerConfig::Unix { path } => path.display().to_string(),
        server => {
            let hosts = server.hosts();
            let hosts: Vec<_> = hosts
                .iter()
                .map(|host| format!("{}:{}", host.host, host.port))
                .collect();
            hosts.join("+")
        }
    };
    match config.database {
        None | Some(0) => address,
        Some(database) => format!("{address}/{database}"),
    }
}

struct Asker(Client);

impl Asker {
    async fn connect(mut config: Config) -> Result<Self, String> {
        config.fail_fast = true;
        let settings = ConnectionConfig {
            connection_timeout: CONNECT_MAX,
            internal_command_timeout: ANSWER_MAX,
            max_command_attempts: 1,
            ..ConnectionConfig::default()
        };
        let client = Client::new(config, None, Some(settings), None);
        match timeout(CONNECT_MAX + ANSWER_MAX, client.init()).await {
            Ok(Ok(_)) => Ok(Self(client)),
            Ok(Err(error)) => Err(error.details().to_owned()),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }

    async fn all(self, limits: &Limits) -> Result<Facts, String> {
        let mut facts = Facts::default();
        // Before anything else: a master that hangs answers nothing more.
        let begun = Instant::now();
        while facts.round_trips.len() < ROUND_TRIPS && begun.elapsed() < ROUND_TRIPS_MAX {
            let sent = Instant::now();
            // An error is an answer too.
            if self
                .ask("PING", &[])
                .await
                .is_err_and(|error| error == NO_ANSWER)
            {
                return Err(NO_ANSWER.to_owned());
            }
            facts.round_trips.push(sent.elapsed());
            // Enough to know that it is too slow.
            if facts.round_trips.len() >= 5 && facts.round_trip() > 4 * limits.command_timeout {
                break;
            }
        }
        match self.ask("INFO", &[]).await {
            Ok(text) => facts.info = fields(&text.as_string().unwrap_or_default()),
            Err(error) => facts.info_error = Some(error),
        }
        for setting in SETTINGS {
            let value = self.ask("CONFIG", &["GET", setting]).await;
            let value = value.and_then(|value| {
                last_of(value).ok_or_else(|| "the server has no such setting".to_owned())
            });
            facts.settings.insert(setting, value);
        }
        facts.script_error = self.script_error().await;
        facts.clock = self.clock().await;
        facts.has_guard = self
            .ask("EXISTS", &[GUARD_MARKER])
            .await
            .is_ok_and(|count| count.as_i64() == Some(1));
        // A server that hangs just now is not waited for.
        drop(timeout(ANSWER_MAX, self.0.quit()).await);
        Ok(facts)
    }

    /// Both ways in which scripts are sent have to be open.
    async fn script_error(&self) -> Option<String> {
        let whole = self.ask("EVAL", &["return 1", "0"]).await;
        let by_hash = self
            .ask(
                "EVALSHA",
                &["0000000000000000000000000000000000000000", "0"],
            )
            .await;
        let is_known = |error: &String| error.starts_with("NOSCRIPT");
        whole
            .err()
            .or(by_hash.err().filter(|error| !is_known(error)))
    }

    /// The reading with the smallest error of three.
    async fn clock(&self) -> Option<Offset> {
        let mut best: Option<Offset> = None;
        for _ in 0..3 {
            let before = now();
            let time = self.ask("TIME", &[]).await.ok()?;
            let after = now();
            let parts: Vec<u64> = time
                .into_array()
                .into_iter()
                .filter_map(|part| part.as_u64())
                .collect();
            let [seconds, micros] = parts[..] else {
                return None;
            };
            let theirs = Duration::from_secs(seconds) + Duration::from_micros(micros);
            let offset = Offset::of(before, theirs, after);
            if best.is_none_or(|best| offset.error < best.error) {
                best = Some(offset);
            }
        }
        best
    }

    async fn ask(&self, name: &'static str, arguments: &[&str]) -> Result<Value, String> {
        let options = Options {
            timeout: Some(ANSWER_MAX),
            max_attempts: Some(1),
            fail_fast: true,
            ..Options::default()
        };
        let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        let arguments: Vec<Value> = arguments.iter().map(|text| Value::from(*text)).collect();
        let client = self.0.with_options(&options);
        let reply = client.custom::<Value, Value>(command, arguments).await;
        reply.map_err(|error| {
            if *error.kind() == fredlock::fred::error::ErrorKind::Timeout {
                NO_ANSWER.to_owned()
            } else {
                error.details().to_owned()
            }
        })
    }
}

const NO_ANSWER: &str = "it does not answer";

fn fields(info: &str) -> HashMap<String, String> {
    let lines = info
        .lines()
        .filter_map(|line| line.trim_end().split_once(':'));
    lines
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The value in `name, value`, as an array or a map.
fn last_of(reply: Value) -> Option<String> {
    match reply {
        Value::Map(map) => map.inner().into_values().next()?.as_string(),
        Value::Array(items) => items.last()?.as_string(),
        _ => None,
    }
}
