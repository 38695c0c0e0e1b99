//! The floor: the bare five commands on bare fred clients, the first three of five awaited. No lock
//! client on fred that sends a command for each operation can be faster.

use std::time::Duration;

use fredlock::fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{
        ClusterHash, CustomCommand, Value,
        config::{Config, Options},
    },
};
use futures::{StreamExt, stream::FuturesUnordered};

use super::contender::{Contender, Ended, TTL};

/// What every other client releases by.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

pub struct Floor {
    clients: Vec<Client>,
    /// For each command; a lock client without one waits for a hung master for ever.
    timeout: Option<Duration>,
    /// By which the masters know the script.
    hash: String,
}

impl Floor {
    pub async fn connect(masters: &[String], timeout: Option<Duration>) -> Result<Self, String> {
        let (mut clients, mut hash) = (Vec::new(), String::new());
        for url in masters {
            let config = Config::from_url(url).map_err(text)?;
            let client = Client::new(config, None, None, None);
            client.init().await.map_err(text)?;
            hash = send(&client, None, "SCRIPT", vec!["LOAD".into(), RELEASE.into()])
                .await?
                .as_string()
                .ok_or("SCRIPT LOAD gives no hash")?;
            clients.push(client);
        }
        Ok(Self {
            clients,
            timeout,
            hash,
        })
    }
}

impl Contender for Floor {
    fn pair(&self, key: &str) -> Ended {
        let clients = self.clients.clone();
        let (key, hash, timeout) = (key.to_owned(), self.hash.clone(), self.timeout);
        Box::pin(async move {
            let token = format!("{:032x}", rand::random::<u128>());
            let ttl = TTL.as_millis().to_string();
            let (key, token) = (Value::from(key), Value::from(token));
            let acquire = vec![
                key.clone(),
                token.clone(),
                "NX".into(),
                "PX".into(),
                ttl.into(),
            ];
            quorum(&clients, timeout, "SET", acquire).await?;
            let release = vec![hash.into(), 1.into(), key, token];
            quorum(&clients, timeout, "EVALSHA", release).await
        })
    }
}

/// Sends it to all, and waits for three that did it. (The rest is not taken back by dropping it.)
async fn quorum(
    clients: &[Client],
    timeout: Option<Duration>,
    name: &'static str,
    arguments: Vec<Value>,
) -> Result<(), String> {
    let calls = clients
        .iter()
        .map(|client| send(client, timeout, name, arguments.clone()));
    let mut calls: FuturesUnordered<_> = calls.collect();
    let mut done = 0;
    while let Some(reply) = calls.next().await {
        let reply = reply?;
        done += usize::from(reply.as_bytes() == Some(b"OK") || reply.as_i64() == Some(1));
        if done > clients.len() / 2 {
            return Ok(());
        }
    }
    Err(format!("{name}: no quorum"))
}

async fn send(
    client: &Client,
    timeout: Option<Duration>,
    name: &'static str,
    arguments: Vec<Value>,
) -> Result<Value, String> {
    let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
    if timeout.is_none() {
        return client.custom(command, arguments).await.map_err(text);
    }
    let options = Options {
        timeout,
        ..Options::default()
    };
    let client = client.with_options(&options);
    client.custom(command, arguments).await.map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
