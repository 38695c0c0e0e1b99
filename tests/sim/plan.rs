//! What a seed decides before a run begins.

use std::time::Duration;

use fredlock::testing::Mutant;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::check::Rules;

/// The shape of a run. Everything in it follows from the seed and the scenario.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) masters: usize,
    pub(crate) fenced: bool,
    pub(crate) clients: usize,
    pub(crate) operations: usize,
    pub(crate) resources: usize,
    pub(crate) ttl: Duration,
    pub(crate) command_timeout: Option<Duration>,
    /// By how much the wall clock of each client is off, in microseconds.
    pub(crate) skews: Vec<i64>,
    pub(crate) weather: Weather,
    /// More than a majority.
    pub(crate) quorum: Option<usize>,
    pub(crate) guard: Option<Duration>,
    /// Has each client a second task, which shares its connections and its place in the queue?
    pub(crate) twins: bool,
    /// Do masters tell waiters nothing, once all is well?
    pub(crate) deaf: bool,
    /// How many calls to a master go by themselves before more travel in groups; `None`: all do.
    pub(crate) direct_max: Option<usize>,
    pub(crate) mutant: Option<Mutant>,
}

/// Which faults there are, and so which assumptions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    /// The network delays, loses, repeats and reorders; clocks run within the drift.
    Network,
    /// The same, but every release that is sent arrives, and nothing is overtaken by it.
    ReleasesArrive,
    /// And masters hang, stop, restart with their memory, answer with errors; clients are
    /// partitioned, and paused for longer than a ttl.
    Storm,
    /// And the clocks of masters run wrong, and keys vanish by hand: exclusion may break, fences
    /// may not.
    WrongClocks,
    /// And masters restart empty, as many as the quorum survives: one where it is the majority of an
    /// even number.
    WipesInBudget,
    /// And masters restart empty at will, with a restart guard; messages are late by up to a ttl,
    /// and clients wait for them.
    Guarded,
    /// And masters restart empty at will: beyond every budget.
    Wipes,
}

impl Weather {
    /// Do masters keep what they acknowledged, as far as the number of masters needs it, and do
    /// clocks run within the drift? Then windows do not overlap.
    pub(crate) fn keeps_exclusion(self) -> bool {
        !matches!(self, Self::WrongClocks | Self::Wipes)
    }

    /// Do masters have the keys of whoever holds a lock? One that restarted empty has not.
    pub(crate) fn keeps_keys(self) -> bool {
        self.keeps_exclusion() && self != Self::Guarded
    }

    /// Does a quorum of masters remember? Then fences rise.
    pub(crate) fn keeps_fences(self) -> bool {
        self != Self::Wipes
    }
}

const SKEWS: [i64; 6] = [0, 0, 2_000, -2_000, 3_600_000_000, -3_600_000_000];

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let masters = [1, 2, 3, 3, 4, 5, 5, 7][rng.gen_range(0..8)];
        let weather = match rng.gen_range(0..10) {
            0 | 1 => Weather::Network,
            2 | 3 => Weather::ReleasesArrive,
            4..=6 => Weather::Storm,
            7 | 8 => Weather::WrongClocks,
            _ if masters % 2 == 0 => Weather::WipesInBudget,
            _ => Weather::Storm,
        };
        Self::shaped(seed, masters, weather, &mut rng)
    }

    pub(crate) fn with(seed: u64, masters: usize, weather: Weather) -> Self {
        Self::shaped(seed, masters, weather, &mut StdRng::seed_from_u64(seed))
    }

    /// Masters that restart empty at will, with a guard against it.
    pub(crate) fn guarded(seed: u64) -> Self {
        let plan = Self::with(seed, 3, Weather::Guarded);
        let skews = plan.skews.iter().map(|skew| skew.signum() * 2_000);
        Self {
            fenced: !seed.is_multiple_of(4),
            resources: 1,
            command_timeout: Some(plan.ttl),
            skews: skews.collect(),
            // The longest ttl, and the skew of the clocks.
            guard: Some(plan.ttl + Duration::from_millis(5)),
            ..plan
        }
    }

    /// How many masters have to agree.
    pub(crate) fn quorum(&self) -> usize {
        self.quorum.unwrap_or(self.masters / 2 + 1)
    }

    /// How many empty restarts the quorum survives: any two share so many masters, and one more.
    pub(crate) fn wipes_survived(&self) -> usize {
        2 * self.quorum() - self.masters - 1
    }

    /// What the weather leaves of the guarantees.
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            exclusion: self.weather.keeps_exclusion(),
            fences: self.fenced && self.weather.keeps_fences(),
        }
    }

    fn shaped(seed: u64, masters: usize, weather: Weather, rng: &mut StdRng) -> Self {
        let clients = rng.gen_range(2..=4);
        let ttl = Duration::from_millis(rng.gen_range(60..400));
        Self {
            seed,
            masters,
            fenced: rng.gen_bool(0.75),
            clients,
            operations: rng.gen_range(4..=8),
            resources: rng.gen_range(1..=3),
            ttl,
            command_timeout: rng.gen_bool(0.5).then(|| ttl / rng.gen_range(3..=10)),
            skews: (0..clients)
                .map(|_| SKEWS[rng.gen_range(0..SKEWS.len())])
                .collect(),
            weather,
            quorum: None,
            guard: None,
            twins: rng.gen_bool(0.4),
            deaf: rng.gen_bool(0.5),
            direct_max: [None, Some(0), Some(1), Some(2)][rng.gen_range(0..4)],
            mutant: None,
        }
    }
}
