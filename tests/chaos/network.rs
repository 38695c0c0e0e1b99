//! A relay between each client and each master. Several faults may be on one relay at a time: each
//! lasts until the last of them has ended.

use std::{sync::Mutex, time::Duration};

use crate::{
    plan::CLIENTS,
    support::{relay::Relay, servers::Servers},
};

#[derive(Debug)]
pub(crate) struct Network(Vec<Vec<Path>>);

/// The way from one client to one master.
#[derive(Debug)]
struct Path {
    relay: Relay,
    obstacles: Mutex<Vec<Obstacle>>,
}

/// What a fault does to a path for as long as it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    HoldRequests,
    HoldReplies,
    LoseReplies,
    Refuse,
    Delay(Duration),
}

/// A client and a master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) client: usize,
    pub(crate) master: usize,
}

impl Network {
    pub(crate) async fn before(servers: &Servers) -> Self {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut paths = Vec::new();
            for server in servers {
                let relay = Relay::before(server).await;
                paths.push(Path {
                    relay,
                    obstacles: Mutex::default(),
                });
            }
            clients.push(paths);
        }
        Self(clients)
    }

    /// The URLs by which a client reaches its masters.
    pub(crate) fn urls(&self, client: usize) -> Vec<String> {
        self.0[client].iter().map(|path| path.relay.url()).collect()
    }

    pub(crate) async fn begin(&self, paths: &[Ends], obstacle: Obstacle) {
        for &path in paths {
            self.path(path).begin(obstacle).await;
        }
    }

    pub(crate) async fn end(&self, paths: &[Ends], obstacle: Obstacle) {
        for &path in paths {
            let path = self.path(path);
            if obstacle == Obstacle::LoseReplies {
                // No connection outlives the loss: on one that did, the next reply would be taken
                // for that to an earlier request, which no network does.
                path.begin(Obstacle::Refuse).await;
                path.end(obstacle).await;
                path.end(Obstacle::Refuse).await;
            } else {
                path.end(obstacle).await;
            }
        }
    }

    pub(crate) async fn cut(&self, paths: &[Ends]) {
        for &path in paths {
            self.path(path).relay.cut().await;
        }
    }

    pub(crate) fn cut_after_reply(&self, paths: &[Ends]) {
        for &path in paths {
            self.path(path).relay.cut_on_next_reply();
        }
    }

    /// Closes the clients' side of the connections, and keeps what is under way on the masters'.
    pub(crate) async fn detach(&self, paths: &[Ends]) {
        for &path in paths {
            self.path(path).relay.detach().await;
        }
    }

    /// Lets what was detached arrive; true if anything was.
    pub(crate) async fn release_detached(&self, paths: &[Ends]) -> bool {
        let mut bytes = 0;
        for &path in paths {
            bytes += self.path(path).relay.release_detached().await;
        }
        bytes > 0
    }

    fn path(&self, path: Ends) -> &Path {
        &self.0[path.client][path.master]
    }
}

impl Path {
    async fn begin(&self, obstacle: Obstacle) {
        self.change(obstacle, |obstacles| obstacles.push(obstacle))
            .await;
    }

    async fn end(&self, obstacle: Obstacle) {
        self.change(obstacle, |obstacles| {
            let at = obstacles.iter().position(|other| *other == obstacle);
            obstacles.swap_remove(at.expect("begun before"));
        })
        .await;
    }

    async fn change(&self, which: Obstacle, change: impl FnOnce(&mut Vec<Obstacle>)) {
        let refuses = {
            let mut obstacles = self.obstacles.lock().unwrap();
            change(&mut obstacles);
            let has = |obstacle| obstacles.contains(&obstacle);
            self.relay.hold_requests(has(Obstacle::HoldRequests));
            self.relay.hold_replies(has(Obstacle::HoldReplies));
            self.relay.drop_replies(has(Obstacle::LoseReplies));
            let delays = obstacles.iter().filter_map(|obstacle| match obstacle {
                Obstacle::Delay(delay) => Some(*delay),
                _ => None,
            });
            self.relay.delay(delays.max().unwrap_or_default());
            has(Obstacle::Refuse)
        };
        if which == Obstacle::Refuse {
            self.relay.refuse(refuses).await;
        }
    }
}
