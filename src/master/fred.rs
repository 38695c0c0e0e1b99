//! A master behind fred: the only file that sends commands with it.
//!
//! Facts of fred 10.1 that this is built around: dropping a future does not take its command back,
//! so every call carries fred's own timeout and is polled to its end; `eval` and `evalsha` lose the
//! options that `custom` keeps; pipelines are replayed after a timeout, so there are none; and a
//! command that fails fast was not sent, if the client was not connected before.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value, config::Options},
};
use tokio::time::Instant;

use super::{
    Call, Master, Operation, Request,
    connection::Connection,
    native::{NativeCall, NativeCommand, native_call},
    scripts::ScriptCall,
};
use crate::{
    outcome::{Answer, MasterError},
    telemetry,
};

/// What timers can tell apart.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// A master on one connection of its own: commands to it stay in order.
#[derive(Debug)]
pub(crate) struct FredMaster(Arc<Connection>);

impl FredMaster {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self(connection)
    }
}

impl Master for FredMaster {
    fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    fn call(&self, request: &Request, timeout: Duration) -> Call {
        let connection = Arc::clone(&self.0);
        let operation = request.operation;
        let script = ScriptCall::new(request);
        if let Some(native) = native_call(request, &connection.abilities) {
            return Box::pin(async move {
                by_command(&connection, operation, native, &script, timeout).await
            });
        }
        let count = request.resources.len();
        Box::pin(async move { by_script(&connection, operation, count, &script, timeout).await })
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let connection = Arc::clone(&self.0);
        Box::pin(async move { connection.close().await })
    }
}

async fn by_script(
    connection: &Connection,
    operation: Operation,
    count: usize,
    script: &ScriptCall,
    timeout: Duration,
) -> Result<Answer, MasterError> {
    connection.admit()?;
    let begun = Instant::now();
    let reply = match script.by_hash(&connection.hashes) {
        None => send(connection, "EVAL", script.whole(), timeout).await?,
        Some(arguments) => match send(connection, "EVALSHA", arguments, timeout).await {
            // The master forgot its scripts (a restart, SCRIPT FLUSH, a fail-over).
            Err(MasterError::Server(error)) if error.starts_with("NOSCRIPT") => {
                let left = left_of(timeout, begun)?;
                send(connection, "EVAL", script.whole(), left).await?
            }
            reply => reply?,
        },
    };
    script_answer(operation, count, &reply).ok_or_else(|| unexpected(&reply))
}

fn script_answer(operation: Operation, count: usize, reply: &Value) -> Option<Answer> {
    match operation {
        Operation::Acquire { .. } => {
            let Value::Array(parts) = reply else {
                return None;
            };
            let part = |index: usize| parts.get(index).and_then(Value::as_i64);
            let seen = u64::try_from(part(1)?).ok()?;
            match part(0)? {
                0 => Some(Answer::Busy {
                    seen,
                    time_left: millis(part(2)?),
                }),
                1 => Some(Answer::Granted { seen }),
                2 => Some(Answer::Stale { seen }),
                _ => None,
            }
        }
        Operation::Extend { .. } => match reply.as_i64()? {
            0 => Some(Answer::NotHeld),
            1 => Some(Answer::Extended),
            2 => Some(Answer::Missing),
            _ => None,
        },
        Operation::Release => Some(released(usize::try_from(reply.as_i64()?).ok()?, count)),
    }
}

async fn by_command(
    connection: &Connection,
    operation: Operation,
    native: NativeCall,
    fallback: &ScriptCall,
    timeout: Duration,
) -> Result<Answer, MasterError> {
    connection.admit()?;
    let begun = Instant::now();
    let NativeCall {
        command,
        name,
        arguments,
        question,
    } = native;
    let key = arguments[0].clone();
    let reply = match send(connection, name, arguments, timeout).await {
        Err(MasterError::Server(error)) if is_unknown(command, &error) => {
            connection.abilities.refuse(command);
            let left = left_of(timeout, begun)?;
            return by_script(connection, operation, 1, fallback, left).await;
        }
        reply => reply?,
    };
    match (command, reply.is_null()) {
        (NativeCommand::SetNx, false) => Ok(Answer::Granted { seen: 0 }),
        (NativeCommand::SetIfeq, false) => Ok(Answer::Extended),
        (NativeCommand::Delete, _) => {
            let count = reply.as_i64().and_then(|count| usize::try_from(count).ok());
            Ok(released(count.ok_or_else(|| unexpected(&reply))?, 1))
        }
        // It was not set: ask why. The answer is known to be a "no" already, so this may fail.
        (NativeCommand::SetNx, true) => {
            let left = ask(connection, question, key, timeout, begun).await;
            Ok(Answer::Busy {
                seen: 0,
                time_left: left.ok().and_then(millis),
            })
        }
        (NativeCommand::SetIfeq, true) => {
            match ask(connection, question, key, timeout, begun).await? {
                0 => Ok(Answer::Missing),
                _ => Ok(Answer::NotHeld),
            }
        }
    }
}

async fn ask(
    connection: &Connection,
    name: &'static str,
    key: Value,
    timeout: Duration,
    begun: Instant,
) -> Result<i64, MasterError> {
    let reply = send(connection, name, vec![key], left_of(timeout, begun)?).await?;
    reply.as_i64().ok_or_else(|| unexpected(&reply))
}

/// An older server calls a word that it does not know a syntax error.
fn is_unknown(command: NativeCommand, error: &str) -> bool {
    command != NativeCommand::SetNx
        && (error.contains("unknown command") || error.contains("syntax error"))
}

fn released(count: usize, of: usize) -> Answer {
    if count == of {
        Answer::Released
    } else {
        Answer::Missing
    }
}

fn millis(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

fn left_of(timeout: Duration, begun: Instant) -> Result<Duration, MasterError> {
    let left = timeout.saturating_sub(begun.elapsed());
    if left.is_zero() {
        Err(MasterError::Timeout)
    } else {
        Ok(left)
    }
}

fn unexpected(reply: &Value) -> MasterError {
    MasterError::Unexpected(format!("{reply:?}"))
}

/// Sends one command, which ends within the timeout, and tells the watchdog how it went.
pub(super) async fn send(
    connection: &Connection,
    name: &'static str,
    arguments: Vec<Value>,
    timeout: Duration,
) -> Result<Value, MasterError> {
    if !connection.client.is_connected() {
        return Err(MasterError::NotConnected(connection.last_error()));
    }
    let sent = Instant::now();
    let result = custom(&connection.client, name, arguments, timeout).await;
    let Err(error) = result else {
        connection.watchdog.answered();
        return result.map_err(|_| MasterError::Timeout);
    };
    match error.kind() {
        ErrorKind::Timeout => {
            if connection.watchdog.timed_out(sent) {
                telemetry::master_hung(&connection.name);
                connection.reconnect();
            }
            Err(MasterError::Timeout)
        }
        _ if is_reply(error.details()) => {
            connection.watchdog.answered();
            Err(MasterError::Server(error.details().to_owned()))
        }
        _ => Err(MasterError::ConnectionLost(error.details().to_owned())),
    }
}

/// Is it the server's error, not fred's? The kind does not tell: fred's own "Too many failed write
/// attempts.", for a call that a reconnection cut off, has the kind of most replies. A server's
/// error begins with a code in capitals; what does not may have been done.
fn is_reply(error: &str) -> bool {
    let code = error.split(' ').next().unwrap_or_default();
    code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// # Cancel safety
/// None: the command stays sent. It is polled to its end by whoever drives the round.
async fn custom(
    client: &Client,
    name: &'static str,
    arguments: Vec<Value>,
    timeout: Duration,
) -> Result<Value, Error> {
    // One attempt, or fred would send it again after a reconnection; 0 would mean its default.
    // A timeout of 0 would mean none.
    let options = Options {
        timeout: Some(timeout.max(TIMEOUT_MIN)),
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
