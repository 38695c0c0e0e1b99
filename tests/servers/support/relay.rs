//! A TCP relay between the client and one server: the network, with faults that a test turns on and
//! off.
//!
//! It runs on the test's runtime, so it stands still while a test blocks that runtime's only
//! thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::link::{Fate, Link};
use super::port::Port;
use super::server::Server;

/// How long the server may take to execute what is released to it.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

/// What the network does at the moment. Each applies to bytes when they are due to be passed on.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub(super) struct Weather {
    pub(super) delay: Duration,
    pub(super) hold_requests: bool,
    pub(super) hold_replies: bool,
    pub(super) drop_replies: bool,
    pub(super) cut_on_next_reply: bool,
    refuse: bool,
}

/// What the relay and its links share.
#[derive(Debug)]
pub(super) struct Shared {
    upstream: Mutex<String>,
    pub(super) weather: watch::Sender<Weather>,
    pub(super) dropped: AtomicUsize,
    accepted: AtomicUsize,
    links: Mutex<Vec<Arc<Link>>>,
}

/// A relay on a port of its own in front of one server. Dropping it closes all its connections.
///
/// It accepts a connection even when the server is dead, and then closes it; only a frozen server
/// looks the same through it as without it.
#[derive(Debug)]
pub struct Relay {
    port: Port,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

impl Relay {
    /// Starts a relay in front of `upstream`, `127.0.0.1:PORT`.
    pub async fn start(upstream: impl Into<String>) -> Self {
        let (port, listener) = Port::listen().await;
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream.into()),
            weather: watch::Sender::new(Weather::default()),
            dropped: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            links: Mutex::new(Vec::new()),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Self {
            port,
            shared,
            accepting,
        }
    }

    /// Starts a relay in front of a server.
    pub async fn before(server: &Server) -> Self {
        Self::start(server.addr()).await
    }

    /// Leads new connections to another server; present ones stay where they are.
    pub fn redirect(&self, server: &Server) {
        *self.shared.upstream.lock().expect("relay's upstream") = server.addr();
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// `127.0.0.1:PORT`.
    pub fn addr(&self) -> String {
        self.port.addr()
    }

    /// How long bytes are under way, in each direction: twice this is what a round trip takes. They
    /// stay in order, any number can be under way at once, and those that are already keep their
    /// time.
    pub fn delay(&self, one_way: Duration) {
        self.shared
            .weather
            .send_modify(|weather| weather.delay = one_way);
    }

    /// Requests are kept, and passed on when this is turned off. The connections stay open.
    pub fn hold_requests(&self, on: bool) {
        self.shared
            .weather
            .send_modify(|weather| weather.hold_requests = on);
    }

    /// Replies are kept, and passed on when this is turned off.
    pub fn hold_replies(&self, on: bool) {
        self.shared
            .weather
            .send_modify(|weather| weather.hold_replies = on);
    }

    /// Requests pass, replies are thrown away.
    pub fn drop_replies(&self, on: bool) {
        self.shared
            .weather
            .send_modify(|weather| weather.drop_replies = on);
    }

    /// The next reply on any connection is thrown away and its connection cut: the server has
    /// executed the command and the client cannot know. Only once; `replies_dropped` tells whether
    /// it has happened.
    pub fn cut_on_next_reply(&self) {
        self.shared
            .weather
            .send_modify(|weather| weather.cut_on_next_reply = true);
    }

    /// While on, connections are closed as soon as they are accepted. Present ones are cut.
    pub async fn refuse(&self, on: bool) {
        self.shared
            .weather
            .send_modify(|weather| weather.refuse = on);
        if on {
            self.cut().await;
        }
    }

    /// Resets all present connections on both sides, and throws away what is held, detached bytes
    /// included.
    pub async fn cut(&self) {
        for link in self.links() {
            link.meet(Fate::Cut);
            link.ended().await;
        }
    }

    /// Resets the client's side of all present connections, and keeps the server's side together
    /// with the requests that are held, delayed, or not yet read, also those of clients that have
    /// gone on their own. They stay, also when holding is turned off for new connections, until
    /// `release_detached`: the command that arrives long after the client gave up.
    pub async fn detach(&self) {
        for link in self.links() {
            link.meet(Fate::Detached);
            link.client_gone().await;
        }
    }

    /// Sends what was detached to the server and returns when the server has executed it: how many
    /// bytes it was.
    ///
    /// Panics when that takes more than five seconds. A server under CLIENT PAUSE drops the bytes
    /// instead.
    pub async fn release_detached(&self) -> usize {
        let links = self
            .links()
            .into_iter()
            .filter(|link| link.fate() == Fate::Detached);
        let mut bytes = 0;
        for link in links {
            bytes += link.requests_held();
            link.meet(Fate::Released);
            let ended = timeout(RELEASE_LIMIT, link.ended()).await;
            ended.unwrap_or_else(|_| {
                panic!(
                    "{} did not execute what was released",
                    self.shared.upstream()
                )
            });
        }
        bytes
    }

    /// How many bytes of requests wait here, held, delayed or detached: a test waits until a
    /// command has come.
    pub fn requests_held(&self) -> usize {
        self.links().iter().map(|link| link.requests_held()).sum()
    }

    /// How many bytes of replies wait here.
    pub fn replies_held(&self) -> usize {
        self.links().iter().map(|link| link.replies_held()).sum()
    }

    /// How many bytes of replies were thrown away so far.
    pub fn replies_dropped(&self) -> usize {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// How many connections of clients are open now.
    pub fn connections(&self) -> usize {
        self.links().iter().filter(|link| link.has_client()).count()
    }

    /// How many connections were accepted so far, refused ones included.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// The links that have not ended.
    fn links(&self) -> Vec<Arc<Link>> {
        let mut links = self.shared.links.lock().expect("relay's links");
        links.retain(|link| link.fate() != Fate::Ended);
        links.clone()
    }
}

impl Shared {
    /// Where new connections lead.
    pub(super) fn upstream(&self) -> String {
        self.upstream.lock().expect("relay's upstream").clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections and runs their links, which end with this task.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut running = JoinSet::new();
    loop {
        let (client, _) = tokio::select! {
            accepted = listener.accept() => accepted.expect("relay's listener"),
            Some(_) = running.join_next() => continue,
        };
        shared.accepted.fetch_add(1, Ordering::Relaxed);
        if shared.weather.borrow().refuse {
            client.set_zero_linger().expect("reset on close");
            continue;
        }
        let link = Arc::new(Link::default());
        let mut links = shared.links.lock().expect("relay's links");
        links.retain(|link| link.fate() != Fate::Ended);
        links.push(Arc::clone(&link));
        drop(links);
        let shared = Arc::clone(&shared);
        running.spawn(async move { link.run(client, &shared).await });
    }
}
