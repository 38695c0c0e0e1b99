//! The floor: the bare five commands on bare fred clients, the first three of five awaited. No lock
//! client on fred that sends a command for each operation can be faster.

use fredlock::fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value, config::Config},
};
use futures::{StreamExt, stream::FuturesUnordered};

use super::contender::{Contender, Ended, TTL};

/// What every other client releases by.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

pub struct Floor {
    clients: Vec<Client>,
    /// By which the masters know the script.
    hash: String,
}

impl Floor {
    pub async fn connect(masters: &[String]) -> Result<Self, String> {
        let (mut clients, mut hash) = (Vec::new(), String::new());
        for url in masters {
            let config = Config::from_url(url).map_err(text)?;
            let client = Client::new(config, None, None, None);
            client.init().await.map_err(text)?;
            hash = send(&client, "SCRIPT", vec!["LOAD".into(), RELEASE.into()])
                .await?
                .as_string()
                .ok_or("SCRIPT LOAD gives no hash")?;
            clients.push(client);
        }
        Ok(Self { clients, hash })
    }
}

impl Contender for Floor {
    fn pair(&self, key: &str) -> Ended {
        let clients = self.clients.clone();
        let (key, hash) = (key.to_owned(), self.hash.clone());
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
            quorum(&clients, "SET", acquire).await?;
            let release = vec![hash.into(), 1.into(), key, token];
            quorum(&clients, "EVALSHA", release).await
        })
    }
}

/// Sends it to all, and waits for three that did it. (The rest is not taken back by dropping it.)
async fn quorum(
    clients: &[Client],
    name: &'static str,
    arguments: Vec<Value>,
) -> Result<(), String> {
    let calls = clients
        .iter()
        .map(|client| send(client, name, arguments.clone()));
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

async fn send(client: &Client, name: &'static str, arguments: Vec<Value>) -> Result<Value, String> {
    let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
    client.custom(command, arguments).await.map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
