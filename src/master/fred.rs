//! A master behind fred: requests become commands, and replies answers.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use fred::types::Value;
use tokio::time::Instant;

use super::{
    Operation, Question, Reply, Request, Sight, Watch,
    connection::{Admission, Connection},
    exchange::exchange,
    native::{NativeCall, NativeCommand, native_call},
    queue::Wire,
    runs::Runs,
    scripts::ScriptCall,
    tracking::Tracking,
};
use crate::{
    outcome::{Answer, MasterError},
    resources::Resources,
};

/// How much of an answer that makes no sense is told.
const UNEXPECTED_CHARS_MAX: usize = 200;

/// A master on one connection of its own: commands to it stay in order.
#[derive(Debug)]
pub(crate) struct FredMaster {
    connection: Arc<Connection>,
    tracking: Arc<Tracking>,
}

impl FredMaster {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        let (config, settings) = connection.configuration();
        let tracking = Tracking::new(Arc::clone(&connection.name), config, settings);
        Self {
            connection,
            tracking,
        }
    }
}

impl FredMaster {
    fn channel(&self) -> Result<Channel<'_>, MasterError> {
        Ok(Channel {
            admission: self.connection.admit()?,
            connection: &self.connection,
        })
    }
}

impl Wire for FredMaster {
    fn name(&self) -> &Arc<str> {
        &self.connection.name
    }

    async fn send(&self, request: &Request, timeout: Duration) -> Reply {
        let channel = self.channel()?;
        match native_call(request, &self.connection.abilities) {
            Some(native) => by_command(channel, request, native, timeout).await,
            None => by_script(&channel, request, timeout).await,
        }
    }

    async fn send_group(
        &self,
        group: &[Arc<Request>],
        timeout: Duration,
    ) -> Result<Vec<Reply>, MasterError> {
        let begun = Instant::now();
        let runs = Runs::of(group);
        let reply = run(&self.channel()?, ScriptCall::Group(&runs), timeout).await;
        let reply = match reply {
            // One of them may lack a permission: then the server did none of them, and each has to
            // be told for itself.
            Err(MasterError::Server(error)) if error.starts_with("NOPERM") => {
                let left = left_of(timeout, begun)?;
                let each = group.iter().map(|request| self.send(request, left));
                return Ok(futures::future::join_all(each).await);
            }
            reply => reply?,
        };
        match reply {
            Value::Array(replies) if replies.len() == group.len() => {
                let each = runs.requests().zip(&replies);
                let parts = each.map(|(request, reply)| part(request, reply));
                Ok(runs.in_order_of_group(parts.collect()))
            }
            reply => Err(unexpected(&reply)),
        }
    }

    async fn ask(&self, question: &Question, timeout: Duration) -> Result<Sight, MasterError> {
        let channel = self.channel()?;
        let (name, arguments) = question.command();
        let reply = channel.send(name, arguments, timeout).await?;
        question.sight(&reply).ok_or_else(|| unexpected(&reply))
    }

    fn watch(&self, resources: &Resources) -> Watch {
        Box::pin(Arc::clone(&self.tracking).watch(resources.clone()))
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let connection = Arc::clone(&self.connection);
        let tracking = Arc::clone(&self.tracking);
        Box::pin(async move {
            futures::future::join(connection.close(), tracking.close()).await;
        })
    }
}

/// The reply to one operation of a group. Text is the error that it failed with.
fn part(request: &Request, reply: &Value) -> Reply {
    match reply {
        Value::String(_) | Value::Bytes(_) => {
            Err(MasterError::Server(reply.as_string().unwrap_or_default()))
        }
        reply => script_answer(request, reply),
    }
}

async fn by_script(channel: &Channel<'_>, request: &Request, timeout: Duration) -> Reply {
    let reply = run(channel, ScriptCall::One(request), timeout).await?;
    script_answer(request, &reply)
}

/// Runs a script, which the master may have to be told first.
async fn run(
    channel: &Channel<'_>,
    script: ScriptCall<'_>,
    timeout: Duration,
) -> Result<Value, MasterError> {
    let begun = Instant::now();
    match script.by_hash(&channel.connection.hashes) {
        None => Box::pin(channel.send("EVAL", script.whole(), timeout)).await,
        Some(arguments) => match channel.send("EVALSHA", arguments, timeout).await {
            // The master forgot its scripts (a restart, SCRIPT FLUSH, a fail-over).
            Err(MasterError::Server(error)) if error.starts_with("NOSCRIPT") => {
                let left = left_of(timeout, begun)?;
                // Boxed, as is all that is rare: the call is to take no more memory for it.
                Box::pin(channel.send("EVAL", script.whole(), left)).await
            }
            reply => reply,
        },
    }
}

fn script_answer(request: &Request, reply: &Value) -> Reply {
    meaning(request, reply).ok_or_else(|| unexpected(reply))
}

fn meaning(request: &Request, reply: &Value) -> Option<Answer> {
    match request.operation {
        Operation::Acquire { .. } => {
            let number = |value: &Value| u64::try_from(value.as_i64()?).ok();
            let Value::Array(parts) = reply else {
                let seen = number(reply)?;
                return Some(Answer::Granted { seen });
            };
            let part = |index: usize| parts.get(index).and_then(Value::as_i64);
            let seen = number(parts.get(1)?)?;
            match part(0)? {
                0 => Some(Answer::Busy {
                    seen,
                    time_left: millis(part(2)?),
                }),
                2 => Some(Answer::Stale { seen }),
                3 => Some(Answer::Quarantined {
                    time_left: millis(part(2)?)?,
                    missing: false,
                }),
                _ => None,
            }
        }
        Operation::Extend { .. } if matches!(reply, Value::Array(_)) => {
            let Value::Array(parts) = reply else {
                return None;
            };
            let part = |index: usize| parts.get(index).and_then(Value::as_i64);
            (part(0)? == 3).then_some(Answer::Quarantined {
                time_left: millis(part(2)?)?,
                missing: part(1)? == 2,
            })
        }
        Operation::Extend { .. } => match reply.as_i64()? {
            0 => Some(Answer::NotHeld),
            1 => Some(Answer::Extended),
            2 => Some(Answer::Missing),
            _ => None,
        },
        Operation::Release { .. } => {
            let count = usize::try_from(reply.as_i64()?).ok()?;
            Some(released(count, request.resources.len()))
        }
    }
}

async fn by_command(
    channel: Channel<'_>,
    request: &Request,
    native: NativeCall,
    timeout: Duration,
) -> Reply {
    let begun = Instant::now();
    let NativeCall {
        command,
        name,
        arguments,
        question,
    } = native;
    let key = arguments[0].clone();
    let reply = match channel.send(name, arguments, timeout).await {
        Err(MasterError::Server(error)) if needs_script(command, &error) => {
            channel.connection.abilities.refuse(command);
            let left = left_of(timeout, begun)?;
            return Box::pin(by_script(&channel, request, left)).await;
        }
        reply => reply?,
    };
    match (command, reply.is_null()) {
        (NativeCommand::SetNx, false) if is_ok(&reply) => Ok(Answer::Granted { seen: 0 }),
        (NativeCommand::SetIfeq, false) if is_ok(&reply) => Ok(Answer::Extended),
        // Whatever it means, it is no vote.
        (NativeCommand::SetNx | NativeCommand::SetIfeq, false) => Err(unexpected(&reply)),
        (NativeCommand::Delete, _) => {
            let count = reply.as_i64().and_then(|count| usize::try_from(count).ok());
            Ok(released(count.ok_or_else(|| unexpected(&reply))?, 1))
        }
        // It was not set: ask why. The answer is known to be a "no" already, so this may fail.
        (NativeCommand::SetNx, true) => {
            let left = Box::pin(ask(&channel, question, key, timeout, begun)).await;
            Ok(Answer::Busy {
                seen: 0,
                time_left: left.ok().and_then(millis),
            })
        }
        (NativeCommand::SetIfeq, true) => {
            match Box::pin(ask(&channel, question, key, timeout, begun)).await? {
                0 => Ok(Answer::Missing),
                _ => Ok(Answer::NotHeld),
            }
        }
    }
}

async fn ask(
    channel: &Channel<'_>,
    name: &'static str,
    key: Value,
    timeout: Duration,
    begun: Instant,
) -> Result<i64, MasterError> {
    let reply = channel
        .send(name, vec![key], left_of(timeout, begun)?)
        .await?;
    reply.as_i64().ok_or_else(|| unexpected(&reply))
}

/// An older server calls a word that it does not know a syntax error. And a user who may run
/// scripts need not be permitted what only newer servers have.
fn needs_script(command: NativeCommand, error: &str) -> bool {
    command != NativeCommand::SetNx
        && (error.contains("unknown command")
            || error.contains("syntax error")
            || error.starts_with("NOPERM"))
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

fn is_ok(reply: &Value) -> bool {
    reply.as_bytes() == Some(b"OK")
}

fn unexpected(reply: &Value) -> MasterError {
    let mut text = format!("{reply:?}");
    if let Some((end, _)) = text.char_indices().nth(UNEXPECTED_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    MasterError::Unexpected(text)
}

/// The way of one call to the master: all its commands go by the connection on which it was
/// admitted.
struct Channel<'a> {
    connection: &'a Connection,
    admission: Admission,
}

impl Channel<'_> {
    /// Sends one command, which ends within the timeout, and tells the watchdog how it went.
    async fn send(
        &self,
        name: &'static str,
        arguments: Vec<Value>,
        timeout: Duration,
    ) -> Result<Value, MasterError> {
        let sent = Instant::now();
        let (connection, client) = (self.connection, self.admission.client());
        let result = exchange(connection, client, name, arguments, timeout).await;
        match &result {
            Ok(_) | Err(MasterError::Server(_)) => connection.watchdog.answered(),
            Err(MasterError::Timeout) if connection.watchdog.timed_out(sent) => {
                connection.suspect();
            }
            Err(_) => {}
        }
        let reply = result?;
        self.admission.confirm()?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_sense_is_told_in_short() {
        let text = unexpected(&Value::from("é".repeat(10_000))).to_string();
        assert!(text.chars().count() < 300, "{}", text.len());
    }
}
