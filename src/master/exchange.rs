//! A client of fred that is fit for locks, and the one way in which commands are sent with it.
//!
//! Facts of fred 10.1 that this is built around: dropping a future does not take its command back,
//! so every command carries fred's own timeout and is polled to its end; `eval` and `evalsha` lose
//! the options that `custom` keeps; pipelines are replayed after a timeout, so there are none; and a
//! command that fails fast was not sent, if the client was not connected before.

use std::time::Duration;

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    types::{
        ClusterHash, CustomCommand, Value,
        config::{Config, ConnectionConfig, Options, PerformanceConfig, ReconnectPolicy},
    },
};

use super::{CALL_TIMEOUT_MIN, connection::Connection};
use crate::outcome::MasterError;

/// How long a connection, or its handshake, may take before it is tried again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A client that never sends a command twice, never waits for a connection that is down, and
/// reconnects for ever.
pub(super) fn hardened(config: &Config, settings: &ConnectionConfig) -> Client {
    let (mut config, mut settings) = (config.clone(), settings.clone());
    config.fail_fast = false;
    settings.max_command_attempts = 1;
    // A bound above 0 can make a client fail for good; ours stand in front of it.
    settings.max_command_buffer_len = 0;
    settings.reconnect_on_auth_error = true;
    settings.connection_timeout = settings.connection_timeout.min(CONNECT_TIMEOUT);
    settings.internal_command_timeout = settings.internal_command_timeout.min(CONNECT_TIMEOUT);
    settings.tcp.nodelay = Some(true);
    // Without end, 5 to 500 ms apart.
    let policy = ReconnectPolicy::new_exponential(0, 5, 500, 2);
    Client::new(
        config,
        Some(PerformanceConfig::default()),
        Some(settings),
        Some(policy),
    )
}

/// Sends one command, which ends within the timeout.
pub(super) async fn exchange(
    connection: &Connection,
    client: &Client,
    name: &'static str,
    arguments: Vec<Value>,
    timeout: Duration,
) -> Result<Value, MasterError> {
    if !client.is_connected() {
        return Err(MasterError::NotConnected(connection.last_error()));
    }
    let result = custom(client, name, arguments, timeout).await;
    result.map_err(|error| meaning(&error))
}

/// Only what the server itself said counts as an answer: of everything else the command may have
/// been done, or may be done still.
pub(super) fn meaning(error: &Error) -> MasterError {
    let details = || error.details().to_owned();
    match error.kind() {
        ErrorKind::Timeout => MasterError::Timeout,
        ErrorKind::IO | ErrorKind::Canceled | ErrorKind::Protocol | ErrorKind::Routing => {
            MasterError::ConnectionLost(details())
        }
        _ if is_reply(error.details()) => MasterError::Server(said(error.details()).to_owned()),
        // Such as "Too many failed write attempts." for a command that was under way when the
        // connection broke: fred has no kind of its own for it.
        _ => MasterError::ConnectionLost(details()),
    }
}

/// What a command in a script said, which Redis before 7.0 wraps: `ERR Error running script (call to
/// f_…): @user_script:5: @user_script: 5: -READONLY You can't write …`.
fn said(details: &str) -> &str {
    details
        .strip_prefix("ERR Error running script")
        .and_then(|rest| rest.split_once(": -"))
        .map_or(details, |(_, said)| said)
}

/// A server's error begins with a code in capitals, fred's own with a word.
fn is_reply(details: &str) -> bool {
    let code = details.split_whitespace().next().unwrap_or_default();
    let is_capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    !code.is_empty() && code.chars().all(is_capital)
}

/// # Cancel safety
/// None: the command stays sent. It is polled to its end by whoever drives the round.
pub(super) async fn custom(
    client: &Client,
    name: &'static str,
    arguments: Vec<Value>,
    timeout: Duration,
) -> Result<Value, Error> {
    // One attempt, or fred would send it again after a reconnection; 0 would mean its default.
    let options = Options {
        timeout: Some(timeout.max(CALL_TIMEOUT_MIN)),
        max_attempts: Some(1),
        fail_fast: true,
        ..Options::default()
    };
    let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
    client
        .with_options(&options)
        .custom(command, arguments)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_server_said_is_an_answer() {
        for said in [
            "ERR no",
            "NOSCRIPT No matching script",
            "WRONGTYPE Operation",
            "OOM",
        ] {
            for kind in [ErrorKind::Unknown, ErrorKind::Auth, ErrorKind::Cluster] {
                let meaning = meaning(&Error::new(kind, said));
                assert_eq!(meaning, MasterError::Server(said.to_owned()));
                assert!(!meaning.is_ambiguous());
            }
        }
        let wrapped = "ERR Error running script (call to f_48465e07): @user_script:5: @user_script: 5: -OOM command: -no";
        let meaning_of = |said: &str| meaning(&Error::new(ErrorKind::Unknown, said.to_owned()));
        assert_eq!(
            meaning_of(wrapped),
            MasterError::Server("OOM command: -no".to_owned())
        );
        let own = "ERR Error running script (call to f_48465e07): @user_script:5: attempt to index";
        assert_eq!(meaning_of(own), MasterError::Server(own.to_owned()));
        // What fred says of commands that may have been sent.
        for made_up in [
            "Too many failed write attempts.",
            "channel closed",
            "Failed to route command.",
            "Invalid UTF-8 string.",
            "",
        ] {
            assert!(meaning(&Error::new(ErrorKind::Unknown, made_up)).is_ambiguous());
        }
        let reset = Error::new(ErrorKind::IO, "ECONNRESET");
        assert!(meaning(&reset).is_ambiguous());
    }
}
