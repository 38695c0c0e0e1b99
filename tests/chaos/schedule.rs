//! Which faults there are, and when each comes: drawn from the seed alone.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::plan::{CLIENTS, MASTERS, TTL};

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// SIGKILL, and a restart on the same data.
    KillMaster,
    /// SIGSTOP, and SIGCONT.
    FreezeMaster,
    /// SIGSTOP of a client's process for up to three ttls, and SIGCONT.
    PauseClient,
    Delay,
    HoldRequests,
    HoldReplies,
    LoseReplies,
    /// The next reply is lost, and its connection cut.
    CutAfterReply,
    Cut,
    Refuse,
    /// The client's side of a connection is gone, and its requests arrive later.
    Straggle,
    /// A client sees a minority of the masters.
    SeeMinority,
    /// A client sees no more than a majority.
    SeeMajority,
    /// Clients and masters are split in two.
    Split,
    /// The server forgets its scripts.
    FlushScripts,
    /// The server closes the connections of all clients.
    CloseConnections,
}

/// What a client notices of being cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wall {
    /// Connections are closed, and no new one is had.
    Refuses,
    /// Connections stay, and nothing passes.
    Silent,
    /// Requests pass and replies do not.
    HalfOpen,
}

/// A fault and where it is. What `masters` and `clients` are depends on its kind: those it is done
/// to, or for the partitions the one side.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// How long nothing comes before it.
    pub(crate) pause: Duration,
    pub(crate) kind: Kind,
    pub(crate) masters: Vec<usize>,
    pub(crate) clients: Vec<usize>,
    pub(crate) wall: Wall,
    pub(crate) delay: Duration,
    pub(crate) lasts: Duration,
}

/// Faults that come one after another. Lanes run side by side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lane {
    kinds: &'static [Kind],
    /// In thousandths of a ttl, the longest.
    pause: u32,
    lasts: u32,
}

pub(crate) const LANES: [Lane; 5] = [
    Lane {
        kinds: &[
            Kind::KillMaster,
            Kind::FreezeMaster,
            Kind::FreezeMaster,
            Kind::KillMaster,
        ],
        pause: 4_000,
        lasts: 3_000,
    },
    Lane {
        kinds: &[
            Kind::Delay,
            Kind::HoldRequests,
            Kind::HoldReplies,
            Kind::LoseReplies,
            Kind::CutAfterReply,
            Kind::Cut,
            Kind::Refuse,
            Kind::Straggle,
        ],
        pause: 1_500,
        lasts: 2_000,
    },
    Lane {
        kinds: &[Kind::SeeMinority, Kind::SeeMajority, Kind::Split],
        pause: 4_000,
        lasts: 3_000,
    },
    // The most telling of all.
    Lane {
        kinds: &[Kind::PauseClient],
        pause: 5_000,
        lasts: 3_000,
    },
    Lane {
        kinds: &[Kind::FlushScripts, Kind::CloseConnections],
        pause: 4_000,
        lasts: 0,
    },
];

impl Lane {
    pub(crate) fn kinds(&self) -> &'static [Kind] {
        self.kinds
    }

    /// Its faults, without end. Each kind comes once in every so many.
    pub(crate) fn events(self, seed: u64) -> impl Iterator<Item = Event> {
        let salt = self.kinds[0] as u64;
        let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(salt));
        let mut bag = Vec::new();
        std::iter::from_fn(move || {
            if bag.is_empty() {
                bag = self.kinds.to_vec();
                bag.shuffle(&mut rng);
            }
            bag.pop().map(|kind| self.event(kind, &mut rng))
        })
    }

    fn event(self, kind: Kind, rng: &mut StdRng) -> Event {
        let masters = match kind {
            // What a client sees still.
            Kind::SeeMinority => rng.gen_range(1..=2),
            Kind::SeeMajority => 3,
            Kind::Split => rng.gen_range(2..=3),
            _ => [1, 1, 1, 2, 2, 3][rng.gen_range(0..6)],
        };
        let clients = match kind {
            Kind::SeeMinority | Kind::SeeMajority => 1,
            Kind::Split => rng.gen_range(1..CLIENTS),
            _ => [1, 1, 2, CLIENTS][rng.gen_range(0..4)],
        };
        Event {
            pause: at_random(self.pause, rng),
            kind,
            masters: some(MASTERS, masters, rng),
            clients: some(CLIENTS, clients, rng),
            wall: [Wall::Refuses, Wall::Silent, Wall::HalfOpen][rng.gen_range(0..3)],
            delay: at_random(if rng.gen_bool(0.7) { 50 } else { 800 }, rng),
            lasts: at_random(self.lasts, rng),
        }
    }
}

/// Up to so many thousandths of a ttl.
fn at_random(most: u32, rng: &mut StdRng) -> Duration {
    TTL * rng.gen_range(0..=most) / 1_000
}

/// So many of them.
fn some(of: usize, count: usize, rng: &mut StdRng) -> Vec<usize> {
    let mut chosen = rand::seq::index::sample(rng, of, count).into_vec();
    chosen.sort_unstable();
    chosen
}

/// Those that are not among the chosen.
pub(crate) fn others(of: usize, chosen: &[usize]) -> Vec<usize> {
    (0..of).filter(|number| !chosen.contains(number)).collect()
}
