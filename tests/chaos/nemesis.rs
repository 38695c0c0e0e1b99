//! Does what the schedule says to masters, clients and the network between them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::{
    clock::now,
    network::{Ends, Network, Obstacle},
    plan::{CLIENTS, MASTERS, Plan},
    schedule::{Event, Kind, LANES, Lane, Wall, others},
    support::{process::Process, server::Server, servers::Servers},
};

/// What faults are done to.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) servers: Servers,
    pub(crate) network: Network,
    pub(crate) clients: Vec<Process>,
    pub(crate) done: Done,
}

/// What has been done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    counts: Mutex<BTreeMap<Kind, u64>>,
    trace: Mutex<Vec<(Duration, String)>>,
    /// Which client was stopped, from when to when.
    pauses: Mutex<Vec<(usize, Duration, Duration)>>,
}

impl Done {
    /// How often each kind was really injected.
    pub(crate) fn counts(&self) -> BTreeMap<Kind, u64> {
        self.counts.lock().unwrap().clone()
    }

    pub(crate) fn trace(&self) -> Vec<(Duration, String)> {
        self.trace.lock().unwrap().clone()
    }

    pub(crate) fn pauses(&self) -> Vec<(usize, Duration, Duration)> {
        self.pauses.lock().unwrap().clone()
    }

    fn count(&self, kind: Kind, times: usize) {
        *self.counts.lock().unwrap().entry(kind).or_default() += times as u64;
    }

    fn note(&self, what: String) {
        self.trace.lock().unwrap().push((now(), what));
    }
}

/// Injects faults for as long as the plan says, and returns when all has been healed.
pub(crate) async fn rage(plan: &Plan, world: &Arc<World>) {
    let end = Instant::now() + plan.lasts;
    let lanes = LANES.map(|lane| {
        let (world, seed) = (Arc::clone(world), plan.seed);
        tokio::spawn(async move { world.run(lane, seed, end).await })
    });
    for lane in lanes {
        lane.await.expect("a lane of faults");
    }
}

impl World {
    async fn run(&self, lane: Lane, seed: u64, end: Instant) {
        for event in lane.events(seed) {
            sleep(event.pause).await;
            if Instant::now() >= end {
                return;
            }
            let Event {
                kind,
                masters,
                clients,
                lasts,
                ..
            } = &event;
            self.done.note(format!(
                "{kind:?}: masters {masters:?}, clients {clients:?}, {:?}, for {lasts:?}",
                event.wall
            ));
            self.inject(&event).await;
            self.done.note(format!("{kind:?}: healed"));
        }
    }

    async fn inject(&self, event: &Event) {
        let Event { kind, lasts, .. } = event;
        let times = match kind {
            Kind::KillMaster => self.kill(&event.masters, *lasts).await,
            Kind::FreezeMaster => self.freeze(&event.masters, *lasts).await,
            Kind::PauseClient => self.pause(&event.clients, *lasts).await,
            Kind::FlushScripts => self.tell(&event.masters, &["SCRIPT", "FLUSH"]).await,
            Kind::CloseConnections => {
                let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
                self.tell(&event.masters, &kill).await
            }
            _ => self.disturb(event).await,
        };
        self.done.count(*kind, times);
    }

    async fn kill(&self, masters: &[usize], lasts: Duration) -> usize {
        self.servers.kill(masters).await;
        sleep(lasts).await;
        for &master in masters {
            self.servers[master].restart().await;
        }
        masters.len()
    }

    async fn freeze(&self, masters: &[usize], lasts: Duration) -> usize {
        self.servers.freeze(masters);
        sleep(lasts).await;
        self.servers.thaw(masters);
        masters.len()
    }

    async fn pause(&self, clients: &[usize], lasts: Duration) -> usize {
        let begun = now();
        for &client in clients {
            self.clients[client].stop();
        }
        sleep(lasts).await;
        for &client in clients {
            self.clients[client].go_on();
        }
        let pauses = clients.iter().map(|&client| (client, begun, now()));
        self.done.pauses.lock().unwrap().extend(pauses);
        clients.len()
    }

    /// Those that run are told; one that stops running meanwhile is not.
    async fn tell(&self, masters: &[usize], command: &[&str]) -> usize {
        let mut told = 0;
        let servers = masters.iter().map(|&master| &self.servers[master]);
        for server in servers.filter(|server| Server::is_running(server)) {
            told += usize::from(server.try_command(command).await.is_ok());
        }
        told
    }

    async fn disturb(&self, event: &Event) -> usize {
        let Event {
            masters,
            clients,
            lasts,
            ..
        } = event;
        let network = &self.network;
        let paths = between(clients, masters);
        let wall: &[Obstacle] = match event.wall {
            Wall::Refuses => &[Obstacle::Refuse],
            Wall::Silent => &[Obstacle::HoldRequests, Obstacle::HoldReplies],
            Wall::HalfOpen => &[Obstacle::HoldReplies],
        };
        match event.kind {
            Kind::Delay => {
                self.obstruct(&paths, &[Obstacle::Delay(event.delay)], *lasts)
                    .await;
            }
            Kind::HoldRequests => {
                self.obstruct(&paths, &[Obstacle::HoldRequests], *lasts)
                    .await;
            }
            Kind::HoldReplies => {
                self.obstruct(&paths, &[Obstacle::HoldReplies], *lasts)
                    .await;
            }
            Kind::LoseReplies => {
                self.obstruct(&paths, &[Obstacle::LoseReplies], *lasts)
                    .await;
            }
            Kind::Refuse => self.obstruct(&paths, &[Obstacle::Refuse], *lasts).await,
            Kind::CutAfterReply => network.cut_after_reply(&paths),
            Kind::Cut => network.cut(&paths).await,
            Kind::Straggle => {
                network.begin(&paths, Obstacle::HoldRequests).await;
                sleep(event.delay).await;
                network.detach(&paths).await;
                network.end(&paths, Obstacle::HoldRequests).await;
                sleep(*lasts).await;
                return usize::from(network.release_detached(&paths).await);
            }
            Kind::SeeMinority | Kind::SeeMajority => {
                let hidden = others(MASTERS, masters);
                self.obstruct(&between(clients, &hidden), wall, *lasts)
                    .await;
            }
            Kind::Split => {
                let mut paths = between(clients, &others(MASTERS, masters));
                paths.extend(between(&others(CLIENTS, clients), masters));
                self.obstruct(&paths, wall, *lasts).await;
            }
            other => unreachable!("{other:?} is no fault of the network"),
        }
        1
    }

    async fn obstruct(&self, paths: &[Ends], obstacles: &[Obstacle], lasts: Duration) {
        for &obstacle in obstacles {
            self.network.begin(paths, obstacle).await;
        }
        sleep(lasts).await;
        for &obstacle in obstacles {
            self.network.end(paths, obstacle).await;
        }
    }
}

fn between(clients: &[usize], masters: &[usize]) -> Vec<Ends> {
    let ends = |&client| masters.iter().map(move |&master| Ends { client, master });
    clients.iter().flat_map(ends).collect()
}
