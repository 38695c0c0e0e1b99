//! What a test asks a real server, each time on a raw connection of its own.
//!
//! A frozen or paused server does not answer these either: `command` and all that is built on it
//! panic after five seconds, so that a test never takes silence for an empty server.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::timeout;

use super::resp::{Connection, Resp};
use super::server::Server;

/// How long a command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);

impl Server {
    /// A raw connection, authenticated if the server's arguments set a password.
    pub async fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection::open(&self.addr()).await?;
        if let Some(password) = self.password() {
            let reply = connection.call(&["AUTH", &password]).await?;
            assert!(reply.is_ok(), "AUTH: {reply:?}");
        }
        Ok(connection)
    }

    /// Executes a command. Panics when the server does not answer; an error reply is an answer.
    pub async fn command(&self, command: &[&str]) -> Resp {
        let reply = self.try_command(command).await;
        reply.unwrap_or_else(|error| panic!("{command:?} on port {}: {error}", self.port()))
    }

    /// Executes a command; the error is the connection's, or that the answer took too long.
    pub async fn try_command(&self, command: &[&str]) -> io::Result<Resp> {
        timeout(COMMAND_LIMIT, async {
            self.connect().await?.call(command).await
        })
        .await?
    }

    /// The key's value.
    pub async fn get(&self, key: &str) -> Option<String> {
        match self.command(&["GET", key]).await {
            Resp::Bulk(value) => value,
            other => panic!("GET {key}: {other:?}"),
        }
    }

    /// Sets a key without expiry.
    pub async fn set(&self, key: &str, value: &str) {
        self.ok(&["SET", key, value]).await;
    }

    /// Sets a key that expires.
    pub async fn set_for(&self, key: &str, value: &str, ttl: Duration) {
        self.ok(&["SET", key, value, "PX", &ttl.as_millis().to_string()])
            .await;
    }

    /// Deletes a key and says whether it was there.
    pub async fn del(&self, key: &str) -> bool {
        self.int(&["DEL", key]).await == 1
    }

    /// The milliseconds that a key has left: -1 if it has no expiry, -2 if it is not there.
    pub async fn pttl(&self, key: &str) -> i64 {
        self.int(&["PTTL", key]).await
    }

    /// Deletes every key.
    pub async fn flush_all(&self) {
        self.ok(&["FLUSHALL"]).await;
    }

    /// Every key, sorted.
    pub async fn keys(&self) -> Vec<String> {
        let reply = self.command(&["KEYS", "*"]).await;
        assert!(matches!(reply, Resp::Array(Some(_))), "KEYS: {reply:?}");
        let mut keys: Vec<_> = reply
            .items()
            .iter()
            .filter_map(|key| key.text().map(str::to_owned))
            .collect();
        keys.sort();
        keys
    }

    /// Makes the server forget its scripts.
    pub async fn script_flush(&self) {
        self.ok(&["SCRIPT", "FLUSH"]).await;
    }

    /// Makes writes, scripts included, wait for `pause`.
    pub async fn pause_writes(&self, pause: Duration) {
        self.ok(&["CLIENT", "PAUSE", &pause.as_millis().to_string(), "WRITE"])
            .await;
    }

    /// Makes every command wait for `pause`, those of this harness too.
    pub async fn pause_all(&self, pause: Duration) {
        self.ok(&["CLIENT", "PAUSE", &pause.as_millis().to_string(), "ALL"])
            .await;
    }

    /// Closes the connections of all clients and says how many that were.
    pub async fn kill_clients(&self) -> i64 {
        let normal = self
            .int(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
            .await;
        normal
            + self
                .int(&["CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes"])
                .await
    }

    /// How many clients are connected now.
    pub async fn connected_clients(&self) -> u64 {
        let clients: u64 = self.info_number("clients", "connected_clients").await;
        clients - 1 // the connection that asks
    }

    /// How many commands the server has executed since it started, those inside scripts and those
    /// of this harness included, but not what this method itself sends: two calls with nothing in
    /// between give the same number.
    pub async fn commands_processed(&self) -> u64 {
        let all: u64 = self.info_number("stats", "total_commands_processed").await;
        // INFO counts the commands before itself, AUTH among them.
        let auth = u64::from(self.password().is_some());
        let earlier = self.own_probes.fetch_add(1 + auth, Ordering::Relaxed);
        all - earlier - auth
    }

    /// How often the server has executed the command with this name since it started: `evalsha`,
    /// `client|id`.
    pub async fn calls(&self, name: &str) -> u64 {
        let stats = self.info("commandstats").await;
        let Some(line) = stats.get(&format!("cmdstat_{}", name.to_lowercase())) else {
            return 0;
        };
        let calls = line
            .split(',')
            .find_map(|field| field.strip_prefix("calls="));
        calls
            .and_then(|calls| calls.parse().ok())
            .unwrap_or_else(|| panic!("calls of {name} in {line:?}"))
    }

    /// The server's name and version, such as `redis 7.0.15` or `valkey 9.1.0`.
    pub async fn version(&self) -> String {
        let info = self.info("server").await;
        // Valkey also tells the version of Redis that it is compatible with.
        match (info.get("valkey_version"), info.get("redis_version")) {
            (Some(valkey), _) => format!("valkey {valkey}"),
            (None, Some(redis)) => format!("redis {redis}"),
            (None, None) => panic!("INFO tells no version: {info:?}"),
        }
    }

    /// A section of INFO.
    pub async fn info(&self, section: &str) -> BTreeMap<String, String> {
        let reply = self.command(&["INFO", section]).await;
        let text = reply
            .text()
            .unwrap_or_else(|| panic!("INFO {section}: {reply:?}"));
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect()
    }

    async fn info_number(&self, section: &str, field: &str) -> u64 {
        let info = self.info(section).await;
        let value = info.get(field).and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("{field} in INFO {section}: {info:?}"))
    }

    async fn ok(&self, command: &[&str]) {
        let reply = self.command(command).await;
        assert!(
            reply.is_ok(),
            "{command:?} on port {}: {reply:?}",
            self.port()
        );
    }

    async fn int(&self, command: &[&str]) -> i64 {
        let reply = self.command(command).await;
        reply
            .int()
            .unwrap_or_else(|| panic!("{command:?} on port {}: {reply:?}", self.port()))
    }
}
