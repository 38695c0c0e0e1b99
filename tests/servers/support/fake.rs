//! A server that answers what a test tells it to: for errors that a real one gives only on rare
//! occasions.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::port::Port;
use super::resp::{parse, parse_command};
use super::server::Server;

/// How many commands are remembered; the oldest go first.
const RECEIVED_MAX: usize = 10_000;

/// The answers of a fake server. Each is the raw text of a RESP reply.
pub mod raw {
    /// `+OK`
    pub fn ok() -> String {
        "+OK\r\n".to_owned()
    }

    /// An error: `error("LOADING Redis is loading the dataset in memory")`.
    pub fn error(text: &str) -> String {
        format!("-{text}\r\n")
    }

    /// An integer.
    pub fn int(value: i64) -> String {
        format!(":{value}\r\n")
    }

    /// A bulk string.
    pub fn bulk(text: &str) -> String {
        format!("${}\r\n{text}\r\n", text.len())
    }

    /// Null, as RESP2 has it.
    pub fn nil() -> String {
        "$-1\r\n".to_owned()
    }

    /// An array of replies.
    pub fn array(items: &[String]) -> String {
        format!("*{}\r\n{}", items.len(), items.concat())
    }

    /// No answer at all: the client waits for ever.
    pub fn silence() -> String {
        String::new()
    }
}

/// Gives the raw reply to a command, or `None` to leave it to the default or to the real server.
type Handler = dyn Fn(&[String]) -> Option<String> + Send + Sync;

/// What the connections of a fake server share.
struct Shared {
    handler: Box<Handler>,
    upstream: Option<String>,
    received: Mutex<VecDeque<Vec<String>>>,
}

/// A server in the test's process. Dropping it closes its connections.
pub struct FakeServer {
    port: Port,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

impl FakeServer {
    /// Starts a server of its own. What the handler leaves is answered as a fresh standalone master
    /// would, as far as clients ask at connecting (PING, HELLO, CLIENT, INFO, …); anything else is
    /// an unknown command.
    pub async fn start(
        handler: impl Fn(&[String]) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(handler, None).await
    }

    /// Starts a server in front of a real one, which answers what the handler leaves.
    pub async fn over(
        server: &Server,
        handler: impl Fn(&[String]) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(handler, Some(server.addr())).await
    }

    async fn serve(
        handler: impl Fn(&[String]) -> Option<String> + Send + Sync + 'static,
        upstream: Option<String>,
    ) -> Self {
        let (port, listener) = Port::listen().await;
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            upstream,
            received: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Self {
            port,
            shared,
            accepting,
        }
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// `127.0.0.1:PORT`.
    pub fn addr(&self) -> String {
        self.port.addr()
    }

    /// The last commands of all connections, in order, with their arguments.
    pub fn received(&self) -> Vec<Vec<String>> {
        self.shared
            .received
            .lock()
            .expect("received commands")
            .iter()
            .cloned()
            .collect()
    }
}

impl std::fmt::Debug for FakeServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeServer")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections and serves them; they end with this task.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.expect("fake server's listener");
                let shared = Arc::clone(&shared);
                running.spawn(async move {
                    match serve(client, &shared).await {
                        // The test's client has gone, by whichever way.
                        Err(error) if error.kind() != ErrorKind::InvalidData => {}
                        outcome => outcome.expect("a client that speaks RESP"),
                    }
                });
            }
            Some(ended) = running.join_next() => ended.expect("fake server's handler"),
        }
    }
}

/// Serves one client, command by command: the next is looked at once the last has its reply.
async fn serve(client: TcpStream, shared: &Shared) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let upstream = match &shared.upstream {
        Some(addr) => Some(TcpStream::connect(addr).await?.into_split()),
        None => None,
    };
    let (mut from_server, mut to_server) = upstream.unzip();
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    let mut awaiting_server = false;
    loop {
        tokio::select! {
            count = from_client.read_buf(&mut requests) => if count? == 0 { return Ok(()) },
            count = read_some(&mut from_server, &mut replies) => if count? == 0 { return Ok(()) },
        }
        while let Some((_, length)) = parse(&replies)? {
            // A push is no reply to anything.
            awaiting_server &= replies[0] == b'>';
            to_client.write_all(&replies[..length]).await?;
            replies.drain(..length);
        }
        while !awaiting_server {
            let Some((command, length)) = parse_command(&requests)? else {
                break;
            };
            let bytes: Vec<_> = requests.drain(..length).collect();
            // A server passes over empty lines too.
            let Some(name) = command.first() else {
                continue;
            };
            remember(shared, &command);
            let reply = (shared.handler)(&command);
            if let (None, Some(to_server)) = (&reply, &mut to_server) {
                // RESP3 confirms subscriptions by pushes alone.
                awaiting_server = !name.to_lowercase().ends_with("subscribe");
                to_server.write_all(&bytes).await?;
            } else {
                let reply = reply.unwrap_or_else(|| default_reply(&command));
                to_client.write_all(reply.as_bytes()).await?;
            }
        }
    }
}

/// Reads from the real server, or waits for ever where there is none.
async fn read_some(
    from: &mut Option<tokio::net::tcp::OwnedReadHalf>,
    buffer: &mut Vec<u8>,
) -> io::Result<usize> {
    match from {
        Some(from) => from.read_buf(buffer).await,
        None => std::future::pending().await,
    }
}

/// Adds a command to those received.
fn remember(shared: &Shared, command: &[String]) {
    let mut received = shared.received.lock().expect("received commands");
    if received.len() == RECEIVED_MAX {
        received.pop_front();
    }
    received.push_back(command.to_vec());
}

/// What a fresh standalone master answers to the commands that clients send at connecting.
fn default_reply(command: &[String]) -> String {
    let words: Vec<_> = command
        .iter()
        .take(2)
        .map(|word| word.to_uppercase())
        .collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["PING"] => "+PONG\r\n".to_owned(),
        ["PING", _] => raw::bulk(&command[1]),
        ["CLIENT", "ID"] => raw::int(1),
        [
            "CLIENT" | "SELECT" | "AUTH" | "READONLY" | "READWRITE" | "QUIT",
            ..,
        ] => raw::ok(),
        ["INFO", ..] => raw::bulk(INFO),
        ["ROLE", ..] => raw::array(&[raw::bulk("master"), raw::int(0), raw::array(&[])]),
        ["HELLO", version] => {
            let fields = [
                ("server", "redis"),
                ("version", "7.0.0"),
                ("mode", "standalone"),
                ("role", "master"),
            ];
            let fields: String = fields
                .iter()
                .map(|(name, value)| raw::bulk(name) + &raw::bulk(value))
                .collect();
            let head = if version == "3" { "%6" } else { "*12" };
            let proto = raw::bulk("proto") + &raw::int(version.parse().unwrap_or(2));
            format!(
                "{head}\r\n{fields}{proto}{}{}",
                raw::bulk("modules"),
                raw::array(&[])
            )
        }
        _ => raw::error(&format!(
            "ERR unknown command '{}'",
            command.first().map_or("", String::as_str)
        )),
    }
}

/// The part of INFO that tells who a server is.
const INFO: &str = "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nprocess_id:1\r\n\
    run_id:fa4efa4efa4efa4efa4efa4efa4efa4efa4efa4e\r\ntcp_port:0\r\n\r\n\
    # Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n";
